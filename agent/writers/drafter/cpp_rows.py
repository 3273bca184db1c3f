"""One function for a kernel, a thread does whole rows; and what every kind of function needs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.writers.drafter.cpp_code import Code
from agent.writers.drafter.cpp_expr import C_TYPES, MEMORY_TYPES
from agent.writers.drafter.cpp_loops import PhaseWriter, streamed
from agent.writers.drafter.index import Axis, Index
from agent.writers.drafter.ir import ITEM_BYTES, Buffer, Kernel, Pool, walk

if TYPE_CHECKING:
    from agent.writers.drafter.ir import Reduction
    from agent.writers.drafter.partials import Partial
    from agent.writers.drafter.phases import Phase
    from agent.writers.drafter.schedule import Schedule

# A longer row would push out what is still being worked on.
AHEAD_BYTES = 32 * 1024


@dataclass(slots=True)
class Source:
    """What has been written so far of one program.

    Attributes:
        functions: Texts of the kernels.
        launches: Kernel name and its arguments, in order.
        scratch: Name, dtype and shape (expressions) of each scratch tensor.
        tune: Tunables with their values.
        used: Helpers of ours that the functions call.
        declared: OpenMP reductions of ours, by kind and dtype.
        tables: Constant tensors.
    """

    functions: list[str] = field(default_factory=list)
    launches: list[tuple[str, list[str]]] = field(default_factory=list)
    scratch: list[tuple[str, str, list[str]]] = field(default_factory=list)
    tune: dict[str, list[int]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    declared: set[tuple[str, str]] = field(default_factory=set)
    tables: set[Buffer] = field(default_factory=set)


class RowsFunction:
    """One function for all steps of a kernel; a thread does whole rows."""

    def __init__(
        self, source: Source, pool: Pool, schedule: Schedule, kernel: Kernel, steps: list[Phase]
    ) -> None:
        self._source = source
        self._pool = pool
        self._schedule = schedule
        self._kernel = kernel
        self._steps = steps
        self._buffers = buffers_of(steps)
        names = {buffer.name for buffer in self._buffers} | {kernel.name}
        self._code = Code(names, source.used)

    def write(self) -> None:
        code, kernel = self._code, self._kernel
        outside = [b for b in self._buffers if b.role not in ("local", "constant")]
        self._source.tables |= {b for b in self._buffers if b.role == "constant"}
        with code.block(signature(kernel.name, outside, written(self._steps))):
            self._rows()
        self._source.functions.append("\n".join(code.lines))
        self._source.launches.append((kernel.name, [b.name for b in outside]))
        self._source.declared |= code.declared
        add_tunables(self._source, code, outside)

    def _rows(self) -> None:
        code, rows = self._code, self._kernel.rows
        code.set_rows(rows)
        if not rows:
            self._row()
            return
        nest = list(zip(rows, row_names(rows), strict=True))
        if self._schedule.threads == "one":
            self._nest(nest)
            return
        collapse = f" collapse({len(rows)})" if len(rows) > 1 else ""
        how = "static"
        if self._schedule.threads == "dynamic":
            code.tunes.add("TASK")
            how = "dynamic, TASK"
        if not any(streamed(self._schedule, step) for step in self._steps):
            code.line(f"#pragma omp parallel for{collapse} schedule({how})")
            self._nest(nest)
            return
        # Each thread waits for its own streaming stores, once.
        with code.block("#pragma omp parallel\n  "):
            code.line(f"#pragma omp for{collapse} schedule({how}) nowait")
            self._nest(nest)
            code.line("stream_end();")

    def _nest(self, left: list[tuple[Axis, str]]) -> None:
        code = self._code
        if not left:
            self._row()
            return
        axis, hint = left[0]
        name = code.name(hint)
        code.axis(axis, name)
        with code.block(f"for (int64_t {name} = 0; {name} < {axis.size}; ++{name})"):
            self._nest(left[1:])

    def _row(self) -> None:
        code = self._code
        for buffer in self._buffers:
            if buffer.role == "local":
                kind = C_TYPES[buffer.dtype]
                code.line(f"alignas(64) {kind} {buffer.name}[{buffer.shape[0]}];")
        code.pointers(places(self._steps), written(self._steps))
        write_steps(code, self._pool, self._schedule, self._kernel, self._steps)


def row_names(rows: tuple[Axis, ...]) -> list[str]:
    return ["row"] if len(rows) == 1 else [f"i{n}" for n in range(len(rows))]


def write_steps(
    code: Code, pool: Pool, schedule: Schedule, kernel: Kernel, steps: list[Phase]
) -> None:
    """The steps of one row, one after the other."""
    totals: dict[Reduction, Partial] = {}
    for place, step in enumerate(steps):
        if schedule.walk == "ahead" and place and place == len(steps) - 1:
            fetch_ahead(code, kernel, steps)
        partials = PhaseWriter(code, pool, schedule, step, totals=totals).write()
        for partial in partials:
            totals[partial.red] = partial
        later = {red for other in steps[place + 1 :] for red, _ in other.reductions}
        for red, partial in list(totals.items()):
            if red not in later:
                finish(code, partial)
                del totals[red]


def ahead(kernel: Kernel, steps: list[Phase]) -> list[tuple[Buffer, Index]]:
    """What a row reads in its first step from one stretch of memory, for each tensor."""
    found: dict[Buffer, Index] = {}
    if not kernel.rows or len(steps) < 2:
        return []
    for expr in walk(*steps[0].roots):
        if expr.op != "load" or expr.buffer.role != "arg" or expr.buffer in found:
            continue
        row = Index(tuple(t for t in expr.index.terms if t[0] in kernel.rows))
        within = Index(tuple(t for t in expr.index.terms if t[0] not in kernel.rows))
        size = math.prod(axis.size for axis in within.axes)
        whole = within.low == 0 and within.high + 1 == size
        near = size * ITEM_BYTES[expr.buffer.dtype] <= AHEAD_BYTES
        if whole and near and row.factor(kernel.rows[-1]) == size > 1:
            found[expr.buffer] = expr.index
    return list(found.items())


def fetch_ahead(code: Code, kernel: Kernel, steps: list[Phase]) -> None:
    """Ask for the next row's cache lines; past the last row that does nothing."""
    wanted = ahead(kernel, steps)
    if wanted:
        code.line("// Fetch the next row while this one is finished.")
    for buffer, index in wanted:
        size = index.factor(kernel.rows[-1])
        line = 64 // ITEM_BYTES[buffer.dtype]
        name = code.name("j")
        next_row = Index(tuple(t for t in index.terms if t[0] in kernel.rows), size)
        axis = Axis("ahead", size)
        code.axis(axis, name)
        place = code.element(buffer, next_row + Index.of(axis))
        code.line(f"for (int64_t {name} = 0; {name} < {size}; {name} += {line})")
        code.line(f"  __builtin_prefetch(&{place});")
        code.release(name)


def finish(code: Code, partial: Partial) -> None:
    """Give the reduction's final value its name."""
    red = partial.red
    name = partial.total
    if partial.total_dtype != red.dtype:
        name = code.name(red.name)
        code.line(f"const {C_TYPES[red.dtype]} {name} = ({C_TYPES[red.dtype]}){partial.total};")
    code.know(partial.expr, name)


def buffers_of(steps: list[Phase]) -> list[Buffer]:
    kernel = Kernel("", ())
    kernel.stores = [store for step in steps for store in step.stores]
    found: dict[Buffer, None] = {}
    for step in steps:
        roots = step.roots + [red.parts[0].value for red in step.pairs.values()]
        for expr in walk(*roots):
            if expr.op == "load":
                found[expr.buffer] = None
    found |= dict.fromkeys(store.buffer for store in kernel.stores)
    order = {"arg": 0, "scratch": 1, "out": 2, "local": 3, "constant": 4}
    return sorted(found, key=lambda buffer: order[buffer.role])


def written(steps: list[Phase]) -> set[Buffer]:
    return {store.buffer for step in steps for store in step.stores}


def places(steps: list[Phase]) -> list[tuple[Buffer, Index]]:
    """Every place in memory that the steps touch."""
    found: list[tuple[Buffer, Index]] = []
    for step in steps:
        roots = step.roots + [red.parts[0].value for red in step.pairs.values()]
        found += [(e.buffer, e.index) for e in walk(*roots) if e.op == "load"]
        found += [(store.buffer, store.index) for store in step.stores]
    return [(buffer, index) for buffer, index in found if buffer.role not in ("local", "constant")]


def signature(name: str, buffers: list[Buffer], writes: set[Buffer]) -> str:
    args = []
    for buffer in buffers:
        const = "" if buffer in writes else "const "
        args.append(f"{const}{MEMORY_TYPES[buffer.dtype]}* __restrict__ {buffer.name}")
    line = f'extern "C" void {name}({", ".join(args)})'
    if len(line) <= 98:
        return line
    return f'extern "C" void {name}(\n    ' + ",\n    ".join(args) + ")"


def add_tunables(source: Source, code: Code, buffers: list[Buffer]) -> None:
    narrow = min((ITEM_BYTES[b.dtype] for b in buffers), default=4)
    width = 64 // narrow
    values = {
        "WIDTH": [width, width // 2] if narrow > 1 else [width, width // 2, width // 4],
        "LANES": [64, 32, 128],
        "BLOCK": [1024, 256, 4096],
        "TASK": [16, 4, 64],
        "TILE": [32, 16, 64],
        "CHUNK": [32768, 8192, 131072],
    }
    for name in sorted(code.tunes):
        old = source.tune.get(name)
        source.tune[name] = values[name] if old is None else max(old, values[name])
