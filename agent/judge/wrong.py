"""One output that is wrong, and where: what the words about it are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SHOWN = 4
_STRETCH = 1 << 24
_SAMPLE = 4096


@dataclass(frozen=True, slots=True)
class Wrong:
    """One output that is wrong, everything flat.

    Attributes:
        got: What the program wrote.
        right: What is expected.
        allowed: Largest error of each element; None for integers and booleans.
        bad: Which elements are wrong.
        count: How many.
        first: The first few of them.
    """

    shape: tuple[int, ...]
    got: torch.Tensor
    right: torch.Tensor
    allowed: torch.Tensor | None
    bad: torch.Tensor
    count: int
    first: list[int]


def first_of(bad: torch.Tensor, count: int) -> list[int]:
    """Where the first elements of a mask are set, without a list of all of them."""
    found: list[int] = []
    for start, part in stretches(bad):
        found += [start + at for at in part.nonzero()[: count - len(found), 0].tolist()]
        if len(found) == count:
            break
    return found


def index_of(flat: int, shape: Sequence[int]) -> list[int]:
    """The position of the flat-th element, in logical order."""
    index = []
    for size in reversed(shape):
        index.append(flat % size)
        flat //= size
    return index[::-1]


def number(value: torch.Tensor) -> float | int | str:
    """One element for JSON and for people."""
    one = value.item()
    if isinstance(one, float):
        return float(f"{one:.9g}") if abs(one) < float("inf") else str(one)
    return int(one)


def stretches(flat: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """Parts that are small enough to work on, each with where it starts."""
    for start in range(0, flat.numel(), _STRETCH):
        yield start, flat[start : start + _STRETCH]


def some_of(bad: torch.Tensor) -> torch.Tensor:
    """Places of wrong elements, a few thousand from all over the output."""
    parts = []
    room = max(1, _SAMPLE * _STRETCH // max(bad.numel(), _STRETCH))
    for start, part in stretches(bad):
        places = part.nonzero()[:, 0]
        parts.append(places[:: max(1, len(places) // room)] + start)
    return torch.cat(parts)[: 2 * _SAMPLE]


def last_of(mask: torch.Tensor) -> int:
    """The last element of a mask that is set."""
    return int(mask.numel()) - 1 - first_of(mask.flip(0), 1)[0]
