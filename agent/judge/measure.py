"""The measure rung: how long eager and the program take, by turns, in the runner.

On the CPU times are call times: both sides are called from Python with tensors, and allocate their
outputs; the arguments go round over copies that together exceed twice the second-level caches. On
a GPU they are device times by graph replay (:mod:`agent.judge.replay`), with call times beside.

Between rounds the judge writes new values into the arguments, and after each round it compares the
results of the program's last timed call, whichever that was, with the right answer. Then it looks
whether the arguments are as they were, changes a few elements of some timed set where it lies, and
asks once more: a program that knows its arguments again by address or by some elements answers
wrongly.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import psutil
import torch

from agent.judge.arena import Layout, Wanted, bits, lay_out
from agent.judge.cases import Case, Refused, results
from agent.judge.check import slots_json, write_tensor
from agent.judge.inputs import NUDGED
from agent.judge.report import describe
from agent.judge.statistics import Ratio, median, ratio
from agent.judge.tolerance import compare
from agent.judge.verdict import Failure, Measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.judge.arena import Arena
    from agent.judge.cases import Cases
    from agent.judge.check import Space
    from agent.task import TargetSpec

ALLOCATOR = "pages kept"
LEAST = 15
SCREEN_LEAST = 6
MAX_COPIES = 1024
# Share of all cores that others may use before a measurement counts for little.
QUIET = 0.25
_MANY_CASES, _FEW_CASES = 3, 2
_FIRST_CASE = 10
_NUDGED, _LAST, _PROBED = f"{NUDGED}/", "last/", "probed/"
_KEPT_SAMPLES = 200


def copies_needed(bytes_each: int, l2: int, cores: int) -> int:
    """How many sets of arguments together exceed twice all second-level caches (one per core)."""
    return min(MAX_COPIES, 2 * l2 * cores // max(1, bytes_each) + 1)


class Arguments:
    """The cases of one round laid out in shared memory for the runner to copy from.

    Args:
        part: Which round: each has cases of its own.
        large: Whether the arguments are so large that fewer cases must do.
    """

    def __init__(self, cases: Cases, space: Space, part: int, *, large: bool) -> None:
        self._cases = cases
        self._spec: TargetSpec = cases.reference.spec
        self._results = results(self._spec)
        self.count = _FEW_CASES if large else _MANY_CASES
        self._layout = lay_out(
            [
                *(
                    Wanted(f"{at}/{arg.name}", arg.dtype, arg.shape, arg.strides)
                    for at in range(self.count)
                    for arg in self._spec.args
                ),
                *(
                    Wanted(_NUDGED + arg.name, arg.dtype, arg.shape, arg.strides)
                    for arg in self._spec.args
                ),
                *(
                    Wanted(prefix + result.name, result.dtype, result.shape, result.strides)
                    for prefix in (_LAST, _PROBED)
                    for result in self._results
                ),
            ]
        )
        self._memory: Arena = space(self._layout)
        self._first = _FIRST_CASE + part * self.count

    @property
    def layout(self) -> Layout:
        return self._layout

    def write(self) -> None:
        """The values of that round into shared memory."""
        for at in range(self.count):
            args = self._cases.arguments("normal", self._first + at)
            for spec, value in zip(self._spec.args, args, strict=True):
                place = self._memory.tensor(self._layout.slots[f"{at}/{spec.name}"])
                write_tensor(place, value)

    def fill_request(self, copies: int, *, fresh: bool) -> dict[str, Any]:
        slots = self._layout.slots
        cases = [
            [slots[f"{at}/{arg.name}"].to_json() for arg in self._spec.args]
            for at in range(self.count)
        ]
        self._memory.settle()
        mutated = [at for at, arg in enumerate(self._spec.args) if arg.mutated]
        return {"cases": cases, "copies": copies, "mutated": mutated, "fresh": fresh}

    def keep_request(self) -> dict[str, Any]:
        """Where the runner puts the last results, and what it asks once more and where to."""
        last, probe = (
            [prefix + result.name for result in self._results] for prefix in (_LAST, _PROBED)
        )
        for name in (*last, *probe):
            self._memory.raw(self._layout.slots[name]).fill_(0xFF)
        request = {"keep": self._places(last), "probe": None}
        if self._nudged is None:
            self._memory.settle()
            return request
        inputs = [_NUDGED + spec.name for spec in self._spec.args]
        for name, value in zip(inputs, self._nudged.args, strict=True):
            write_tensor(self._memory.tensor(self._layout.slots[name]), value)
        self._memory.settle()
        return {**request, "probe": {"args": self._places(inputs), "results": self._places(probe)}}

    @cached_property
    def _nudged(self) -> Case | None:
        try:
            return self._cases.get(NUDGED, self._first)
        except Refused:
            return None

    def _places(self, names: Sequence[str]) -> list[dict[str, Any]]:
        return slots_json({name: self._layout.slots[name] for name in names})

    def verify(self, copy: int) -> Failure | None:
        """Compare what the last timed call on that copy of the arguments gave."""
        case = self._cases.get("normal", self._first + copy % self.count)
        failure = self._compare(case, _LAST, "right when checked, wrong when timed")
        if failure is not None or self._nudged is None:
            return failure
        # The runner leaves the arguments of a timed set where it found the changed ones.
        timed = self._cases.arguments("normal", self._first)
        for spec, value in zip(self._spec.args, timed, strict=True):
            left = self._memory.tensor(self._layout.slots[_NUDGED + spec.name])
            if not spec.mutated and not torch.equal(bits(left), bits(value)):
                message = f"changes its argument {spec.name} when timed"
                return Failure("measure", "argument-changed", message, {"tensor": spec.name})
        return self._compare(self._nudged, _PROBED, "wrong once a few elements changed in place")

    def _compare(self, case: Case, prefix: str, what: str) -> Failure | None:
        for out, expected in zip(self._results, case.answers, strict=True):
            value = self._memory.tensor(self._layout.slots[prefix + out.name])
            found = compare(value, expected)
            if not found.ok:
                wrong = describe(case, out, value, expected, found)
                message = f"{what}: {wrong.message}"
                return Failure("measure", "wrong-when-timed", message, wrong.evidence)
        return None


@dataclass(slots=True)
class Taken:
    """What was measured in all rounds.

    Attributes:
        samples: Pairs of the sides' times, ns a call.
        calls: Pairs of call times, where the samples are device times.
        steps: Device time of each step of the program, by name, where there are several.
        inner: Calls in one sample.
        timing: ``call``, ``device`` (graph replay) or ``events``.
        others: Share of all cores that other processes used meanwhile.
        conditions: Of the GPU at the end; ``disturbed`` says by what, "" if by nothing.
    """

    samples: list[tuple[float, float]] = field(default_factory=list)
    calls: list[tuple[float, float]] = field(default_factory=list)
    steps: list[tuple[str, int]] = field(default_factory=list)
    inner: int = 1
    timing: str = "call"
    others: float = 0.0
    conditions: dict[str, Any] = field(default_factory=dict)

    def add(self, answer: dict[str, Any]) -> None:
        """Put one round's answer in."""
        self.samples += [(first, second) for first, second in answer["samples"]]
        self.calls += [(first, second) for first, second in answer["call_samples"]]
        self.steps = [(name, round(ns)) for name, ns in answer["steps"]] or self.steps
        self.inner, self.timing = answer["inner"], answer["timing"]


class Load:
    """What other processes use of the cores, between two looks."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = [os.getpid(), *pids]
        self._started = time.monotonic()
        self._busy, self._own = self._look()

    def _look(self) -> tuple[float, float]:
        now = psutil.cpu_times()
        busy = now.user + now.system + getattr(now, "steal", 0.0)
        own = 0.0
        for pid in self._pids:
            try:
                used = psutil.Process(pid).cpu_times()
            except psutil.Error:
                continue
            own += used.user + used.system
        return busy, own

    def others(self) -> float:
        """Share of all cores that others used since the start, 0 to 1."""
        busy, own = self._look()
        spent = (time.monotonic() - self._started) * (psutil.cpu_count() or 1)
        return round(
            max(0.0, min(1.0, (busy - self._busy - own + self._own) / max(spent, 1e-3))), 3
        )


def measured(
    taken: Taken, floor_ns: int, machine: str, seconds: float, failure: Failure | None
) -> Measured:
    """Put the samples of all rounds together.

    A time under the floor is a failure. While others use much of the machine nothing is claimed:
    with a core gone, what uses all threads waits for the scheduler at each of their meetings, and
    a slow program on one thread can look fast beside it; a GPU that is slowed down or shared does
    the same.
    """
    samples, calls = taken.samples, taken.calls
    found = ratio(samples) if samples else Ratio(0.0, 0.0, 0.0)
    ns = round(median([pair[1] for pair in samples])) if samples else 0
    eager_ns = round(median([pair[0] for pair in samples])) if samples else 0
    if failure is None and samples and ns < floor_ns:
        message = f"{ns} ns is faster than this machine can move the bytes ({floor_ns} ns)"
        failure = Failure("measure", "below-floor", message, {"ns": ns, "floor_ns": floor_ns})
    quiet = taken.others < QUIET and not taken.conditions.get("disturbed")
    verdict = "" if failure is not None else found.verdict if quiet else "UNSURE"
    step = max(1, len(samples) // _KEPT_SAMPLES)
    kept = tuple((round(first), round(second)) for first, second in samples[::step])
    call = (found, ns, eager_ns) if taken.timing == "call" else _call_figures(calls)
    return Measured(
        ns, eager_ns, found.value, found.low, found.high, kept, taken.inner,
        verdict, taken.others, ALLOCATOR if taken.timing == "call" else "PyTorch's",
        machine, round(seconds, 4), failure,
        timing="call" if taken.timing == "call" else "device", how=taken.timing,
        call_ns=call[1], eager_call_ns=call[2], call_ratio=call[0].value,
        steps=tuple(taken.steps), conditions=taken.conditions,
    )  # fmt: skip


def _call_figures(calls: Sequence[tuple[float, float]]) -> tuple[Ratio, int | None, int | None]:
    if not calls:
        return Ratio(0.0, 0.0, 0.0), None, None
    ns, eager_ns = (round(median([pair[at] for pair in calls])) for at in (1, 0))
    return ratio(calls), ns, eager_ns
