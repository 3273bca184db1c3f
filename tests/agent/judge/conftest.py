"""One judge for all tests here, and a short way to have a program checked."""

from __future__ import annotations

import pytest

from agent.devices import open_device
from agent.judge.judge import Judge
from agent.task import TaskSource

ROWS, COLUMNS = 24, 333

TASKS = {
    "softmax": f"""
import torch
def reference(x):
    return torch.softmax(x, dim=-1)
def inputs():
    return [torch.randn({ROWS}, {COLUMNS})]
""",
    "relu": f"""
import torch
def reference(x):
    return torch.relu(x)
def inputs():
    return [torch.randn({ROWS}, {COLUMNS})]
""",
    "rowsum": """
import torch
def reference(x):
    return x.sum(-1)
def inputs():
    return [torch.randn(16, 4096)]
""",
    "argmax": f"""
import torch
def reference(x):
    return x.argmax(-1)
def inputs():
    return [torch.randn({ROWS}, {COLUMNS})]
""",
    "linear": """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(128)
    def forward(self, x):
        return self.norm(x)
def get_inputs():
    return [torch.randn(32, 128)]
""",
    "half": """
import torch
def reference(x):
    return (x.float() * 2 + 1).to(torch.bfloat16), x > 0
def inputs():
    return [torch.randn(20, 50).to(torch.bfloat16)]
""",
    "strided": """
import torch
def reference(x):
    return x.t().contiguous() * 3
def inputs():
    return [torch.randn(40, 70)[:, :50]]
""",
}


def plan(*args, kernel="kernel", scratch=()):
    """A bound plan: names are tensors, ints are int64, floats are float32."""
    bound = []
    for arg in args:
        if isinstance(arg, str):
            bound.append({"tensor": arg})
        else:
            kind = "int64" if isinstance(arg, int) else "float32"
            bound.append({"type": kind, "value": arg})
    steps = [{"kernel": kernel, "args": bound}]
    return {"scratch": list(scratch), "tensormaps": [], "steps": steps, "neighbours": []}


class Bench:
    """Targets by name, loaded when first asked for."""

    def __init__(self, cache):
        self.cache = cache
        self.device = open_device("cpu")
        self.judge = Judge(run_seconds=2.0)
        self.targets = {}

    def target(self, name):
        if name not in self.targets:
            kind = "kernelbench" if "class Model" in TASKS[name] else "plain"
            self.targets[name] = len(self.targets) + 1
            source = TaskSource(kind, name, "", TASKS[name], "cpu")
            self.judge.load(self.targets[name], source, 77)
        return self.targets[name]

    def build(self, source, values=None):
        text = "#include <cmath>\n#include <cstdint>\n#include <algorithm>\n" + source
        return self.device.build(text, values or {}, ["kernel"], self.cache).library

    def check(self, task, source, bound, values=None):
        return self.judge.check(self.target(task), self.build(source, values), bound)

    def measure(self, task, source, bound, budget_ms=200):
        return self.judge.measure(self.target(task), self.build(source), bound, budget_ms)


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    made = Bench(tmp_path_factory.getbasetemp() / "cache")
    yield made
    made.judge.close()
