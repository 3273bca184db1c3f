"""What hardware counters say could be better: findings to go with those of the plan. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.judge.advice import Finding, Measurement
from agent.judge.counters import total

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agent.judge.counters import KernelCounters

_SECTOR, _WARP = 32, 32
# What a stall's name means, and what helps.
_STALLS = {
    "long_scoreboard": ("for values from global or local memory",
                        "more loads in flight: unroll, read ahead, copy asynchronously"),
    "short_scoreboard": ("for shared memory or special functions",
                         "fewer passes over shared memory; cheaper functions"),
    "barrier": ("at block barriers", "fewer __syncthreads, or smaller blocks; shuffles in a warp"),
    "mio_throttle": ("for a place in the queue to shared memory", "wider accesses to it"),
    "lg_throttle": ("for a place in the queue to global memory", "wider and fewer loads"),
    "math_pipe_throttle": ("for the arithmetic units", "cheaper arithmetic, or tensor cores"),
    "membar": ("at memory fences", "fewer fences"),
    "no_instruction": ("for instructions to be fetched", "a smaller unrolled body"),
    "wait": ("for fixed latencies of instructions", "more independent work a thread"),
    "gmma": ("for the tensor cores", "a deeper pipeline of tiles"),
}  # fmt: skip
_BUSY = 1.0


def counter_findings(measured: Measurement, launches: Sequence[KernelCounters]) -> list[Finding]:
    """Findings from one call's counters, in no order."""
    found = list(_bytes(measured, launches))
    time = sum(item.ns or 0 for item in launches)
    for item in launches:
        share = (item.ns or 0) / time if time else 1 / len(launches)
        found += _of_kernel(measured, item, share)
    return found


def _bytes(measured: Measurement, launches: Sequence[KernelCounters]) -> Iterator[Finding]:
    least = measured.spec.read_bytes + measured.spec.write_bytes
    moved = total(launches)
    # Writes may still be in the cache when a kernel ends, so less than the least is no wonder.
    if moved is None or moved < 1.2 * least or moved - least < 1 << 20:
        return
    yield Finding(
        "bytes-moved", "more goes through the GPU's memory than must",
        f"{moved / 1e6:.1f} MB counted, {least / 1e6:.1f} MB would do",
        "read every value once; keep what is needed again in registers, shared memory or L2",
        1 - least / moved,
    )  # fmt: skip


def _of_kernel(measured: Measurement, item: KernelCounters, share: float) -> Iterator[Finding]:
    access = measured.access(item.kernel)
    for sectors, side, word in (
        (item.load_sectors, "load_bytes", "reads"),
        (item.store_sectors, "store_bytes", "writes"),
    ):
        width = int(access.get(side) or 16)
        most = _WARP * width / _SECTOR
        if sectors is not None and sectors > max(1.5 * most, most + 2):
            yield Finding(
                "uncoalesced", f"{item.kernel}: a warp's {word} are scattered",
                f"{sectors:.1f} sectors of {_SECTOR} bytes a request, {most:.0f} would do for "
                f"{width} bytes a thread",
                "let neighbouring threads take neighbouring addresses; turn tiles in shared memory",
                0.5 * share * (1 - most / sectors),
            )  # fmt: skip
    if item.bank_conflicts is not None and item.bank_conflicts > 0.15:
        yield Finding(
            "bank-conflicts", f"{item.kernel}: threads meet at the banks of shared memory",
            f"{100 * item.bank_conflicts:.0f} % of the passes over shared memory are repeats",
            "pad the rows of the tile by one element, or permute (swizzle) its columns",
            0.3 * share * min(1.0, item.bank_conflicts),
        )  # fmt: skip
    yield from _waiting(item, share)
    multiplies = measured.spec.flops and not any("call" in s for s in measured.bound["steps"])
    if multiplies and item.tensor is not None and item.tensor < 0.05 and share > 0.5:
        intensity = measured.spec.flops / max(1, measured.spec.read_bytes)
        if intensity > 50:
            yield Finding(
                "tensor-cores", f"{item.kernel}: the tensor cores are idle",
                f"{100 * item.tensor:.1f} % of their rate; {intensity:.0f} operations a byte",
                "use mma instructions (wmma, mma.sync, wgmma) where the dtype allows",
                0.6 * share,
            )  # fmt: skip


def _waiting(item: KernelCounters, share: float) -> Iterator[Finding]:
    if not item.stalls or item.stalls[0][1] < _BUSY or item.stalls[0][0] not in _STALLS:
        return
    name, value = item.stalls[0]
    meaning, cure = _STALLS[name]
    evidence = f"{value:.1f} warps wait so whenever one goes on"
    if item.occupancy is not None:
        evidence += f"; {100 * item.occupancy:.0f} % of the warps are there"
    if item.l2_hit is not None and name == "long_scoreboard":
        evidence += f"; {100 * item.l2_hit:.0f} % of the sectors are found in L2"
    finding = f"{item.kernel}: warps wait {meaning}"
    yield Finding("stalls", finding, evidence, cure, 0.2 * share)
