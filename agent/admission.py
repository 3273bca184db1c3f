"""Which tasks a session takes up: references loaded, or refused with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.agenda import NO_WRITER
from agent.errors import ForgeError, MachineError, TaskError
from agent.restore import handed_in
from agent.search.budget import Progress
from agent.search.target import Target
from agent.task import TargetSpec, open_task
from agent.writers.llm.secrets import held

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.context import Context, Place


def require_a_writer(config: Mapping[str, Any], place: Place, others_write: bool) -> None:
    """Refuse a session that nobody could write for.

    Raises:
        ForgeError: ``no-writer``.
    """
    if place.language == "cuda" and not (others_write or config.get("programs")):
        raise ForgeError(
            NO_WRITER,
            "name a model (--model NAME), answer the prompts yourself (--inbox), or hand a "
            "program of your own in (--program FILE)",
            code="no-writer",
        )


async def load(context: Context, target: Target) -> None:
    """Load a target's reference into the workers."""
    answer = await context.workshop.load(target.id, target.task)
    target.refusal = str(answer.get("refusal") or "")
    target.graph = _graph(answer)


async def admit(
    context: Context, config: Mapping[str, Any], number: int, spec: str, *, drafted: bool
) -> Target:
    """A task as a new target of the session.

    Args:
        config: The session's.
        number: Of the task, from 1.
        spec: The task as it was given.
        drafted: Whether there is nobody but the drafter to write for it.

    Raises:
        ForgeError: It cannot be used; the session says so.
    """
    programs = handed_in(config, number)
    try:
        task = open_task(spec, context.place.device)
        if found := held(task.text):
            raise TaskError(
                f"{task.name} holds the value of {found}, and would take it into prompts and the "
                "session",
                "take the key out of the file",
                code="task-secret",
            )
        answer = await context.workshop.load(number, task)
        refusal = str(answer.get("refusal") or "")
        if refusal and context.place.language == "cpp" and drafted and not programs:
            raise TaskError(
                f"{task.name} cannot be drafted: {refusal}",
                "name a model (--model NAME), or hand a program of your own in: --program FILE",
                code="cannot-draft",
            )
    except MachineError:
        raise
    except ForgeError as error:
        context.say("TargetRefused", target=number, name=spec[:200], code=error.code,
                    message=error.message, cure=error.cure)  # fmt: skip
        raise
    target = Target(
        number, task.name, task, TargetSpec.from_json(answer["spec"]), Progress(0, None),
        refusal=refusal, graph=_graph(answer), handed_in=programs,
    )  # fmt: skip
    context.say("TargetAdded", target=number, name=task.name, spec=answer["spec"],
                task=task.to_json())  # fmt: skip
    return target


def _graph(answer: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(line) for line in answer.get("graph") or ())
