"""The worker that reads references and writes drafts: PyTorch's tracing lives here.

Verbs: ``load`` takes a task up and says what the target is; ``propose`` says what could be tried
for an action; ``write`` answers with a reply, as any writer would.
"""

from __future__ import annotations

from typing import Any

from agent.errors import ForgeError
from agent.operations import operations
from agent.reference import Reference, load
from agent.task import TaskSource
from agent.workers.serve import serve
from agent.writers.drafter import Drafter, Schedule

CPU_ONLY = "the drafter writes C++ for the CPU only so far"
OTHERS = "let a model or a person write this one"

_drafters: dict[int, Drafter | ForgeError] = {}


def load_target(args: dict[str, Any]) -> dict[str, Any]:
    """Load a task's reference: the spec, its traced operations, why it cannot be drafted if so."""
    reference = load(TaskSource.from_json(args["task"]))
    drafter = _drafters[args["target"]] = _drafter(reference)
    refusal = drafter.message if isinstance(drafter, ForgeError) else None
    graph = operations(reference.graph, len(reference.spec.outputs))
    return {"spec": reference.spec.to_json(), "refusal": refusal, "graph": graph}


def _drafter(reference: Reference) -> Drafter | ForgeError:
    """The drafter for this reference, or why there is none."""
    if reference.spec.device != "cpu":
        return ForgeError(CPU_ONLY, OTHERS, code="cannot-draft")
    try:
        return Drafter(reference)
    except ForgeError as error:
        return error
    except RecursionError:
        # It follows chains of operations by calling itself.
        return ForgeError("the reference is too long for the drafter", OTHERS, code="cannot-draft")


def propose(args: dict[str, Any]) -> dict[str, Any]:
    """What the drafter would write for an action, or ``{"exhausted": why}``."""
    drafter = _drafters[args["target"]]
    if isinstance(drafter, ForgeError):
        return {"exhausted": drafter.message}
    schedule = _schedule(drafter, args, set(args["tried"]))
    if schedule is None:
        return {"exhausted": "every schedule that follows from this one was tried"}
    parent = args["parent_schedule"]
    title = schedule.title if parent is None else schedule.title_after(_plain(parent))
    return {"schedule": {**schedule.to_json(), "key": schedule.key}, "title": title}


def write(args: dict[str, Any]) -> dict[str, Any]:
    """The reply for a proposed schedule, as any writer would answer."""
    drafter = _drafters[args["target"]]
    if isinstance(drafter, ForgeError):
        raise drafter
    return {"reply": drafter.write(_plain(args["schedule"]))}


def _plain(schedule: dict[str, Any]) -> Schedule:
    return Schedule.from_json({name: v for name, v in schedule.items() if name != "key"})


def _schedule(drafter: Drafter, args: dict[str, Any], tried: set[str]) -> Schedule | None:
    if args["action"] == "draft":
        options = drafter.drafts()
    else:
        parent = _plain(args["parent_schedule"])
        if args["action"] == "repair":
            plainer = drafter.repair(parent, args["failure"] or {})
            options = [] if plainer is None else [plainer]
        else:
            options = drafter.neighbours(parent)
    return next((option for option in options if option.key not in tried), None)


if __name__ == "__main__":
    serve({"load": load_target, "propose": propose, "write": write})
