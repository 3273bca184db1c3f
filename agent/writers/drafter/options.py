"""Which choices make a difference for a draft, and in which order they are worth trying."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from agent.writers.drafter.cpp import prepared
from agent.writers.drafter.cpp_chunks import chunkable
from agent.writers.drafter.cpp_loops import streamed
from agent.writers.drafter.cpp_rows import ahead
from agent.writers.drafter.cpp_tiles import tiled
from agent.writers.drafter.ir import ITEM_BYTES, is_float, walk
from agent.writers.drafter.phases import SLOW, Kept, Phase, find_kept, find_pairs, phases
from agent.writers.drafter.schedule import Options, Schedule
from agent.writers.drafter.tidy import tidy

if TYPE_CHECKING:
    from agent.writers.drafter.ir import Draft, Kernel, Pool

# Below this many elements starting threads costs more than it brings.
SMALL = 16384
# From this size of a result on, memory may be written past the caches.
STREAM_BYTES = 1 << 20
# A row beyond this leaves the second cache between two passes.
LONG_ROW_BYTES = 256 * 1024
ROWS_A_CORE = 4

Prepared = tuple["Kernel", "list[Phase]"]


def options(draft: Draft, pool: Pool) -> Options:
    """The choices for this draft, the likeliest of each field first."""
    plain = [prepared(kernel, pool, Schedule()) for kernel in draft.kernels]
    whole = [tidy(kernel, pool, aligned=True) for kernel in draft.kernels]
    reduces = any(kernel.reductions for kernel in draft.kernels)
    return Options(
        {
            "launches": _launches(plain),
            "passes": _passes(whole),
            "keep": _keep([phases(kernel) for kernel in whole]),
            "vector": ("simd", "lanes", "auto") if reduces else ("simd", "auto"),
            "threads": _threads(plain),
            "store": ("plain", "stream") if _streams(plain) else ("plain",),
            "walk": _walks(plain),
            "divide": ("reciprocal", "exact") if _divides(draft) else ("exact",),
        }
    )


def _steps(step: Phase) -> int:
    return math.prod(axis.size for axis in step.axes)


def _rows(kernel: Kernel) -> int:
    return math.prod(axis.size for axis in kernel.rows)


def _launches(plain: list[Prepared]) -> tuple[str, ...]:
    fitting = [kernel for kernel, steps in plain if chunkable(kernel, steps)]
    if not fitting:
        return ("rows",)
    few = ROWS_A_CORE * (os.cpu_count() or 1)
    return ("chunks", "rows") if any(_rows(k) < few for k in fitting) else ("rows", "chunks")


def _passes(kernels: list[Kernel]) -> tuple[str, ...]:
    pairs = [(k, first) for k in kernels for first in find_pairs(k)]
    if not pairs:
        return ("two",)
    long = any(4 * first.count > LONG_ROW_BYTES for _, first in pairs)
    return ("one", "two") if long else ("two", "one")


def _keep(stages: list[list[Phase]]) -> tuple[str, ...]:
    row = [item for steps in stages for item in find_kept(steps, in_output=False)]
    out = [item for steps in stages for item in find_kept(steps, in_output=True)]
    found = [name for name, items in (("row", row), ("output", out)) if items]
    if any(_slow(item) for item in row or out):
        return (*found, "recompute")
    return ("recompute", *found)


def _slow(item: Kept) -> bool:
    return any(expr.op in SLOW for expr in walk(item.value))


def _threads(plain: list[Prepared]) -> tuple[str, ...]:
    most = max(
        (_rows(kernel) * _steps(step) for kernel, steps in plain for step in steps), default=0
    )
    if most < SMALL:
        return ("one", "static")
    many = any(_rows(kernel) >= 64 for kernel, _ in plain)
    return ("static", "dynamic") if many else ("static",)


def _walks(plain: list[Prepared]) -> tuple[str, ...]:
    if any(tiled(kernel, steps) for kernel, steps in plain):
        return ("tiles", "plain")
    if any(ahead(kernel, steps) for kernel, steps in plain):
        return ("ahead", "plain")
    return ("plain",)


def _streams(plain: list[Prepared]) -> bool:
    stores = [
        store
        for _, steps in plain
        for step in steps
        for store in streamed(Schedule(store="stream"), step)
    ]
    return any(
        math.prod(store.buffer.shape) * ITEM_BYTES[store.buffer.dtype] >= STREAM_BYTES
        for store in stores
    )


def _divides(draft: Draft) -> bool:
    values = [part.value for k in draft.kernels for red in k.reductions for part in red.parts]
    values += [store.value for k in draft.kernels for store in k.stores]
    return any(expr.op == "div" and is_float(expr.dtype) for expr in walk(*values))
