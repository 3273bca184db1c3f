"""A workshop that does nothing but answer: a synthetic landscape for tests of the engine.

Schedules are numbers; each has a fixed speedup. What is asked is counted, so that a test can say
that nothing was done twice. ``python -m tests.agent.landscape SESSION PACE [KEY]`` runs an engine.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.context import Place
from agent.engine import Engine
from agent.errors import BuildError, WorkerError
from agent.workers.workshop import Exhausted, Proposal
from store.reading import SessionReader
from store.sessions import create
from store.writing import SessionWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.writers.offline import Offline
    from store.machine import MachineStore

SPEC: dict[str, Any] = {
    "name": "toy", "device": "cpu",
    "args": [{"name": "x", "kind": "input", "dtype": "float32", "shape": [8], "strides": [1],
              "alignment": 64, "mutated": False}],
    "scalars": {},
    "outputs": [{"name": "out", "dtype": "float32", "shape": [8], "strides": [1]}],
    "read_bytes": 32, "write_bytes": 32, "flops": 0, "source_sha": "toy",
}  # fmt: skip
REPLY = """Idea {n}
```cpp
extern "C" void f(const float* x, float* out) {{ out[0] = x[{n}]; }}
```
```toml
[tune]
UNROLL = [1, 2, 4]
[[launch]]
kernel = "f"
args = ["x", "out"]
```
"""
CUDA_REPLY = """Idea {n}
```cuda
extern "C" __global__ void f(const float* x, float* out) {{ out[0] = x[{n}]; }}
```
```toml
[tune]
UNROLL = [1, 2, 4]
[[launch]]
kernel = "f"
grid = 1
block = 32
args = ["x", "out"]
```
"""
LIBRARY_REPLY = """A product
```{language}
// x[{n}]
```
```toml
[tune]
UNROLL = [1, 2, 4]
[[call]]
op = "mm"
args = ["x", "x"]
to = "out"
```
"""


def matrix_spec() -> dict[str, Any]:
    """The spec with matrices, for library steps."""
    shape = {"shape": [8, 8], "strides": [8, 1]}
    return {**SPEC, "args": [{**SPEC["args"][0], **shape}],
            "outputs": [{**SPEC["outputs"][0], **shape}]}  # fmt: skip


def programs(*texts: str, target: int = 1) -> list[dict[str, Any]]:
    """Programs of a person's, as a config holds them."""
    return [{"target": target, "text": text, "name": f"{n}.md"} for n, text in enumerate(texts)]


class Landscape:
    """Schedule n: every seventh fails to build; speedups rise and fall with n.

    Attributes:
        holds: Whether wins hold when they are confirmed.
        baselines: What a compiled form turns out to be; those that are missing cannot be had.
        sanitizer: What the tools say; None where there is no such verb.
        scale: Of every ratio: another machine is another landscape.
    """

    def __init__(self, limit: int = 1000, sol_ns: int = 500_000, pace_s: float = 0.0) -> None:
        self.calls: dict[str, int] = {}
        self.log: list[tuple[str, Any]] = []
        self._limit = limit
        self._sol_ns = sol_ns
        self._pace_s = pace_s
        self.holds = True
        self.scale = 1.0
        self.refusal: str | None = None
        self.spec: dict[str, Any] = SPEC
        self.baselines: dict[str, dict[str, Any]] = {
            "compile": {"ratio": 1.2, "low": 1.15, "high": 1.25},
            "compile-max": {"ratio": 1.25, "low": 1.2, "high": 1.3},
        }
        self.sanitizer: dict[str, str] | None = {"memcheck": "clean"}

    async def _count(self, verb: str, what: Any = None) -> None:
        self.calls[verb] = self.calls.get(verb, 0) + 1
        self.log.append((verb, what))
        await asyncio.sleep(self._pace_s)

    async def load(self, target: int, task: Any) -> dict[str, Any]:
        await self._count("load", target)
        return {"spec": {**self.spec, "device": task.device}, "refusal": self.refusal}

    async def calibrate(self, target: int) -> dict[str, Any]:
        await self._count("calibrate", target)
        return {"eager_ns": 4_000_000, "sol_ns": self._sol_ns, "floor_ns": 100, "detail": {},
                "eager_call_ns": 4_100_000}  # fmt: skip

    async def propose(self, target: int, ask: dict[str, Any]) -> Proposal | Exhausted:
        await self._count("propose", ask)
        tried = {int(key) for key in ask["tried"]}
        if ask["action"] == "repair" and ask["parent_schedule"]["n"] % 2:
            return Exhausted("cannot be repaired")
        n = next((n for n in range(1, self._limit + 1) if n not in tried), None)
        if n is None:
            return Exhausted("that was all")
        return Proposal(f"idea {n}", {"n": n, "key": str(n)})

    async def write(self, target: int, request: dict[str, Any]) -> str:
        await self._count("write", request["schedule"]["n"])
        return REPLY.format(n=request["schedule"]["n"])

    async def build(self, program: Any, values: dict[str, int]) -> dict[str, Any]:
        n = int(program.source.split("x[")[1].split("]")[0])
        await self._count("build", (n, values["UNROLL"]))
        if n % 7 == 3:
            raise BuildError(
                "expected ';'", code="compiler", evidence={"rung": "build", "log": "3:1: error"}
            )
        return {"library": f"{n}/{values['UNROLL']}", "seconds": 0.1, "cached": False}

    def ratio(self, library: str) -> float:
        n, unroll = (int(part) for part in library.split("/"))
        return round((0.5 + (n * 37 % 60) / 20 + unroll / 10) * self.scale, 3)

    async def check(self, target: int, library: str, bound: Any) -> dict[str, Any]:
        await self._count("check", library)
        if int(library.split("/")[0]) % 11 == 5:
            return {"failure": {"rung": "check", "code": "wrong", "message": "off at [0]"}}
        return {"families": [{"family": "normal", "ok": True}]}

    async def screen(self, target: int, library: str, bound: Any) -> dict[str, Any]:
        await self._count("screen", library)
        ratio = self.ratio(library)
        return {"ns": int(4e6 / ratio), "ratio": ratio}

    async def measure(self, target: int, library: str, bound: Any) -> dict[str, Any]:
        await self._count("measure", library)
        return self._verdict(library)

    async def confirm(self, target: int, library: str, bound: Any) -> dict[str, Any]:
        await self._count("confirm", library)
        if not self.holds:
            return {"failure": {"message": "it does not hold"}}
        return self._verdict(library)

    async def baseline(self, target: int, name: str) -> dict[str, Any]:
        await self._count("baseline", name)
        found = self.baselines.get(name, {"error": "it does not compile"})
        return {"ns": 1_000_000, "call_ns": 1_100_000, "seconds": 1.0, "cached": False, **found}

    async def advise(
        self, target: int, library: str, bound: Any, facts: dict[str, Any], *, counters: bool
    ) -> dict[str, Any]:
        await self._count("advise", counters)
        finding = {"name": "spills", "finding": "registers are spilled", "evidence": "8 bytes",
                   "suggestion": "keep fewer values alive"}  # fmt: skip
        return {"advice": [finding], "occupancy": {"k": {"share": 0.5, "limiter": "registers"}}}

    async def against(self, target: int, name: str, library: str, bound: Any) -> dict[str, Any]:
        await self._count("against", name)
        return {"ratio": 1.5, "low": 1.4, "high": 1.6, "direct": True}

    async def sanitize(self, target: int, library: str, bound: Any) -> dict[str, str]:
        await self._count("sanitize", library)
        if self.sanitizer is None:
            raise WorkerError("this worker has no verb sanitize")
        return self.sanitizer

    def _verdict(self, library: str) -> dict[str, Any]:
        ratio = self.ratio(library)
        outcome = "FASTER" if ratio > 1.03 else "SLOWER"
        return {"ns": int(4e6 / ratio), "eager_ns": 4_000_000, "ratio": ratio,
                "low": ratio * 0.98, "high": ratio * 1.02, "samples": [[1, 2]],
                "verdict": outcome}  # fmt: skip

    async def close(self) -> None:
        self.calls["close"] = self.calls.get("close", 0) + 1


def new_session(**config: Any) -> Path:
    """A session whose only task is a small file that nothing runs."""
    task = Path(__file__).with_name("toy_task.py")
    defaults = {"tasks": [str(task)], "device": "cpu", "nodes": 20, "minutes": 5.0, "patience": 50}
    return create(str(task), {**defaults, **config})


PLACES = {
    "cpu": Place("cpu", "cpp", "a CPU", {"cores": 2, "l2": 2**20}),
    "cuda": Place(
        "cuda",
        "cuda",
        "GPU-1 | driver 1",
        {"sms": 4, "l2": 2**20, "warp": 32, "max_threads": 1024, "shared": 2**16, "cluster": 8},
        "sm_90a",
    ),
}


async def engine_on(
    path: Path,
    workshop: Landscape,
    place: Place | None = None,
    offline: Callable[[SessionWriter], Offline] | None = None,
    records: MachineStore | None = None,
) -> tuple[Engine, SessionWriter]:
    """An engine that has taken the session up and is ready to run."""
    session = SessionWriter(path)
    row = SessionReader(path, session.conn).session()
    try:
        where = place or PLACES[row.config["device"]]
        writer = offline(session) if offline else None
        engine = Engine(session, row, workshop, where, None, writer, records)
        await engine.prepare(lambda stage: None)
    except BaseException:
        session.close()
        raise
    return engine, session


async def run(
    path: Path,
    workshop: Landscape,
    place: Place | None = None,
    offline: Callable[[SessionWriter], Offline] | None = None,
    records: MachineStore | None = None,
) -> str:
    """Take the session up, search to the end, close."""
    engine, session = await engine_on(path, workshop, place, offline, records)
    try:
        return await engine.run()
    finally:
        session.close()


def main(path: Path, pace_s: float, key: str = "") -> None:
    """An engine in this process; ``key`` says which machine it believes to be on."""
    with SessionReader(path) as reader:
        place = PLACES[reader.session().config["device"]]
    asyncio.run(run(path, Landscape(pace_s=pace_s), replace(place, key=key or place.key)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:])
