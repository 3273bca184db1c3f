"""Confirming a win: the best variant judged again in a fresh process, with new inputs.

A win must hold a second time against eager, be told against the fastest baseline, and on a GPU
leave the sanitizer's tools without a complaint.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.errors import ForgeError, MachineError
from agent.program import read_program
from agent.search.target import fastest_baseline
from agent.work import record_verdict, timed_facts
from store.reading import SessionReader

if TYPE_CHECKING:
    from agent.context import Context
    from agent.program import Bound, Program
    from agent.search.target import Target
    from agent.workers.workshop import Workshop

Baselines = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Beyond:
    """What a second measurement that came out FASTER is completed by.

    Attributes:
        against: ``{"name", "ratio", "low", "high", "direct"}``: the fastest baseline's time over
            the program's.
        sanitizer: What each tool said; None where there are none.
        complaint: Why the win is refused, "" if it is not.
    """

    against: dict[str, Any]
    sanitizer: dict[str, str] | None
    complaint: str


async def go_beyond(
    workshop: Workshop,
    target: int,
    language: str,
    library: str,
    bound: Bound,
    answer: dict[str, Any],
    baselines: Baselines,
) -> Beyond:
    """Compare a confirmed program with the fastest baseline; look for faults that no check sees.

    Args:
        answer: What the second measurement against eager said.
        baselines: Of the target, as ``BaselineMeasured`` has them.

    Raises:
        MachineError: The machine lacks something.
    """
    _, name = fastest_baseline(baselines)
    against = composed(answer, name, baselines)
    if language != "cuda":
        return Beyond(against, None, "")
    if name != "eager":
        try:
            found = await workshop.against(target, name, library, bound)
        except MachineError:
            raise
        except ForgeError as error:
            found = {"error": error.message}
        if not found.get("error"):
            figures = {part: float(found[part]) for part in ("ratio", "low", "high")}
            against = {"name": name, **figures, "direct": True}
    try:
        sanitizer = await workshop.sanitize(target, library, bound)
    except MachineError:
        raise
    except ForgeError as error:
        sanitizer = {"memcheck": f"skipped: {error.message}"[:300]}
    return Beyond(against, sanitizer, _complaint(sanitizer))


def composed(answer: dict[str, Any], name: str, baselines: Baselines) -> dict[str, Any]:
    """The program against a baseline, from each one's speedup over eager.

    The interval is that of a quotient of independent estimates: half-widths on the logarithmic
    scale add like errors do, as the root of the sum of their squares.
    """
    own = tuple(float(answer[part]) for part in ("ratio", "low", "high"))
    if name == "eager":
        return {"name": name, **dict(zip(("ratio", "low", "high"), own, strict=True)),
                "direct": True}  # fmt: skip
    other = tuple(float(baselines[name][part]) for part in ("ratio", "low", "high"))
    ratio = own[0] / other[0]
    down = math.hypot(_log(own[0], own[1]), _log(other[2], other[0]))
    up = math.hypot(_log(own[2], own[0]), _log(other[0], other[1]))
    return {"name": name, "ratio": ratio, "low": ratio * math.exp(-down),
            "high": ratio * math.exp(min(up, 20.0)), "direct": False}  # fmt: skip


def _log(upper: float, lower: float) -> float:
    return math.log(upper / max(lower, 1e-9)) if upper > lower else 0.0


def _complaint(sanitizer: dict[str, str]) -> str:
    for tool, said in sanitizer.items():
        if said != "clean" and not said.startswith("skipped"):
            return f"{tool}: {said}"[:500]
    return ""


async def confirm_best(context: Context, target: Target) -> str:
    """Judge a target's best node again, record whether it held, and return the outcome.

    The winner of many noisy measurements looks better than it is; what is reported as a win is this
    second measurement, paired against eager anew.
    """
    node = target.best or 0
    at = {"target": target.id, "node": node}
    reader = SessionReader(context.session.path, context.session.conn)
    chosen = target.scored[node].variant
    variant = next(row for row in reader.variants(node) if row.id == chosen)
    stored = reader.program(variant.program)
    if stored is None:
        raise ForgeError(f"the program of node {node} is missing from the session")
    program = read_program(stored.language, stored.source, stored.plan, stored.title)
    context.say("NodeStage", **at, stage="confirming")
    answer, beyond = await _judged_again(context, target, program, variant.tuned)
    if answer.get("failure"):
        context.say(
            "NodeConfirmed", **at, variant=variant.id, ok=False, outcome="FAILED", ratio=0.0,
            low=0.0, high=0.0, reason=str(answer["failure"]["message"])[:500],
        )  # fmt: skip
        return "FAILED"
    again = record_verdict(
        context, target, node, variant.id, program, variant.tuned, answer, [], confirm=True
    )
    outcome = "FAILED" if beyond and beyond.complaint else again.outcome
    context.say(
        "NodeConfirmed", **at, variant=variant.id, ok=outcome == "FASTER", outcome=outcome,
        ratio=again.ratio, low=again.low, high=again.high, reason=_reason(outcome, beyond),
        against=beyond.against if beyond else None,
        sanitizer=beyond.sanitizer if beyond else None,
    )  # fmt: skip
    return outcome


async def _judged_again(
    context: Context, target: Target, program: Program, values: dict[str, int]
) -> tuple[dict[str, Any], Beyond | None]:
    """The second measurement, or a failure; and what goes beyond it if it came out FASTER."""
    workshop, place = context.workshop, context.place
    try:
        built = await workshop.build(program, values)
        library = str(built["library"])
        bound = program.bind(target.spec, values, place.facts)
        async with context.leased():
            answer = await workshop.confirm(target.id, library, bound)
            if answer.get("verdict") == "UNSURE":  # the machine was busy: it gets a second chance
                answer = await workshop.confirm(target.id, library, bound)
            if answer.get("verdict") != "FASTER":
                return answer, None
            beyond = await go_beyond(
                workshop, target.id, place.language, library, bound, answer, target.baselines
            )
            if place.language == "cuda":
                facts = timed_facts(dict(built.get("detail") or {}), answer, target)
                answer |= await workshop.advise(target.id, library, bound, facts, counters=True)
    except MachineError:
        raise
    except ForgeError as error:
        return {"failure": {"message": error.message}}, None
    return answer, beyond


def _reason(outcome: str, beyond: Beyond | None) -> str:
    if beyond and beyond.complaint:
        return beyond.complaint
    if outcome == "UNSURE":
        return "the machine was too busy to tell"
    return "" if outcome == "FASTER" else f"measured again it is {outcome}"
