"""Compiled baselines: what is recorded, what is refused, and that nothing is ever raised."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch._dynamo.utils import counters

from agent import baselines
from agent.devices import open_device
from agent.judge.process import ALLOCATOR
from agent.task import TaskSource
from agent.workers import baseline as worker
from agent.workers.client import Worker
from store.machine import MachineStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SILU = """
import torch
def reference(x):
    return x * torch.sigmoid(x)
def inputs():
    return torch.randn(64, 512)
"""
NORM = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(64)
    def forward(self, x):
        return self.norm(x) + self.norm(x + 1)
def get_inputs():
    return [torch.randn(32, 64)]
"""
IN_PLACE = """
import torch
MUTATES = ("x",)
def reference(x, y):
    x.add_(y)
    return y * 2
def inputs():
    return torch.randn(16, 64), torch.randn(16, 64)
"""


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in baselines.environment(tmp_path).items():
        if name not in ("HOME", "PATH"):
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(worker, "_tasks", {})
    monkeypatch.setattr(worker, "_TRIES", 1)


@pytest.fixture(autouse=True)
def gradients() -> Any:
    yield
    torch.set_grad_enabled(True)


def task(text: str = SILU, kind: str = "plain", device: str = "cpu") -> dict[str, Any]:
    return TaskSource(kind, "t", "", text, device).to_json()  # type: ignore[arg-type]


def ask(
    monkeypatch: pytest.MonkeyPatch,
    compiled: Callable[..., Any],
    text: str = SILU,
    kind: str = "plain",
    **args: Any,
) -> dict[str, Any]:
    """One baseline with a stand-in for the compiler: what it makes of the user's function."""

    def compile_as(target: Callable[..., Any], mode: str) -> Callable[..., Any]:
        counters["stats"]["unique_graphs"] += 1
        return compiled(target)

    monkeypatch.setattr(worker, "_compile", compile_as)
    worker.load_task({"target": 1, "task": task(text, kind)})
    request = {"target": 1, "name": "compile", "machine": "", "budget_ms": 20, **args}
    return worker.baseline(request)


def same(target: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: target(*args)


def slow(target: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: torch.Tensor) -> Any:
        time.sleep(0.002)
        return target(*args)

    return call


def test_a_baseline_is_a_ratio_with_its_interval_and_times(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask(monkeypatch, slow)
    assert 0.0 < found["low"] <= found["ratio"] <= found["high"] < 0.5
    assert found["ns"] == found["call_ns"] > 1_900_000 > found["eager_ns"]
    assert (found["cached"], found["breaks"], found["timing"]) == (False, 0, "call")
    assert found["seconds"] >= 0.0
    assert "quiet" not in found


def test_weights_reach_the_compiled_model(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.nn.Module] = []

    def wrap(target: Any) -> Callable[..., Any]:
        seen.append(target)
        return same(target)

    found = ask(monkeypatch, wrap, NORM, "kernelbench")
    assert "error" not in found
    assert isinstance(seen[0], torch.nn.Module)


def test_what_changes_in_place_is_put_back_and_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "error" not in ask(monkeypatch, same, IN_PLACE)

    def forgets(target: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, y: y * 2

    assert ask(monkeypatch, forgets, IN_PLACE) == {
        "error": "its answer for x is not the reference's"
    }


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("value", lambda y: y * 1.001),
        ("dtype", lambda y: y.double()),
        ("shape", lambda y: y[:1]),
        ("infinite", lambda y: y / 0),
    ],
)
def test_a_wrong_answer_is_no_baseline(
    monkeypatch: pytest.MonkeyPatch, name: str, wrong: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    found = ask(monkeypatch, lambda target: lambda x: wrong(target(x)))
    assert found == {"error": "its answer for out is not the reference's"}


def test_whatever_the_compiler_does_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(target: Callable[..., Any]) -> Any:
        raise RuntimeError("backend \x1b[31m failed\nwith a long story" + "x" * 5000)

    error = ask(monkeypatch, raises)["error"]
    assert error.startswith("RuntimeError: backend")
    assert len(error) <= 300
    assert error.isprintable()

    def endless(target: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: torch.Tensor) -> Any:
            while True:
                with contextlib.suppress(Exception):  # as a compiler does that tries on
                    time.sleep(0.01)

        return call

    monkeypatch.setattr(baselines, "COMPILE_SECONDS", 0.2)
    assert ask(monkeypatch, endless)["error"] == "compiling took longer than 0 s"


def test_nothing_compiled_is_no_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_compile", lambda target, mode: target)
    worker.load_task({"target": 1, "task": task()})
    request = {"target": 1, "name": "compile", "machine": "", "budget_ms": 20}
    assert "nothing to compile" in worker.baseline(request)["error"]


def test_a_broken_task_an_unknown_name_and_a_bare_start_are_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "error" in ask(monkeypatch, same, "def reference(x): return 1/0\ndef inputs(): return 3")
    assert "no baseline fastest" in ask(monkeypatch, same, name="fastest")["error"]
    monkeypatch.delenv("MALLOC_MMAP_MAX_")
    assert "MALLOC_MMAP_MAX_" in ask(monkeypatch, same)["error"]


def test_a_quiet_measurement_is_remembered_and_a_disturbed_one_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = str(tmp_path / "machine.db")
    share = 0.9
    monkeypatch.setattr(worker.Load, "others", lambda self: share)
    assert ask(monkeypatch, same, machine=machine)["others"] == 0.9
    share = 0.01
    first = ask(monkeypatch, same, machine=machine)
    assert first["cached"] is False
    again = ask(monkeypatch, slow, machine=machine)
    assert again == {**first, "cached": True}
    assert ask(monkeypatch, same, machine=machine, name="compile-max")["cached"] is False
    store = MachineStore(tmp_path / "machine.db")
    rows = store._conn.execute("SELECT kind, key FROM measured ORDER BY key").fetchall()
    store.close()
    assert {kind for kind, _ in rows} == {"baseline"}
    assert sorted(key.partition(" | ")[0] for _, key in rows) == ["compile", "compile-max"]


def test_the_key_names_all_that_a_baseline_depends_on() -> None:
    one = {"torch": "2.13", "triton": "", "threads": 2}
    key = baselines.record_key("compile", "abc", {"rows": 4, "b": 1}, **one)
    assert key == baselines.record_key("compile", "abc", {"b": 1, "rows": 4}, **one)
    others = [
        baselines.record_key("compile-max", "abc", {"rows": 4, "b": 1}, **one),
        baselines.record_key("compile", "abd", {"rows": 4, "b": 1}, **one),
        baselines.record_key("compile", "abc", {"rows": 5, "b": 1}, **one),
        *(
            baselines.record_key("compile", "abc", {"rows": 4, "b": 1}, **{**one, name: value})
            for name, value in (("torch", "2.14"), ("triton", "3.6"), ("threads", 1))
        ),
    ]
    assert len({key, *others}) == 7


def test_call_times_are_apart_from_device_times() -> None:
    found = baselines.summary([(200.0, 100.0)] * 15, [(50_000.0, 60_000.0)] * 9)
    assert (found["ratio"], found["ns"], found["eager_ns"]) == (pytest.approx(2.0), 100, 200)
    assert found["call_ns"] == 60_000
    assert baselines.summary([(200.0, 100.0)] * 15, [])["call_ns"] == 100


def test_the_environment_keeps_pages_and_shares_no_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/home/somebody/cache")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    env = baselines.environment(tmp_path)
    assert "secret" not in env.values()
    assert env["TORCHINDUCTOR_CACHE_DIR"].startswith(str(tmp_path))
    assert env["CUDA_VISIBLE_DEVICES"] == "3"
    assert ALLOCATOR.items() <= env.items()
    assert baselines.unsuited(env) == ""
    assert baselines.unsuited({}) != ""


def test_on_the_cpu_no_program_is_loaded_here(tmp_path: Path) -> None:
    worker.load_task({"target": 1, "task": task()})
    request = {"target": 1, "name": "compile", "budget_ms": 20, "bound": {}}
    assert "CUDA only" in worker.against({**request, "library": "/nowhere.so"})["error"]


@pytest.mark.slow
async def test_a_real_compiler_on_a_small_function(tmp_path: Path) -> None:
    env = {**baselines.environment(tmp_path), "OMP_NUM_THREADS": "1"}
    process = Worker(baselines.MODULE, tmp_path / "log", env)
    try:
        await process.call("load", {"target": 1, "task": task()}, 60)
        request = {"target": 1, "name": "compile", "machine": "", "budget_ms": 50}
        found = await process.call("baseline", request, 170)
    finally:
        await process.kill()
    assert "error" not in found, found
    assert found["low"] <= found["ratio"] <= found["high"]
    assert found["breaks"] == 0
    assert os.listdir(tmp_path / "compiled" / "inductor")


@pytest.mark.gpu
@pytest.mark.parametrize("name", list(baselines.MODES))
async def test_a_baseline_on_the_gpu_has_both_times(tmp_path: Path, name: str) -> None:
    process = Worker(baselines.MODULE, tmp_path / "log", baselines.environment(tmp_path))
    text = SILU.replace("64, 512", "4096, 4096")
    try:
        await process.call("load", {"target": 1, "task": task(text, device="cuda")}, 60)
        request = {"target": 1, "name": name, "budget_ms": 300}
        machine = str(tmp_path / "machine.db")
        found = await process.call("baseline", {**request, "machine": machine}, 170)
    finally:
        await process.kill()
    assert "error" not in found, found
    assert found["timing"] == "device"
    assert found["ratio"] > 1.2
    assert found["ns"] > 10_000
    assert found["call_ns"] > 0
    assert found["conditions"]["sm_mhz"] > 0


@pytest.mark.gpu
async def test_a_program_is_timed_directly_against_a_baseline(tmp_path: Path) -> None:
    source = """extern "C" __global__ void silu(const float* x, float* out, long long n) {
        const long long i = blockIdx.x * 256ll + threadIdx.x;
        if (i < n) out[i] = x[i] / (1.0f + __expf(-x[i]));
    }
    """
    count = 2048 * 2048
    device = open_device("cuda")
    library = device.build(source, {}, ["silu"], tmp_path).library
    step = {
        "kernel": "silu", "grid": [count // 256, 1, 1], "block": [256, 1, 1], "shared": 0,
        "cluster": None, "cooperative": False,
        "args": [{"tensor": "x"}, {"tensor": "out"}, {"type": "int64", "value": count}],
    }  # fmt: skip
    bound = {"scratch": [], "tensormaps": [], "steps": [step], "neighbours": []}
    process = Worker(baselines.MODULE, tmp_path / "log", baselines.environment(tmp_path))
    text = SILU.replace("64, 512", "2048, 2048")
    try:
        await process.call("load", {"target": 1, "task": task(text, device="cuda")}, 60)
        request = {"target": 1, "name": "compile", "library": library, "bound": bound}
        found = await process.call("against", {**request, "budget_ms": 200}, 170)
        broken = await process.call("against", {**request, "library": "/x", "budget_ms": 9}, 170)
    finally:
        await process.kill()
    assert "error" not in found, found
    assert found["direct"] is True
    assert found["low"] <= found["ratio"] <= found["high"]
    assert found["timing"] == "device"
    assert broken["error"]
