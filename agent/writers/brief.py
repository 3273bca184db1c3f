"""All that a prompt may tell a writer: gathered by the engine, rendered by the prompts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.task import TargetSpec


@dataclass(frozen=True, slots=True)
class Baseline:
    """A time to beat. ``ratio`` is eager's device (on a CPU: call) time over its own."""

    name: str
    ns: int | None
    call_ns: int | None
    ratio: float


@dataclass(frozen=True, slots=True)
class TargetBrief:
    """One target and the machine it is for.

    Attributes:
        language: What is asked for: ``"cpp"`` or ``"cuda"``.
        reference: The task's source, as the person wrote it.
        graph: The traced operations, a line each.
        share: Of a model's time, 0 to 1, where it came from one.
        baselines: Eager first.
        sol_ns: Speed of light; None where it is not known.
        machine: The device's name, for people.
        facts: Numbers that plans may use as ``device.NAME``.
        rates: What was measured of the machine, by name: bytes or operations per second.
    """

    name: str
    language: str
    reference: str
    graph: tuple[str, ...]
    spec: TargetSpec
    share: float | None
    baselines: tuple[Baseline, ...]
    sol_ns: int | None
    machine: str
    facts: Mapping[str, int]
    rates: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a program failed.

    Attributes:
        rung: read, build, check or measure.
        log: The compiler's first errors with the lines of source they are about; "" without.
        sketch: Where the numbers are wrong, in lines; "" without.
    """

    rung: str
    code: str
    message: str
    log: str = ""
    sketch: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """An earlier program, as a starting point.

    Attributes:
        tuned: The values that its tunables ended with.
        variants: Other values and the time in ns that each took when timed briefly, fastest first.
        ratio, low, high: Speedup against eager and its 95 % interval; None if it failed.
        gain: Speedup against the fastest baseline.
        sol_share: Of the speed of light, 1 is all of it.
        steps: Name and device time in ns of each launch, where they were taken.
        kernels: By kernel: registers, spills, shared, occupancy, limiter, as far as known.
        advice: What the judge says could be better: finding, evidence, suggestion.
    """

    node: int
    title: str
    source: str
    plan: str
    tuned: Mapping[str, int]
    outcome: str
    ratio: float | None
    low: float | None
    high: float | None
    gain: float | None
    time_ns: int | None
    call_ns: int | None
    sol_share: float | None
    steps: tuple[tuple[str, int], ...] = ()
    kernels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    advice: tuple[Mapping[str, str], ...] = ()
    failure: Failure | None = None
    variants: tuple[tuple[Mapping[str, int], int], ...] = ()


@dataclass(frozen=True, slots=True)
class Tried:
    """An idea that was tried: its speedup against eager, or in one line why it failed."""

    node: int
    title: str
    action: str
    ratio: float | None
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that earlier failures on this machine taught, and how often it was seen."""

    text: str
    count: int


@dataclass(frozen=True, slots=True)
class Brief:
    """One question, complete.

    Attributes:
        action: draft, improve, repair or combine.
        step: For an improvement ``"small"`` or ``"large"``, else "".
        parent: What it starts from; None for a draft.
        second: What is to be combined with it.
        lineage: From the branch's draft down to the parent, each with what it gained.
        tried: Other ideas, the most useful first: the parent's children; for a draft other drafts.
        hint: A person's words; "" without.
        rules: What earlier sessions' failures taught, the most frequent first.
    """

    target: TargetBrief
    action: str
    step: str = ""
    parent: Written | None = None
    second: Written | None = None
    lineage: tuple[Tried, ...] = ()
    tried: tuple[Tried, ...] = ()
    hint: str = ""
    rules: tuple[Rule, ...] = ()
