"""Rows as viewers see them: frozen, typed, made from SQLite rows by column name."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def eager_as_record(baselines: dict[str, Any]) -> dict[str, Any]:
    """A target's baselines; eager's, once a bare number, as ``{"ns", "call_ns"}``."""
    eager = baselines.get("eager")
    if isinstance(eager, int):
        return {**baselines, "eager": {"ns": eager, "call_ns": None}}
    return baselines


class Row:
    """A frozen dataclass whose fields are columns; columns named in ``JSON`` are decoded."""

    JSON: ClassVar[frozenset[str]] = frozenset()
    __slots__ = ()

    @classmethod
    def columns(cls, missing: Mapping[str, str] | None = None) -> str:
        """What to select; ``missing`` says what stands for columns that an older schema lacks."""
        lacks = missing or {}
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        return ", ".join(lacks.get(name, f'"{name}"') for name in names)

    @classmethod
    def make(cls, values: Sequence[Any]) -> Self:
        """From one SQLite row, selected with ``columns()``."""
        named = {}
        for field, value in zip(fields(cls), values, strict=True):  # type: ignore[arg-type]
            decode = field.name in cls.JSON and value is not None
            named[field.name] = json.loads(value) if decode else value
        return cls(**named)


@dataclass(frozen=True, slots=True)
class SessionRow(Row):
    """The session. ``state``: new, running, pausing, paused, stopped, finished or failed.

    A session whose state says that an engine works, while its lock is free, has crashed
    (``store.sessions.liveness``).
    """

    JSON: ClassVar[frozenset[str]] = frozenset({"config", "machine"})
    session: str
    name: str
    task: str
    config: dict[str, Any]
    state: str
    created_us: int
    started_us: int | None
    stopped_us: int | None
    host: str | None
    machine: dict[str, Any] | None
    stop_reason: str | None
    rev: int


@dataclass(frozen=True, slots=True)
class TargetRow(Row):
    """A target. ``state``: open, closed or refused; ``confirmed``: 1 yes, 0 not yet, -1 no.

    ``baselines`` has ``eager`` as ``{"ns", "call_ns"}`` and, by name, what ``BaselineMeasured``
    told of the compiled forms: ``{"ratio", "low", "high", "ns", ...}`` or ``{"error"}``. ``hint``
    is what a person told the writers of all its nodes.
    """

    JSON: ClassVar[frozenset[str]] = frozenset({"spec", "task", "baselines", "detail"})
    id: int
    name: str
    device: str | None
    spec: dict[str, Any] | None
    task: dict[str, Any] | None
    state: str
    reason: str | None
    cure: str | None
    code: str | None
    eager_ns: int | None
    sol_ns: int | None
    floor_ns: int | None
    baselines: dict[str, Any] | None
    detail: dict[str, Any] | None
    best_node: int | None
    best_ratio: float | None
    confirmed: int
    rev: int
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class NodeRow(Row):
    """A node of a target's tree.

    Attributes:
        action: draft, improve, repair, combine or import; ``step`` says small or large of an
            improvement.
        writer: drafter, person, model (``model`` is its name), inbox or replay.
        state: live, scored, failed or dropped; ``stage`` says what a live one is doing (queued,
            asking, waiting, writing, building, checking, tuning, timing, confirming) since
            ``stage_us``.
        rung, code, reason: Where and why a failed node failed.
        outcome: FASTER, SAME, SLOWER or UNSURE, against eager; LIBRARY for what would be FASTER
            and consists of library calls alone, which is no win.
        ratio, low, high: Speedup against eager with its 95 % interval.
        call_ns: What its caller waits for a call; ``time_ns`` is what ``ratio`` is about.
        gain: ``ratio`` over that of the fastest baseline known, eager included.
        library: 1 when the program consists of library calls alone.
        foreign: 1 when its figures are from another machine: they count for nothing here.
        advice: What the judge saw that could be better, line by line.
        against: When it was confirmed: ``{"name", "ratio", "low", "high", "direct"}``, the fastest
            baseline's time over its own.
        sanitizer: When it was confirmed: what each tool said.
        sol_fraction: This speedup over that of SOL (1.0 is the speed of light).
        reward, value: Own reward; best reward in the branch with pruned branches left out.
        pruned: Whether this node's own branch was closed (descendants inherit it on screen).
        attempts: 1, and one more for each engine that died at work on it.
        seconds: Seconds spent by stage.
        micro_dollars: What its calls are known to have cost; of a lost one what was set aside.
        calls: How often a writer was asked; tokens are those of settled calls.
        unpriced, lost: How many of the settled calls cost nobody knows what; how many were in
            flight when their engine died.
        hint: What a person told the writers of its branch.
    """

    JSON: ClassVar[frozenset[str]] = frozenset(
        {"schedule", "seconds", "advice", "against", "sanitizer"}
    )
    id: int
    target: int
    parent: int | None
    second_parent: int | None
    action: str
    writer: str
    model: str | None
    program: str | None
    title: str
    schedule: dict[str, Any] | None
    state: str
    stage: str
    rung: str | None
    code: str | None
    reason: str | None
    outcome: str | None
    variant: int | None
    time_ns: int | None
    ratio: float | None
    low: float | None
    high: float | None
    sol_fraction: float | None
    reward: float | None
    visits: int
    value: float | None
    pruned: int
    confirmed: int
    attempts: int
    micro_dollars: int
    seconds: dict[str, float] | None
    created_us: int
    finished_us: int | None
    stage_us: int
    rev: int
    call_ns: int | None = None
    gain: float | None = None
    library: int = 0
    foreign: int = 0
    advice: list[Any] | None = None
    against: dict[str, Any] | None = None
    sanitizer: dict[str, Any] | None = None
    step: str | None = None
    hint: str | None = None
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    unpriced: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class VariantRow(Row):
    """A variant. ``state``: built, screened, judged or failed."""

    JSON: ClassVar[frozenset[str]] = frozenset({"tuned", "evidence"})
    id: int
    node: int
    program: str
    tuned: dict[str, int]
    state: str
    rung: str | None
    code: str | None
    reason: str | None
    evidence: dict[str, Any] | None
    build_s: float | None
    screened_ns: int | None
    screened_ratio: float | None
    verdict: int | None
    rev: int


@dataclass(frozen=True, slots=True)
class VerdictRow(Row):
    """What the judge said of a variant; ``timing`` says what the time is (``call``, ``device``).

    ``call_ns`` and ``eager_call_ns`` are call times whatever ``timing`` is.
    """

    JSON: ClassVar[frozenset[str]] = frozenset({"evidence"})
    id: int
    variant: int
    node: int
    key: str
    outcome: str
    time_ns: int
    eager_ns: int
    ratio: float
    low: float
    high: float
    timing: str
    confirm: int
    evidence: dict[str, Any]
    at_us: int
    rev: int
    call_ns: int | None = None
    eager_call_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat(Row):
    """The engine's sign of life, overwritten each second."""

    JSON: ClassVar[frozenset[str]] = frozenset({"doing", "device"})
    at_us: int
    active_us: int
    pid: int
    doing: dict[str, Any] | None
    device: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class StreamPiece(Row):
    """A piece of text that streamed in; ``channel``: model, compiler or log."""

    id: int
    node: int
    channel: str
    at_us: int
    text: str


@dataclass(frozen=True, slots=True)
class Program(Row):
    """A program's text, stored once under its hash."""

    hash: str
    language: str
    source: str
    plan: str
    title: str
    at_us: int


@dataclass(frozen=True, slots=True)
class PromptText(Row):
    """What a writer was asked, stored once under its hash."""

    hash: str
    system: str
    user: str
    at_us: int


@dataclass(frozen=True, slots=True)
class ReplyText(Row):
    """What a call was answered; ``thinking`` is what the model thought, "" where nobody knows."""

    call: int
    node: int
    text: str
    thinking: str
    at_us: int


@dataclass(frozen=True, slots=True)
class CallRow(Row):
    """One attempt to have a reply from a writer.

    Attributes:
        state: reserved (in flight), paid, failed, lost (its engine died) or answered (by hand).
        reserved, reserved_tokens: The most that it may cost, set aside while it is in flight; None
            where no price is known.
        micro_dollars: What it cost (lost: what was set aside); None when nobody knows.
        writer: model, inbox or replay; ``model`` is the model's name, else "".
        purpose: write, or format: the same reply asked for in the right form.
        prompt: The hash of what was asked (``SessionReader.prompt``).
        attempt: 1, and one more for each earlier failure of the same question.
        tokens_cached: Those of ``tokens_in`` that the provider had in its cache.
        tokens_reasoning: Those of ``tokens_out`` that are no part of the reply.
        estimated: 1 when the tokens were counted by us and not by the provider.
        error: Why it failed: a code.
        finish: How the reply ended: stop, length, or what else the provider called it.
        at_us, settled_us: When it began and was over.
    """

    id: int
    target: int
    node: int
    model: str
    state: str
    reserved: int | None
    micro_dollars: int | None
    tokens_in: int | None
    tokens_out: int | None
    at_us: int
    rev: int
    action: str | None
    purpose: str | None
    writer: str | None
    reserved_tokens: int | None
    prompt: str | None
    attempt: int | None
    tokens_cached: int | None
    tokens_reasoning: int | None
    estimated: int | None
    error: str | None
    finish: str | None
    seconds: float | None
    settled_us: int | None

    @property
    def unpriced(self) -> bool:
        """Whether it is over and nobody knows what it cost."""
        return self.micro_dollars is None and self.state not in {"reserved", "answered"}


@dataclass(frozen=True, slots=True)
class Spending(Row):
    """What a session's calls come to.

    Attributes:
        calls: Calls of models, in flight or over; what a person or a recording answers is none.
        micro_dollars: What the settled ones are known to have cost.
        in_flight, reserved, reserved_tokens: Calls of models not over yet, and the most that those
            with a known price, or with a known bound, may cost.
        unpriced: Settled calls that cost nobody knows what.
        lost: Settled calls that were in flight when their engine died.
        estimated: Settled calls whose tokens were counted by us.
    """

    calls: int
    micro_dollars: int
    in_flight: int
    reserved: int
    reserved_tokens: int
    unpriced: int
    lost: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    tokens_reasoning: int
    estimated: int
