"""Which other sizes a target with ranged dimensions is proved at. Pure: no torch.

The sizes are the same in every process that loads a task, whatever its machine: a plan is bound
for them in one process and checked at them in another.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from agent.plan.parts import ITEM_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent.task import TargetSpec
    from agent.taskfile import Range

    Sizes = dict[str, int]

MOST = 6
# A neighbour may take this many times the memory of the size that is tuned for.
COSTLY = 4


def probe(size: int, limits: Range) -> int:
    """A size to see at what varies with it: half, or twice where half is out of range."""
    low, high = limits
    return max(low, size // 2) if size > low else min(high, max(2 * size, 1))


def footprint(spec: TargetSpec, probed: Mapping[str, TargetSpec]) -> Callable[[Sizes], float]:
    """The bytes of all arguments and outputs as a function of the ranged sizes.

    Args:
        spec: At the sizes to tune for.
        probed: By name, the target with that dimension alone at another size. Each dimension of a
            tensor is taken to grow evenly between the two.
    """
    here = _tensors(spec)
    slopes = {
        name: [
            [
                (b - a) / (other.sizes[name] - spec.sizes[name])
                for a, b in zip(shape, shape_there, strict=True)
            ]
            for (shape, _), (shape_there, _) in zip(here, _tensors(other), strict=True)
        ]
        for name, other in probed.items()
    }

    def cost(sizes: Sizes) -> float:
        total = 0.0
        for at, (shape, width) in enumerate(here):
            grown = [
                size
                + sum(slopes[name][at][dim] * (sizes[name] - spec.sizes[name]) for name in slopes)
                for dim, size in enumerate(shape)
            ]
            total += width * math.prod(max(0.0, size) for size in grown)
        return total

    return cost


def choose(
    sizes: Sizes, ranges: Mapping[str, Range], cost: Callable[[Sizes], float]
) -> list[Sizes]:
    """At most six other sets of sizes, the most telling first.

    One ranged dimension: its ends (instead of a costly high end the largest size that is not),
    one less, one more, a prime, and 1 and 0 if they are in range. Several: each alone, by turns
    in that order, and one with all of them off by a little.

    Args:
        sizes: What is tuned for.
        ranges: Lowest and highest of each.
        cost: Bytes at given sizes.
    """
    bound = COSTLY * cost(sizes)
    alone = [
        [{**sizes, name: value} for value in _values(name, sizes, ranges[name], cost, bound)]
        for name in ranges
    ]
    if len(ranges) < 2:
        return [found for line in alone for found in line][:MOST]
    turns = max(map(len, alone))
    chosen = [line[turn] for turn in range(turns) for line in alone if turn < len(line)]
    joint = {name: _off(sizes[name], limits) for name, limits in ranges.items()}
    if cost(joint) <= bound and joint not in [sizes, *chosen[: MOST - 1]]:
        return [*chosen[: MOST - 1], joint]
    return chosen[:MOST]


def _values(
    name: str, sizes: Sizes, limits: Range, cost: Callable[[Sizes], float], bound: float
) -> list[int]:
    low, high = limits
    size = sizes[name]
    last = _affordable(size, high, lambda value: cost({**sizes, name: value}) <= bound)
    wanted = [low, last, size - 1, size + 1]
    wanted.append(_prime(size, (low, last), wanted))
    wanted += [1, 0]
    fit = [value for value in wanted if low <= value <= last and value != size]
    return list(dict.fromkeys(fit))


def _affordable(size: int, high: int, fits: Callable[[int], bool]) -> int:
    """The largest value from ``size`` to ``high`` that fits, which ``size`` does."""
    if fits(high):
        return high
    low = size
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _off(size: int, limits: Range) -> int:
    """One more or, at the upper end, one less; the size itself where the range is a point."""
    low, high = limits
    return size + 1 if size < high else max(low, size - 1)


def _prime(size: int, limits: Range, taken: list[int]) -> int:
    """The prime nearest to ``size``, of those in range that are not taken; -1 if there is none."""
    low, high = limits
    # Primes are never further apart than this where sizes are of any use.
    for step in range(2, 2000):
        for value in (size - step, size + step):
            if low <= value <= high and value not in taken and _is_prime(value):
                return value
    return -1


def _is_prime(value: int) -> bool:
    return value > 1 and all(value % factor for factor in range(2, math.isqrt(value) + 1))


def _tensors(spec: TargetSpec) -> list[tuple[tuple[int, ...], int]]:
    """Shape and bytes of an element of everything that goes in or out."""
    return [(tensor.shape, ITEM_BYTES[tensor.dtype]) for tensor in spec.tensors]
