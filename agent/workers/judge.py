"""The worker that judges programs, on the device of the first task that it is given.

Verbs ``load``, ``calibrate``, ``check``, ``screen``, ``measure``, ``identity``, ``sanitize``,
``advise``. A program that fails is an answer with ``failure``, not an error.
"""

from __future__ import annotations

import os
from typing import Any

from agent.judge.judge import Judge
from agent.judge.verdict import Timed
from agent.task import TaskSource
from agent.workers.serve import serve

_judge: Judge | None = None


def _the_judge(device: str = "") -> Judge:
    global _judge
    if _judge is None:
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


if __name__ == "__main__":
    serve({
        "load": load,
        "calibrate": calibrate,
        "check": check,
        "screen": screen,
        "measure": measure,
        "identity": identity,
        "sanitize": sanitize,
        "advise": advise,
    })  # fmt: skip
