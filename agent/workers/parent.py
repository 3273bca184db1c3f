"""A worker's tie to its parent: it dies when the parent does, whatever killed it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends; leave if that has happened."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)


def guard_group() -> None:
    """Have the whole process group killed when this process ends, whatever ended it.

    A compiler's children, and what user code starts, do not ask to die with us. The guard waits
    on a pipe that only this process holds open. Does nothing unless we lead the group.
    """
    # When memory runs out, a worker is to go, not the engine.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
    if os.getpgrp() != os.getpid():
        return
    ours, held = os.pipe()
    os.set_inheritable(held, False)
    with contextlib.suppress(OSError):
        subprocess.Popen(
            ["/bin/sh", "-c", "read line; kill -9 0"],
            stdin=ours, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    os.close(ours)
