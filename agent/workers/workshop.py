"""What the engine asks of its workers, and the workers of this machine that do it.

``Workshop`` is the whole of what a search needs from outside: writing, building, judging. The
engine knows nothing else, so its own cost can be measured with one that does nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from agent import baselines
from agent.errors import ForgeError, MachineError, TaskError, WorkerError
from agent.workers.client import Worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from agent.program import Bound, Program
    from agent.task import TaskSource

LOAD_S, CALIBRATE_S, WRITE_S, BUILD_S, CHECK_S, MEASURE_S = 120.0, 180.0, 60.0, 90.0, 120.0, 120.0
SANITIZE_S = 300.0
# It limits its own compiling; what is more than that and a measurement is a hang.
BASELINE_S = baselines.COMPILE_SECONDS + MEASURE_S
SCREEN_MS, MEASURE_MS = 120, 900
MOST_BUILDERS = 8
_PASSED_ON = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "CXX", "PYTHONPATH",
    "VIRTUAL_ENV", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "TZ", "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER", "CUDA_HOME", "CUDA_PATH", "FORGE_CUTLASS",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a writer would do for an action: a title, and the drafter's schedule."""

    title: str
    schedule: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Exhausted:
    """A writer has nothing more for this action here, and says why."""

    why: str


class Workshop(Protocol):
    """Everything that a search needs from outside the engine. Faults are ``ForgeError``."""

    async def load(self, target: int, task: TaskSource) -> dict[str, Any]: ...
    async def calibrate(self, target: int) -> dict[str, Any]: ...
    async def propose(self, target: int, ask: dict[str, Any]) -> Proposal | Exhausted:
        """What could be tried: ``ask`` has action, parent_schedule, failure, tried (a set)."""
        ...

    async def write(self, target: int, request: dict[str, Any]) -> str: ...
    async def build(self, program: Program, values: dict[str, int]) -> dict[str, Any]: ...
    async def check(self, target: int, library: str, bound: Bound) -> dict[str, Any]: ...
    async def screen(self, target: int, library: str, bound: Bound) -> dict[str, Any]: ...
    async def measure(self, target: int, library: str, bound: Bound) -> dict[str, Any]: ...
    async def confirm(self, target: int, library: str, bound: Bound) -> dict[str, Any]: ...
    async def baseline(self, target: int, name: str) -> dict[str, Any]:
        """What ``BaselineMeasured`` tells of a compiled form; ``{"error": why}`` without one."""
        ...

    async def against(self, target: int, name: str, library: str, bound: Bound) -> dict[str, Any]:
        """A baseline's time over a program's: ratio, low, high; or ``{"error"}``. CUDA only."""
        ...

    async def sanitize(self, target: int, library: str, bound: Bound) -> dict[str, str]:
        """What each tool says of a program: ``clean``, ``skipped: why``, or its first complaint."""
        ...

    async def advise(
        self, target: int, library: str, bound: Bound, facts: dict[str, Any], *, counters: bool
    ) -> dict[str, Any]:
        """``advice`` on a measured CUDA program and its kernels' ``occupancy``.

        ``facts`` has ``detail`` (of the build), ``ns``, ``sol_ns``, ``steps``.
        """
        ...

    async def close(self) -> None: ...


async def _again(ask: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Ask, and once more if the worker died: candidates run in none of them, so none is to blame.

    A worker that ran past its time is not asked again: it would again.
    """
    try:
        return await ask()
    except WorkerError as error:
        if error.code != "worker-died":
            raise
    return await ask()


def worker_environment() -> dict[str, str]:
    """The environment of a worker: an allow-list, so that no key reaches user or candidate code."""
    env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**env, "PYTHONUNBUFFERED": "1"}


class LocalWorkshop:
    """This machine's workers: one author, builders, one judge for the device, one to confirm.

    A worker that died comes back empty; ``_with_target`` loads a target again where it is missing.

    Args:
        folder: The data folder: the machine's records and built libraries.
        log: Where the workers' standard errors go.
        device: ``"cpu"`` or ``"cuda"``; which GPU, ``CUDA_VISIBLE_DEVICES`` says.
        cores: There are as many builders, up to a limit.
        seed: What decides the inputs; 0 has one thrown.
        arch: The GPU's architecture, so that builders need not ask for it; "" if they must.
    """

    def __init__(
        self, folder: Path, log: Path, device: str, cores: int, seed: int, arch: str = ""
    ) -> None:
        env = worker_environment()
        count = max(1, min(cores, MOST_BUILDERS))
        self._author = Worker("agent.workers.author", log, env)
        self._builders = [Worker("agent.workers.builder", log, env) for _ in range(count)]
        self._judge = Worker("agent.workers.judge", log, env)
        self._confirmer = Worker("agent.workers.judge", log, env)
        self._folder = folder
        self._log = log
        self._device = {"device": device, "arch": arch}
        self._seed = seed
        self._tasks: dict[int, dict[str, Any]] = {}
        self._loaded: set[tuple[int, int, int]] = set()
        self._turn = 0

    async def load(self, target: int, task: TaskSource) -> dict[str, Any]:
        """Load a target in the author, which says whether it can be a target at all."""
        self._tasks[target] = task.to_json()
        await self._judge.start()
        request = {"target": target, "task": task.to_json()}
        try:
            answer = await _again(lambda: self._author.call("load", request, LOAD_S))
        except WorkerError as error:
            raise TaskError(
                f"{task.name} could not be loaded: {error.message}",
                "run the file by itself: it must end, and leave the process alive",
                code="task-" + error.code,
            ) from None
        self._loaded.add((id(self._author), self._author.generation, target))
        return answer

    async def _with_target(
        self, worker: Worker, target: int, verb: str, args: dict[str, Any], timeout_s: float
    ) -> dict[str, Any]:
        """Ask a worker that has the target loaded."""
        return await _again(lambda: self._loaded_call(worker, target, verb, args, timeout_s))

    async def _loaded_call(
        self, worker: Worker, target: int, verb: str, args: dict[str, Any], timeout_s: float
    ) -> dict[str, Any]:
        await worker.start()
        mark = (id(worker), worker.generation, target)
        if mark not in self._loaded:
            seed = int.from_bytes(os.urandom(6), "big") if self._seed == 0 else self._seed
            request = {"target": target, "task": self._tasks[target], "seed": seed}
            await worker.call("load", request, LOAD_S)
            self._loaded.add(mark)
        return await worker.call(verb, {"target": target, **args}, timeout_s)

    async def calibrate(self, target: int) -> dict[str, Any]:
        args = {"machine": str(self._folder / "machine.db"), "cache": str(self._folder / "builds")}
        return await self._with_target(self._judge, target, "calibrate", args, CALIBRATE_S)

    async def propose(self, target: int, ask: dict[str, Any]) -> Proposal | Exhausted:
        request = {**ask, "tried": sorted(ask["tried"])}
        answer = await self._with_target(self._author, target, "propose", request, WRITE_S)
        if "exhausted" in answer:
            return Exhausted(str(answer["exhausted"]))
        return Proposal(str(answer["title"]), answer["schedule"])

    async def write(self, target: int, request: dict[str, Any]) -> str:
        answer = await self._with_target(self._author, target, "write", request, WRITE_S)
        return str(answer["reply"])

    async def build(self, program: Program, values: dict[str, int]) -> dict[str, Any]:
        self._turn += 1
        worker = self._builders[self._turn % len(self._builders)]
        args = {
            "source": program.source,
            "values": values,
            "kernels": program.kernels(),
            "cache": str(self._folder / "builds"),
            **self._device,
        }
        return await _again(lambda: worker.call("build", args, BUILD_S))

    async def check(self, target: int, library: str, bound: Bound) -> dict[str, Any]:
        args = {"library": library, "bound": bound.to_json()}
        return await self._with_target(self._judge, target, "check", args, CHECK_S)

    async def screen(self, target: int, library: str, bound: Bound) -> dict[str, Any]:
        args = {"library": library, "bound": bound.to_json(), "budget_ms": SCREEN_MS}
        return await self._with_target(self._judge, target, "screen", args, MEASURE_S)

    async def measure(self, target: int, library: str, bound: Bound) -> dict[str, Any]:
        args = {"library": library, "bound": bound.to_json(), "budget_ms": MEASURE_MS}
        return await self._with_target(self._judge, target, "measure", args, MEASURE_S)

    async def confirm(self, target: int, library: str, bound: Bound) -> dict[str, Any]:
        """Check and measure in a process that never saw this program, with new inputs."""
        await self._confirmer.kill()
        args: dict[str, Any] = {"library": library, "bound": bound.to_json()}
        checked = await self._with_target(self._confirmer, target, "check", args, CHECK_S)
        if checked.get("failure"):
            return checked
        args["budget_ms"] = MEASURE_MS
        return await self._with_target(self._confirmer, target, "measure", args, MEASURE_S)

    async def baseline(self, target: int, name: str) -> dict[str, Any]:
        args = {"name": name, "budget_ms": MEASURE_MS}
        return await self._compiled(target, "baseline", args)

    async def against(self, target: int, name: str, library: str, bound: Bound) -> dict[str, Any]:
        args = {"name": name, "library": library, "bound": bound.to_json(),
                "budget_ms": MEASURE_MS}  # fmt: skip
        return await self._compiled(target, "against", args)

    async def _compiled(self, target: int, verb: str, args: dict[str, Any]) -> dict[str, Any]:
        """Ask a fresh worker that compiles references, and end it; its faults are answers."""
        worker = Worker(baselines.MODULE, self._log, baselines.environment(self._folder))
        machine = str(self._folder / "machine.db")
        try:
            load = {"target": target, "task": self._tasks[target]}
            await worker.call("load", load, LOAD_S)
            return await worker.call(
                verb, {"target": target, "machine": machine, **args}, BASELINE_S
            )
        except MachineError:
            raise
        except ForgeError as error:
            return {"error": error.message}
        finally:
            await worker.kill()

    async def sanitize(self, target: int, library: str, bound: Bound) -> dict[str, str]:
        args = {"library": library, "bound": bound.to_json()}
        said = await self._with_target(self._confirmer, target, "sanitize", args, SANITIZE_S)
        return {str(tool): str(text) for tool, text in said.items()}

    async def advise(
        self, target: int, library: str, bound: Bound, facts: dict[str, Any], *, counters: bool
    ) -> dict[str, Any]:
        # Counters replay the kernels: that is work for the process that confirms.
        worker = self._confirmer if counters else self._judge
        args = {"library": library, "bound": bound.to_json(), "counters": counters, **facts}
        try:
            return await self._with_target(worker, target, "advise", args, SANITIZE_S)
        except MachineError:
            raise
        except ForgeError:
            return {}  # advice is a courtesy, and never stands in a verdict's way

    async def close(self) -> None:
        for worker in [self._author, *self._builders, self._judge, self._confirmer]:
            await worker.kill()
