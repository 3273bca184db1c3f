"""What the judge says of a variant, as records that become JSON.

A verdict is a ladder of rungs: ``read``, ``build``, ``check``, ``measure``, ``confirm``. The first
that fails ends it with a :class:`Failure`.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

# Raised whenever a verdict could come out differently; old verdicts then say so.
JUDGE_VERSION = 4

Rung = Literal["read", "build", "check", "measure", "confirm"]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a variant was turned down.

    Attributes:
        rung: Where on the ladder.
        code: A stable short name, such as ``"wrong-answer"``.
        message: One line for people.
        evidence: Facts for the node pane and the repair prompt.
    """

    rung: Rung
    code: str
    message: str
    evidence: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return _json(asdict(self))


@dataclass(frozen=True, slots=True)
class Family:
    """One checked call. Errors are absolute; ``worst`` is the largest share of the allowed."""

    family: str
    seed: int
    ok: bool
    max_error: float
    eager_error: float
    worst: float
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """The check's result; ``failure`` is None when the variant passed."""

    families: tuple[Family, ...]
    seconds: float
    failure: Failure | None

    def to_json(self) -> dict[str, Any]:
        return _json({**asdict(self), "judge": JUDGE_VERSION})


@dataclass(frozen=True, slots=True)
class Measured:
    """Times against eager, in nanoseconds.

    Attributes:
        ns, eager_ns: Medians per call: device time on a GPU, call time on the CPU.
        ratio, low, high: Speedup over eager and its 95 % interval.
        samples: Pairs of eager's and the variant's time, next to each other.
        inner: Calls in one sample.
        verdict: FASTER, SLOWER, SAME or UNSURE; empty after a failure.
        others: Share of all cores that other processes used meanwhile.
        allocator: Under which setting both sides ran.
        machine: What the times depend on: processor or GPU, driver, toolchain.
        failure: None when the times stand.
        timing: ``device`` or ``call``: what ns, eager_ns and the ratio are.
        how: ``call``, ``device`` (graph replay), or ``events`` where a capture was impossible.
        call_ns, eager_call_ns: What the caller waits per call, host work included.
        call_ratio: Speedup of the call.
        steps: Device time in ns of each step of a program that has several, by name.
        conditions: Clocks, heat, throttling and other users of the GPU; empty on the CPU.
    """

    ns: int
    eager_ns: int
    ratio: float
    low: float
    high: float
    samples: tuple[tuple[int, int], ...]
    inner: int
    verdict: str
    others: float
    allocator: str
    machine: str
    seconds: float
    failure: Failure | None
    timing: str = "call"
    how: str = "call"
    call_ns: int | None = None
    eager_call_ns: int | None = None
    call_ratio: float = 0.0
    steps: tuple[tuple[str, int], ...] = ()
    conditions: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return _json({**asdict(self), "judge": JUDGE_VERSION})


@dataclass(frozen=True, slots=True)
class Timed:
    """What advice is given on.

    Attributes:
        detail: ``Built.detail``.
        ns, sol_ns: Device time of the program and of SOL.
        steps: As in :class:`Measured`.
    """

    detail: dict[str, Any]
    ns: int
    sol_ns: int
    steps: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a target costs here, in nanoseconds: eager, SOL, and the floor under everything.

    ``eager_ns`` is the primary time (device time on a GPU), ``eager_call_ns`` the call's.
    """

    eager_ns: int
    eager_call_ns: int | None
    sol_ns: int
    floor_ns: int
    detail: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return _json(asdict(self))


def _json(record: dict[str, Any]) -> dict[str, Any]:
    return {name: _finite(value) for name, value in record.items()}


def _finite(value: Any) -> Any:
    """The same with numbers that JSON lacks as text: ``"nan"``, ``"inf"``, ``"-inf"``."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
