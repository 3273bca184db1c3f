"""A worker for tests of the protocol."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

from agent.errors import TaskError
from agent.workers.serve import serve


def refuse(args: dict[str, Any]) -> dict[str, Any]:
    raise TaskError("on purpose", "do this", code="why")


def crash(args: dict[str, Any]) -> dict[str, Any]:
    return {"x": 1 // 0}


def nan(args: dict[str, Any]) -> dict[str, Any]:
    return {"x": float("nan")}


def forge(args: dict[str, Any]) -> dict[str, Any]:
    print('{"id": 6, "ok": {"forged": true}}', flush=True)
    return {}


def die(args: dict[str, Any]) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGSEGV)
    return {}


def hang(args: dict[str, Any]) -> dict[str, Any]:
    time.sleep(60)
    return {}


def spawn(args: dict[str, Any]) -> dict[str, Any]:
    return {"pid": subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid}


if __name__ == "__main__":
    serve(
        {
            "echo": lambda args: args,
            "pid": lambda args: {"pid": os.getpid()},
            "refuse": refuse,
            "crash": crash,
            "nan": nan,
            "print": forge,
            "die": die,
            "hang": hang,
            "spawn": spawn,
        }
    )
