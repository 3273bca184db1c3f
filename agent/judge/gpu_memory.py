"""GPU memory that the judge and the runner share: the judge's own allocation, mapped by the runner.

Two processes, two contexts: the runner's kernels reach this block and the runner's memory, and
nothing else of the judge's. When a kernel ruins its context, the judge keeps all that it knows.

Source: CUDA driver API reference, inter-process communication (cuIpcGetMemHandle,
cuIpcOpenMemHandle).
"""

from __future__ import annotations

from typing import Any

import torch
from cuda.bindings import driver

from agent.judge.arena import Arena
from agent.judge.gpu_faults import check


class _Raw:
    """A device address as torch takes it (``__cuda_array_interface__``, version 3)."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3,
        }  # fmt: skip


def _whole(address: int, size: int) -> torch.Tensor:
    return torch.as_tensor(_Raw(address, size), device="cuda")


class SharedDevice:
    """The judge's side: one allocation, made anew when it must grow."""

    fds: tuple[int, ...] = ()

    def __init__(self) -> None:
        torch.cuda.init()
        self._address = 0
        self._size = 0
        self._handle = ""

    def grow(self, size: int) -> Arena:
        """An arena of at least so many bytes. Nobody may have the old one mapped.

        Raises:
            MachineError: ``gpu-memory``, ``gpu-lost``.
        """
        self.close()
        torch.cuda.empty_cache()  # what torch only keeps for later must not stand in the way
        self._address = int(check(driver.cuMemAlloc(size), "memory for checking programs"))
        self._size = size
        handle = check(driver.cuIpcGetMemHandle(self._address), "sharing memory")
        self._handle = bytes(handle.reserved).hex()
        return Arena(_whole(self._address, size))

    def describe(self) -> dict[str, Any]:
        """What the runner needs to map it."""
        return {"size": self._size, "handle": self._handle}

    def close(self) -> None:
        if self._address:
            torch.cuda.synchronize()
            driver.cuMemFree(self._address)
            self._address = self._size = 0


class Mapped:
    """The runner's side of a :class:`SharedDevice`."""

    def __init__(self, description: dict[str, Any]) -> None:
        torch.cuda.init()
        handle = driver.CUipcMemHandle()
        handle.reserved = bytes.fromhex(description["handle"])
        lazily = driver.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
        opened = driver.cuIpcOpenMemHandle(handle, lazily.value)
        self._address = int(check(opened, "memory shared with the judge"))
        self.arena = Arena(_whole(self._address, description["size"]))

    def close(self) -> None:
        torch.cuda.synchronize()
        driver.cuIpcCloseMemHandle(self._address)
