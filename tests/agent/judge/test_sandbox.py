from __future__ import annotations

import subprocess
import sys

import pytest

from agent.workers.sandbox import obtainable

SHUT_IN = """
import os, sys
from agent.workers.sandbox import enter
obtained = enter([], [sys.argv[1]])
def refused(what):
    try:
        what()
    except OSError:
        return True
    return False
import socket, threading
results = {
    "fork": refused(os.fork),
    "exec": refused(lambda: os.execv("/bin/true", ["true"])),
    "socket": refused(socket.socket),
    "home": refused(lambda: os.listdir("/root")) or refused(lambda: os.listdir("/home")),
    "write": refused(lambda: open("/tmp/forge-test", "w")),
    "signal": refused(lambda: os.kill(os.getppid(), 0)),
    "environment": refused(lambda: open(f"/proc/{os.getppid()}/environ").read()),
    "scratch": not refused(lambda: open(sys.argv[1] + "/file", "w")),
}
thread = threading.Thread(target=lambda: results.update(thread=True))
thread.start()
thread.join()
print(sorted(name for name, ok in results.items() if ok))
"""


def test_a_shut_in_process_can_compute_and_nothing_else(tmp_path):
    granted = obtainable()
    if not (granted["landlock"] and granted["seccomp"]):
        pytest.skip("this machine grants neither Landlock nor seccomp")
    done = subprocess.run(
        [sys.executable, "-P", "-c", SHUT_IN, str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == str(
        ["environment", "exec", "fork", "home", "scratch", "signal", "socket", "thread", "write"]
    )
