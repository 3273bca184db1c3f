"""The process that loads and calls candidates. It never sees an expected answer.

Its parent, the judge, lays the memory out, writes the arguments into it, asks for a call and
reads the results from it. Started as ``python -P -m agent.workers.runner SETTINGS``, with
settings as JSON: ``memory`` (an inherited file descriptor), ``read``, ``dirs`` and ``scratch``
for the sandbox, which is entered before torch is imported and so before any thread exists.

Verbs: ``hello``; ``load`` a task, for eager's times; ``run`` one call on shared memory; ``fill``
copies of the arguments for timing; ``time`` sides against each other; ``products`` for the rate
of torch's own matrix product.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

if __name__ == "__main__":
    from agent.workers import sandbox

    _settings = json.loads(sys.argv[1])
    _obtained = sandbox.enter(_settings["read"], [_settings["scratch"]], dirs=_settings["dirs"])
else:
    _settings, _obtained = {"memory": -1}, {}

import torch

from agent.errors import WorkerError
from agent.judge.arena import Memory, Slot
from agent.judge.launch import Library, load_openmp
from agent.judge.process import KILLED
from agent.judge.stopwatch import Bench, product_rate
from agent.reference import Reference, load
from agent.task import TaskSource
from agent.workers.serve import serve


class _State:
    """What this process holds: one mapping, and by key the references, libraries and copies."""

    def __init__(self) -> None:
        self.memory: Memory | None = None
        self.size = 0
        self.references: dict[int, Reference] = {}
        self.libraries: dict[str, Library] = {}
        self.bench: Bench | None = None
        self.openmp = ""

    def mapped(self, size: int) -> Memory:
        if self.memory is None or size != self.size:
            self.memory, self.size = Memory(_settings["memory"], size), size
        return self.memory

    def library(self, path: str) -> Library:
        if path not in self.libraries:
            self.libraries[path] = Library(path)
        return self.libraries[path]


_state = _State()


def hello(_: dict[str, Any]) -> dict[str, Any]:
    _state.openmp = load_openmp()
    # The pool exists from here on, and a first use's costs are behind us.
    torch.ones(1 << 20).sum()
    return {
        **_obtained,
        "openmp": os.path.basename(_state.openmp),
        "threads": torch.get_num_threads(),
    }


def load_task(args: dict[str, Any]) -> dict[str, Any]:
    _state.references[args["target"]] = load(TaskSource.from_json(args["task"]))
    return {}


def run(args: dict[str, Any]) -> dict[str, Any]:
    """One call: ``{size, slots, library, launches}``; pointers go to the named slots."""
    memory = _state.mapped(args["size"])
    addresses = {item["name"]: memory.address(Slot.from_json(item)) for item in args["slots"]}
    launch = _state.library(args["library"]).bind(args["launches"])
    launch.point(addresses)
    launch()
    return {}


def fill(args: dict[str, Any]) -> dict[str, Any]:
    """Copy cases from shared memory to ``copies`` sets of ordinary tensors, by turns.

    ``{size, cases: [[slot, ..], ..], copies, fresh}``; without ``fresh`` the tensors stay and
    only their values change.
    """
    memory = _state.mapped(args["size"])
    cases = [[memory.tensor(Slot.from_json(item)) for item in case] for case in args["cases"]]
    if args["fresh"] or _state.bench is None:
        _state.bench = Bench(cases, args["copies"])
    else:
        _state.bench.refill(cases)
    return {}


def measure(args: dict[str, Any]) -> dict[str, Any]:
    """Time two sides, each ``{"eager": target}`` or a library with its plan.

    ``{sides: [side, side], outputs, budget_ms, least, keep?, probe?}``; ``keep`` names the slots
    that the last timed call's results of the second side are copied to; ``probe`` has ``args`` for
    one more call of it, which are replaced by those that were timed, and where ``results`` go.
    """
    if _state.bench is None:
        # This process is new: the one that was given the arguments has been killed.
        raise WorkerError(KILLED, code="crashed")
    bench = _state.bench
    calls = [_side(side, args["outputs"]) for side in args["sides"]]
    result, last, copy = bench.compare(calls, args["budget_ms"] / 1e3, args["least"])
    if args.get("keep"):
        memory = _state.mapped(args["size"])
        for item, value in zip(args["keep"], last, strict=True):
            memory.tensor(Slot.from_json(item)).copy_(value)
        if probe := args["probe"]:
            given, places = (
                [memory.tensor(Slot.from_json(item)) for item in probe[name]]
                for name in ("args", "results")
            )
            bench.probe(calls[1], given, places)
    return {**result, "copy": copy}


def _side(side: dict[str, Any], outputs: list[dict[str, Any]]) -> Any:
    if "eager" in side:
        return _state.references[side["eager"]].function
    library = _state.library(side["library"])
    return library.caller(side["names"], outputs, side["bound"])


def products(args: dict[str, Any]) -> dict[str, Any]:
    return {"flops_per_s": product_rate(args["dtype"], args["size"])}


if __name__ == "__main__":
    serve({
        "hello": hello,
        "load": load_task,
        "run": run,
        "fill": fill,
        "time": measure,
        "products": products,
    })  # fmt: skip
