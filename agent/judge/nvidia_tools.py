"""NVIDIA's command-line tools: where they are, and running one with a time limit."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_TEXT = 4 << 20
_PLACES = {
    "ncu": ("bin", "nsight-compute*"),
    "compute-sanitizer": ("bin", "compute-sanitizer"),
}


def find_tool(name: str) -> str:
    """Path of ``ncu`` or ``compute-sanitizer``, on the PATH or in the toolkit's place; or ""."""
    found = shutil.which(name)
    if found:
        return found
    roots = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda",
             "/opt/cuda"]  # fmt: skip
    folders = [Path(root) / part for root in roots if root for part in _PLACES[name]]
    if name == "ncu":
        # Installed by itself it lies in a folder for each version; the newest is last.
        folders += sorted(Path("/opt/nvidia/nsight-compute").glob("*"), reverse=True)
    for folder in folders:
        place = folder / name
        if place.is_file() and os.access(place, os.X_OK):
            return str(place)
    return ""


@dataclass(frozen=True, slots=True)
class ToolRun:
    """How a tool's run ended.

    Attributes:
        code: Exit status; negative for a signal.
        late: Whether it ran past its time and was killed.
        output: What it and the program printed.
        log: What it wrote into its log file.
    """

    code: int
    late: bool
    output: str
    log: str

    @property
    def last_line(self) -> str:
        """The last thing that was said, for a message: printable, at most 200 characters."""
        lines = [line.strip("= \t") for line in (self.output + "\n" + self.log).splitlines()]
        said = next((line for line in reversed(lines) if line), "")
        return "".join(char if char.isprintable() else " " for char in said)[:200]


def run_tool(command: Sequence[str], log: Path, seconds: float) -> ToolRun:
    """Run a tool to its end or to the time limit; its children end with it.

    Args:
        command: Program and arguments.
        log: The file that the command lets the tool write to; removed first.
        seconds: Time limit.
    """
    log.unlink(missing_ok=True)
    late = False
    with tempfile.TemporaryFile() as output:
        try:
            # In our process group, which ends with us.
            process = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        except OSError as error:
            return ToolRun(127, False, f"{Path(command[0]).name}: {error.strerror}", "")
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            _end(process)
        output.seek(0)
        printed = output.read(_MOST_TEXT).decode(errors="replace")
    return ToolRun(process.returncode, late, printed, _read(log))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a tool and what it started."""
    if process.poll() is None:
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.kill()
        process.kill()
    process.wait()


def _read(log: Path) -> str:
    try:
        with log.open("rb") as file:
            return file.read(_MOST_TEXT).decode(errors="replace")
    except OSError:
        return ""
