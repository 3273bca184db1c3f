"""The worker that judges programs: verbs ``load``, ``calibrate``, ``check``, ``screen``,
``measure``, ``identity``. A program that fails is an answer with ``failure``, not an error.
"""

from __future__ import annotations

import os
from typing import Any

from agent.judge.judge import Judge
from agent.task import TaskSource
from agent.workers.serve import serve

_judge: Judge | None = None


def _the_judge() -> Judge:
    global _judge
    if _judge is None:
        _judge = Judge(log=os.fdopen(os.dup(2), "wb"))
    return _judge


def load(args: dict[str, Any]) -> dict[str, Any]:
    spec = _the_judge().load(args["target"], TaskSource.from_json(args["task"]), args["seed"])
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


if __name__ == "__main__":
    serve({
        "load": load,
        "calibrate": calibrate,
        "check": check,
        "screen": screen,
        "measure": measure,
        "identity": identity,
    })  # fmt: skip
