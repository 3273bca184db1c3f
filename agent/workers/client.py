"""The engine's side of a worker: start, ask, and replace when it dies or hangs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from agent.errors import ForgeError, MachineError, WorkerError

if TYPE_CHECKING:
    from pathlib import Path

MAX_LINE = 64 * 2**20


class Worker:
    """One worker process, started at the first call; calls are answered one at a time, in order.

    A call that runs past its time kills the process with all its children; the next call starts a
    new one. What was loaded into the process is gone then: ``generation`` counts processes, so a
    caller can tell that it must load again.

    Args:
        module: What is run with ``python -P -m``.
        log: Where the worker's standard error goes.
        env: The whole environment of the process.
    """

    def __init__(self, module: str, log: Path, env: dict[str, str]) -> None:
        self.module = module
        self.generation = 0
        self._log = log
        self._env = env
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()
        self._count = 0

    async def start(self) -> None:
        """Start the process if there is none, so that it warms up before the first call."""
        if self._process is not None and self._process.returncode is None:
            return
        try:
            with open(self._log, "ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable, "-P", "-m", self.module,
                    stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log,
                    env=self._env, limit=MAX_LINE, process_group=0,
                )  # fmt: skip
        except OSError as error:
            raise MachineError(
                f"cannot start {self.module}: {error.strerror or error}",
                "free memory or disk space, or raise the limit on processes",
                code="worker-start",
            ) from None
        self.generation += 1

    async def call(self, verb: str, args: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Ask the worker and wait for its answer.

        Raises:
            ForgeError: What the worker answered with.
            WorkerError: ``worker-died`` or ``worker-timeout``; the process is gone.
        """
        async with self._lock:
            await self.start()
            process = self._process
            if process is None or process.stdin is None or process.stdout is None:
                raise WorkerError(f"{self.module} did not start", code="worker-died")
            self._count += 1
            request = {"id": self._count, "verb": verb, "args": args}
            try:
                async with asyncio.timeout(timeout_s):
                    process.stdin.write((json.dumps(request) + "\n").encode())
                    await process.stdin.drain()
                    line = await process.stdout.readline()
            except TimeoutError:
                await self.kill()
                raise WorkerError(
                    f"{verb} took longer than {timeout_s:.0f} s", code="worker-timeout"
                ) from None
            except (ConnectionError, ValueError):
                line = b""
            except asyncio.CancelledError:
                # The answer would be taken for the next call's: the process cannot be kept.
                await self.kill()
                raise
            if not line.endswith(b"\n"):
                code = await self.kill()
                raise WorkerError(f"{verb}: the worker died ({_ending(code)})", code="worker-died")
            answer = _parsed(line)
            if answer.get("id") != self._count:
                await self.kill()
                raise WorkerError(f"{verb}: the worker answered nonsense", code="worker-died")
        if "error" in answer:
            raise ForgeError.from_json(answer["error"])
        return dict(answer["ok"])

    async def kill(self) -> int:
        """End the process and its children at once; its return code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        return await process.wait()


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _ending(code: int) -> str:
    if code == -signal.SIGKILL:
        return "killed from outside; the machine may be short of memory"
    return f"signal {-code}" if code < 0 else f"exit code {code}"
