"""The devices that programs run on: what they are, and how source becomes something to launch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from agent.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Built:
    """One built variant.

    Attributes:
        library: Path of what the runner loads: a shared library, a cubin.
        seconds: Wall time of this build; of the first one when ``cached``.
        cached: Whether it was found ready.
        flags: The compiler's name and flags.
        detail: Facts for the node pane. C++: bytes of code, outside functions. CUDA: ``arch``;
            ``kernels``, by name their registers, shared, local, spilled and constant bytes,
            max_threads; ``access``, by name the widths of their global accesses; ``notes``.
    """

    library: str
    seconds: float
    cached: bool
    flags: str
    detail: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Device(Protocol):
    """What the engine and the judge need to know of a device; no torch behind it."""

    name: str
    language: str

    def key(self) -> str:
        """What measured figures depend on: model, cores, toolchain."""
        ...

    def facts(self) -> dict[str, int]:
        """Numbers that a plan may use as ``device.NAME``; bytes and counts."""
        ...

    def build(
        self, source: str, values: Mapping[str, int], kernels: Sequence[str], cache: Path
    ) -> Built:
        """Build one variant, or find it built.

        Raises:
            BuildError: The source is refused or does not compile.
            MachineError: This machine cannot build.
        """
        ...


def open_device(name: str, arch: str = "") -> Device:
    """The device of that name.

    Args:
        name: ``cpu``, ``cuda``, or ``cuda:N`` where the worker sees that GPU alone.
        arch: With ``cuda``, an architecture such as ``sm_90a`` to build for without a GPU.

    Raises:
        MachineError: ``device-unknown``; or what opening that device raises.
    """
    if name == "cpu":
        from agent.devices.cpu import CpuDevice

        return CpuDevice()
    if name.partition(":")[0] == "cuda":
        from agent.devices.cuda import CudaDevice

        return CudaDevice(arch)
    raise MachineError(f"there is no device {name[:40]}", "use cpu or cuda", code="device-unknown")
