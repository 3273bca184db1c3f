"""The runner's side on a GPU: cubins, graph replay, and what the driver's errors mean."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from cuda.bindings import driver

from agent.errors import ForgeError, ProgramError
from agent.judge.gpu_caller import GpuCaller, run_checked
from agent.judge.gpu_faults import fault
from agent.judge.gpu_launch import Cubin
from agent.judge.gpu_memory import Mapped
from agent.judge.replay import ReplayBench

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from agent.judge.arena import Arena

_KEPT_MODULES = 16


class GpuSide:
    """Maps the judge's GPU memory and launches kernels."""

    def __init__(self, memory: int) -> None:
        del memory  # that of the CPU's side
        self._mapped: Mapped | None = None
        self._handle = ""
        self._cubins: OrderedDict[str, Cubin] = OrderedDict()

    def warm_up(self) -> dict[str, Any]:
        """Whatever a first use costs; says what times depend on.

        Raises:
            MachineError: ``gpu-lost``, ``gpu-memory``.
        """
        with self.faults("starting CUDA"):
            torch.cuda.init()
            value = torch.rand(1 << 20, device="cuda")
            torch.sum(value)
            value.clone().view(torch.int32).fill_(0)
            torch.mm(value.view(1024, 1024), value.view(1024, 1024))
            torch.cuda.synchronize()
        return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}

    def mapped(self, description: dict[str, Any]) -> Arena:
        """The shared memory as it is described now."""
        if self._mapped is None or description["handle"] != self._handle:
            self.unmap()
            self._mapped = Mapped(description)
            self._handle = description["handle"]
        return self._mapped.arena

    def unmap(self) -> None:
        if self._mapped is not None:
            self._mapped.close()
            self._mapped = None

    def settle(self) -> None:
        """Wait for the device, so that the judge sees what was written."""
        torch.cuda.synchronize()

    @contextmanager
    def faults(self, what: str) -> Iterator[None]:
        """Say of whatever is raised whether the device still lives.

        Raises:
            ForgeError: What :func:`agent.judge.gpu_faults.fault` makes of a dead context;
                ``ProgramError`` ``out-of-memory``.
        """
        try:
            yield
        except ProgramError:
            # A launch or a library step is also refused when a kernel before it broke the context.
            code = driver.cuCtxSynchronize()[0]
            if int(code):
                raise fault(code, what) from None
            raise
        except ForgeError:
            raise
        except torch.OutOfMemoryError as error:
            raise ProgramError(
                f"out of GPU memory ({what}): {' '.join(str(error).split())}"[:300],
                "use less scratch, or free memory on the GPU",
                code="out-of-memory",
            ) from None
        except RuntimeError:
            code = driver.cuCtxSynchronize()[0]
            if int(code):
                raise fault(code, what) from None
            raise

    def _cubin(self, path: str) -> Cubin:
        if path not in self._cubins:
            while len(self._cubins) >= _KEPT_MODULES:
                torch.cuda.synchronize()
                self._cubins.popitem(last=False)[1].close()
            self._cubins[path] = Cubin(path)
        self._cubins.move_to_end(path)
        return self._cubins[path]

    def run(
        self,
        library: str,
        bound: dict[str, Any],
        tensors: Mapping[str, torch.Tensor],
        outputs: Sequence[str],
    ) -> None:
        run_checked(self._cubin(library), bound, tensors, outputs)

    def caller(
        self,
        library: str,
        names: Sequence[str],
        outputs: Sequence[dict[str, Any]],
        bound: dict[str, Any],
    ) -> GpuCaller:
        return GpuCaller(self._cubin(library), names, outputs, bound)

    def bench(
        self, cases: Sequence[Sequence[torch.Tensor]], copies: int, mutated: Sequence[int]
    ) -> ReplayBench:
        return ReplayBench(cases, copies, mutated)
