"""How many blocks of a kernel fit on an SM, by the rules of the CUDA occupancy calculator.

Source of the rules: NVIDIA's ``cuda_occupancy.h`` (in the CUDA toolkit) and the programming
guide's tables, for compute capability 8.0 to 12.1: registers go to warps in units of 256, each of
the four parts of an SM has a quarter of the registers, shared memory goes to blocks in units of
128 bytes, and the system takes 1 KiB of each block's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_PARTS = 4
_REGISTER_UNIT = 256
_SHARED_UNIT = 128
_MAX_REGISTERS = 255


def occupancy(
    facts: Mapping[str, int], registers: int, shared_bytes: int, threads: int
) -> dict[str, Any]:
    """Blocks and warps of one kernel that an SM holds at once.

    Args:
        facts: What ``CudaDevice.facts()`` returns.
        registers: Per thread, as the compiler gave them.
        shared_bytes: Static and dynamic shared memory of a block.
        threads: Of a block.

    Returns:
        ``blocks`` and ``warps`` on an SM, ``share`` of the warps that it could hold (0 to 1),
        and the ``limiter``: ``registers``, ``shared``, ``threads`` or ``blocks``. No block fits
        where ``blocks`` is 0.
    """
    warp = facts["warp"]
    warps = max(1, -(-threads // warp))
    most_warps = facts["threads_sm"] // warp
    limits = {
        "threads": most_warps // warps if threads <= facts["max_threads"] else 0,
        "registers": _by_registers(facts["registers"], registers, warp, warps),
        "shared": _by_shared(facts, shared_bytes),
        "blocks": facts["blocks_sm"],
    }
    limiter = min(limits, key=lambda name: limits[name])
    blocks = limits[limiter]
    return {
        "blocks": blocks,
        "warps": blocks * warps,
        "share": round(blocks * warps / most_warps, 4),
        "limiter": limiter,
    }


def most_threads(registers: int, file: int = 65536, warp: int = 32) -> int:
    """Threads of the largest block (at most 1024) whose registers fit into the register file."""
    for warps in range(1024 // warp, 0, -1):
        if _by_registers(file, registers, warp, warps):
            return warps * warp
    return 0


def _by_registers(file: int, registers: int, warp: int, warps: int) -> int:
    each = _round_up(max(1, registers) * warp, _REGISTER_UNIT)
    # At launch the hardware counts a block's warps as a multiple of the SM's parts.
    if registers > _MAX_REGISTERS or each * _round_up(warps, _PARTS) > file:
        return 0
    return (file // _PARTS // each) * _PARTS // warps


def _by_shared(facts: Mapping[str, int], shared_bytes: int) -> int:
    reserved = facts["shared_reserved"]
    each = _round_up(shared_bytes + reserved, _SHARED_UNIT)
    if shared_bytes > facts["shared"]:
        return 0
    return facts["shared_sm"] // max(each, _SHARED_UNIT)


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
