"""Index arithmetic: where an element lies, as a sum of loop variables times constants.

Views never move data here: they only change the index with which a tensor is read. ``reshape``
needs the quotient and the rest of such a sum; where a loop variable straddles the division it has
to become two (``Split``), and where ``cat`` joins two tensors a loop has to become two loops, one
after the other (``Cut``). Whoever owns the loops does that and starts again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agent.writers.drafter.ir import Expr


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop variable that runs from 0 to ``size - 1``.

    ``gathered`` is set when its value is no loop but a number read from a tensor.
    """

    name: str
    size: int
    gathered: Expr | None = None


class Split(Exception):
    """The axis must become an outer axis and an inner axis of ``inner`` steps."""

    def __init__(self, axis: Axis, inner: int) -> None:
        super().__init__(axis.name, inner)
        self.axis = axis
        self.inner = inner


class Cut(Exception):
    """The axis must be walked in two parts, ``[0, at)`` and ``[at, size)``."""

    def __init__(self, axis: Axis, at: int) -> None:
        super().__init__(axis.name, at)
        self.axis = axis
        self.at = at


class NotAffine(Exception):
    """The index cannot be written as a sum of loop variables."""


@dataclass(frozen=True, slots=True)
class Index:
    """``const`` plus the sum of axis times coefficient; axes are in order of their names."""

    terms: tuple[tuple[Axis, int], ...] = ()
    const: int = 0

    @staticmethod
    def of(axis: Axis) -> Index:
        return Index(((axis, 1),)) if axis.size != 1 or axis.gathered else Index()

    def __add__(self, other: Index) -> Index:
        sums = dict(self.terms)
        for axis, factor in other.terms:
            sums[axis] = sums.get(axis, 0) + factor
        return _index(sums, self.const + other.const)

    def __mul__(self, factor: int) -> Index:
        return _index({axis: c * factor for axis, c in self.terms}, self.const * factor)

    def plus(self, const: int) -> Index:
        return Index(self.terms, self.const + const)

    @property
    def low(self) -> int:
        """The least value that it takes."""
        return self.const + sum(min(0, c * (axis.size - 1)) for axis, c in self.terms)

    @property
    def high(self) -> int:
        """The greatest value that it takes."""
        return self.const + sum(max(0, c * (axis.size - 1)) for axis, c in self.terms)

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(axis for axis, _ in self.terms)

    def factor(self, axis: Axis) -> int:
        return next((c for other, c in self.terms if other == axis), 0)

    def divmod(self, divisor: int) -> tuple[Index, Index]:
        """Quotient and rest.

        Raises:
            Split: An axis straddles the division.
            NotAffine: Splitting does not help.
        """
        if divisor == 1:
            return self, Index()
        whole = {axis: c // divisor for axis, c in self.terms if c % divisor == 0}
        rest = {axis: c for axis, c in self.terms if c % divisor}
        remainder = _index(rest, self.const % divisor)
        if remainder.low >= 0 and remainder.high < divisor:
            return _index(whole, self.const // divisor), remainder
        for axis, c in sorted(rest.items(), key=lambda term: -term[1]):
            inner = divisor // c if c > 0 and divisor % c == 0 else 0
            if inner > 1 and axis.size % inner == 0 and axis.size > inner and not axis.gathered:
                raise Split(axis, inner)
        raise NotAffine(f"a reshape splits {axis_names(self)} at {divisor}")

    def replace(self, values: Mapping[Axis, Index]) -> Index:
        """The same index with some axes written by others."""
        if not any(axis in values for axis, _ in self.terms):
            return self
        result = Index((), self.const)
        for axis, c in self.terms:
            result += values.get(axis, Index(((axis, 1),))) * c
        return result

    def is_permutation_of(self, size: int) -> bool:
        """Whether it takes each value of ``range(size)`` exactly once over its axes' steps."""
        reach = 1
        for axis, c in sorted(self.terms, key=lambda term: term[1]):
            if c != reach:
                return False
            reach *= axis.size
        return reach == size and self.const == 0


def _index(factors: Mapping[Axis, int], const: int) -> Index:
    kept = [(axis, c) for axis, c in factors.items() if c and (axis.size != 1 or axis.gathered)]
    return Index(tuple(sorted(kept, key=lambda term: term[0].name)), const)


def axis_names(index: Index) -> str:
    return "+".join(axis.name for axis in index.axes)


def flatten(indices: Sequence[Index], strides: Sequence[int]) -> Index:
    """The sum of indices times strides: an element's place in memory, in elements."""
    total = Index()
    for index, stride in zip(indices, strides, strict=True):
        total += index * stride
    return total


def contiguous(shape: Iterable[int]) -> tuple[int, ...]:
    """Row-major strides."""
    sizes = tuple(shape)
    return tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))


def unflatten(index: Index, shape: Sequence[int]) -> tuple[Index, ...]:
    """The index along each dimension of ``shape`` of the element at row-major place ``index``."""
    result = []
    rest = index
    for i in range(len(shape) - 1, 0, -1):
        rest, along = rest.divmod(shape[i])
        result.append(along)
    if shape:
        result.append(rest)
    return tuple(reversed(result))
