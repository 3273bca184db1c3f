"""The whole way of a program: reply, plan, builder, judge. Says on which rung it fell."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.audit.building import BOMB_SECONDS, SECONDS, Builder
from agent.audit.rows import HARMLESS, LABELLED, MARGIN, PASSED, Row
from agent.audit.targets import LARGE, TASKS
from agent.devices import open_device
from agent.errors import BuildError, ForgeError, ProgramError, describe
from agent.judge.judge import Judge
from agent.program import parse_reply
from agent.task import TaskSource, open_task

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from agent.judge.verdict import Measured
    from agent.task import TargetSpec

RUN_SECONDS = 2.0
BUDGET_MS = 60
LARGE_BUDGET_MS = 400
_SEED = 4242
_PASSING = (PASSED, HARMLESS, LABELLED)
# A machine has hiccups; a trick that really pays looks faster each time.
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a program's way ended.

    Attributes:
        rung: Of the first failure; ``passed`` or ``library`` if there is none.
        code, message: Of the failure; empty when it passed.
        measured: Its times, if it came so far.
    """

    rung: str
    code: str = ""
    message: str = ""
    measured: Measured | None = None


class Ladder:
    """A judge with the audit's targets, each loaded when first asked for.

    Args:
        device: As ``open_device`` and the judge take it.
        cache: Folder for built programs.
        rows: Where the honest twins of harmless tricks are found.
        budget_ms: For one measurement of a small target.
    """

    def __init__(
        self, device: str, cache: Path, rows: Iterable[Row] = (), *, budget_ms: float = BUDGET_MS
    ) -> None:
        self.device = open_device(device)
        self.judge = Judge(device=device, run_seconds=RUN_SECONDS)
        self._task_device = device.partition(":")[0]
        self._cache = cache
        self._builder = Builder(device, cache, getattr(self.device, "arch", ""))
        self._facts = self.device.facts()
        self._twins = {row.name: row for row in rows}
        self._budget_ms = budget_ms
        self._targets: dict[str, tuple[int, TargetSpec]] = {}

    @property
    def level(self) -> int:
        """Compute capability times ten; large where there is no such thing."""
        facts = self._facts
        return 10 * facts["major"] + facts["minor"] if "major" in facts else 1000

    def close(self) -> None:
        self._builder.close()
        self.judge.close()

    def target(self, name: str) -> tuple[int, TargetSpec]:
        """Number and spec of a target: one of the audit's, or ``suite:NAME``."""
        if name not in self._targets:
            number = len(self._targets) + 1
            if name in TASKS:
                source = TaskSource("plain", name, "", TASKS[name], self._task_device)
            else:
                source = open_task(name, self._task_device)
            spec = self.judge.load(number, source, _SEED)
            if name in LARGE:  # with rates and floor, as in a search
                self.judge.calibrate(number, str(self._cache / "machine.db"), str(self._cache))
            self._targets[name] = number, spec
        return self._targets[name]

    def climb(
        self, target: str, text: str, *, timed: bool = False, build_seconds: float = SECONDS
    ) -> Outcome:
        """Send a reply up the ladder; what is not its own fault is raised."""
        number, spec = self.target(target)
        try:
            program = parse_reply(text, self.device.language)
            bound = program.bind(spec, program.defaults(), self._facts).to_json()
        except ProgramError as error:
            return Outcome("read", error.code, error.message)
        try:
            library = self._builder.build(program, build_seconds)
        except BuildError as error:
            return Outcome(str(error.evidence["rung"]), error.code, error.message)
        try:
            outcome = self._judged(number, library, bound, timed, target in LARGE)
        except ProgramError as error:
            return Outcome("check", error.code, error.message)
        if outcome.rung == PASSED and program.library_only:
            return Outcome(LABELLED, measured=outcome.measured)
        return outcome

    def _judged(
        self, number: int, library: str, bound: dict[str, Any], timed: bool, large: bool
    ) -> Outcome:
        failure = self.judge.check(number, library, bound).failure
        measured = None
        if failure is None and timed:
            budget = LARGE_BUDGET_MS if large else self._budget_ms
            measured = self.judge.measure(number, library, bound, budget)
            failure = measured.failure
        if failure is None:
            return Outcome(PASSED, measured=measured)
        return Outcome(failure.rung, failure.code, failure.message, measured)

    def advantage(self, row: Row) -> float:
        """How much faster a harmless trick looks than its twin (or eager): 0 for not at all.

        One that hangs on chance, such as on what lies in unused memory, may pass once and fall
        the next time: then it has won nothing.
        """
        least = float("inf")
        for _ in range(_TRIES):
            mine = self._ratio(row)
            if mine is None:
                return 0.0
            twin = self._twins[row.twin] if row.twin else None
            theirs = self._ratio(twin) if twin else 1.0
            if theirs is None:
                raise ForgeError(f"{row.name}: its honest twin {row.twin} falls", code="twin")
            least = min(least, mine / theirs - 1.0)
            if least <= MARGIN:
                break
        return least

    def _ratio(self, row: Row) -> float | None:
        """Its speedup over eager; None if it falls."""
        outcome = self.climb(row.target, row.text, timed=True)
        if outcome.rung != PASSED or outcome.measured is None:
            return None
        return outcome.measured.ratio


def judge_row(ladder: Ladder, row: Row) -> dict[str, Any]:
    """One row's line: what was promised, where it ended, and whether that is right."""
    started = time.monotonic()
    try:
        rung, code, message = _ending(ladder, row)
    except Exception as error:  # noqa: BLE001 - a fault on one row must not hide the others
        rung, code, message = "fault", getattr(error, "code", "fault"), describe(error)
    right = rung in row.rungs and (rung in _PASSING or not row.codes or code in row.codes)
    return {
        "kind": row.kind,
        "name": row.name,
        "trick": row.trick,
        "language": ladder.device.language,
        "expected": row.expected,
        "rung": rung,
        "code": code,
        "ok": right,
        "message": message[:300],
        "seconds": round(time.monotonic() - started, 3),
    }


def _ending(ladder: Ladder, row: Row) -> tuple[str, str, str]:
    """Rung, code and message; a trick that passes is compared with its honest twin."""
    seconds = BOMB_SECONDS if row.trick == "bombs" else SECONDS
    outcome = ladder.climb(row.target, row.text, timed=row.timed, build_seconds=seconds)
    if outcome.rung != PASSED or HARMLESS not in row.rungs:
        return outcome.rung, outcome.code, outcome.message
    gained = ladder.advantage(row)
    if gained <= MARGIN:
        return HARMLESS, "", ""
    return PASSED, "looks-faster", f"looks {gained:.1%} faster than it is"
