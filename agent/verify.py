"""One program of a person's, judged as a search would judge it, without a session.

Says JSON-able lines as it goes: ``{"stage"}`` before what takes a while, ``{"spec"}`` of the
target, a line for each rung of the ladder (``{"rung", "ok", ...}``; a failed one has ``reason``,
``code`` and ``evidence``), ``{"baseline", "value"}`` for each compiled form of the reference, and
at the end ``{"verdict": {"ok", "outcome"}}``. The program's tunables take their defaults.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.confirm import go_beyond
from agent.errors import ForgeError, MachineError, ProgramError, TaskError
from agent.program import MAX_REPLY
from agent.replies import read_reply
from agent.search.target import fastest_baseline
from agent.task import TargetSpec
from agent.workers.workshop import LocalWorkshop
from agent.yardstick import DEFAULTS
from store.paths import data_home, writable_folder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from agent.context import Place
    from agent.program import Bound, Program
    from agent.task import TaskSource
    from agent.workers.workshop import Workshop

    Say = Callable[[dict[str, Any]], None]

TARGET = 1
FAILED = "FAILED"
_UNSAID = frozenset({"samples", "failure", "verdict"})


class _Fell(Exception):
    """The program failed a rung, which was said."""


@dataclass(frozen=True, slots=True)
class _Limits:
    """What calibration found: nanoseconds of eager and SOL."""

    eager_ns: int
    sol_ns: int | None


async def verify(task: TaskSource, file: Path, place: Place, say: Say) -> int:
    """Judge the program in ``file`` for ``task`` on this machine.

    Returns:
        0 if it passed every rung, however fast it is; 1 if not.

    Raises:
        ForgeError: The task cannot be a target, the file cannot be read, or the machine lacks
            something; no verdict of the program's.
    """
    reply = _read(file)
    home = writable_folder(data_home())
    log = home / "verify.log"
    log.write_bytes(b"")
    cores = len(os.sched_getaffinity(0))
    workshop = LocalWorkshop(home, log, place.device, cores, 0, place.arch)
    try:
        return await Ladder(workshop, place, say).climb(task, reply)
    finally:
        await workshop.close()


class Ladder:
    """A program's way up; every rung is said as it is passed.

    Args:
        workshop: The workers.
        place: Where the program runs.
        say: Told each line.
    """

    def __init__(self, workshop: Workshop, place: Place, say: Say) -> None:
        self._workshop = workshop
        self._place = place
        self._say = say

    async def climb(self, task: TaskSource, reply: str) -> int:
        """From the task and the reply to the verdict; see :func:`verify`."""
        self._say({"stage": f"loading {task.name}"})
        answer = await self._workshop.load(TARGET, task)
        spec = TargetSpec.from_json(answer["spec"])
        self._say({"spec": answer["spec"]})
        outcome = FAILED
        try:
            program, bound = self._read(reply, spec)
            library, detail = await self._build(program)
            limits = await self._calibrate()
            await self._check(library, bound)
            outcome = await self._times(program, library, detail, bound, limits)
        except _Fell:
            pass
        self._say({"verdict": {"ok": outcome != FAILED, "outcome": outcome}})
        return int(outcome == FAILED)

    # -- rungs -------------------------------------------------------------------------------------

    def _passed(self, rung: str, **facts: Any) -> None:
        self._say({"rung": rung, "ok": True, **facts})

    def _fell(self, rung: str, code: str, reason: str, evidence: dict[str, Any]) -> _Fell:
        self._say({"rung": rung, "ok": False, "code": code, "reason": reason, "evidence": evidence})
        return _Fell()

    async def _ask(self, rung: str, asked: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        """A worker's answer; one with a failure, or an error of the program's, ends the way."""
        try:
            answer = await asked
        except (MachineError, TaskError):
            raise
        except ForgeError as error:
            where = str(error.evidence.get("rung", rung))
            raise self._fell(where, error.code, error.message, error.evidence) from None
        failure = answer.get("failure")
        if not failure:
            return answer
        raise self._fell(
            str(failure.get("rung", rung)), str(failure["code"]), str(failure["message"])[:500],
            dict(failure.get("evidence") or {}),
        )  # fmt: skip

    def _read(self, reply: str, spec: TargetSpec) -> tuple[Program, Bound]:
        try:
            program = read_reply(reply, self._place.language, spec)
            bound = program.bind(spec, program.defaults(), self._place.facts)
        except ProgramError as error:
            raise self._fell("read", error.code, error.message, error.evidence) from None
        lines = len(program.source.splitlines())
        self._passed("read", language=program.language, title=program.title, lines=lines,
                     steps=len(program.steps), variants=len(program.variants()),
                     calls=program.calls)  # fmt: skip
        return program, bound

    async def _build(self, program: Program) -> tuple[str, dict[str, Any]]:
        self._say({"stage": "building"})
        values = program.defaults()
        built = await self._ask("build", self._workshop.build(program, values))
        detail = dict(built.get("detail") or {})
        self._passed("build", values=values, seconds=built["seconds"], cached=built["cached"],
                     detail=detail)  # fmt: skip
        return str(built["library"]), detail

    async def _calibrate(self) -> _Limits:
        self._say({"stage": "measuring eager"})
        found = await self._workshop.calibrate(TARGET)
        return _Limits(found["eager_ns"], found["sol_ns"])

    async def _check(self, library: str, bound: Bound) -> None:
        self._say({"stage": "checking"})
        answer = await self._ask("check", self._workshop.check(TARGET, library, bound))
        self._passed("check", families=answer.get("families", []))

    async def _times(
        self, program: Program, library: str, detail: dict[str, Any], bound: Bound, limits: _Limits
    ) -> str:
        """Measure, compare, and measure again in a fresh process; the outcome, or FAILED."""
        self._say({"stage": "timing"})
        first = await self._ask("measure", self._workshop.measure(TARGET, library, bound))
        if self._place.language == "cuda":
            timed = {"detail": detail, "ns": first["ns"], "steps": first.get("steps") or [],
                     "sol_ns": limits.sol_ns or 0}  # fmt: skip
            first |= await self._workshop.advise(TARGET, library, bound, timed, counters=True)
        baselines = {"eager": {"ns": first["eager_ns"], "call_ns": first.get("eager_call_ns")}}
        for name in DEFAULTS[self._place.device]:
            self._say({"stage": f"measuring {name}"})
            baselines[name] = await self._workshop.baseline(TARGET, name)
            self._say({"baseline": name, "value": baselines[name]})
        best, name = fastest_baseline(baselines)
        ratio = float(first["ratio"])
        sol = ratio * limits.sol_ns / limits.eager_ns if limits.sol_ns and limits.eager_ns else None
        facts = {key: value for key, value in first.items() if key not in _UNSAID}
        self._passed("measure", **facts, outcome=first["verdict"], device=self._place.device,
                     gain=ratio / best, against=name, sol_fraction=sol,
                     baselines=baselines)  # fmt: skip
        self._say({"stage": "confirming"})
        again = await self._ask("confirm", self._workshop.confirm(TARGET, library, bound))
        beyond = await go_beyond(
            self._workshop, TARGET, self._place.language, library, bound, again, baselines
        )
        if beyond.complaint:
            evidence = {"sanitizer": beyond.sanitizer}
            raise self._fell("confirm", "sanitizer", beyond.complaint, evidence)
        figures = {part: again[part] for part in ("ratio", "low", "high", "ns")}
        self._passed(
            "confirm",
            **figures,
            outcome=again["verdict"],
            against=beyond.against,
            sanitizer=beyond.sanitizer,
        )
        outcome = str(again["verdict"])
        return "LIBRARY" if program.library_only and outcome == "FASTER" else outcome


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(4 * MAX_REPLY + 1)
        return data.decode("utf-8")
    except OSError as error:
        raise ForgeError(
            f"{file.name} cannot be read: {error.strerror}", "check the path", code="no-program"
        ) from None
    except UnicodeDecodeError:
        raise ForgeError(
            f"{file.name} is not text in UTF-8", "name the file of a program", code="no-program"
        ) from None
