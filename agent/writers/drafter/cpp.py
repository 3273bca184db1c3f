"""Writes a draft as C++ and a launch plan, for one schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.writers.drafter.cpp_chunks import ChunkFunctions, chunkable
from agent.writers.drafter.cpp_expr import C_TYPES, MEMORY_TYPES, number
from agent.writers.drafter.cpp_math import HELPERS, helpers
from agent.writers.drafter.cpp_rows import RowsFunction, Source
from agent.writers.drafter.cpp_tiles import TilesFunction, tiled
from agent.writers.drafter.partials import identity
from agent.writers.drafter.phases import (
    Phase,
    find_kept,
    find_pairs,
    keep,
    phases,
    use_reciprocals,
)
from agent.writers.drafter.tidy import tidy

if TYPE_CHECKING:
    from agent.writers.drafter.ir import Draft, Kernel, Pool
    from agent.writers.drafter.schedule import Schedule


def prepared(kernel: Kernel, pool: Pool, schedule: Schedule) -> tuple[Kernel, list[Phase]]:
    """The kernel's phases with the schedule's rewrites made."""
    kernel = tidy(kernel, pool, aligned=schedule.keep != "recompute")
    if schedule.divide == "reciprocal":
        kernel = use_reciprocals(kernel, pool)
    pairs = find_pairs(kernel) if schedule.passes == "one" else {}
    steps = phases(kernel, pairs)
    if schedule.keep != "recompute":
        steps = keep(steps, find_kept(steps, schedule.keep == "output"), pool)
    return kernel, steps


def write_source(draft: Draft, pool: Pool, schedule: Schedule) -> Source:
    """All kernels of the draft."""
    source = Source()
    for buffer in draft.scratch:
        source.scratch.append((buffer.name, buffer.dtype, [str(s) for s in buffer.shape]))
    for kernel in draft.kernels:
        ready, steps = prepared(kernel, pool, schedule)
        inside = tiled(ready, steps) if schedule.walk == "tiles" else None
        if inside is not None:
            TilesFunction(source, pool, schedule, inside, phases(inside)).write()
        elif schedule.launches == "chunks" and chunkable(ready, steps):
            ChunkFunctions(source, pool, schedule, ready, steps).write()
        else:
            RowsFunction(source, pool, schedule, ready, steps).write()
    return source


def reply(source: Source, title: str, about: str) -> str:
    """The reply's text: idea line, source, plan."""
    headers = ["<algorithm>", "<cmath>", "<cstdint>", "<limits>"]
    if "stream" in source.used:
        headers += ["<cstring>"]
    text = [f"// {about}", ""]
    text += [f"#include {header}" for header in sorted(headers)]
    if "stream" in source.used:
        text += ["#if defined(__SSE2__)", "#include <immintrin.h>", "#endif"]
    used = helpers(source.used & set(HELPERS))
    if used:
        text += ["", used.rstrip()]
    for kind, dtype in sorted(source.declared):
        name = {"max": "maximum", "min": "minimum"}[kind]
        text += [
            f"#pragma omp declare reduction({name} : {C_TYPES[dtype]} : \\",
            f"    omp_out = {kind}_nan(omp_out, omp_in)) initializer("
            f"omp_priv = {identity(kind, dtype)})",
        ]
    for table in sorted(source.tables, key=lambda table: table.name):
        values = ", ".join(number(value, table.dtype) for value in table.values)
        kind = MEMORY_TYPES[table.dtype]
        text += ["", f"static constexpr {kind} {table.name}[{len(table.values)}] = {{{values}}};"]
    for function in source.functions:
        text += ["", function]
    return f"{title}\n\n```cpp\n" + "\n".join(text) + f"\n```\n\n```toml\n{plan(source)}```\n"


def plan(source: Source) -> str:
    lines = []
    if source.tune:
        lines.append("[tune]")
        lines += [f"{name} = {values}" for name, values in sorted(source.tune.items())]
        lines.append("")
    for name, dtype, shape in source.scratch:
        sizes = ", ".join(size if size.isdigit() else f'"{size}"' for size in shape)
        lines += ["[[scratch]]", f'name = "{name}"', f'dtype = "{dtype}"', f"shape = [{sizes}]", ""]
    for name, args in source.launches:
        listed = ", ".join(f'"{arg}"' for arg in args)
        lines += ["[[launch]]", f'kernel = "{name}"', f"args = [{listed}]", ""]
    return "\n".join(lines).rstrip() + "\n"
