"""A longer search told as events: three targets, forty nodes, failures, a closed branch."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from store.sessions import create
from store.writing import SessionWriter

if TYPE_CHECKING:
    from pathlib import Path

CONFIG: dict[str, Any] = {
    "tasks": ["suite:softmax", "suite:layer_norm", "suite:silu_mul"], "device": "cpu",
    "nodes": 24, "minutes": 10.0, "patience": 10, "sol_stop": 0.95, "seed": 0,
    "writers": ["drafter"], "demo": False,
}  # fmt: skip
TARGETS = (
    ("softmax", 4_210_000, 1_320_000, [("x", [4096, 4096])]),
    ("layer_norm", 6_120_000, 2_050_000, [("x", [8192, 2048]), ("weight", [2048]),
                                          ("bias", [2048])]),
    ("silu_mul", 9_870_000, 3_900_000, [("gate", [4096, 8192]), ("up", [4096, 8192])]),
)  # fmt: skip
TITLES = (
    "two passes, rows over threads",
    "one pass online, 8 lanes, row kept in cache",
    "one pass online, 16 lanes, exponent by polynomial",
    "row blocks of 32, non-temporal stores",
    "three passes, plain loops, compiler vectorises",
    "pairs of rows, sums in registers, 2 accumulators",
    "tiles of 256 columns, prefetch of the next row",
    "one pass, products in float32, fused multiply-add",
)
SOURCE = """\
// Row softmax in one pass: running maximum and scaled sum, then one write.
#include <algorithm>
#include <cmath>
#include <cstdint>

extern "C" void softmax(const float* __restrict__ x, float* __restrict__ out,
                        int64_t rows, int64_t cols) {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
        const float* in = x + row * cols;
        float* to = out + row * cols;
        float top[LANES], sum[LANES];
        for (int lane = 0; lane < LANES; ++lane) {
            top[lane] = -INFINITY;
            sum[lane] = 0.0f;
        }
        for (int64_t col = 0; col + LANES <= cols; col += LANES) {
#pragma omp simd
            for (int lane = 0; lane < LANES; ++lane) {
                const float value = in[col + lane];
                const float high = std::max(top[lane], value);
                sum[lane] = sum[lane] * std::exp(top[lane] - high) + std::exp(value - high);
                top[lane] = high;
            }
        }
        // ...
    }
}
"""
PLAN = """\
[tune]
LANES = [8, 16]
BLOCK = [16, 32]

[[launch]]
kernel = "softmax"
args = ["x", "out", "x.shape[0]", "x.shape[1]"]
"""
LOG = """\
kernel.cpp:14:31: error: expected ';' before '}' token
   14 |             sum[lane] = 0.0f
      |                               ^
      |                               ;
kernel.cpp:21:13: error: 'value' was not declared in this scope
"""
SECONDS = {"writing": 0.03, "building": 0.84, "checking": 0.7, "timing": 1.4}
FAMILIES = ("normal", "wide range", "heavy tails", "constant rows", "special values",
            "small integers")  # fmt: skip


def families(fail: str = "") -> list[dict[str, Any]]:
    return [
        {"family": name, "max_error": 3.1e-2 if name == fail else 1.19e-7 * (index + 1),
         "eager_error": 8.9e-8 * (index + 1), "worst": 9.4 if name == fail else 0.11 + index / 50,
         "ok": name != fail}
        for index, name in enumerate(FAMILIES)
    ]  # fmt: skip


@dataclass
class Saga:
    """Writes a search as an engine would."""

    path: Path
    writer: SessionWriter
    clock_s: float = 0.0
    closed: bool = False

    def close(self) -> None:
        """The engine ends without a word, as after a crash."""
        if not self.closed:
            self.closed = True
            self.writer.close()

    def emit(self, kind: str, *, target: int = 0, node: int = 0, **payload: Any) -> None:
        self.writer.active_us = int(self.clock_s * 1e6)
        self.writer.emit(kind, target=target, node=node, **payload)

    def begin(self) -> None:
        self.emit("EngineStarted", pid=4242, host="box", version="0.1.0", machine={"cpu": "x"})
        for number, (name, eager, sol, args) in enumerate(TARGETS, 1):
            specs = [
                {"name": arg, "kind": "input", "dtype": "float32", "shape": shape}
                for arg, shape in args
            ]
            spec = {"name": name, "device": "cpu", "args": specs,
                    "outputs": [{"name": "out", "dtype": "float32", "shape": args[0][1]}],
                    "read_bytes": 67_108_864, "write_bytes": 67_108_864}  # fmt: skip
            self.emit("TargetAdded", target=number, name=name, spec=spec, task={"kind": "suite"})
            self.clock_s += 0.9
            self.emit("TargetMeasured", target=number, eager_ns=eager, sol_ns=sol,
                      floor_ns=sol // 2, baselines={}, detail={})  # fmt: skip

    def start_node(
        self, target: int, parent: int | None, title: str, action: str = "", stage: str = "building"
    ) -> int:
        number = self.writer.next_id("nodes")
        at = {"target": target, "node": number}
        self.emit("NodeCreated", **at, parent=parent, second_parent=None,
                  action=action or ("draft" if parent is None else "improve"),
                  writer="drafter", model=None)  # fmt: skip
        key = f"hash{number}"
        self.writer.store_program(key, "cpp", SOURCE, PLAN, title)
        self.emit("ProgramWritten", **at, program=key, language="cpp", title=title, schedule={})
        self.emit("NodeStage", **at, stage=stage)
        return number

    def fail(self, target: int, node: int, rung: str = "build") -> None:
        at = {"target": target, "node": node}
        variant = self.writer.next_id("variants")
        evidence: dict[str, Any] = {"log": LOG}
        code, reason = "compiler", "expected ';' before '}' token, line 14"
        if rung == "check":
            evidence = {"family": "wide range", "index": [17, 2048], "expected": 0.0312,
                        "got": "nan", "pattern": "every 8th column",
                        "families": families("wide range")}  # fmt: skip
            code, reason = "wrong", "wide range: nan where 0.0312 was expected"
        self.emit("VariantFailed", **at, variant=variant, values={"LANES": 8}, rung=rung,
                  code=code, reason=reason, evidence=evidence)  # fmt: skip
        self.writer.stream(node, "compiler", LOG)
        self.clock_s += 1.2
        self.emit("NodeFailed", **at, rung=rung, code=code, reason=reason,
                  seconds={"writing": 0.02, "building": 0.6, "checking": 0.6})  # fmt: skip

    def score(self, target: int, node: int, ratio: float) -> None:
        at = {"target": target, "node": node}
        eager, sol = TARGETS[target - 1][1:3]
        time_ns = int(eager / ratio)
        outcome = "FASTER" if ratio > 1.03 else "SLOWER" if ratio < 0.97 else "SAME"
        spread = {"ratio": ratio, "low": ratio * 0.975, "high": ratio * 1.024}
        chosen = 0
        for lanes in (8, 16):
            variant = self.writer.next_id("variants")
            self.emit("VariantBuilt", **at, variant=variant, values={"LANES": lanes, "BLOCK": 16},
                      seconds=0.42, cached=False, detail={})  # fmt: skip
            worse = int(lanes == 8)
            self.emit("VariantScreened", **at, variant=variant, time_ns=time_ns + 90_000 * worse,
                      ratio=ratio - 0.05 * worse)  # fmt: skip
            chosen = variant
        self.clock_s += 2.3
        verdict = self.writer.next_id("verdicts")
        evidence = {"families": families(), "others": 0.02, "allocator": "pages kept"}
        self.emit("VariantJudged", **at, variant=chosen, verdict=verdict, key="k", outcome=outcome,
                  time_ns=time_ns, eager_ns=eager, timing="call", confirm=False, evidence=evidence,
                  **spread)  # fmt: skip
        self.writer.store_samples(verdict, [[eager, time_ns]] * 25)
        self.emit("NodeScored", **at, variant=chosen, outcome=outcome, time_ns=time_ns,
                  sol_fraction=sol / time_ns, reward=0.1 * ratio, **spread,
                  seconds=SECONDS)  # fmt: skip

    def best(self, target: int, node: int, ratio: float) -> None:
        eager = TARGETS[target - 1][1]
        self.emit("BestImproved", target=target, node=node, variant=1, ratio=ratio,
                  time_ns=int(eager / ratio), of_nodes=node)  # fmt: skip

    def confirm(self, target: int, node: int, ratio: float) -> None:
        self.clock_s += 1.5
        eager = TARGETS[target - 1][1]
        self.emit("VariantJudged", target=target, node=node, variant=1, key="k", outcome="FASTER",
                  verdict=self.writer.next_id("verdicts"), time_ns=int(eager / ratio),
                  eager_ns=eager, timing="call", confirm=True, ratio=ratio, low=ratio * 0.98,
                  high=ratio * 1.02, evidence={"pairs": 50})  # fmt: skip
        self.emit("NodeConfirmed", target=target, node=node, variant=1, ok=True, outcome="FASTER",
                  ratio=ratio, low=ratio * 0.98, high=ratio * 1.02, reason="")  # fmt: skip


def told(nodes: int = 40, config: dict[str, Any] | None = None) -> Saga:
    """The whole saga, its engine (this process) still at work with two nodes in hand."""
    path = create("suite:softmax suite:layer_norm suite:silu_mul", config or CONFIG)
    saga = Saga(path, SessionWriter(path))
    saga.begin()
    rng = random.Random(7)
    best = {1: 0.9, 2: 0.9, 3: 0.9}
    good: dict[int, list[int]] = {1: [], 2: [], 3: []}
    for count in range(nodes - 2):
        target = 1 + (count % 5) // 2
        parent = rng.choice(good[target][-4:]) if good[target] and rng.random() < 0.75 else None
        node = saga.start_node(target, parent, rng.choice(TITLES))
        if rng.random() < 0.27:
            saga.fail(target, node, rng.choice(["build", "build", "check"]))
            continue
        sol = TARGETS[target - 1][1] / TARGETS[target - 1][2]
        ratio = min(best[target] * rng.uniform(0.75, 1.22), sol * 0.93)
        saga.score(target, node, ratio)
        good[target].append(node)
        if ratio > best[target]:
            best[target] = ratio
            saga.best(target, node, ratio)
    saga.confirm(1, saga_best(saga, 1), best[1])
    saga.emit("BranchPruned", target=2, node=good[2][1], nodes=3, by="person", reason="")
    saga.start_node(1, good[1][-1], "one pass online, 16 lanes, 2 rows at a time", stage="timing")
    saga.start_node(3, good[3][-1], "row blocks of 64, streaming stores", stage="building")
    saga.writer.beat(4242, {"stage": "timing"}, {})
    return saga


def saga_best(saga: Saga, target: int) -> int:
    row = saga.writer.conn.execute("SELECT best_node FROM targets WHERE id = ?", [target])
    return int(row.fetchone()[0])
