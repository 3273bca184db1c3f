"""The GPU's part of the judge: what was going on on it, its speed of light, its floor."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from cuda.bindings import driver

from agent.devices.cuda.nvml import Conditions, disturbed
from agent.errors import MachineError
from agent.judge.gpu_faults import check, lost
from agent.judge.gpu_rates import GpuRates
from agent.judge.kit import Effort
from agent.judge.rates import machine_records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agent.devices import Device
    from agent.judge.host import Host
    from agent.judge.kit import Watch
    from agent.task import TargetSpec

# The floor's share of what the best rates allow: only a time that cannot be is to fall.
MARGIN = 0.8
_EXCLUSIVE, _PROHIBITED = 3, 2


class GpuKit:
    """One CUDA device's: the first that ``CUDA_VISIBLE_DEVICES`` shows.

    Raises:
        MachineError: ``gpu-exclusive``.
    """

    effort = Effort(
        rounds=2, least=40, screen_least=12, patience_s=4.0, calls_ms=60, budget_ms=300,
        large=1 << 30,
    )  # fmt: skip

    def __init__(self, device: Device) -> None:
        self.device = device
        check(driver.cuInit(0), "starting the driver")
        gpu = check(driver.cuDeviceGet(0), "the GPU")
        _refuse_modes(gpu)
        uuid = bytes(check(driver.cuDeviceGetUuid(gpu), "the GPU's name").bytes).hex()
        name = "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:32]))
        self._conditions = Conditions(f"GPU-{name}")

    def copies(self, size: int, cases: int) -> int:
        """One of each case: the cache is emptied before every call."""
        del size
        return cases

    def watch(self, host: Host) -> Watch:
        return _GpuWatch(self._conditions, [os.getpid(), *host.pids])

    def limits(
        self, spec: TargetSpec, host: Host, cache: Path, machine: str
    ) -> tuple[int, int, dict[str, Any]]:
        """SOL: the best streaming kernel of the same bytes, or the operations at the best rate.

        Floor: a share of the larger of what an empty region takes and what the bytes take at the
        best read rate, less those that the second-level cache may hold.
        """
        with machine_records(machine) as records:
            rates = GpuRates(self.device, host, cache, records)
            read = rates.read()
            moved = rates.moved(spec.read_bytes, spec.write_bytes)
            sol_ns = int(moved["ns"])
            detail: dict[str, Any] = {"stream": moved, "read": read}
            if spec.flops:
                detail["products"] = rates.products(spec)
                rate = float(detail["products"]["flops_per_s"])
                sol_ns = max(sol_ns, round(spec.flops / rate * 1e9))
        outside = max(0, spec.read_bytes + spec.write_bytes - self.device.facts()["l2"])
        floor = MARGIN * max(float(read["empty_ns"]), outside / read["bytes_per_ns"])
        return sol_ns, min(round(floor), round(MARGIN * sol_ns)), detail


def _refuse_modes(gpu: Any) -> None:
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_MODE
    mode = int(check(driver.cuDeviceGetAttribute(attribute, gpu), "the GPU's compute mode"))
    if mode in (_EXCLUSIVE, _PROHIBITED):
        word = "exclusive-process" if mode == _EXCLUSIVE else "prohibited"
        raise MachineError(
            f"the GPU is in {word} mode, and judging takes two processes: one that knows the "
            "answers, one that runs candidates",
            "have an administrator run: nvidia-smi -c DEFAULT; then resume",
            code="gpu-exclusive",
        )


@contextmanager
def of_the_machine(what: str) -> Iterator[None]:
    """Say of what PyTorch raises in a process that runs no candidate what the machine lacks.

    Raises:
        MachineError: ``gpu-memory``, ``gpu-lost``.
    """
    try:
        yield
    except torch.OutOfMemoryError:
        raise MachineError(
            f"the GPU's memory is full ({what})",
            "free memory on the GPU: end other programs, or use smaller inputs",
            code="gpu-memory",
        ) from None
    except RuntimeError:
        code = driver.cuCtxSynchronize()[0]
        if int(code):
            # Whatever the code: no program did it, and nothing works in this process any more.
            raise lost(code, what) from None
        raise


class _GpuWatch:
    def __init__(self, conditions: Conditions, pids: list[int]) -> None:
        self._conditions = conditions
        self._pids = pids
        self._before = conditions.sample()

    def done(self) -> tuple[float, dict[str, Any]]:
        after = self._conditions.sample()
        reason = disturbed(self._before, after, self._pids)
        return (1.0 if reason else 0.0), {**after, "disturbed": reason}
