"""Compute capabilities: their names for the compiler, and the limits of an SM.

The limits are those of the CUDA programming guide's table of technical specifications by compute
capability. SM counts and cache sizes are those of one common product; they stand in only where
no driver can be asked (a builder on a machine without a GPU).
"""

from __future__ import annotations

import re

from agent.errors import MachineError

# By (major, minor): SMs and L2 in MiB of a common product; shared memory of an SM in KiB;
# resident threads and blocks of an SM. A block may have 1 KiB less than the SM's shared memory.
_TABLE = {
    (8, 0): (108, 40, 164, 2048, 32),
    (8, 6): (84, 6, 100, 1536, 16),
    (8, 7): (16, 4, 164, 1536, 16),
    (8, 9): (128, 72, 100, 1536, 24),
    (9, 0): (132, 50, 228, 2048, 32),
    (10, 0): (148, 126, 228, 2048, 32),
    (10, 3): (148, 126, 228, 2048, 32),
    (11, 0): (20, 32, 228, 1536, 24),
    (12, 0): (170, 96, 100, 1536, 24),
    (12, 1): (48, 24, 100, 1536, 24),
}
OLDEST = (8, 0)
# What a block's shared memory loses to the system since capability 8.0, in bytes.
RESERVED_SHARED = 1024
WARP = 32


def parse_arch(arch: str) -> tuple[int, int]:
    """Compute capability of ``sm_90a`` and the like.

    Raises:
        MachineError: ``gpu-too-old``, ``arch-unknown``.
    """
    match = re.fullmatch(r"sm_(\d{1,2})(\d)[af]?", arch)
    if match is None:
        raise MachineError(
            f"there is no GPU architecture {arch[:40]}", "write it as sm_90a", code="arch-unknown"
        )
    capability = int(match.group(1)), int(match.group(2))
    if capability < OLDEST:
        raise MachineError(
            f"compute capability {capability[0]}.{capability[1]} is not supported",
            "use a GPU of compute capability 8.0 or newer",
            code="gpu-too-old",
        )
    return capability


def arch_of(major: int, minor: int) -> str:
    """The compiler's name for a GPU's own code; with all its instructions from 9.0 on (``a``)."""
    return f"sm_{major}{minor}" + ("a" if (major, minor) >= (9, 0) else "")


def limits_of(major: int, minor: int) -> dict[str, int]:
    """Limits of an SM of that capability; of the nearest older known one if it is newer.

    Returns:
        Facts as :meth:`CudaDevice.facts` has them; bytes and counts.
    """
    known = max(key for key in _TABLE if key <= max((major, minor), OLDEST))
    sms, l2, shared, threads, blocks = _TABLE[known]
    return {
        "sms": sms,
        "shared": (shared << 10) - RESERVED_SHARED,
        "shared_sm": shared << 10,
        "shared_reserved": RESERVED_SHARED,
        "l2": l2 << 20,
        "warp": WARP,
        "max_threads": 1024,
        "threads_sm": threads,
        "blocks_sm": blocks,
        "registers": 65536,
        "major": major,
        "minor": minor,
        "cluster": 8 if major >= 9 else 1,
    }
