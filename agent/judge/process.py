"""The judge's side of the runner process: start, ask, replace when a candidate breaks it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import psutil

from agent.devices.cpu import cores
from agent.errors import ForgeError, WorkerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

START_SECONDS = 60.0
# How a runner ends that is killed from outside, by a person or for memory.
KILLED = "crashed: signal 9"
_SCRATCH = "forge-runner-"
# Freed memory stays mapped: without this every large output costs its page faults anew, in
# eager and candidate alike, and drowns what is to be measured.
ALLOCATOR = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 36),
    "MALLOC_TOP_PAD_": str(256 << 20),
}
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV")


_GPU_PASSED_ON = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_HOME", "CUDA_PATH",
                  "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")  # fmt: skip
# Nothing that a driver compiles is kept for later.
_GPU_SETTINGS = {"CUDA_CACHE_DISABLE": "1", "CUDA_MODULE_LOADING": "LAZY"}


def sweep_scratch() -> None:
    """Remove the scratch folders of judges that were killed before they could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*-*"):
        owner = folder.name.removeprefix(_SCRATCH).partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def runner_environment(scratch: str, device: str = "cpu") -> dict[str, str]:
    """The whole environment of a runner: an allow-list, our own settings, nothing of the user's."""
    names = _PASSED_ON if device == "cpu" else (*_PASSED_ON, *_GPU_PASSED_ON)
    env = {name: os.environ[name] for name in names if name in os.environ}
    return {
        **env,
        **ALLOCATOR,
        **({} if device == "cpu" else _GPU_SETTINGS),
        "HOME": scratch,
        "TMPDIR": scratch,
        "XDG_CACHE_HOME": scratch,
        "USER": "runner",  # PyTorch names its cache after it and must not look into /etc/passwd
        "OMP_NUM_THREADS": str(_threads()),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _threads() -> int:
    """As many as torch takes by itself, or fewer if the user says so."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores(), int(asked)) if asked.isdigit() and int(asked) else cores()


class Runner:
    """One runner process; it starts and warms up at once, and is waited for at the first call.

    Args:
        fds: File descriptors of the shared memory, inherited under the same numbers.
        read: Files and folders that it may read besides Python's and the system's.
        folders: Folders whose names it may list, for imports from a task's own folder.
        log: Where its standard error goes; None for nowhere.
        device: ``cpu`` or ``cuda``.

    Attributes:
        loaded: Targets whose reference it has.
        mapped: Whether it may have the shared memory mapped.
    """

    def __init__(
        self,
        fds: Sequence[int],
        read: Iterable[str],
        folders: Iterable[str],
        log: IO[bytes] | None,
        device: str = "cpu",
    ) -> None:
        # Removed with the object; the process is gone by then.
        self._scratch = tempfile.TemporaryDirectory(
            prefix=f"{_SCRATCH}{os.getpid()}-", ignore_cleanup_errors=True
        )
        self.read = frozenset(read)
        settings = {
            "memory": fds[0] if fds else -1,
            "device": device,
            "read": sorted(self.read),
            "dirs": sorted(folders),
            "scratch": self._scratch.name,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "agent.workers.runner", json.dumps(settings)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log or subprocess.DEVNULL,
            env=runner_environment(self._scratch.name, device), cwd=self._scratch.name,
            pass_fds=tuple(fds), bufsize=0,
        )  # fmt: skip
        self._count = 0
        self._rest = b""
        self._greeted = False
        self.loaded: set[int] = set()
        self.mapped = False
        self.sandbox: dict[str, Any] = {}
        with contextlib.suppress(OSError):  # one that is gone already is noticed when greeted
            self._send("hello", {})

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def greet(self) -> None:
        """Wait until the process is ready.

        Raises:
            WorkerError: ``runner-failed``: it does not come up on this machine.
        """
        if self._greeted:
            return
        try:
            self.sandbox = self._answer(START_SECONDS)
        except WorkerError as error:
            raise WorkerError(
                f"the process that runs candidates does not start: {error.message}",
                "see the log; run doctor",
                code="runner-failed",
            ) from None
        self._greeted = True

    def call(self, verb: str, args: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Ask and wait.

        Raises:
            WorkerError: ``crashed`` or ``hung``, and the process is gone; ``runner-failed``.
            ForgeError: What the runner answered with.
        """
        self.greet()
        return self._ask(verb, args, seconds)

    def _ask(self, verb: str, args: dict[str, Any], seconds: float) -> dict[str, Any]:
        try:
            self._send(verb, args)
        except OSError:
            raise self._dead() from None
        return self._answer(seconds)

    def _send(self, verb: str, args: dict[str, Any]) -> None:
        self._count += 1
        request = {"id": self._count, "verb": verb, "args": args}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")

    def _answer(self, seconds: float) -> dict[str, Any]:
        answer = json.loads(self._line(time.monotonic() + seconds, seconds))
        if answer.get("id") != self._count:
            self.kill()
            raise WorkerError("the runner answered nonsense", code="crashed")
        if "error" in answer:
            raise ForgeError.from_json(answer["error"])
        return dict(answer["ok"])

    def _line(self, deadline: float, seconds: float) -> bytes:
        assert self._process.stdout is not None
        out = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                self.kill()
                raise WorkerError(f"hung: no answer after {seconds:g} s", code="hung")
            data = os.read(out, 1 << 20)
            if not data:
                raise self._dead()
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _dead(self) -> WorkerError:
        # Its pipe is closed, so it is on its way out: let its own ending be seen.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        self.kill()
        code = self._process.returncode
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return WorkerError(f"crashed: {how}", code="crashed")

    def kill(self) -> None:
        """End the process at once, if it has not ended."""
        if self.alive:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._scratch.cleanup()


def _package(item: Path) -> bool:
    return item.is_dir() and (item / "__init__.py").exists()


def task_places(path: str) -> tuple[list[str], list[str]]:
    """What a task's own folder must show for its imports: Python files and packages in it.

    Returns:
        Files and folders to read, and folders whose names may be listed.
    """
    if not path or not Path(path).parent.is_dir():
        return [], []
    folder = Path(path).parent
    read: list[str] = []
    try:
        items = sorted(folder.iterdir())[:1000]
        read += [str(item) for item in items if item.suffix == ".py" or _package(item)]
    except OSError:
        return [], []
    return read, [str(folder)]
