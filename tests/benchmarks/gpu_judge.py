"""What a verdict costs and how far it can be trusted, on the GPU of this machine.

    python -m tests.benchmarks.gpu_judge verdict|identity|faults|suite [OPERATOR ...]

``verdict``: one softmax candidate from its text to the full verdict, workers warm, each stage
apart. ``identity``: eager against itself 200 times, and a program that is 3 % slower. ``faults``:
200 candidates of which 20 ruin their context and 5 hang. ``suite``: eager, compiled baselines, SOL
and floor of every operator. Each prints a table in Markdown.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent import baselines
from agent.devices import open_device
from agent.judge.judge import Judge
from agent.judge.statistics import median
from agent.program import parse_reply
from agent.task import TargetSpec, TaskSource, open_task, suite_index
from agent.workers.workshop import LocalWorkshop

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.judge.verdict import Calibration

PROGRAMS = Path(__file__).parent.parent / "data" / "programs"
SOFTMAX = (PROGRAMS / "softmax.md").read_text()
SEED = 20_201


def say(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(*cells: str) -> None:
    say(*cells)
    say(*("---" for _ in cells))


def workshop(folder: Path) -> LocalWorkshop:
    return LocalWorkshop(folder, folder / "log", "cuda", 8, SEED)


def numbered(text: str, number: int) -> str:
    """The same program with another text, so that no cache knows it."""
    return text.replace(
        "```cuda\n", f"```cuda\n__device__ inline int n{number}() {{ return 1; }}\n"
    )


async def verdict(folder: Path, count: int = 20) -> None:
    shop = workshop(folder)
    started = time.monotonic()
    spec = TargetSpec.from_json((await shop.load(1, open_task("suite:softmax", "cuda")))["spec"])
    await shop.calibrate(1)
    print(f"load and calibrate, workers cold: {time.monotonic() - started:.1f} s\n")
    facts = open_device("cuda").facts()
    stages: dict[str, list[float]] = {}
    for number in range(count + 1):
        clock = [time.monotonic()]
        program = parse_reply(numbered(SOFTMAX, number), "cuda")
        values = program.defaults()
        bound = program.bind(spec, values, facts)
        clock.append(time.monotonic())
        built = await shop.build(program, values)
        clock.append(time.monotonic())
        checked = await shop.check(1, built["library"], bound)
        assert not checked["failure"], checked["failure"]
        clock.append(time.monotonic())
        found = await shop.measure(1, built["library"], bound)
        assert not found["failure"], found["failure"]
        clock.append(time.monotonic())
        if number == 0:
            print(f"first, cases not made yet: {clock[-1] - clock[0]:.2f} s\n")
            continue
        names = ("read", "build", "check", "measure")
        for at, name in enumerate(names):
            stages.setdefault(name, []).append(clock[at + 1] - clock[at])
        stages.setdefault("whole verdict", []).append(clock[-1] - clock[0])
    head("stage", "median ms", "least", "most")
    for name, taken in stages.items():
        say(name, *(f"{1e3 * f(taken):.1f}" for f in (median, min, max)))
    print(
        f"\n{found['verdict']} {found['ratio']:.2f}x [{found['low']:.3f}, {found['high']:.3f}], "
        f"{found['ns'] / 1e3:.1f} us (eager {found['eager_ns'] / 1e3:.1f}), call "
        f"{(found['call_ns'] or 0) / 1e3:.1f} us (eager {(found['eager_call_ns'] or 0) / 1e3:.1f})"
    )
    await shop.close()


SLOWER = """A copy that reads a share of its input twice.

```cuda
extern "C" __global__ void copy(const float4* x, float4* out, int64_t n, int64_t again) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float4 v = x[i];
        if (i < again) {
            const float4 w = __ldcs(x + (n - 1 - i));
            if (w.x == 1.2345e30f && w.y == 3.21e20f) v.z = 0.0f;
        }
        out[i] = make_float4(v.x + 1.0f, v.y + 1.0f, v.z + 1.0f, v.w + 1.0f);
    }
}
```

```toml
[tune]
AGAIN = [0]

[[launch]]
kernel = "copy"
grid = "ceil_div(x.numel // 4, 256)"
block = 256
args = ["x", "out", "x.numel // 4", "AGAIN"]
```
"""
PLUS_ONE = """
import torch
def reference(x):
    return x + 1.0
def inputs(device):
    return torch.randn(8192, 8192, device=device)
"""


class Bench:
    """A judge, and programs built for it in this process."""

    def __init__(self, folder: Path) -> None:
        self.device = open_device("cuda")
        self.judge = Judge("cuda", run_seconds=2.0)
        self.folder = folder

    def build(self, spec: TargetSpec, text: str, **values: int) -> tuple[str, dict[str, Any]]:
        program = parse_reply(text, "cuda")
        chosen = {**program.defaults(), **values}
        # A benchmark may set a tunable to what its list does not have.
        program = parse_reply(text.replace("AGAIN = [0]", f"AGAIN = [{chosen.get('AGAIN', 0)}]"),
                              "cuda")  # fmt: skip
        bound = program.bind(spec, chosen, self.device.facts()).to_json()
        built = self.device.build(program.source, chosen, program.kernels(), self.folder)
        return built.library, bound


async def identity(folder: Path, count: int = 200) -> None:
    bench = Bench(folder)
    counts: dict[str, dict[str, int]] = {}
    for at, name in enumerate(("softmax", "silu_mul", "softmax_decode", "rmsnorm"), start=1):
        bench.judge.load(at, open_task(f"suite:{name}", "cuda"), SEED)
        found = counts.setdefault(name, {})
        for _ in range(count // 4):
            word = bench.judge.identity(at).verdict
            found[word] = found.get(word, 0) + 1
    print("eager against itself\n")
    head("operator", "FASTER", "SLOWER", "SAME", "UNSURE")
    for name, found in counts.items():
        say(name, *(found.get(word, 0) for word in ("FASTER", "SLOWER", "SAME", "UNSURE")))
    spec = bench.judge.load(9, TaskSource("plain", "plus_one", "", PLUS_ONE, "cuda"), SEED)
    vectors = 8192 * 8192 // 4
    print("\na program that reads a share of its input twice, against the same without\n")
    head("share", "times", "FASTER", "SLOWER", "SAME", "UNSURE", "median ratio", "to the plain one")
    plain = 0.0
    for share in (0.0, 0.05, 0.075, 0.10):
        library, bound = bench.build(spec, SLOWER, AGAIN=int(vectors * share))
        assert bench.judge.check(9, library, bound).failure is None
        found, ratios = {}, []
        for _ in range(20):
            taken = bench.judge.measure(9, library, bound)
            found[taken.verdict] = found.get(taken.verdict, 0) + 1
            ratios.append(taken.ratio)
        plain = plain or median(ratios)
        say(f"{share:.0%}", 20, *(found.get(w, 0) for w in ("FASTER", "SLOWER", "SAME", "UNSURE")),
            f"{median(ratios):.3f}", f"{median(ratios) / plain:.3f}")  # fmt: skip
    bench.judge.close()


FAULTS = {
    "illegal address": "out[(long long)1 << 40] = 0.0f;",
    "trap": "__trap();",
    "assert": "assert(threadIdx.x == 12345);",
    "misaligned": "*(float4*)((char*)out + 4) = make_float4(0, 0, 0, 0);",
}
HANG = "volatile float* p = out; while (*p != 1.2345e30f) {}"


async def faults(folder: Path, count: int = 200) -> None:
    bench = Bench(folder)
    spec = bench.judge.load(1, open_task("suite:softmax", "cuda"), SEED)
    bench.judge.calibrate(1)
    chance = random.Random(7)
    bad = [list(FAULTS)[at % len(FAULTS)] for at in range(count // 10)] + ["hang"] * (count // 40)
    kinds = [*bad, *(["right"] * (count - len(bad)))]
    chance.shuffle(kinds)
    wrong: list[str] = []
    started = time.monotonic()
    spent: dict[str, list[float]] = {}
    for number, kind in enumerate(kinds):
        begun = time.monotonic()
        text = numbered(SOFTMAX, number)
        if kind != "right":
            body = FAULTS.get(kind, HANG)
            text = text.replace("constexpr int EACH", f"{body}\n    constexpr int EACH")
        library, bound = bench.build(spec, text)
        failure = bench.judge.check(1, library, bound).failure
        code = failure.code if failure else ""
        if not failure:
            taken = bench.judge.measure(1, library, bound)
            code = taken.failure.code if taken.failure else taken.verdict
        expected = {"right": "FASTER", "hang": "hung"}.get(kind, "crashed")
        if code != expected:
            wrong.append(f"{number} {kind}: {code} {failure.message if failure else ''}")
        spent.setdefault(kind, []).append(time.monotonic() - begun)
    head("kind", "candidates", "median s", "most s")
    for kind, taken in spent.items():
        say(kind, len(taken), f"{median(taken):.2f}", f"{max(taken):.2f}")
    print(
        f"\n{count} candidates in {time.monotonic() - started:.1f} s, "
        f"{bench.judge.replaced} runners replaced, {len(wrong)} verdicts wrong"
    )
    for line in wrong[:10]:
        print("  " + line)
    bench.judge.close()


NAMES = ("compile", "compile-max")


def compiled(names: list[str], machine: str) -> None:
    """A line of JSON for each operator: its compiled baselines, measured in this process."""
    from agent.workers import baseline

    for name in names:
        task = open_task(f"suite:{name}", "cuda").to_json()
        baseline.load_task({"target": 1, "task": task})
        asked = {"target": 1, "machine": machine, "budget_ms": 300}
        found = {other: baseline.baseline({**asked, "name": other}) for other in NAMES}
        print(json.dumps({"operator": name, **found}), flush=True)


async def suite(folder: Path) -> None:
    """Every operator, or those named; compiled baselines come from one process of their own."""
    chosen = sys.argv[2:] or list(suite_index())
    machine = str(folder / "machine.db")
    judge = Judge("cuda")
    limits = {}
    for at, name in enumerate(chosen, start=1):
        judge.load(at, open_task(f"suite:{name}", "cuda"), SEED)
        limits[name] = judge.calibrate(at, machine, str(folder / "builds"))
    judge.close()
    head("operator", "eager", *NAMES, "SOL", "floor", "eager/SOL", "best/SOL", "call: eager",
         *NAMES, "SOL's form")  # fmt: skip
    env = {**baselines.environment(folder), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    command = [sys.executable, "-m", "tests.benchmarks.gpu_judge", "compiled", machine, *chosen]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            if line.startswith("{"):
                found = json.loads(line)
                row(found["operator"], limits[found["operator"]], found)


def row(name: str, limits: Calibration, found: dict[str, Any]) -> None:
    """One operator's line; times in microseconds."""
    values = [found.get(other, {}) for other in NAMES]
    best = min([limits.eager_ns, *(int(v["ns"]) for v in values if v.get("ns"))])
    say(
        name,
        us(limits.eager_ns),
        *(us(v.get("ns")) or str(v.get("error", ""))[:40] for v in values),
        us(limits.sol_ns),
        us(limits.floor_ns),
        f"{limits.eager_ns / limits.sol_ns:.2f}",
        f"{best / limits.sol_ns:.2f}",
        us(limits.eager_call_ns),
        *(us(v.get("call_ns")) for v in values),
        limits.detail["stream"].get("form", ""),
    )


def us(ns: int | None) -> str:
    return f"{ns / 1e3:.1f}" if ns else ""


def main() -> None:
    if sys.argv[1] == "compiled":
        compiled(sys.argv[3:], sys.argv[2])
        return
    wanted: Callable[..., Any] = globals()[sys.argv[1]]
    with tempfile.TemporaryDirectory(prefix="forge-bench-") as folder:
        asyncio.run(wanted(Path(folder)))


if __name__ == "__main__":
    main()
