"""Briefs made by hand, as the engine could make them: two targets, five questions each."""

from __future__ import annotations

from typing import Any

from agent.task import ArgSpec, OutputSpec, TargetSpec
from agent.writers.brief import (
    Baseline,
    Brief,
    Failure,
    Rule,
    TargetBrief,
    Tried,
    Written,
)

H200 = {
    "sms": 132, "shared": 232448, "shared_sm": 233472, "shared_reserved": 1024, "l2": 62914560,
    "warp": 32, "max_threads": 1024, "threads_sm": 2048, "blocks_sm": 32, "registers": 65536,
    "major": 9, "minor": 0, "cluster": 8,
}  # fmt: skip
XEON = {"cores": 2, "l1": 48 << 10, "l2": 2 << 20, "l3": 260 << 20, "vector": 64, "line": 64}

_ATTENTION = """\
import torch

MUTATES = ("cache",)


def reference(cache, new, at, scale=0.125):
    cache.index_copy_(1, at, new)
    return (cache.float() * scale).softmax(-1).to(cache.dtype)
"""
_NORM = """\
import torch

RANGES = {"rows": (1, 8192)}


def reference(x, weight):
    return torch.rms_norm(x, (x.shape[-1],), weight)


def inputs(rows=512):
    return torch.randn(rows, 4099), torch.randn(4099)
"""


def _norm(rows: int, neighbours: tuple[TargetSpec, ...] = ()) -> TargetSpec:
    x = ArgSpec("x", "input", "float32", (rows, 4099), (4099, 1))
    weight = ArgSpec("weight", "weight", "float32", (4099,), (1,), 16)
    out = OutputSpec("out", "float32", (rows, 4099), (4099, 1))
    moved = 4 * rows * 4099
    return TargetSpec("rmsnorm", "cpu", (x, weight), {}, (out,), moved + 16396, moved, 0, "",
                      {"rows": rows}, {"rows": (1, 8192)}, neighbours)  # fmt: skip


def cpp_target() -> TargetBrief:
    """A ranged size, rows that no vector fits, and nothing measured but eager."""
    spec = _norm(512, tuple(map(_norm, (1, 513, 8192))))
    graph = ("pow_1: float32[512, 4099] = pow(x, 2)", "out = mul_1")
    return TargetBrief("rmsnorm", "cpp", _NORM, graph, spec, None,
                       (Baseline("eager", 2_210_000, 2_210_000, 1.0),), None,
                       "Intel(R) Xeon(R) Processor", XEON, {})  # fmt: skip


def cuda_target() -> TargetBrief:
    """An argument changed in place, strides, a scalar, and all that can be measured."""
    cache = ArgSpec("cache", "input", "bfloat16", (8, 4096, 128), (1048576, 128, 1), 64, True)
    new = ArgSpec("new", "input", "bfloat16", (8, 1, 128), (256, 256, 2))
    at = ArgSpec("at", "input", "int64", (1,), (1,))
    out = OutputSpec("out", "bfloat16", (8, 4096, 128), (524288, 128, 1))
    spec = TargetSpec("attention", "cuda", (cache, new, at), {"scale": 0.125, "causal": True},
                      (out,), 8_390_656, 8_390_656, 24_000_000_000, "")  # fmt: skip
    graph = (
        "index_copy: bfloat16[8, 4096, 128] = index_copy(cache, 1, at, new)",
        "out = _to_copy_1",
        "what becomes of changed argument 1 = index_copy",
    )
    baselines = (
        Baseline("eager", 56_600, 73_000, 1.0),
        Baseline("compile-max", 38_300, 61_000, 1.478),
        Baseline("compile", None, None, 1.27),
    )
    rates = {"read": 4.6e12, "cache-read": 1.1e13, "products-bfloat16": 7.2e14}
    return TargetBrief("attention", "cuda", _ATTENTION, graph, spec, 0.183, baselines, 34_300,
                       "NVIDIA H200", H200, rates)  # fmt: skip


CUDA_SOURCE = """\
extern "C" __global__ void __launch_bounds__(THREADS) f(const uint4* x, uint4* out) {
    out[blockIdx.x * THREADS + threadIdx.x] = x[blockIdx.x * THREADS + threadIdx.x];
}
"""
CUDA_PLAN = """\
[tune]
THREADS = [256, 512]

[[launch]]
kernel = "f"
grid = "ceil_div(out.numel // 8, THREADS)"
block = "THREADS"
args = ["cache", "out"]
"""
CPP_SOURCE = """\
extern "C" void f(const float* x, float* out, int64_t n) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) out[i] = x[i];
}
"""
CPP_PLAN = """\
[[launch]]
kernel = "f"
args = ["x", "out", "x.numel"]
"""


def written(language: str, node: int = 3, **changes: Any) -> Written:
    """A program that was measured."""
    cuda = language == "cuda"
    known: dict[str, Any] = {
        "node": node,
        "title": "One block a row, the row in registers",
        "source": CUDA_SOURCE if cuda else CPP_SOURCE,
        "plan": CUDA_PLAN if cuda else CPP_PLAN,
        "tuned": {"THREADS": 512} if cuda else {},
        "outcome": "FASTER",
        "ratio": 1.391,
        "low": 1.385,
        "high": 1.397,
        "gain": 0.941,
        "time_ns": 40_700 if cuda else 1_590_000,
        "call_ns": 45_100 if cuda else 1_590_000,
        "sol_share": 0.84 if cuda else None,
    }
    if cuda:
        known["variants"] = (({"THREADS": 512}, 40_500), ({"THREADS": 256}, 42_100))
        known["steps"] = (("f", 31_200), ("join", 8_100))
        known["kernels"] = {
            "f": {
                "registers": 64, "shared": 4096, "local": 16, "spill_stores": 8, "spill_loads": 12,
                "blocks": 2, "warps": 32, "share": 0.5, "limiter": "registers",
            }
        }  # fmt: skip
        known["advice"] = (
            {
                "name": "launch-count",
                "finding": "starting kernels takes a good part of the time",
                "evidence": "2 steps a call at about 1.2 µs between two, of 40.7 µs",
                "suggestion": "join steps: one kernel, a cluster, or a cooperative grid",
            },
        )
    return Written(**{**known, **changes})


def failed(language: str, failure: Failure) -> Written:
    """A program that fell on some rung."""
    nothing = dict.fromkeys(("ratio", "low", "high", "gain", "time_ns", "call_ns", "sol_share"))
    return written(language, 7, failure=failure, outcome="FAILED", steps=(), kernels={},
                   advice=(), **nothing)  # fmt: skip


BUILD = Failure(
    "build", "compile", 'line 2: identifier "__stcg" is undefined',
    log='program.cu:2: error: identifier "__stcg" is undefined\n      __stcg(out, x[0]);\n      ^',
)  # fmt: skip
CHECK = Failure(
    "check", "wrong-answer",
    "out is wrong in 512 of 2098688 elements (normal inputs; tail of the rows, from column 4096): "
    "at [0, 4096] got nan, expected 0.25",
    sketch="512 of 2098688 elements are wrong\nwrong columns: from 4096 to 4098, the last 3\n"
    "of the wrong ones: 512 never written\nat [0, 4096]: got nan, expected 0.25",
)  # fmt: skip
RULES = (
    Rule("Do not include <cuda.h>-only types; CUtensorMap is known already.", 4),
    Rule("Ask for at most device.shared bytes of shared memory.", 2),
)
LINEAGE = (
    Tried(1, "Three kernels, one per operation", "draft", 0.9),
    Tried(2, "Two of them fused", "improve", 1.2),
    Tried(3, "One block a row, the row in registers", "improve", 1.391),
)
OTHERS = (
    Tried(5, "Two rows a block", "improve", 1.42),
    Tried(6, "Bulk copies with TMA", "improve", None, "check: wrong in 12 of 4096 elements"),
    Tried(8, "A cluster of 4 blocks a row", "improve", None, "not judged yet"),
)
HINT = "Try to keep the whole row in shared memory.\nThe cache is never read elsewhere."


def brief(language: str, what: str) -> Brief:
    """``draft``, ``small``, ``large``, ``repair`` or ``combine`` for a language."""
    target = cuda_target() if language == "cuda" else cpp_target()
    if what == "draft":
        tried = () if language == "cpp" else OTHERS
        return Brief(target, "draft", tried=tried, rules=RULES)
    if what == "repair":
        failure = BUILD if language == "cuda" else CHECK
        return Brief(target, "repair", parent=failed(language, failure), lineage=LINEAGE[:1])
    if what == "combine":
        second = written(language, 5, title="Two rows a block", ratio=1.42, sol_share=None)
        return Brief(target, "combine", parent=written(language), second=second, tried=OTHERS)
    return Brief(target, "improve", what, written(language), None, LINEAGE, OTHERS,
                 HINT if what == "large" else "", RULES)  # fmt: skip


EACH = [
    (language, what)
    for language in ("cuda", "cpp")
    for what in ("draft", "small", "large", "repair", "combine")
]
