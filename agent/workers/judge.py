"""The worker that judges programs, on the device of the first task that it is given.

Verbs ``load``, ``calibrate``, ``check``, ``screen``, ``measure``, ``identity``, ``sanitize``,
``advise``. A program that fails is an answer with ``failure``, not an error.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from agent.judge.judge import Judge
from agent.judge.verdict import Timed
from agent.task import TaskSource
from agent.workers.serve import serve

if TYPE_CHECKING:
    from collections.abc import Callable

    Handler = Callable[[dict[str, Any]], dict[str, Any]]

_judge: Judge | None = None
_on_gpu = False


def _the_judge(device: str = "") -> Judge:
    global _judge, _on_gpu
    if _judge is None:
        _on_gpu = device == "cuda"
        _judge = Judge(device or "cpu", log=os.fdopen(os.dup(2), "wb"))
    return _judge


def load(args: dict[str, Any]) -> dict[str, Any]:
    task = TaskSource.from_json(args["task"])
    spec = _the_judge(task.device).load(args["target"], task, args["seed"])
    return {"spec": spec.to_json()}


def calibrate(args: dict[str, Any]) -> dict[str, Any]:
    result = _the_judge().calibrate(args["target"], args.get("machine", ""), args.get("cache", ""))
    return result.to_json()


def check(args: dict[str, Any]) -> dict[str, Any]:
    return _the_judge().check(args["target"], args["library"], args["bound"]).to_json()


def screen(args: dict[str, Any]) -> dict[str, Any]:
    judge, budget = _the_judge(), float(args["budget_ms"])
    return judge.screen(args["target"], args["library"], args["bound"], budget).to_json()


def measure(args: dict[str, Any]) -> dict[str, Any]:
    judge, budget = _the_judge(), float(args["budget_ms"])
    return judge.measure(args["target"], args["library"], args["bound"], budget).to_json()


def identity(args: dict[str, Any]) -> dict[str, Any]:
    return _the_judge().identity(args["target"]).to_json()


def sanitize(args: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = dict(
        _the_judge().sanitize(args["target"], args["library"], args["bound"])
    )
    return found


def advise(args: dict[str, Any]) -> dict[str, Any]:
    steps = tuple((name, ns) for name, ns in args["steps"])
    timed = Timed(args["detail"], args["ns"], args["sol_ns"], steps)
    return _the_judge().advise(
        args["target"], args["library"], args["bound"], timed, counters=args["counters"]
    )


def _watched(handler: Handler) -> Handler:
    """A handler whose faults on a GPU are told for what they are: no program's, but the machine's.

    They end the session with a cure; as a mere fault they would fail one node after the other.
    """

    def handle(args: dict[str, Any]) -> dict[str, Any]:
        try:
            return handler(args)
        except RuntimeError as error:
            if not _on_gpu:
                raise
            from agent.judge.gpu_kit import of_the_machine

            with of_the_machine("judging"):
                raise error

    return handle


if __name__ == "__main__":
    handlers: dict[str, Handler] = {
        "load": load,
        "calibrate": calibrate,
        "check": check,
        "screen": screen,
        "measure": measure,
        "identity": identity,
        "sanitize": sanitize,
        "advise": advise,
    }
    serve({verb: _watched(handler) for verb, handler in handlers.items()})
