"""Lines, names and scopes of one C++ function."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agent.writers.drafter.cpp_expr import C_TYPES, FROM, MEMORY_TYPES, ExprText, index_text
from agent.writers.drafter.cpp_math import HELPERS
from agent.writers.drafter.index import Axis, Index
from agent.writers.drafter.ir import Buffer, Expr, axes_of, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDE = 76
_WORDS = """
and or not xor auto bool break case catch char class const continue default delete do double else
enum export extern false float for friend goto if inline int long mutable new operator private
protected public register return short signed sizeof static struct switch template this throw true
try typedef union unsigned using virtual void volatile while std
INFINITY NAN WIDTH LANES BLOCK CHUNK TASK TILE
"""
_RESERVED = frozenset(_WORDS.split())


class Code:
    """Text with indentation, names that are taken, and what has a name in each scope.

    Attributes:
        used: Helpers that the text needs.
        tunes: Tunables that the text needs.
        declared: OpenMP reductions of ours that it needs, by kind and dtype.
    """

    def __init__(self, names: set[str], used: set[str]) -> None:
        self.lines: list[str] = []
        self.used = used
        self.tunes: set[str] = set()
        self.declared: set[tuple[str, str]] = set()
        self._depth = 0
        self._taken = set(names) | _RESERVED | set(HELPERS)
        self._known: list[dict[Expr, str]] = [{}]
        self._axes: dict[Axis, str] = {}
        self._pointers: dict[tuple[Buffer, Index], str] = {}
        self._rows: tuple[Axis, ...] = ()
        self._printer = ExprText(self._leaf, used)
        self._axes_of: dict[Expr, frozenset[Axis]] = {}

    def line(self, text: str = "") -> None:
        self.lines.append("  " * self._depth + text if text else "")

    @contextmanager
    def block(self, head: str, after: str = "") -> Iterator[None]:
        """A braced block, with a scope of its own."""
        self.line(f"{head} {{" if head else "{")
        self._depth += 1
        self._known.append({})
        yield
        self._known.pop()
        self._depth -= 1
        self.line("}" + after)

    def name(self, hint: str) -> str:
        """An identifier that nothing else has."""
        number, free = 1, hint
        while free in self._taken:
            number += 1
            free = f"{hint}{number}"
        self._taken.add(free)
        return free

    def release(self, *names: str) -> None:
        """Names of a loop that has ended."""
        self._taken -= set(names)

    def know(self, expr: Expr, name: str) -> None:
        self._known[-1][expr] = name

    def known(self, expr: Expr) -> str | None:
        return next((scope[expr] for scope in reversed(self._known) if expr in scope), None)

    def axis(self, axis: Axis, name: str) -> None:
        self._axes[axis] = name

    def axis_name(self, axis: Axis) -> str:
        if axis.gathered is not None:
            return self._atom(axis.gathered)
        return self._axes[axis]

    def set_rows(self, rows: tuple[Axis, ...]) -> None:
        self._rows = rows

    def axes_of(self, expr: Expr) -> frozenset[Axis]:
        if expr not in self._axes_of:
            self._axes_of[expr] = axes_of(expr)
        return self._axes_of[expr]

    def text(self, expr: Expr) -> str:
        return self._printer.text(expr, self.known)

    def _atom(self, expr: Expr) -> str:
        text = self.text(expr)
        return text if text.replace("_", "").isalnum() else f"({text})"

    def index(self, index: Index) -> str:
        return index_text(index, self.axis_name, str)

    def _leaf(self, expr: Expr) -> tuple[str, int]:
        if expr.op == "reduced":
            known = self.known(expr)
            assert known is not None, expr.reduction.name
            return known, 10
        if expr.op == "index":
            text = self.index(expr.index)
            return (text, 10) if text.isalnum() else (f"({text})", 10)
        element = self.element(expr.buffer, expr.index)
        if expr.buffer.dtype in FROM:
            self.used.add(FROM[expr.buffer.dtype])
            return f"{FROM[expr.buffer.dtype]}({element})", 10
        return (f"{element} != 0", 5) if expr.dtype == "bool" else (element, 10)

    def element(self, buffer: Buffer, index: Index) -> str:
        """``x_row[j]``: the place of an element, from the row's pointer where there is one."""
        row, rest = self._split(index)
        pointer = self._pointers.get((buffer, row))
        if pointer is None:
            return f"{buffer.name}[{self.index(index)}]"
        return f"{pointer}[{self.index(rest)}]"

    def _split(self, index: Index) -> tuple[Index, Index]:
        row = tuple(term for term in index.terms if term[0] in self._rows)
        rest = tuple(term for term in index.terms if term[0] not in self._rows)
        return Index(row), Index(rest, index.const)

    def pointers(self, places: list[tuple[Buffer, Index]], written: set[Buffer]) -> None:
        """Name the start of the row in each tensor that is walked within a row."""
        for buffer, index in places:
            row, rest = self._split(index)
            if not row.terms or not rest.terms or (buffer, row) in self._pointers:
                continue
            name = self.name(f"{buffer.name}_row")
            const = "" if buffer in written else "const "
            kind = MEMORY_TYPES[buffer.dtype]
            self.line(f"{const}{kind}* __restrict__ {name} = {buffer.name} + {self.index(row)};")
            self._pointers[buffer, row] = name

    def hoist(self, roots: list[Expr], axes: tuple[Axis, ...], depth: int) -> None:
        """Name the values that are fixed at this depth of the nest, where that pays.

        A value is named if a deeper loop uses it, if it is used more than once, if it is a place
        in memory, or if its text would make a line too long.
        """
        every = list(walk(*roots))
        uses = Counter(roots)
        deeper: set[Expr] = set()
        computed: set[Expr] = set()
        for expr in every:
            computed |= set(self._places(expr))
            below = [*expr.args, *self._places(expr)]
            for arg in below:
                uses[arg] += 1
                if self._depth_of(expr, axes) > depth:
                    deeper.add(arg)
        deeper |= {root for root in roots if depth < len(axes)}
        for expr in every:
            if self._depth_of(expr, axes) != depth or self.known(expr) is not None:
                continue
            if expr.op in ("const", "index", "reduced"):
                continue
            long = expr.op != "load" and expr not in roots and len(self.text(expr)) > WIDE
            if expr in deeper or uses[expr] > 1 or long or expr in computed:
                self.define(expr, axes)

    def _places(self, expr: Expr) -> list[Expr]:
        if expr.op not in ("load", "index"):
            return []
        return [axis.gathered for axis in expr.index.axes if axis.gathered is not None]

    def _depth_of(self, expr: Expr, axes: tuple[Axis, ...]) -> int:
        mine = self.axes_of(expr)
        return max((i + 1 for i, axis in enumerate(axes) if axis in mine), default=0)

    def define(self, expr: Expr, axes: tuple[Axis, ...] = ()) -> str:
        """``const float NAME = ...;``"""
        hint = expr.hint
        if expr.op == "load":
            inner_first = sorted(expr.index.axes, key=lambda a: a not in self._rows)
            walked = [self._axes[a] for a in inner_first if a in self._axes]
            hint = f"{expr.buffer.name}_{walked[-1] if walked else 'value'}"
        text = self.text(expr)
        name = self.name(hint)
        self.line(f"const {C_TYPES[expr.dtype]} {name} = {text};")
        self.know(expr, name)
        return name
