"""One node's way from an idea to a verdict: write, read, build, check, tune, measure.

Every step is an event before the next begins, so that an engine that is killed anywhere goes on
from there: a program that was written is never asked for again, a node ends exactly once.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.errors import ForgeError, MachineError, ProgramError
from agent.replies import read_reply
from agent.search.target import Scored
from agent.search.tuning import Tuner
from store.reading import SessionReader

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from agent.context import Context
    from agent.program import Program
    from agent.search.target import Target
    from agent.workers.workshop import Proposal

TUNE_SECONDS = 4.0
TUNE_VARIANTS = 8
NOT_WORTH_TUNING = 0.5
DRIFT = 2.5
UNBOUNDED = 1e6  # stands for an interval without an upper end, which too few samples give


@dataclass(frozen=True, slots=True)
class Failed:
    """A node that no variant carried through: the first rung that failed, and why."""

    rung: str
    code: str
    reason: str
    evidence: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a person handed in, as a writer's answer; it needs no asking."""

    text: str


class _Refused(Exception):
    """A variant failed a rung; carries what the node's failure would be."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.reason)
        self.failed = failed


@dataclass(slots=True)
class _Variant:
    """A variant in work: its id, the values of its tunables, its built library, and its facts."""

    id: int
    values: dict[str, int]
    library: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


def _key(values: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(values.items()))


class NodeWork:
    """The work on one node. ``run`` returns how it ended; the caller records that."""

    def __init__(self, context: Context, target: Target, node: int) -> None:
        self._context = context
        self._session = context.session
        self._workshop = context.workshop
        self._target = target
        self._node = node
        reader = SessionReader(self._session.path, self._session.conn)
        self._known = {_key(row.tuned): row.id for row in reader.variants(node)}
        self._building: dict[int, asyncio.Task[dict[str, Any]]] = {}
        self._checks: list[Any] = []
        self.seconds: dict[str, float] = {}

    def _say(self, kind: str, **payload: Any) -> None:
        self._context.say(kind, target=self._target.id, node=self._node, **payload)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        self._say("NodeStage", stage=name)
        self._context.does(name, node=self._node, target=self._target.id)
        begun = time.monotonic()
        try:
            yield
        finally:
            spent = self.seconds.get(name, 0.0) + time.monotonic() - begun
            self.seconds[name] = round(spent, 3)

    # -- the way -----------------------------------------------------------------------------------

    async def run(
        self, program: Program | None, source: Proposal | Reply | None = None
    ) -> Scored | Failed:
        """From the writer's answer (or a program written before) to a verdict or a failure.

        Args:
            program: What was written before; None has ``source`` asked for it.
            source: What the writer proposed to write, or what a person handed in.

        Raises:
            MachineError: The machine lacks something; no program is at fault.
        """
        try:
            if program is None:
                program = await self._write(source)
            return await self._judge(program)
        except _Refused as refused:
            return refused.failed
        except asyncio.CancelledError:
            for build in self._building.values():
                build.cancel()
            raise
        finally:
            # Builds that nobody waits for any more must have ended before the next node's begin.
            await asyncio.gather(*self._building.values(), return_exceptions=True)

    async def _write(self, source: Proposal | Reply | None) -> Program:
        with self._stage("writing"):
            try:
                reply, schedule, title = await self._reply(source)
                self._session.stream(self._node, "model", reply)
                program = read_reply(reply, self._context.place.language, self._target.spec)
            except MachineError:
                raise
            except ForgeError as error:
                raise _Refused(Failed("read", error.code, error.message, {})) from None
        store_program(
            self._context, self._target.id, self._node, program, title or program.title, schedule
        )
        return program

    async def _reply(
        self, source: Proposal | Reply | None
    ) -> tuple[str, dict[str, Any] | None, str]:
        """The reply, with the schedule and the title that a proposal came with."""
        if isinstance(source, Reply):
            return source.text, None, ""
        schedule, title = (source.schedule, source.title) if source else (None, "")
        return await self._workshop.write(self._target.id, {"schedule": schedule}), schedule, title

    async def _judge(self, program: Program) -> Scored | Failed:
        first = self._target.programs.setdefault(program.key, self._node)
        if first != self._node:
            return Failed("read", "duplicate", f"the same program as node {first}", {})
        default = self._variant(program.defaults())
        tuner = Tuner(program.tune, TUNE_VARIANTS)
        # There are many builders and one judge: what is tried next is built meanwhile.
        early = [self._variant(values) for values in tuner.next_batch()]
        self._start_builds(program, [default, *early])
        with self._stage("building"):
            await self._build(program, default)
        with self._stage("checking"):
            await self._check(program, default)
        checked = {default.id}
        with self._stage("tuning"):
            ranked = await self._tune(program, default, tuner, early)
        failed: Failed | None = None
        for variant in ranked:
            try:
                if variant.id not in checked:
                    with self._stage("checking"):
                        await self._check(program, variant)
                with self._stage("timing"):
                    return await self._measure(program, variant)
            except _Refused as refused:
                failed = failed or refused.failed
        return failed or Failed("measure", "no-variant", "no variant could be timed", {})

    # -- rungs -------------------------------------------------------------------------------------

    def _variant(self, values: dict[str, int]) -> _Variant:
        key = _key(values)
        if key not in self._known:
            self._known[key] = self._session.next_id("variants")
        return _Variant(self._known[key], values)

    async def _rung(
        self, rung: str, variant: _Variant, asked: Awaitable[dict[str, Any]]
    ) -> dict[str, Any]:
        """One rung's answer; a failure is recorded for the variant and raised.

        A rung fails by an answer that has a ``failure``, or by an error of the worker's.
        """
        try:
            answer = await asked
        except MachineError:
            raise
        except ForgeError as error:
            failure = {"rung": error.evidence.get("rung", rung), "code": error.code,
                       "message": error.message, "evidence": error.evidence}  # fmt: skip
        else:
            if not answer.get("failure"):
                return answer
            failure = answer["failure"]
        failed = Failed(
            str(failure.get("rung", rung)), str(failure["code"]), str(failure["message"])[:500],
            dict(failure.get("evidence") or {}),
        )  # fmt: skip
        self._say(
            "VariantFailed", variant=variant.id, values=variant.values, rung=failed.rung,
            code=failed.code, reason=failed.reason, evidence=failed.evidence,
        )  # fmt: skip
        if log := failed.evidence.get("log"):
            self._session.stream(self._node, "compiler", str(log))
        raise _Refused(failed)

    def _start_builds(self, program: Program, variants: list[_Variant]) -> None:
        for variant in variants:
            asked = self._workshop.build(program, variant.values)
            self._building[variant.id] = asyncio.ensure_future(asked)

    async def _build(self, program: Program, variant: _Variant) -> None:
        """The built variant, of a build that was started before."""
        built = await self._rung("build", variant, self._building[variant.id])
        del self._building[variant.id]
        variant.library = str(built["library"])
        variant.detail = dict(built.get("detail") or {})
        self._say(
            "VariantBuilt", variant=variant.id, values=variant.values,
            seconds=float(built["seconds"]), cached=bool(built["cached"]), detail=variant.detail,
        )  # fmt: skip

    def _bound(self, program: Program, variant: _Variant) -> Any:
        try:
            return program.bind(self._target.spec, variant.values, self._context.place.facts)
        except ProgramError as error:
            failed = Failed("read", error.code, error.message, {})
            self._say(
                "VariantFailed", variant=variant.id, values=variant.values, rung="read",
                code=error.code, reason=error.message, evidence={},
            )  # fmt: skip
            raise _Refused(failed) from None

    async def _check(self, program: Program, variant: _Variant) -> None:
        bound = self._bound(program, variant)
        asked = self._workshop.check(self._target.id, variant.library, bound)
        answer = await self._rung("check", variant, asked)
        self._checks = list(answer.get("families", []))

    async def _tune(
        self, program: Program, default: _Variant, tuner: Tuner, early: list[_Variant]
    ) -> list[_Variant]:
        """Time variants briefly, as the tuner proposes them; the fastest first."""
        variants = {_key(variant.values): variant for variant in (default, *early)}
        end = time.monotonic() + TUNE_SECONDS
        if self._building:
            await asyncio.wait(self._building.values())  # nothing is built while times are taken
        if not self._worth_tuning(await self._screen(program, default, tuner)):
            return [default]
        batch = await self._built(program, early, tuner)
        while True:
            for variant in batch:
                await self._screen(program, variant, tuner)
            fresh = [self._variant(values) for values in tuner.next_batch()]
            if not fresh or time.monotonic() > end:
                break
            variants |= {_key(variant.values): variant for variant in fresh}
            self._start_builds(program, fresh)
            batch = await self._built(program, fresh, tuner)
        return [variants[_key(values)] for values in tuner.ranking()]

    async def _built(
        self, program: Program, variants: list[_Variant], tuner: Tuner
    ) -> list[_Variant]:
        """Those of the variants that could be built, once all of their builds have ended."""
        results = await asyncio.gather(
            *(self._build(program, variant) for variant in variants), return_exceptions=True
        )
        good = []
        for variant, result in zip(variants, results, strict=True):
            if result is None:
                good.append(variant)
            elif isinstance(result, _Refused):
                tuner.report(variant.values, None)
            else:
                raise result
        return good

    def _worth_tuning(self, ratio: float | None) -> bool:
        best = self._target.progress.best_low
        return ratio is not None and ratio > NOT_WORTH_TUNING * best

    async def _screen(self, program: Program, variant: _Variant, tuner: Tuner) -> float | None:
        try:
            bound = self._bound(program, variant)
            async with self._context.leased():
                asked = self._workshop.screen(self._target.id, variant.library, bound)
                answer = await self._rung("measure", variant, asked)
        except _Refused:
            tuner.report(variant.values, None)
            return None
        time_ns, ratio = int(answer["ns"]), float(answer["ratio"])
        tuner.report(variant.values, time_ns)
        self._say("VariantScreened", variant=variant.id, time_ns=time_ns, ratio=ratio)
        return ratio

    async def _measure(self, program: Program, variant: _Variant) -> Scored:
        bound = self._bound(program, variant)
        async with self._context.leased():
            asked = self._workshop.measure(self._target.id, variant.library, bound)
            answer = await self._rung("measure", variant, asked)
        if self._context.place.language == "cuda":
            facts = timed_facts(variant.detail, answer, self._target)
            answer |= await self._workshop.advise(
                self._target.id, variant.library, bound, facts, counters=False
            )
        return record_verdict(
            self._context, self._target, self._node, variant.id, program, variant.values, answer,
            self._checks, confirm=False,
        )  # fmt: skip


def store_program(
    context: Context,
    target: int,
    node: int,
    program: Program,
    title: str,
    schedule: dict[str, Any] | None,
) -> None:
    """Store what a writer wrote for a node: text and event in one transaction."""
    with context.session.together():
        context.session.store_program(
            program.key, program.language, program.source, program.plan, program.title
        )
        context.say(
            "ProgramWritten", target=target, node=node, program=program.key,
            language=program.language, title=title, schedule=schedule,
            library=program.library_only,
        )  # fmt: skip


def timed_facts(detail: dict[str, Any], answer: dict[str, Any], target: Target) -> dict[str, Any]:
    """What advice is given on: the build's facts, and times in ns."""
    return {"detail": detail, "ns": int(answer["ns"]), "steps": answer.get("steps") or [],
            "sol_ns": target.progress.sol_ns or 0}  # fmt: skip


def drifted(answer: dict[str, Any], target: Target) -> bool:
    """Whether eager took so much more or less time beside the program than when it was measured
    that the machine was another one: then the pairs say nothing."""
    before, now = target.progress.eager_ns, int(answer["eager_ns"])
    return bool(before) and not 1 / DRIFT < now / before < DRIFT


def record_verdict(
    context: Context,
    target: Target,
    node: int,
    variant: int,
    program: Program,
    values: dict[str, int],
    answer: dict[str, Any],
    families: list[Any],
    *,
    confirm: bool,
) -> Scored:
    """Store a measured verdict with its raw samples; the key names all that it depends on."""
    session = context.session
    verdict = session.next_id("verdicts")
    outcome = "UNSURE" if drifted(answer, target) else str(answer["verdict"])
    library = program.library_only
    scored = Scored(
        variant, "LIBRARY" if library and outcome == "FASTER" else outcome, int(answer["ns"]),
        float(answer["ratio"]), float(answer["low"]), min(float(answer["high"]), UNBOUNDED),
        library,
    )  # fmt: skip
    evidence = {name: value for name, value in answer.items() if name not in _IN_COLUMNS}
    with session.together():
        context.say(
            "VariantJudged", target=target.id, node=node, variant=variant, verdict=verdict,
            key=_verdict_key(context, target, program, values, answer), outcome=scored.outcome,
            time_ns=scored.time_ns, eager_ns=int(answer["eager_ns"]), ratio=scored.ratio,
            low=scored.low, high=scored.high, timing=str(answer.get("timing", "call")),
            confirm=confirm, evidence={"families": families, **evidence},
            call_ns=answer.get("call_ns"), eager_call_ns=answer.get("eager_call_ns"),
            advice=answer.get("advice") or None,
        )  # fmt: skip
        session.store_samples(verdict, answer.get("samples", []))
    return scored


_IN_COLUMNS = frozenset(
    {"samples", "ns", "eager_ns", "ratio", "low", "high", "verdict", "timing", "call_ns",
     "eager_call_ns", "advice"}
)  # fmt: skip


def _verdict_key(
    context: Context,
    target: Target,
    program: Program,
    values: dict[str, int],
    answer: dict[str, Any],
) -> str:
    """Program, tunables, target, device with driver and toolchain, judge: what a verdict is of."""
    tuned = ",".join(f"{name}={value}" for name, value in sorted(values.items()))
    sizes = ",".join(f"{name}={size}" for name, size in sorted(target.spec.sizes.items()))
    machine = str(answer.get("machine") or context.place.key)
    parts = (program.key, tuned, target.spec.source_sha, sizes, target.spec.device, machine,
             f"judge {answer.get('judge', 0)}")  # fmt: skip
    return "|".join(parts)
