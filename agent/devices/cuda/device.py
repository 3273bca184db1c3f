"""A CUDA GPU as a device: its facts, its compiler, and the key that measured figures depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.devices.cuda import nvrtc
from agent.devices.cuda.arches import arch_of, limits_of, parse_arch
from agent.devices.cuda.driver import Gpu, first_gpu
from agent.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from agent.devices import Built


class CudaDevice:
    """The first visible GPU; or, with an architecture given, a compiler for it and no GPU.

    No context is ever created: the driver is asked for attributes only.

    Args:
        arch: Such as ``sm_90a``; the GPU's own when empty.

    Raises:
        MachineError: ``no-cuda-python``, ``no-driver``, ``no-gpu``, ``gpu-too-old``,
            ``driver-too-old``, ``arch-unknown``.
    """

    name = "cuda"
    language = "cuda"

    def __init__(self, arch: str = "") -> None:
        self._gpu: Gpu | None = None
        if arch:
            parse_arch(arch)
            self.arch = arch
            return
        gpu = self._gpu = first_gpu()
        self.arch = arch_of(gpu.facts["major"], gpu.facts["minor"])
        parse_arch(self.arch)
        # A driver runs the code of every compiler of its own major version, and of older ones.
        if gpu.driver[0] < nvrtc.version()[0]:
            newest, wanted = gpu.driver[0], nvrtc.version()[0]
            raise MachineError(
                f"the driver runs CUDA {newest}, but the compiler writes CUDA {wanted}",
                f"update the driver, or install NVRTC for CUDA {newest}",
                code="driver-too-old",
            )

    def key(self) -> str:
        try:
            compiler = "nvrtc " + ".".join(str(part) for part in nvrtc.version())
        except MachineError:
            compiler = "no compiler"
        if self._gpu is None:
            return f"{self.arch} | no GPU | {compiler}"
        driver = ".".join(str(part) for part in self._gpu.driver)
        return f"{self._gpu.uuid} | {self._gpu.name} | driver {driver} | {compiler}"

    def facts(self) -> dict[str, int]:
        """Numbers that a plan may use as ``device.NAME``.

        ``sms``; ``shared`` (bytes that a block may ask for), ``shared_sm``, ``shared_reserved``
        (of each block, for the system), ``l2``: bytes; ``warp``, ``max_threads`` (of a block),
        ``threads_sm``, ``blocks_sm``, ``registers`` (of an SM); ``major``, ``minor``;
        ``cluster`` (blocks of the largest cluster that runs on every such GPU).
        """
        if self._gpu is None:
            return limits_of(*parse_arch(self.arch))
        return dict(self._gpu.facts)

    def build(
        self, source: str, values: Mapping[str, int], kernels: Sequence[str], cache: Path
    ) -> Built:
        from agent.devices.cuda.build import build

        return build(self.arch, source, values, kernels, cache)
