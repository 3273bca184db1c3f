"""Whose fault an error on a GPU is; the driver is a stand-in, so no GPU is needed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("cuda.bindings")

import torch
from cuda.bindings import driver

from agent.errors import ForgeError, MachineError, ProgramError, WorkerError
from agent.judge import gpu_kit
from agent.judge.gpu_side import GpuSide
from agent.judge.library_steps import Environment
from agent.judge.replay import ReplayBench
from agent.workers import judge as worker

ILLEGAL, FINE = driver.CUresult(700), driver.CUresult(0)


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Has the context answer with a code from now on."""

    def answers(code: Any) -> None:
        monkeypatch.setattr(driver, "cuCtxSynchronize", lambda: (code,))
        monkeypatch.setattr(driver, "cuGetErrorName", lambda _: (FINE, b"CUDA_ERROR_SOME"))

    return answers


def refused() -> ProgramError:
    return ProgramError("k: the driver refuses the launch", code="launch")


@pytest.mark.parametrize(
    ("code", "raised", "expected"),
    [
        (ILLEGAL, refused(), (WorkerError, "crashed")),
        (FINE, refused(), (ProgramError, "launch")),
        (ILLEGAL, RuntimeError("illegal address"), (WorkerError, "crashed")),
        (FINE, torch.OutOfMemoryError("no room"), (ProgramError, "out-of-memory")),
        (driver.CUresult(100), RuntimeError("no device"), (MachineError, "gpu-lost")),
    ],
)
def test_runner_tells_a_dead_context_from_a_refusal(
    context: Callable[[Any], None],
    code: Any,
    raised: Exception,
    expected: tuple[type[ForgeError], str],
) -> None:
    context(code)
    with pytest.raises(ForgeError) as error, GpuSide(-1).faults("the program"):
        raise raised
    assert (type(error.value), error.value.code) == expected


def test_library_step_without_memory_is_no_matter_of_shapes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(torch.ops.aten, "mm", full)
    environment = Environment()
    environment.tensors = {"x": torch.ones(2, 2)}
    step = {"call": "mm", "args": [{"tensor": "x"}, {"tensor": "x"}], "to": "y"}
    with pytest.raises(torch.OutOfMemoryError):
        environment.make_call(step, {})(0)


@pytest.mark.parametrize(
    ("code", "raised", "expected"),
    [
        (FINE, torch.OutOfMemoryError("no room"), "gpu-memory"),
        (ILLEGAL, RuntimeError("CUDA error"), "gpu-lost"),
    ],
)
def test_faults_in_the_judge_are_the_machines(
    context: Callable[[Any], None],
    monkeypatch: pytest.MonkeyPatch,
    code: Any,
    raised: Exception,
    expected: str,
) -> None:
    def handler(_: dict[str, Any]) -> dict[str, Any]:
        raise raised

    context(code)
    monkeypatch.setattr(worker, "_on_gpu", True)
    with pytest.raises(MachineError) as error:
        worker._watched(handler)({})
    assert error.value.code == expected
    assert error.value.cure
    monkeypatch.setattr(worker, "_on_gpu", False)
    with pytest.raises(type(raised)):
        worker._watched(handler)({})


def test_other_errors_in_the_judge_stay(context: Callable[[Any], None]) -> None:
    context(FINE)
    with pytest.raises(RuntimeError, match="size mismatch"), gpu_kit.of_the_machine("judging"):
        raise RuntimeError("size mismatch")


def test_pools_of_graphs_that_are_gone_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    reserved, emptied = [10 << 30], list[int]()

    def empty() -> None:
        emptied.append(1)
        reserved[0] = 5 << 30

    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: reserved[0])
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 1 << 30)
    monkeypatch.setattr(torch.cuda, "empty_cache", empty)
    bench = ReplayBench.__new__(ReplayBench)
    bench._left = 0
    bench._give_back()
    bench._give_back()  # what is left is eager's: no second attempt
    assert len(emptied) == 1
    reserved[0] = 7 << 30
    bench._give_back()
    assert len(emptied) == 2


def test_no_torch_where_tools_look_at_a_program() -> None:
    import subprocess

    code = "import sys, agent.judge.gpu_launch; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
