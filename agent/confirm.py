"""Confirming a win: the best variant judged again in a fresh process, with new inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.errors import ForgeError, MachineError
from agent.program import read_program
from agent.work import record_verdict
from store.reading import SessionReader

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from agent.search.target import Target
    from agent.workers.workshop import Workshop
    from store.writing import SessionWriter


async def confirm_best(
    session: SessionWriter,
    workshop: Workshop,
    target: Target,
    facts: dict[str, int],
    lease: Callable[[], AbstractAsyncContextManager[None]],
) -> str:
    """Judge a target's best node again, record whether it held, and return the outcome.

    The winner of many noisy measurements looks better than it is; what is reported as a win is this
    second measurement, paired against eager anew.
    """
    node = target.best or 0
    scored = target.scored[node]
    at = {"target": target.id, "node": node}
    reader = SessionReader(session.path, session.conn)
    variant = next(row for row in reader.variants(node) if row.id == scored.variant)
    stored = reader.program(variant.program)
    if stored is None:
        raise ForgeError(f"the program of node {node} is missing from the session")
    program = read_program(stored.language, stored.source, stored.plan, stored.title)
    session.emit("NodeStage", **at, stage="confirming")
    answer: dict[str, Any]
    try:
        built = await workshop.build(program, variant.tuned)
        bound = program.bind(target.spec, variant.tuned, facts)
        async with lease():
            answer = await workshop.confirm(target.id, str(built["library"]), bound)
            if answer.get("verdict") == "UNSURE":  # the machine was busy: it gets a second chance
                answer = await workshop.confirm(target.id, str(built["library"]), bound)
    except MachineError:
        raise
    except ForgeError as error:
        answer = {"failure": {"message": error.message}}
    if answer.get("failure"):
        session.emit(
            "NodeConfirmed", **at, variant=variant.id, ok=False, outcome="FAILED", ratio=0.0,
            low=0.0, high=0.0, reason=str(answer["failure"]["message"])[:500],
        )  # fmt: skip
        return "FAILED"
    again = record_verdict(
        session, target, node, variant.id, program.key, variant.tuned, answer, [], confirm=True
    )
    held = again.outcome == "FASTER"
    reason = "" if held else f"measured again it is {again.outcome}"
    if again.outcome == "UNSURE":
        reason = "the machine was too busy to tell"
    session.emit(
        "NodeConfirmed", **at, variant=variant.id, ok=held, outcome=again.outcome,
        ratio=again.ratio, low=again.low, high=again.high, reason=reason,
    )  # fmt: skip
    return again.outcome
