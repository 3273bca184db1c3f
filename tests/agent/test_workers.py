"""Workers as processes: answers, faults, death, time-outs, and who dies with whom."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent.errors import ForgeError, WorkerError
from agent.program import Bound, parse_reply
from agent.workers.client import Worker
from agent.workers.workshop import LocalWorkshop, worker_environment
from tests.agent.landscape import CUDA_REPLY

ECHO = "tests.agent.echo_worker"


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    root = str(Path(__file__).parents[2])
    return Worker(ECHO, tmp_path / "log", {**worker_environment(), "PYTHONPATH": root})


async def test_answers_errors_and_prints_that_do_no_harm(worker: Worker, tmp_path: Path) -> None:
    assert await worker.call("echo", {"x": [1, "é"]}, 20) == {"x": [1, "é"]}
    with pytest.raises(ForgeError, match="on purpose") as caught:
        await worker.call("refuse", {}, 20)
    assert (caught.value.code, caught.value.cure) == ("why", "do this")
    with pytest.raises(WorkerError, match="ZeroDivisionError"):
        await worker.call("crash", {}, 20)
    with pytest.raises(WorkerError, match="no verb"):
        await worker.call("nonsense", {}, 20)
    with pytest.raises(WorkerError, match="not finite"):
        await worker.call("nan", {}, 20)
    assert await worker.call("print", {}, 20) == {}
    assert worker.generation == 1
    assert '{"id": 6, "ok": {"forged": true}}' in (tmp_path / "log").read_text()
    await worker.kill()


async def test_a_dead_worker_costs_one_call_and_is_replaced(worker: Worker) -> None:
    with pytest.raises(WorkerError, match="signal 11") as caught:
        await worker.call("die", {}, 20)
    assert caught.value.code == "worker-died"
    assert await worker.call("echo", {}, 20) == {}
    assert worker.generation == 2
    await worker.kill()


async def test_a_hung_worker_is_killed_with_its_children(worker: Worker) -> None:
    children = await worker.call("spawn", {}, 20)
    with pytest.raises(WorkerError) as caught:
        await worker.call("hang", {}, 0.3)
    assert caught.value.code == "worker-timeout"
    await gone(children["pid"])
    assert await worker.call("echo", {}, 20) == {}
    await worker.kill()


async def test_a_cancelled_call_does_not_leave_its_answer_to_the_next(worker: Worker) -> None:
    await worker.start()
    task = asyncio.create_task(worker.call("hang", {}, 20))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await worker.call("echo", {"n": 2}, 20) == {"n": 2}
    await worker.kill()


async def gone(pid: int) -> None:
    async with asyncio.timeout(10):
        while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            await asyncio.sleep(0.02)


async def test_a_worker_dies_with_its_engine(tmp_path: Path) -> None:
    code = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from agent.workers.client import Worker\n"
        "async def main():\n"
        f"    worker = Worker({ECHO!r}, Path(sys.argv[1]), dict(os.environ))\n"
        "    print((await worker.call('pid', {}, 20))['pid'], flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "log")],
        stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": root},
    ) as engine:  # fmt: skip
        assert engine.stdout is not None
        pid = int(engine.stdout.readline())
        assert psutil.pid_exists(pid)
        engine.send_signal(signal.SIGKILL)
    await gone(pid)


def test_no_key_reaches_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert "secret" not in worker_environment().values()


def test_what_a_gpu_is_found_by_reaches_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "LD_LIBRARY_PATH", "FORGE_CUTLASS")
    for name in names:
        monkeypatch.setenv(name, f"of {name}")
    found = worker_environment()
    assert [found[name] for name in names] == [f"of {name}" for name in names]


class Told:
    """A worker that answers at once and remembers what it was asked."""

    def __init__(self, answer: dict[str, Any] | WorkerError) -> None:
        self.answer = answer
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.generation, self.kills = 1, 0

    async def start(self) -> None:
        pass

    async def call(self, verb: str, args: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        self.asked.append((verb, args))
        if isinstance(self.answer, WorkerError):
            raise self.answer
        return self.answer

    async def kill(self) -> int:
        self.kills += 1
        return 0


def workshop_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: Told, cores: int) -> Any:
    monkeypatch.setattr("agent.workers.workshop.Worker", lambda *_: told)
    return LocalWorkshop(tmp_path, tmp_path / "log", "cuda", cores, 7, "sm_90a")


async def test_builds_name_the_device_and_builders_are_at_most_eight(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = Told({"library": "x", "seconds": 0.1, "cached": False})
    workshop = workshop_with(monkeypatch, tmp_path, told, 64)
    assert len(workshop._builders) == 8
    await workshop.build(parse_reply(CUDA_REPLY.format(n=1), "cuda"), {"UNROLL": 1})
    ((verb, args),) = told.asked
    assert (verb, args["device"], args["arch"]) == ("build", "cuda", "sm_90a")
    assert args["kernels"] == ["f"]


@pytest.mark.parametrize("fault", [None, WorkerError("it died", code="worker-died")])
async def test_a_compiled_baseline_has_a_process_for_each_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: WorkerError | None
) -> None:
    told = Told(fault or {"ratio": 2.0})
    workshop = workshop_with(monkeypatch, tmp_path, told, 1)
    workshop._tasks[1] = {"name": "toy"}
    bound = Bound((), (), ())
    found = [
        await workshop.baseline(1, "compile"), await workshop.against(1, "compile", "x", bound)
    ]  # fmt: skip
    assert found == ([{"error": "it died"}] if fault else [{"ratio": 2.0}]) * 2
    assert told.kills == 2
    verbs = [verb for verb, _ in told.asked]
    assert verbs == ["load"] * 2 if fault else ["load", "baseline", "load", "against"]


def test_the_clock_stands_still_while_halted() -> None:
    from agent.clock import ActiveClock

    clock = ActiveClock(5_000_000)
    assert clock.us() == 5_000_000
    clock.go()
    time.sleep(0.01)
    clock.halt()
    stood = clock.us()
    assert stood >= 5_010_000
    time.sleep(0.01)
    assert clock.us() == stood
