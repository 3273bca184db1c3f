"""The process that loads and calls candidates. It never sees an expected answer.

Its parent, the judge, lays the memory out, writes the arguments into it, asks for a call and
reads the results from it. Started as ``python -P -m agent.workers.runner SETTINGS``, with
settings as JSON: ``device``, ``memory`` (an inherited file descriptor, on the CPU), ``read``,
``dirs`` and ``scratch`` for the sandbox, which is entered before torch is imported and so before
any thread exists.

Verbs: ``hello``; ``load`` a task, for eager's times; ``run`` one call on shared memory; ``fill``
copies of the arguments for timing; ``time`` sides against each other; ``products`` for the rate
of torch's own matrix product; ``unmap`` the shared memory.
"""

from __future__ import annotations

import json
import sys
from typing import Any

if __name__ == "__main__":
    from agent.workers import sandbox

    _settings = json.loads(sys.argv[1])
    _obtained = sandbox.enter(
        _settings["read"], [_settings["scratch"]], dirs=_settings["dirs"],
        gpu=_settings["device"] != "cpu",
    )  # fmt: skip
else:
    _settings, _obtained = {"memory": -1, "device": "cpu"}, {}

import torch

from agent.errors import WorkerError
from agent.judge.arena import Slot
from agent.judge.process import KILLED
from agent.judge.stopwatch import product_rate
from agent.reference import Reference, load
from agent.task import TaskSource
from agent.workers.serve import serve

if _settings["device"] == "cpu":
    from agent.judge.cpu_side import CpuSide as Side
else:
    from agent.judge.gpu_side import GpuSide as Side  # type: ignore[assignment]


# No side is to pay for what nobody here needs.
torch.set_grad_enabled(False)


_SLOW_NS = 1e8


class _State:
    """What this process holds: its side of the shared memory, references, copies."""

    def __init__(self) -> None:
        self.side = Side(_settings["memory"])
        self.references: dict[int, Reference] = {}
        self.bench: Any = None


_state = _State()


def hello(_: dict[str, Any]) -> dict[str, Any]:
    return {**_obtained, **_state.side.warm_up()}


def load_task(args: dict[str, Any]) -> dict[str, Any]:
    _state.references[args["target"]] = load(TaskSource.from_json(args["task"]))
    return {}


def run(args: dict[str, Any]) -> dict[str, Any]:
    """One call: ``{memory, slots, outputs, library, bound}``; pointers go to the named slots."""
    memory = _state.side.mapped(args["memory"])
    tensors = {item["name"]: memory.tensor(Slot.from_json(item)) for item in args["slots"]}
    with _state.side.faults("the program"):
        _state.side.run(args["library"], args["bound"], tensors, args["outputs"])
    return {}


def unmap(_: dict[str, Any]) -> dict[str, Any]:
    _state.side.unmap()
    return {}


def fill(args: dict[str, Any]) -> dict[str, Any]:
    """Copy cases from shared memory to ``copies`` sets of ordinary tensors, by turns.

    ``{memory, cases: [[slot, ..], ..], copies, mutated, fresh}``; without ``fresh`` the tensors
    stay and only their values change.
    """
    memory = _state.side.mapped(args["memory"])
    cases = [[memory.tensor(Slot.from_json(item)) for item in case] for case in args["cases"]]
    with _state.side.faults("copying arguments"):
        if args["fresh"] or _state.bench is None:
            _state.bench = None  # the old one's memory goes first
            _state.bench = _state.side.bench(cases, args["copies"], args["mutated"])
        else:
            _state.bench.refill(cases)
        _state.side.settle()  # the judge may write to shared memory once this is answered
    return {}


def measure(args: dict[str, Any]) -> dict[str, Any]:
    """Time two sides, each ``{"eager": target}`` or a library with its plan.

    ``{memory, sides: [side, side], outputs, budget_ms, least, calls?, keep?, probe?}``; ``calls``
    asks for call times too, in so many ms; ``keep`` names the slots that the last timed call's
    results of the second side are copied to; ``probe`` has ``args`` for one more call of it, which
    are replaced by those that were timed, and where ``results`` go.
    """
    if _state.bench is None:
        # This process is new: the one that was given the arguments has been killed.
        raise WorkerError(KILLED, code="crashed")
    bench, side = _state.bench, _state.side
    with side.faults("the program, while it was timed"):
        calls = [_call(item, args["outputs"]) for item in args["sides"]]
        result, last, copy = bench.compare(calls, args["budget_ms"] / 1e3, args["least"])
        if args.get("keep"):
            memory = side.mapped(args["memory"])
            for item, value in zip(args["keep"], last, strict=True):
                memory.tensor(Slot.from_json(item)).copy_(value)
            if probe := args["probe"]:
                given, places = (
                    [memory.tensor(Slot.from_json(item)) for item in probe[name]]
                    for name in ("args", "results")
                )
                bench.probe(calls[1], given, places)
        result |= {"call_samples": [], "steps": []}
        # What takes long enough is the device's time, whatever the host does.
        if args.get("calls") and _longest(result["samples"]) < _SLOW_NS:
            result["call_samples"] = bench.call_times(calls, args["calls"] / 1e3)
            if "library" in args["sides"][1]:
                result["steps"] = bench.step_times(calls[1])
        side.settle()
    return {**result, "copy": copy}


def _longest(samples: list[list[float]]) -> float:
    return max((max(pair) for pair in samples), default=0.0)


def _call(side: dict[str, Any], outputs: list[dict[str, Any]]) -> Any:
    if "eager" in side:
        return _state.references[side["eager"]].function
    return _state.side.caller(side["library"], side["names"], outputs, side["bound"])


def products(args: dict[str, Any]) -> dict[str, Any]:
    return {"flops_per_s": product_rate(args["dtype"], args["size"], _settings["device"])}


if __name__ == "__main__":
    serve({
        "hello": hello,
        "load": load_task,
        "run": run,
        "unmap": unmap,
        "fill": fill,
        "time": measure,
        "products": products,
    })  # fmt: skip
