"""What differs between devices in judging: who else is there, how much to time, the limits.

:class:`CpuKit` is below; :mod:`agent.judge.gpu_kit` has the GPU's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from agent.judge import sol
from agent.judge.measure import QUIET, Load, copies_needed
from agent.judge.rates import Rates, machine_records

if TYPE_CHECKING:
    from pathlib import Path

    from agent.devices import Device
    from agent.judge.host import Host
    from agent.task import TargetSpec


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is timed.

    Attributes:
        rounds: Each has arguments of its own, and is followed by a look at the answers.
        least: Pairs of a full measurement, over all rounds.
        screen_least: Pairs of a short one.
        patience_s: A call that takes longer (and longer than 50 times eager) has hung.
        calls_ms: Time for call times, where the primary figure is device time; 0 for none.
        budget_ms: The most that a measurement may be given.
        large: Bytes of arguments from which on fewer sets of them must do.
    """

    rounds: int
    least: int
    screen_least: int
    patience_s: float
    calls_ms: float
    budget_ms: float
    large: int


class Watch(Protocol):
    """Looks at the machine from its making on."""

    def done(self) -> tuple[float, dict[str, Any]]:
        """Share of the machine that others used (0 to 1), and what is known of its conditions."""
        ...


class Kit(Protocol):
    """One device's part of the judge."""

    device: Device
    effort: Effort

    def copies(self, size: int, cases: int) -> int:
        """How many sets of arguments of ``size`` bytes to go round over."""
        ...

    def watch(self, host: Host) -> Watch: ...

    def limits(
        self, spec: TargetSpec, host: Host, cache: Path, machine: str
    ) -> tuple[int, int, dict[str, Any]]:
        """SOL and floor in ns, and how they were found.

        Args:
            cache: Where streaming kernels are built.
            machine: Path of ``machine.db``; "" to measure anew.
        """
        ...


class CpuKit:
    """The processor's."""

    effort = Effort(
        rounds=2, least=15, screen_least=6, patience_s=10.0, calls_ms=0, budget_ms=1e6,
        large=256 << 20,
    )  # fmt: skip

    def __init__(self, device: Device) -> None:
        self.device = device

    def copies(self, size: int, cases: int) -> int:
        facts = self.device.facts()
        return max(cases, copies_needed(size, facts["l2"], facts["cores"]))

    def watch(self, host: Host) -> Watch:
        return _LoadWatch([host.ready().pid])

    def limits(
        self, spec: TargetSpec, host: Host, cache: Path, machine: str
    ) -> tuple[int, int, dict[str, Any]]:
        with machine_records(machine) as records:
            rates = Rates(self.device, host, cache, records)
            read = rates.cache_read()
            moved = rates.moved(spec.read_bytes, spec.write_bytes)
            sol_ns = int(moved["ns"])
            detail: dict[str, Any] = {"stream": moved, "cache_read": read}
            if spec.flops:
                detail["products"] = rates.products(spec)
                rate = float(detail["products"]["flops_per_s"])
                sol_ns = max(sol_ns, round(spec.flops / rate * 1e9))
        size = spec.read_bytes + spec.write_bytes
        # A rate taken on a busy machine is too low, and its floor would refuse honest programs.
        quiet = float(read.get("others", 0.0)) < QUIET
        floor = round(sol.MARGIN * size / read["bytes_per_ns"]) if quiet else 0
        return sol_ns, min(floor, round(sol.MARGIN * sol_ns)), detail


class _LoadWatch:
    def __init__(self, pids: list[int]) -> None:
        self._load = Load(pids)

    def done(self) -> tuple[float, dict[str, Any]]:
        return self._load.others(), {}


def open_kit(device: Device) -> Kit:
    """The kit of a device.

    Raises:
        MachineError: ``gpu-exclusive``, or what the device's driver says.
    """
    if device.name == "cpu":
        return CpuKit(device)
    from agent.judge.gpu_kit import GpuKit

    return GpuKit(device)
