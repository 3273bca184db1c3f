"""The loops of one row in order, and rewrites that change what they compute and keep."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agent.writers.drafter.index import Axis, Index, contiguous, flatten
from agent.writers.drafter.ir import (
    Buffer,
    Expr,
    Kernel,
    Part,
    Pool,
    Reduction,
    Store,
    axes_of,
    is_float,
    walk,
)
from agent.writers.drafter.tidy import change_values

if TYPE_CHECKING:
    from collections.abc import Mapping

_SLOW = """
exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh
asinh acosh atanh erf erfc sigmoid pow atan2 div fmod remainder
"""
SLOW = frozenset(_SLOW.split())
MAX_LOCAL_BYTES = 128 * 1024


@dataclass(slots=True)
class Phase:
    """One loop nest of a row: what it reduces and what it stores.

    ``pairs`` holds reductions that are made together with one of ``reductions`` in the same walk:
    the sum of exponentials with their maximum, the squares about the mean with the sum.
    """

    level: int
    axes: tuple[Axis, ...]
    reductions: list[tuple[Reduction, Expr]] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    pairs: dict[Reduction, Reduction] = field(default_factory=dict)

    @property
    def roots(self) -> list[Expr]:
        return [value for _, value in self.reductions] + [store.value for store in self.stores]


def phases(kernel: Kernel, pairs: Mapping[Reduction, Reduction] | None = None) -> list[Phase]:
    """The kernel's loops in the order in which they run."""
    pairs = pairs or {}
    found: dict[tuple[int, tuple[Axis, ...]], Phase] = {}
    second = set(pairs.values())
    levels = _levels(kernel, pairs)

    def phase(level: int, axes: tuple[Axis, ...]) -> Phase:
        return found.setdefault((level, axes), Phase(level, axes))

    for red in kernel.reductions:
        for part in red.parts:
            if red not in second:
                place = phase(levels[red], part.axes)
                place.reductions.append((red, part.value))
                if red in pairs:
                    place.pairs[red] = pairs[red]
    for store in kernel.stores:
        needs = [e.reduction for e in walk(store.value) if e.op == "reduced"]
        level = max((levels[red] + 1 for red in needs), default=0)
        phase(level, store.axes).stores.append(store)
    return [found[key] for key in sorted(found, key=lambda key: key[0])]


def _levels(kernel: Kernel, pairs: Mapping[Reduction, Reduction]) -> dict[Reduction, int]:
    """A level for each reduction after pairing: a pair is one step."""
    first_of = {second: first for first, second in pairs.items()}
    levels: dict[Reduction, int] = {}
    for red in kernel.reductions:
        if red in first_of:
            levels[red] = levels[first_of[red]]
            continue
        needs = [e.reduction for part in red.parts for e in walk(part.value) if e.op == "reduced"]
        levels[red] = max((levels[need] + 1 for need in needs), default=0)
    return levels


def find_pairs(kernel: Kernel) -> dict[Reduction, Reduction]:
    """Reductions that one walk over the row can make together, each with its companion."""
    pairs: dict[Reduction, Reduction] = {}
    for second in kernel.reductions:
        if len(second.parts) != 1 or second.kind != "sum" or not is_float(second.dtype):
            continue
        value = second.parts[0].value
        first = _maximum_of(value) or _mean_of(value)
        if first is None or first in pairs or len(first.parts) != 1:
            continue
        needs = {e.reduction for e in walk(value) if e.op == "reduced"}
        same = first.parts[0].axes == second.parts[0].axes and first.parts[0].axes
        if same and needs <= {first} | _below(first):
            pairs[first] = second
    return pairs


def _below(red: Reduction) -> set[Reduction]:
    return {e.reduction for part in red.parts for e in walk(part.value) if e.op == "reduced"}


def _maximum_of(value: Expr) -> Reduction | None:
    """``m`` if the value is ``exp(f - m)`` and ``m`` is the maximum of ``f``."""
    if value.op == "exp" and value.args[0].op == "sub":
        base, top = value.args[0].args
        if top.op == "reduced" and top.reduction.kind == "max":
            red = top.reduction
            if len(red.parts) == 1 and red.parts[0].value is base:
                return red
    return None


def _mean_of(value: Expr) -> Reduction | None:
    """The sum of ``f`` if the value is ``(f - sum / n)`` squared."""
    if value.op != "mul" or value.args[0] is not value.args[1] or value.args[0].op != "sub":
        return None
    base, mean = value.args[0].args
    if mean.op not in ("mul", "div") or mean.args[0].op != "reduced":
        return None
    total, scale = mean.args[0].reduction, mean.args[1]
    if scale.op != "const" or total.kind != "sum" or len(total.parts) != 1:
        return None
    assert isinstance(scale.attr, float)
    count = scale.attr if mean.op == "div" else 1.0 / scale.attr if scale.attr else 0.0
    same = total.parts[0].value is base and math.isclose(count, total.count, rel_tol=1e-6)
    return total if same else None


def use_reciprocals(kernel: Kernel, pool: Pool) -> Kernel:
    """Divide by what is fixed inside the innermost loop as a product with its reciprocal."""

    def changed(value: Expr, axes: tuple[Axis, ...], new: Mapping[Expr, Expr]) -> Expr:
        value = pool.rewrite(value, new, {})
        if not axes:
            return value
        swaps: dict[Expr, Expr] = {}
        for expr in walk(value):
            args = tuple(swaps.get(arg, arg) for arg in expr.args)
            moved = expr
            if args != expr.args:
                moved = pool.make(expr.op, args, expr.dtype, expr.attr, expr.hint)
            if expr.op == "div" and is_float(expr.dtype):
                top, bottom = args
                if axes[-1] in axes_of(top) and axes[-1] not in axes_of(bottom):
                    moved = pool.make(
                        "mul", (top, _reciprocal(bottom, pool)), expr.dtype, None, expr.hint
                    )
            if moved is not expr:
                swaps[expr] = moved
        return pool.rewrite(value, swaps, {}) if value not in swaps else swaps[value]

    return change_values(
        kernel,
        pool,
        lambda _, part, new: Part(part.axes, changed(part.value, part.axes, new)),
        lambda store, new: replace(store, value=changed(store.value, store.axes, new)),
    )


def _reciprocal(value: Expr, pool: Pool) -> Expr:
    if value.op == "const":
        assert isinstance(value.attr, float)
        return pool.const(1.0 / value.attr if value.attr else math.inf, value.dtype)
    return pool.make("reciprocal", (value,), value.dtype, None, f"inverse_{value.hint}")


@dataclass(frozen=True, slots=True)
class Kept:
    """A value that several phases of a row need: computed in the first, read in the others."""

    value: Expr
    axes: tuple[Axis, ...]
    first: int
    where: Buffer
    index: Index


def find_kept(steps: list[Phase], in_output: bool) -> list[Kept]:
    """Values worth keeping; in a thread's own row, or in the output's row where they fit."""
    found: list[Kept] = []
    by_axes: dict[tuple[Axis, ...], list[int]] = {}
    for place, step in enumerate(steps):
        if step.axes:
            by_axes.setdefault(step.axes, []).append(place)
    for axes, places in by_axes.items():
        users: dict[Expr, list[int]] = {}
        for place in places:
            for expr in walk(*steps[place].roots):
                users.setdefault(expr, []).append(place)
        shared = [e for e, at in users.items() if len(at) > 1 and _worth(e, axes)]
        inside = {a for e in shared for a in walk(*e.args)}
        for expr in sorted((e for e in shared if e not in inside), key=lambda e: e.serial):
            place = users[expr][0]
            kept = _placed(expr, axes, place, steps, in_output, len(found))
            if kept is not None and not any(k.where == kept.where for k in found):
                found.append(kept)
    return found


def _worth(expr: Expr, axes: tuple[Axis, ...]) -> bool:
    if not set(axes) & axes_of(expr) or expr.op in ("const", "index", "reduced"):
        return False
    slow = any(e.op in SLOW and set(axes) & axes_of(e) for e in walk(expr))
    narrow = any(e.op == "load" and e.buffer.dtype != e.dtype for e in walk(expr))
    return slow or narrow


def _placed(
    expr: Expr, axes: tuple[Axis, ...], first: int, steps: list[Phase], in_output: bool, number: int
) -> Kept | None:
    sizes = [axis.size for axis in axes]
    if in_output:
        for step in steps[first + 1 :]:
            for store in step.stores:
                if step.axes == axes and store.buffer.dtype == expr.dtype:
                    return Kept(expr, axes, first, store.buffer, store.index)
        return None
    size = math.prod(sizes)
    if size * (8 if expr.dtype in ("float64", "int64") else 4) > MAX_LOCAL_BYTES:
        return None
    name = f"kept_{expr.hint}" if not number else f"kept_{expr.hint}{number + 1}"
    buffer = Buffer(name, expr.dtype, (size,), (1,), "local")
    index = flatten([Index.of(axis) for axis in axes], contiguous(sizes))
    return Kept(expr, axes, first, buffer, index)


def keep(steps: list[Phase], kept: list[Kept], pool: Pool) -> list[Phase]:
    """The phases with kept values stored by the first phase and read by the later ones."""
    result = []
    for place, step in enumerate(steps):
        change: dict[Expr, Expr] = {}
        extra: list[Store] = []
        for item in kept:
            if step.axes != item.axes:
                continue
            if place == item.first:
                extra.append(Store(item.where, item.axes, item.index, item.value, step.level))
            elif place > item.first:
                at = (item.where, item.index)
                change[item.value] = pool.make("load", (), item.value.dtype, at, item.value.hint)
        reductions = [(red, pool.rewrite(value, change, {})) for red, value in step.reductions]
        stores = [replace(s, value=pool.rewrite(s.value, change, {})) for s in step.stores]
        result.append(Phase(step.level, step.axes, reductions, extra + stores, step.pairs))
    return result
