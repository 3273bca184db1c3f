"""NVIDIA's compute-sanitizer over one call of a program: faults that no check of answers sees.

``memcheck`` finds accesses out of bounds, ``racecheck`` races in shared memory, ``synccheck``
barriers that not all threads reach. ``initcheck``, for reads of memory that nothing wrote, is not
asked by itself: honest kernels read padding of their scratch and mask it, and scratch and outputs
are spoilt before every check anyway. A tool that is missing or too slow is a word in the verdict,
never a failure.

Source of the texts: Compute Sanitizer user guide.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

from agent.errors import ProgramError
from agent.judge.nvidia_tools import find_tool, run_tool
from agent.judge.once_job import once_job

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import torch

    from agent.judge.nvidia_tools import ToolRun
    from agent.task import TargetSpec

# What is asked by itself, with time limits in seconds; racecheck watches every access to shared
# memory.
TOOLS: dict[str, float] = {
    "memcheck": 60.0,
    "racecheck": 45.0,
    "synccheck": 45.0,
}
MISSING = "skipped: compute-sanitizer is not installed"
_SHOWN = 200


def sanitize(
    spec: TargetSpec,
    library: str,
    bound: dict[str, Any],
    args: Sequence[torch.Tensor],
    tools: Mapping[str, float] = TOOLS,
) -> dict[str, str]:
    """What each tool says of one call.

    Args:
        spec: The target.
        library: The candidate's cubin.
        bound: Its plan, checked.
        args: Arguments as the reference takes them, on any device.
        tools: Names and time limits in seconds.

    Returns:
        By tool: ``"clean"``, ``"skipped: why"``, or ``"3 errors: the first one, at its kernel"``.
    """
    program = find_tool("compute-sanitizer")
    if not program:
        return dict.fromkeys(tools, MISSING)
    try:
        with once_job(spec, library, bound, args) as job:
            return {tool: _look(program, tool, job, seconds) for tool, seconds in tools.items()}
    except ProgramError as error:
        return dict.fromkeys(tools, f"skipped: {error.message}")
    except OSError as error:
        return dict.fromkeys(tools, f"skipped: {error.strerror or error}")


def command(program: str, tool: str, job: Path, log: Path) -> list[str]:
    """The command line for one tool."""
    return [
        program, "--tool", tool, "--log-file", str(log), "--show-backtrace", "no",
        "--print-limit", "20", sys.executable, "-P", "-m", "agent.workers.once", str(job),
    ]  # fmt: skip


def _look(program: str, tool: str, job: Path, seconds: float) -> str:
    log = job.parent / f"{tool}.log"
    done = run_tool(command(program, tool, job, log), log, seconds)
    if done.late:
        return f"skipped: took longer than {seconds:.0f} s"
    return verdict(tool, done)


_SUMMARY = re.compile(r"ERROR SUMMARY:\s*(\d+) error")
_RACES = re.compile(r"RACECHECK SUMMARY:\s*(\d+) hazards? displayed \((\d+) errors?")
# What stands in the log when the tool, not the program, does not work.
_BROKEN = (
    "device not supported", "unable to launch", "internal sanitizer error",
    "unable to find injection", "terminated before first instrumented", "is not supported",
)  # fmt: skip


def verdict(tool: str, done: ToolRun) -> str:
    """One tool's verdict from how it ended and what it wrote."""
    text = done.log or done.output
    found = _SUMMARY.findall(text)
    races = _RACES.findall(text)
    errors = int(found[-1]) if found else 0
    if races:
        errors += int(races[-1][1])
    lowered = text.lower()
    broken = next((word for word in _BROKEN if word in lowered), "")
    if broken:
        return f"skipped: compute-sanitizer does not work here ({broken})"
    if errors:
        first = first_error(text)
        return f"{errors} error{'s' * (errors != 1)}" + (f": {first}" if first else "")
    said = _said(done.output)
    if not found and not races:
        return f"skipped: {tool} said nothing that can be read: {done.last_line or 'nothing'}"
    if said:
        return f"skipped: the call did not run under {tool}: {said}"
    return "clean"


def _said(output: str) -> str:
    """Why the call did not run, from the process that made it; "" if it did."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            try:
                answer = json.loads(line)
            except ValueError:
                continue
            if answer.get("ok"):
                return ""
            return str(answer.get("error", {}).get("message", "no reason given"))[:_SHOWN]
    return "it ended early"


_PLACE = re.compile(
    r"at (?:0x[0-9a-f]+ in )?(?:void )?(?P<kernel>[A-Za-z_]\w*)\s*(?:[(<+]|$)(?!.*\bmemory\b)"
)
_HARMLESS = ("error summary", "racecheck summary", "compute-sanitizer", "target application")


def first_error(text: str) -> str:
    """The first complaint in a log, with its kernel: one printable line, or ""."""
    lines = [_bare(line) for line in text.splitlines() if line.startswith("=========")]
    for at, line in enumerate(lines):
        if not line or line.lower().startswith(_HARMLESS):
            continue
        head = re.sub(r"^(?:Error|Warning): ", "", line)
        head = re.sub(r"\s*\[\d+ hazards?\]", "", head)
        for near in lines[at + 1 : at + 8]:
            place = _PLACE.match(near)
            if place:
                return f"{head}, at {place['kernel']}{_where(lines[at + 1 : at + 8])}"[:_SHOWN]
        inside = _PLACE.search(head)
        return (head if not inside else f"{head}{_where(lines[at + 1 : at + 8])}")[:_SHOWN]
    return ""


def _where(lines: Sequence[str]) -> str:
    """How far out of bounds the access was, if the log says so."""
    for line in lines:
        found = re.search(r"is (\d+ bytes? (?:after|before|inside)) the nearest allocation", line)
        if found:
            return f" ({found[1]} an allocation)"
    return ""


def _bare(line: str) -> str:
    text = line.strip("= \t")
    return "".join(char if char.isprintable() else " " for char in text).strip()
