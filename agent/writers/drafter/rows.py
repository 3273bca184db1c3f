"""One kernel's rows: lower the results of a row, and the reductions that they need."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.writers.drafter.index import (
    Axis,
    Index,
    NotAffine,
    Split,
    contiguous,
    flatten,
    unflatten,
)
from agent.writers.drafter.ir import Buffer, Expr, Kernel, Part, Reduction, Store, walk
from agent.writers.drafter.nests import Nest, dim_axes, lower_nest, split_axis
from agent.writers.drafter.reducing import Wanted, reducing, result_dtype, result_shape
from agent.writers.drafter.trace import refuse
from agent.writers.drafter.views import Indices, shape_of

if TYPE_CHECKING:
    from torch.fx import Node

    from agent.writers.drafter.lower import Lowerer

MAX_EXPRS = 3000


class Separate(Exception):
    """Two buffers cannot be filled by one kernel: one is read across the other's rows."""

    def __init__(self, buffers: frozenset[str]) -> None:
        super().__init__(*buffers)
        self.buffers = buffers


class Realise(Exception):
    """The reduction must go through scratch."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.name)
        self.node = node


@dataclass(frozen=True, slots=True)
class Member:
    """A buffer that a kernel fills.

    Attributes:
        node: Whose value it is.
        rows: Row axes, outermost first; in a kernel without reductions none.
        nests: The parts in which the value is lowered; their axes include the rows.
        reads: Names of the scratch buffers on which it depends, at any distance.
    """

    buffer: Buffer
    node: Node
    rows: tuple[Axis, ...]
    nests: tuple[Nest, ...]
    reads: frozenset[str]

    @property
    def row_sizes(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.rows)


def wanted_of(exprs: list[Expr]) -> list[Expr]:
    return [expr for expr in walk(*exprs) if expr.op == "wanted"]


def wanted(expr: Expr) -> Wanted:
    assert isinstance(expr.attr, Wanted)
    return expr.attr


def outer_index(want: Wanted) -> tuple[Index, int]:
    """Which row the reduction is wanted for, as one number, and how many rows there are."""
    shape = result_shape(want.node)
    return flatten(want.outer, contiguous(shape)), math.prod(shape)


class RowKernel:
    """Builds a kernel from members with equal row sizes."""

    def __init__(
        self, lowerer: Lowerer, name: str, members: list[Member], realised: dict[Node, Buffer]
    ) -> None:
        self._lowerer = lowerer
        self._realised = realised
        self._pool = lowerer.pool
        self._members = members
        sizes = members[0].row_sizes
        self._rows = tuple(Axis(f"r{i}", size) for i, size in enumerate(sizes))
        self._row_map = {axis: Index.of(axis) for axis in self._rows}
        self._name = name
        self._columns: tuple[Axis, ...] = ()
        self._reductions: dict[tuple[Node, Index], Reduction] = {}
        self._levels: dict[Expr, int] = {}

    def build(self) -> Kernel:
        """
        Raises:
            Realise: A reduction does not belong to exactly one row.
            Separate: Two members do not go together.
            ForgeError: See ``lower_nest``.
        """
        while True:
            self._reductions.clear()
            try:
                return self._build()
            except Split as request:
                if request.axis not in self._rows:
                    raise
                new, index = split_axis(request.axis, request.inner)
                place = self._rows.index(request.axis)
                self._rows = self._rows[:place] + new + self._rows[place + 1 :]
                self._row_map = {
                    axis: old.replace({request.axis: index}) for axis, old in self._row_map.items()
                }

    def _build(self) -> Kernel:
        kernel = Kernel(self._name, self._rows)
        named = [(member, self._canonical(member)) for member in self._members]
        self._columns = next(
            (nests[0][0] for _, nests in named if len(nests) == 1 and nests[0][0]), ()
        )
        for member, nests in named:
            for axes, dims in nests:
                for nest in lower_nest(lambda at, m=member: self._element(m, at), axes, dims):  # type: ignore[misc]
                    value, level = self._resolve(nest.value)
                    buffer = member.buffer
                    index = place(buffer, nest.dims)
                    kernel.stores.append(Store(buffer, nest.axes, index, value, level))
        kernel.reductions = sorted(
            dict.fromkeys(self._reductions.values()), key=lambda red: red.level
        )
        _rename(kernel.reductions)
        return kernel

    def _element(self, member: Member, dims: Indices) -> Expr:
        if member.buffer.role == "scratch":
            return self._lowerer.want(member.node, dims)
        return self._lowerer.value(member.node, dims)

    def _canonical(self, member: Member) -> list[tuple[tuple[Axis, ...], Indices]]:
        """The member's nests over this kernel's row axes and columns ``c0``, ``c1``, ..."""
        rename = dict(zip(member.rows, self._row_map.values(), strict=True))
        result = []
        for nest in member.nests:
            columns = [axis for axis in nest.axes if axis not in member.rows]
            new = tuple(Axis(f"c{i}", axis.size) for i, axis in enumerate(columns))
            values = rename | {a: Index.of(b) for a, b in zip(columns, new, strict=True)}
            result.append((new, tuple(index.replace(values) for index in nest.dims)))
        return result

    def _resolve(self, value: Expr) -> tuple[Expr, int]:
        """Exchange what is wanted by reductions; the level at which all of them are known."""
        change, level = {}, 0
        exprs = list(walk(value))
        if len(exprs) > MAX_EXPRS:
            raise refuse("the reference is too large to write as one kernel")
        for expr in exprs:
            if expr.op == "wanted":
                result = self._reduce(expr)
                change[expr] = result
                if result.op == "reduced":
                    level = max(level, result.reduction.level + 1)
        return self._pool.rewrite(value, change, {}), level

    def _reduce(self, expr: Expr) -> Expr:
        want = wanted(expr)
        row, count = outer_index(want)
        own = next((m for m in self._members if m.node is want.node), None)
        fits = set(row.axes) == set(self._rows) and row.is_permutation_of(count)
        scratch = self._realised.get(want.node)
        if scratch is not None and own is None:
            return self._lowerer.load(scratch, place(scratch, want.outer))
        if not fits:
            if scratch is None:
                raise Realise(want.node)
            other = next(m for m in self._members if m is not own)
            raise Separate(frozenset({scratch.name, other.buffer.name}))
        key = (want.node, row)
        if key not in self._reductions:
            built = self._new_reduction(want, expr.hint)
            if isinstance(built, Expr):
                return built
            self._reductions[key] = built
        red = self._reductions[key]
        return self._pool.make("reduced", (), red.dtype, red, red.name)

    def _new_reduction(self, want: Wanted, hint: str) -> Reduction | Expr:
        does = reducing(want.node)
        assert does is not None
        shape = shape_of(does.source)
        sizes = tuple(shape[d] for d in does.dims)
        dtype = result_dtype(want.node)
        if math.prod(sizes) == 0:
            if does.kind in ("max", "min"):
                raise refuse(f"{does.kind} over no elements has no value")
            empty = {"sum": 0, "prod": 1, "any": False, "all": True}[does.kind]
            return self._pool.const(empty, dtype)
        kept = list(want.outer)
        if does.keepdim:
            kept = [index for d, index in enumerate(kept) if d not in does.dims]

        def element(inner: Indices) -> Expr:
            outer, within = iter(kept), iter(inner)
            at = tuple(next(within if d in does.dims else outer) for d in range(len(shape)))
            value = self._lowerer.value(does.source, at)
            if does.kind in ("any", "all"):
                return self._lowerer.pointwise.cast(value, "bool")
            return self._lowerer.pointwise.cast(value, dtype)

        axes, dims = self._inner(sizes)
        red = Reduction(hint, does.kind, dtype, math.prod(sizes))
        parts = []
        for nest in lower_nest(element, axes, dims):
            value, level = self._resolve(nest.value)
            red.level = max(red.level, level)
            parts.append(Part(nest.axes, value))
        red.parts = tuple(parts)
        if red.count == 1:
            return parts[0].value
        # keepdim and the like make nodes of their own for what is one reduction.
        same = (red.kind, red.dtype, red.parts)
        for other in self._reductions.values():
            if (other.kind, other.dtype, other.parts) == same:
                return other
        return red

    def _inner(self, sizes: tuple[int, ...]) -> tuple[tuple[Axis, ...], Indices]:
        """Axes for the reduced dimensions: the columns of the results where they fit."""
        if self._columns and math.prod(a.size for a in self._columns) == math.prod(sizes):
            strides = contiguous([axis.size for axis in self._columns])
            flat = flatten([Index.of(axis) for axis in self._columns], strides)
            try:
                return self._columns, unflatten(flat, sizes)
            except (Split, NotAffine):
                pass
        return dim_axes(sizes, "c")


def place(buffer: Buffer, dims: Indices) -> Index:
    """The place in memory of an element; a scalar's buffer has one element."""
    return flatten(dims, buffer.strides) if dims else Index()


def _rename(reductions: list[Reduction]) -> None:
    """Give each reduction a name of its own."""
    used: dict[str, int] = {}
    for red in reductions:
        base = red.name
        used[base] = used.get(base, 0) + 1
        if used[base] > 1:
            red.name = f"{base}{used[base]}"
