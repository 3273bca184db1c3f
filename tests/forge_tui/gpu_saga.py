"""A search on a GPU told as events: baselines, both times, advice, a foreign and a library node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from store.sessions import create
from store.writing import SessionWriter

if TYPE_CHECKING:
    from pathlib import Path

CONFIG: dict[str, Any] = {
    "tasks": ["suite:softmax"], "device": "cuda", "nodes": 12, "minutes": 10.0, "patience": 10,
    "baselines": ["eager", "compile", "compile-max"],
}  # fmt: skip
SOURCE = """\
#include <cuda_bf16.h>

extern "C" __global__ void softmax_rows(const __nv_bfloat16* x, __nv_bfloat16* out, int64_t cols) {
    extern __shared__ float row[];
    // ...
}
"""
PLAN = """\
[tune]
THREADS = [256, 512]

[[launch]]
kernel = "softmax_rows"
grid = "x.shape[0]"
block = "THREADS"
shared = "4 * x.shape[1]"
args = ["x", "out", "x.shape[1]"]
"""
BUILT: dict[str, Any] = {
    "arch": "sm_90a",
    "kernels": {
        "softmax_rows": {
            "registers": 40, "shared": 2048, "local": 0, "spill_stores": 0, "spill_loads": 0,
            "occupancy": {"blocks": 6, "warps": 48, "share": 0.75, "limiter": "registers"},
        },
        "softmax_tail": {
            "registers": 168, "shared": 0, "local": 64, "spill_stores": 64, "spill_loads": 96,
            "occupancy": {"blocks": 2, "warps": 16, "share": 0.25, "limiter": "registers"},
        },
    },
    "access": {"softmax_rows": {"load_bytes": 16, "store_bytes": 16, "atomics": 0}},
}  # fmt: skip
FAMILIES = ("normal", "wide range", "heavy tails", "constant rows", "special values",
            "structured", "small integers", "normal @rows=1", "normal @rows=4097",
            "special values @rows=4097")  # fmt: skip
CONDITIONS = {"sm_mhz": 1980, "mem_mhz": 2619, "temperature": 41, "power_w": 412.5,
              "throttle": ["power cap"]}  # fmt: skip
ADVICE = [
    {"finding": "softmax_tail spills 160 bytes", "evidence": "168 registers of 168 allowed",
     "suggestion": "fewer rows a thread, or launch bounds of 128"},
    "the grid of 96 blocks leaves 36 of 132 multiprocessors idle",
]  # fmt: skip
SANITIZER = {"memcheck": "clean", "racecheck": "clean",
             "initcheck": "skipped: too slow for this size"}  # fmt: skip
OTHER = "Some Other GPU, driver 550.1"


def families() -> list[dict[str, Any]]:
    return [
        {"family": name, "seed": 1, "max_error": 1.2e-3 * (at + 1), "eager_error": 9.1e-4,
         "worst": 0.2 + at / 40, "ok": True, "skipped": ""}
        for at, name in enumerate(FAMILIES)
    ]  # fmt: skip


class GpuSaga:
    """Writes a search as an engine on a GPU would; this process is the engine."""

    def __init__(self) -> None:
        self.path: Path = create("suite:softmax", CONFIG)
        self.writer = SessionWriter(self.path)
        emit = self.writer.emit
        emit("EngineStarted", pid=4242, host="box", version="0.1.0", machine={})
        emit("TargetAdded", target=1, name="softmax", task={}, spec={
            "name": "softmax", "device": "cuda", "outputs": [], "args": [
                {"name": "x", "kind": "input", "dtype": "bfloat16", "shape": [4096, 8192]}],
        })  # fmt: skip
        self.measured()

    def measured(self) -> None:
        emit = self.writer.emit
        emit("TargetMeasured", target=1, eager_ns=68_000, sol_ns=29_000, floor_ns=20_000,
             baselines={"eager": {"ns": 68_000, "call_ns": 74_000}}, detail={})  # fmt: skip
        emit("BaselineMeasured", target=1, name="compile", value={
            "ratio": 1.62, "low": 1.6, "high": 1.64, "ns": 42_000, "call_ns": 61_000,
            "seconds": 9.1, "cached": False})  # fmt: skip
        emit("BaselineMeasured", target=1, name="compile-max",
             value={"error": "Triton has no working compiler"})  # fmt: skip

    def node(self, ratio: float, *, outcome: str = "FASTER", parent: int | None = None) -> int:
        """One scored node."""
        emit, number = self.writer.emit, self.writer.next_id("nodes")
        variant, verdict = self.writer.next_id("variants"), self.writer.next_id("verdicts")
        at = {"target": 1, "node": number}
        library = outcome == "LIBRARY"
        emit("NodeCreated", **at, parent=parent, second_parent=None, action="draft",
             writer="person", model=None)  # fmt: skip
        self.writer.store_program(f"hash{number}", "cuda", SOURCE, PLAN, "one block a row")
        emit("ProgramWritten", **at, program=f"hash{number}", language="cuda", schedule=None,
             title="a matrix product of the library" if library else "one block a row, 16 bytes",
             library=library)  # fmt: skip
        emit("VariantBuilt", **at, variant=variant, values={"THREADS": 256}, seconds=0.21,
             cached=False, detail=BUILT)  # fmt: skip
        spread = {"ratio": ratio, "low": ratio * 0.98, "high": ratio * 1.02}
        emit("VariantJudged", **at, variant=variant, verdict=verdict, key="k", outcome=outcome,
             time_ns=int(68_000 / ratio), eager_ns=68_000, timing="device", confirm=False,
             call_ns=int(70_000 / ratio), eager_call_ns=74_000, advice=ADVICE, **spread,
             evidence={"families": families(), "conditions": CONDITIONS, "call_ratio": 1.06 * ratio,
                       "machine": OTHER, "inner": 20})  # fmt: skip
        emit("NodeScored", **at, variant=variant, outcome=outcome, time_ns=int(68_000 / ratio),
             sol_fraction=ratio * 29 / 68, reward=0.1, seconds={"timing": 0.4},
             **spread)  # fmt: skip
        return number

    def best(self, node: int, ratio: float) -> None:
        self.writer.emit("BestImproved", target=1, node=node, variant=1, ratio=ratio,
                         time_ns=int(68_000 / ratio), of_nodes=node)  # fmt: skip

    def confirm(self, node: int, ratio: float) -> None:
        """Judged again in a fresh process, against the fastest baseline too."""
        at = {"target": 1, "node": node, "variant": node}
        spread = {"ratio": ratio, "low": ratio * 0.99, "high": ratio * 1.01, "outcome": "FASTER"}
        self.writer.emit(
            "VariantJudged", **at, verdict=self.writer.next_id("verdicts"), key="k",
            time_ns=int(68_000 / ratio), eager_ns=68_000, timing="device", confirm=True,
            call_ns=int(70_000 / ratio), eager_call_ns=74_000, evidence={}, **spread,
        )  # fmt: skip
        against = {"name": "compile", "ratio": ratio / 1.62, "low": 1.2, "high": 1.3,
                   "direct": True}  # fmt: skip
        self.writer.emit("NodeConfirmed", **at, ok=True, reason="", against=against,
                         sanitizer=SANITIZER, **spread)  # fmt: skip

    def fail(self, reason: str) -> None:
        """The engine gives up."""
        self.writer.emit("EngineStopped", state="failed", reason=reason)

    def close(self) -> None:
        self.writer.close()


def told() -> GpuSaga:
    """A search with a confirmed best, a library node, and the engine still at work."""
    saga = GpuSaga()
    saga.best(saga.node(1.9), 1.9)
    saga.node(1.3, outcome="LIBRARY")
    best = saga.node(2.05, parent=1)
    saga.best(best, 2.05)
    saga.confirm(best, 2.03)
    saga.writer.beat(4242, {"stage": "timing"}, {})
    return saga
