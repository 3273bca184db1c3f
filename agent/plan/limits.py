"""What CUDA itself forbids in a launch or a tensor map, whatever the hardware.

From the CUDA C++ Programming Guide's table of technical specifications and the driver API's page
of ``cuTensorMapEncodeTiled``. A bound plan is checked here when it is made and again when it comes
from outside.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from agent.errors import ProgramError
from agent.plan.parts import FILLS, INTERLEAVES, ITEM_BYTES, PROMOTIONS, SWIZZLES

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
MAX_THREADS = 1024
PORTABLE_CLUSTER = 8
MAX_SHARED = 2**20
MAX_BOX = 256
MAX_RANK = 5
MAX_ELEMENT_STRIDE = 8
_SWIZZLE_BYTES = {"32B": 32, "64B": 64, "128B": 128}


def check_launch(step: dict[str, Any]) -> None:
    """Grid, block, cluster and shared memory of a bound launch.

    A grid may have no blocks, as for an empty argument: such a launch is left out.

    Raises:
        ProgramError: ``plan``, with the kernel, the numbers and the limit.
    """
    kernel = str(step["kernel"])[:64]
    grid, block, cluster = step["grid"], step["block"], step["cluster"]
    _within(kernel, "grid", grid, MAX_GRID, least=0)
    _within(kernel, "block", block, MAX_BLOCK)
    if math.prod(block) > MAX_THREADS:
        raise _bad(f"{kernel}: block {block} is {math.prod(block)} threads; {MAX_THREADS} at most")
    if not 0 <= step["shared"] <= MAX_SHARED:
        raise _bad(f"{kernel}: {step['shared']} bytes of dynamic shared memory")
    if cluster is None:
        return
    _within(kernel, "cluster", cluster, MAX_GRID)
    if math.prod(cluster) > PORTABLE_CLUSTER:
        raise _bad(
            f"{kernel}: cluster {cluster} is {math.prod(cluster)} blocks; more than "
            f"{PORTABLE_CLUSTER} is not portable between GPUs and is not launched"
        )
    if any(size % part for size, part in zip(grid, cluster, strict=True)):
        raise _bad(
            f"{kernel}: grid {grid} is not a multiple of cluster {cluster}; round the grid up "
            "and let the blocks beyond the work return"
        )


def _within(
    kernel: str, what: str, sizes: Sequence[int], limits: Sequence[int], least: int = 1
) -> None:
    for size, limit, axis in zip(sizes, limits, "xyz", strict=True):
        if not least <= size <= limit:
            raise _bad(f"{kernel}: {what}.{axis} is {size}; it is between {least} and {limit}")


def check_tensormap(item: dict[str, Any]) -> None:
    """Sizes and options of a bound tensor map.

    Raises:
        ProgramError: ``plan``, with the map, the numbers and the limit.
    """
    name, width = str(item["name"])[:64], ITEM_BYTES[item["dtype"]]
    dims, strides, box = item["dims"], item["strides"], item["box"]
    steps, interleave, swizzle = item["element_strides"], item["interleave"], item["swizzle"]
    rank = len(dims)
    if not 1 <= rank <= MAX_RANK:
        raise _bad(f"tensormap {name}: {rank} dimensions; 1 to {MAX_RANK} are possible: give dims")
    if (len(strides), len(box), len(steps)) != (rank - 1, rank, rank):
        raise _bad(
            f"tensormap {name}: {rank} dims want {rank - 1} strides, {rank} box sizes and {rank} "
            f"element_strides, not {len(strides)}, {len(box)} and {len(steps)}"
        )
    for what, sizes, least, most in (
        ("dims", dims, 0, 2**32),
        ("box", box, 1, MAX_BOX),
        ("element_strides", steps, 1, MAX_ELEMENT_STRIDE),
    ):
        if not all(least <= size <= most for size in sizes):
            raise _bad(f"tensormap {name}: {what} {sizes} are each between {least} and {most}")
    unit = 32 if interleave == "32B" else 16
    if any(stride % unit or not 0 < stride < 2**40 for stride in strides):
        raise _bad(
            f"tensormap {name}: strides {strides} (bytes, without the innermost) must be multiples "
            f"of {unit}; copy such a tensor without a tensor map"
        )
    inner = box[0] * width
    if interleave == "none" and inner % 16:
        raise _bad(f"tensormap {name}: the box's inner side is {inner} bytes, no multiple of 16")
    limit = _SWIZZLE_BYTES.get(swizzle)
    if interleave == "none" and limit is not None and inner > limit:
        raise _bad(
            f"tensormap {name}: the box's inner side is {inner} bytes; swizzle {swizzle} allows "
            f"{limit}: take a narrower box and copy more often"
        )
    if interleave != "none" and rank < 3:
        raise _bad(f"tensormap {name}: interleave needs 3 dimensions or more")
    if interleave == "32B" and swizzle != "32B":
        raise _bad(f"tensormap {name}: interleave 32B needs swizzle 32B")
    if item["fill"] == "nan" and "float" not in item["dtype"]:
        raise _bad(f"tensormap {name}: fill nan is for floating-point tensors")
    for key, allowed in (
        ("swizzle", SWIZZLES), ("interleave", INTERLEAVES), ("l2", PROMOTIONS), ("fill", FILLS)
    ):  # fmt: skip
        if item[key] not in allowed:
            raise _bad(f"tensormap {name}: {key} is one of {', '.join(allowed)}")


def reach(item: dict[str, Any]) -> int:
    """Bytes from a tensor map's base address to the end of what it can touch."""
    width = ITEM_BYTES[item["dtype"]]
    outer = zip(item["dims"][1:], item["strides"], strict=True)
    return int(item["dims"][0] * width + sum((size - 1) * stride for size, stride in outer))


def _bad(message: str) -> ProgramError:
    return ProgramError(message, "correct the plan", code="plan")
