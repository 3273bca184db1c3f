"""What a traced reference becomes before it is written as C++: loops, expressions, reductions.

A *kernel* walks its row axes; in each row it makes reductions, level by level (a level uses only
what earlier levels gave), and stores results. Every reduction and store has one or more *parts*, a
loop nest with the expression that is computed in it.

Values are float32 for float32, bfloat16 and float16 tensors, float64 for float64, and integers and
booleans in their own type. Results that eager would round to bfloat16 or float16 on the way stay
float32: a conversion to those happens only in a store.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.writers.drafter.index import Axis, Index

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ITEM_BYTES = {
    "float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "int64": 8, "int32": 4, "int16": 2,
    "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip


def value_dtype(dtype: str) -> str:
    """The dtype in which values of a tensor of ``dtype`` are computed."""
    return "float32" if dtype in ("bfloat16", "float16") else dtype


def is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """One operation on values. Equal expressions of one pool are one object.

    Attributes:
        op: ``load``, ``const``, ``index``, ``reduced``, ``cast``, or a pointwise operation.
        args: Operands.
        dtype: Of the value, as ``value_dtype`` gives it.
        attr: ``(buffer, Index)`` of a load, the number of a const, the Index of an index, the
            Reduction of a reduced.
        hint: A readable name.
        serial: Place in the order of creation, so that texts come out the same each time.
    """

    op: str
    args: tuple[Expr, ...]
    dtype: str
    attr: object
    hint: str
    serial: int

    @property
    def index(self) -> Index:
        """Of a load or an index."""
        attr = self.attr[1] if isinstance(self.attr, tuple) else self.attr
        assert isinstance(attr, Index)
        return attr

    @property
    def buffer(self) -> Buffer:
        assert isinstance(self.attr, tuple)
        assert isinstance(self.attr[0], Buffer)
        return self.attr[0]

    @property
    def reduction(self) -> Reduction:
        assert isinstance(self.attr, Reduction)
        return self.attr


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that a kernel reads or writes: an argument, an output, or scratch."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    role: str  # "arg", "out", "scratch", "local" (a thread's, for one row), "constant" (a table)
    values: tuple[float, ...] = ()  # of a table


@dataclass(frozen=True, slots=True)
class Part:
    """A loop nest (outermost axis first) and the expression at its heart."""

    axes: tuple[Axis, ...]
    value: Expr


@dataclass(slots=True, eq=False)
class Reduction:
    """One number per row: ``kind`` (sum, prod, max, min, any, all) over the parts' values."""

    name: str
    kind: str
    dtype: str
    count: int
    parts: tuple[Part, ...] = ()
    level: int = 0


@dataclass(frozen=True, slots=True)
class Store:
    """Writes ``value`` to ``buffer`` at ``index``, for every step of ``axes`` in a row."""

    buffer: Buffer
    axes: tuple[Axis, ...]
    index: Index
    value: Expr
    level: int


@dataclass(slots=True)
class Kernel:
    """Row axes (outermost first), the reductions of a row in order, and its stores."""

    name: str
    rows: tuple[Axis, ...]
    reductions: list[Reduction] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)


@dataclass(slots=True)
class Draft:
    """Kernels in the order of their launches, and the scratch between them."""

    kernels: list[Kernel]
    scratch: list[Buffer]


class Pool:
    """Makes expressions and hands back the one that exists already."""

    def __init__(self) -> None:
        self._known: dict[object, Expr] = {}

    def make(
        self,
        op: str,
        args: tuple[Expr, ...] = (),
        dtype: str = "float32",
        attr: object = None,
        hint: str = "",
    ) -> Expr:
        # repr tells 0.0 from -0.0 and makes all NaNs one, which == does not.
        shown = repr(attr) if op == "const" else attr
        key = (op, tuple(id(arg) for arg in args), dtype, shown)
        if key not in self._known:
            self._known[key] = Expr(op, args, dtype, attr, hint or op, len(self._known))
        return self._known[key]

    def const(self, value: float, dtype: str) -> Expr:
        number: float
        number = bool(value) if dtype == "bool" else float(value) if is_float(dtype) else int(value)
        return self.make("const", (), dtype, number)

    def rewrite(self, expr: Expr, change: Mapping[Expr, Expr], axes: Mapping[Axis, Index]) -> Expr:
        """The expression with some parts exchanged and some axes written by others."""
        done: dict[Expr, Expr] = dict(change)
        for item in walk(expr):
            if item in done:
                continue
            args = tuple(done[arg] for arg in item.args)
            attr = item.attr
            if item.op == "load":
                attr = (item.buffer, self._replace(item.index, done, axes))
            elif item.op == "index":
                attr = self._replace(item.index, done, axes)
            done[item] = self.make(item.op, args, item.dtype, attr, item.hint)
        return done[expr]

    def _replace(self, index: Index, done: dict[Expr, Expr], axes: Mapping[Axis, Index]) -> Index:
        values = dict(axes)
        for axis in index.axes:
            if axis.gathered is not None:
                moved = self.rewrite(axis.gathered, done, axes)
                values[axis] = Index(((Axis(f"g{moved.serial}", axis.size, moved), 1),))
        return index.replace(values)


def walk(*exprs: Expr) -> Iterator[Expr]:
    """Every expression below, operands first, each once; inside gathered indices too."""
    seen: set[Expr] = set()
    stack = [(expr, False) for expr in reversed(exprs)]
    while stack:
        expr, ready = stack.pop()
        if ready:
            yield expr
        elif expr not in seen:
            seen.add(expr)
            stack.append((expr, True))
            below = [*gathered(expr), *expr.args]
            stack.extend((arg, False) for arg in reversed(below) if arg not in seen)


def gathered(expr: Expr) -> list[Expr]:
    """The values that a load's or an index's place depends on."""
    if expr.op not in ("load", "index"):
        return []
    return [axis.gathered for axis in expr.index.axes if axis.gathered is not None]


def axes_of(expr: Expr) -> frozenset[Axis]:
    """The loop axes on which the value depends; rows' reductions count as none."""
    return frozenset(
        axis
        for item in walk(expr)
        if item.op in ("load", "index")
        for axis in item.index.axes
        if axis.gathered is None
    )
