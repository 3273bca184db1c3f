"""Pointwise kernels that read along one axis and write along another: walked tile by tile.

Within a tile the cache lines that a strided walk touches are used whole before they leave.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agent.writers.drafter.cpp_loops import PhaseWriter
from agent.writers.drafter.cpp_rows import RowsFunction, places, row_names, written
from agent.writers.drafter.ir import Kernel, walk

if TYPE_CHECKING:
    from agent.writers.drafter.index import Axis
    from agent.writers.drafter.phases import Phase

LEAST_TILED = 32


def tiled(kernel: Kernel, steps: list[Phase]) -> Kernel | None:
    """The kernel with one of its row axes inside, where a tensor is contiguous along that one."""
    if kernel.reductions or len(steps) != 1 or len(steps[0].axes) != 1:
        return None
    inner = steps[0].axes[0]
    indices = [store.index for store in kernel.stores]
    indices += [e.index for e in walk(*(s.value for s in kernel.stores)) if e.op == "load"]
    for axis in reversed(kernel.rows):
        across = any(i.factor(axis) == 1 and abs(i.factor(inner)) > 1 for i in indices)
        if across and min(axis.size, inner.size) >= LEAST_TILED:
            rows = tuple(row for row in kernel.rows if row != axis)
            stores = [replace(store, axes=(axis, inner)) for store in kernel.stores]
            return Kernel(kernel.name, rows, [], stores)
    return None


class TilesFunction(RowsFunction):
    """One function for a kernel that ``tiled`` has prepared."""

    def _rows(self) -> None:
        code, rows = self._code, self._kernel.rows
        code.set_rows(rows)
        code.tunes.add("TILE")
        down, across = self._steps[0].axes
        if self._schedule.threads != "one":
            collapse = f" collapse({len(rows) + 1})" if rows else ""
            how = "static"
            if self._schedule.threads == "dynamic":
                code.tunes.add("TASK")
                how = "dynamic, TASK"
            code.line(f"#pragma omp parallel for{collapse} schedule({how})")
        self._outer_loops(list(zip(rows, row_names(rows), strict=True)), down, across)

    def _outer_loops(self, left: list[tuple[Axis, str]], down: Axis, across: Axis) -> None:
        code = self._code
        if left:
            axis, hint = left[0]
            name = code.name(hint)
            code.axis(axis, name)
            with code.block(f"for (int64_t {name} = 0; {name} < {axis.size}; ++{name})"):
                self._outer_loops(left[1:], down, across)
            return
        top, side = code.name("k0"), code.name("j0")
        with code.block(f"for (int64_t {top} = 0; {top} < {down.size}; {top} += TILE)"):
            code.pointers(places(self._steps), written(self._steps))
            bottom, end = code.name("k1"), code.name("j1")
            code.line(f"const int64_t {bottom} = std::min<int64_t>({top} + TILE, {down.size});")
            with code.block(f"for (int64_t {side} = 0; {side} < {across.size}; {side} += TILE)"):
                code.line(f"const int64_t {end} = std::min<int64_t>({side} + TILE, {across.size});")
                bounds = {0: (top, bottom), 1: (side, end)}
                PhaseWriter(code, self._pool, self._schedule, self._steps[0], bounds).write()
