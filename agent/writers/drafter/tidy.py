"""Fewer and longer loops: neighbouring axes become one where every tensor is walked alike."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agent.writers.drafter.index import Axis, Index
from agent.writers.drafter.ir import Expr, Kernel, Part, Pool, Reduction, Store, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

SHORT_ROW = 128


def tidy(kernel: Kernel, pool: Pool, aligned: bool) -> Kernel:
    """The kernel with merged axes; a pointwise kernel gets row axes.

    Args:
        aligned: Keep equal loop nests equal, so that what one computed another can read back.
    """
    kernel = _pointwise_rows(kernel) if not kernel.reductions and not kernel.rows else kernel
    kernel = _merge_rows(kernel, pool)
    kernel = _merge_columns(kernel, pool, aligned)
    while not kernel.reductions and _short(kernel):
        kernel = _merge_columns(_widened(kernel), pool, aligned)
    return kernel


def change_values(
    kernel: Kernel,
    pool: Pool,
    change_part: Callable[[Reduction, Part, Mapping[Expr, Expr]], Part],
    change_store: Callable[[Store, Mapping[Expr, Expr]], Store],
    rows: tuple[Axis, ...] | None = None,
) -> Kernel:
    """A copy of the kernel; the callbacks get the new expressions of earlier reductions."""
    new: dict[Expr, Expr] = {}
    reductions = []
    for red in kernel.reductions:
        parts = tuple(change_part(red, part, new) for part in red.parts)
        copy = Reduction(red.name, red.kind, red.dtype, red.count, parts, red.level)
        reductions.append(copy)
        old = pool.make("reduced", (), red.dtype, red, red.name)
        new[old] = pool.make("reduced", (), red.dtype, copy, red.name)
    stores = [change_store(store, new) for store in kernel.stores]
    return Kernel(kernel.name, kernel.rows if rows is None else rows, reductions, stores)


def _pointwise_rows(kernel: Kernel) -> Kernel:
    """Axes that all stores share are rows, but for the last, which is the loop inside."""
    nests = [store.axes for store in kernel.stores]
    shortest = min(len(axes) for axes in nests)
    shared = 0
    while shared < shortest - 1 and len({axes[shared] for axes in nests}) == 1:
        shared += 1
    rows = nests[0][:shared]
    stores = [replace(store, axes=store.axes[shared:]) for store in kernel.stores]
    return Kernel(kernel.name, rows, [], stores)


def _short(kernel: Kernel) -> bool:
    longest = max((_steps(store.axes) for store in kernel.stores), default=0)
    return bool(kernel.rows) and longest < SHORT_ROW


def _widened(kernel: Kernel) -> Kernel:
    """The innermost row axis becomes the outermost loop inside a row."""
    inner = kernel.rows[-1]
    stores = [replace(store, axes=(inner, *store.axes)) for store in kernel.stores]
    return Kernel(kernel.name, kernel.rows[:-1], [], stores)


def _steps(axes: tuple[Axis, ...]) -> int:
    total = 1
    for axis in axes:
        total *= axis.size
    return total


def _indices(values: Iterable[Expr]) -> list[Index]:
    return [expr.index for expr in walk(*values) if expr.op in ("load", "index")]


def _mergeable(axes: tuple[Axis, ...], indices: list[Index]) -> int | None:
    """The place of the first axis that can be merged with its successor."""
    for i in range(len(axes) - 1):
        a, b = axes[i], axes[i + 1]
        if all(index.factor(a) == index.factor(b) * b.size for index in indices):
            return i
    return None


def _merged(
    axes: tuple[Axis, ...], indices: list[Index]
) -> tuple[tuple[Axis, ...], dict[Axis, Index]]:
    """Merged axes, and the old ones in terms of them (a merged outer axis counts as nothing)."""
    values: dict[Axis, Index] = {}
    place = _mergeable(axes, indices)
    while place is not None:
        a, b = axes[place], axes[place + 1]
        both = Axis(a.name, a.size * b.size)
        step = {a: Index(), b: Index.of(both)}
        values = {axis: index.replace(step) for axis, index in values.items()} | step
        indices = [index.replace(step) for index in indices]
        axes = (*axes[:place], both, *axes[place + 2 :])
        place = _mergeable(axes, indices)
    return axes, values


def _merge_rows(kernel: Kernel, pool: Pool) -> Kernel:
    values = [part.value for red in kernel.reductions for part in red.parts]
    indices = _indices([*values, *(store.value for store in kernel.stores)])
    indices += [store.index for store in kernel.stores]
    rows, axes = _merged(kernel.rows, indices)

    def part_of(_: Reduction, part: Part, new: Mapping[Expr, Expr]) -> Part:
        return Part(part.axes, pool.rewrite(part.value, new, axes))

    def store_of(store: Store, new: Mapping[Expr, Expr]) -> Store:
        value = pool.rewrite(store.value, new, axes)
        return replace(store, index=store.index.replace(axes), value=value)

    return change_values(kernel, pool, part_of, store_of, rows)


def _merge_columns(kernel: Kernel, pool: Pool, aligned: bool) -> Kernel:
    groups: dict[object, list[Index]] = {}

    def key(axes: tuple[Axis, ...], level: int) -> object:
        return axes if aligned else (axes, level)

    for red in kernel.reductions:
        for part in red.parts:
            groups.setdefault(key(part.axes, red.level), []).extend(_indices([part.value]))
    for store in kernel.stores:
        found = groups.setdefault(key(store.axes, store.level), [])
        found.extend([*_indices([store.value]), store.index])

    def part_of(red: Reduction, part: Part, new: Mapping[Expr, Expr]) -> Part:
        axes, values = _merged(part.axes, groups[key(part.axes, red.level)])
        return Part(axes, pool.rewrite(part.value, new, values))

    def store_of(store: Store, new: Mapping[Expr, Expr]) -> Store:
        axes, values = _merged(store.axes, groups[key(store.axes, store.level)])
        value = pool.rewrite(store.value, new, values)
        return replace(store, axes=axes, index=store.index.replace(values), value=value)

    return change_values(kernel, pool, part_of, store_of)
