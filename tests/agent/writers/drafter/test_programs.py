"""What the drafter writes computes what PyTorch computes, for every schedule."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
import torch

from agent.writers.drafter import Schedule, cpp_chunks, cpp_loops, cpp_tiles, tidy

from .cases import CASES
from .harness import AS_BUILT, build, faults, reference, write

if TYPE_CHECKING:
    from pathlib import Path

SCHEDULES = [
    Schedule(),
    Schedule(passes="one", vector="lanes"),
    Schedule(passes="one", keep="row", divide="exact", walk="ahead"),
    Schedule(keep="row", store="stream", threads="dynamic"),
    Schedule(keep="output", vector="auto", walk="tiles"),
    Schedule(launches="chunks", vector="lanes", threads="one"),
    Schedule(launches="chunks", passes="one", store="stream"),
]
SMALL = {"CHUNK": 16, "BLOCK": 8, "LANES": 4, "WIDTH": 4, "TASK": 2, "TILE": 4}


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tensors take the ways that are meant for large ones."""
    monkeypatch.setattr(cpp_chunks, "LEAST_STEPS", 2)
    monkeypatch.setattr(cpp_tiles, "LEAST_TILED", 2)
    monkeypatch.setattr(cpp_loops, "LONG", 12)
    monkeypatch.setattr(tidy, "SHORT_ROW", 4)
    monkeypatch.setattr(cpp_loops, "STREAM_LEAST", 8)


@pytest.mark.usefixtures("short_limits")
@pytest.mark.parametrize("case", CASES)
def test_every_schedule_agrees_with_pytorch(case: str, tmp_path: Path) -> None:
    ref = reference(*CASES[case], name=case)
    built = build(write(ref, SCHEDULES, **SMALL), tmp_path)
    wrong = [fault for one in built for seed in (0, 1) for fault in faults(one, ref.sample(seed))]
    assert not wrong


ROWS = {
    "softmax": CASES["softmax"][0],
    "log_softmax": "def reference(x):\n    return torch.log_softmax(x, -1)",
    "logsumexp": CASES["logsumexp"][0],
    "sum_of_exp": "def reference(x):\n    return (x - x.amax(-1, keepdim=True)).exp().sum(-1)",
    "layer_norm": "def reference(x):\n    return F.layer_norm(x, (37,))",
    "max_min": "def reference(x):\n    return x.amax(-1), x.amin(-1), x.clamp(-1, 1), F.relu(x)",
    "unary": "def reference(x):\n"
    "    return x.exp(), x.tanh(), x.sigmoid(), x.log(), x.erf(), x.expm1(), x.log1p(), x.rsqrt()",
    "halves": "def reference(x):\n    return x.bfloat16(), x.half(), x.half().float() * 2",
}


@pytest.mark.usefixtures("short_limits")
def test_infinities_nan_and_extremes(tmp_path: Path) -> None:
    inf, nan = math.inf, math.nan
    x = torch.randn(10, 37)
    x[0, 3], x[1, 4], x[2, 5] = inf, -inf, nan
    x[3] = -inf
    x[4] = inf
    x[5, :20], x[5, 20:] = -inf, 1.0
    x[6] = 1e30
    x[7] = torch.linspace(-110, 110, 37)
    x[8] = torch.linspace(-3e-38, 3e-38, 37)
    x[9, ::2], x[9, 1::2] = 0.0, -0.0
    written = []
    for name, body in ROWS.items():
        ref = reference(body, "torch.randn(10, 37)", name)
        written += write(ref, [*SCHEDULES[:3], *SCHEDULES[5:]], **SMALL)
    wrong = [f"{one.reference.spec.name} {fault}" for one in build(written, tmp_path)
             for fault in faults(one, [x])]  # fmt: skip
    assert not wrong


@pytest.mark.usefixtures("short_limits")
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_variances_survive_large_means_and_outliers(shift: float, tmp_path: Path) -> None:
    ref = reference("def reference(x):\n    return x.var(-1), x.mean(-1)", "torch.randn(6, 300)")
    x = torch.randn(6, 300) + shift
    x[0, 0], x[1] = 1e6, 3.25
    x[2] = torch.randn(300).pow(7)
    wrong = [f for one in build(write(ref, SCHEDULES, **SMALL), tmp_path) for f in faults(one, [x])]
    assert not wrong


def test_sums_of_many_stay_near_the_exact_sum(tmp_path: Path) -> None:
    body = "def reference(x):\n    return x.sum(-1), x.mean(), x.pow(2).sum()"
    ref = reference(body, "torch.rand(2, 300001)")
    programs = write(ref, [Schedule(), Schedule(vector="lanes"), Schedule(launches="chunks")])
    wrong = [f for one in build(programs, tmp_path, AS_BUILT) for f in faults(one, ref.sample(3))]
    assert not wrong


def test_drafts_compile_without_warnings_as_they_are_built(tmp_path: Path) -> None:
    sizes = {
        "softmax": "torch.randn(300, 1024)",
        "silu_mul": "(torch.randn(70, 4096).bfloat16(), torch.randn(70, 4096).bfloat16())",
        "gelus": "torch.randn(30, 5000)",
        "cross_entropy": "(torch.randn(3, 70000), torch.randint(0, 70000, (3,)))",
    }
    written = []
    for name, inputs in sizes.items():
        written += write(reference(CASES[name][0], inputs, name))
    wrong = [
        f
        for one in build(written, tmp_path, AS_BUILT)
        for f in faults(one, one.reference.sample(0))
    ]
    assert not wrong
