"""Rows cut into chunks: every step is a launch over all chunks, totals go through scratch.

For few long rows, where one thread a row would leave cores idle. A step that needs a total first
combines the chunks' partial results, which is little work beside a chunk.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from agent.writers.drafter.cpp_code import Code
from agent.writers.drafter.cpp_expr import C_TYPES
from agent.writers.drafter.cpp_loops import PhaseWriter, streamed
from agent.writers.drafter.cpp_pairs import exp_call, is_squares, nan_if_empty
from agent.writers.drafter.cpp_rows import (
    Source,
    add_tunables,
    buffers_of,
    finish,
    places,
    row_names,
    signature,
    written,
)
from agent.writers.drafter.index import Index, contiguous, flatten
from agent.writers.drafter.ir import Buffer, Kernel, Pool, Reduction, walk
from agent.writers.drafter.partials import Partial, combine, identity, total_dtype

if TYPE_CHECKING:
    from agent.writers.drafter.phases import Phase
    from agent.writers.drafter.schedule import Schedule

FEW_ROWS = 1024
LEAST_STEPS = 16384


def chunkable(kernel: Kernel, steps: list[Phase]) -> bool:
    """Whether the kernel has few and long enough rows, and each reduction is one loop nest."""
    rows = math.prod(axis.size for axis in kernel.rows)
    longest = max((math.prod(a.size for a in step.axes) for step in steps), default=0)
    whole = all(len(red.parts) == 1 for red in kernel.reductions)
    return whole and rows <= FEW_ROWS and longest >= LEAST_STEPS


class ChunkFunctions:
    """Functions and launches of one kernel, a function for each of its steps."""

    def __init__(
        self, source: Source, pool: Pool, schedule: Schedule, kernel: Kernel, steps: list[Phase]
    ) -> None:
        self._source = source
        self._pool = pool
        self._schedule = schedule
        self._kernel = kernel
        self._steps = steps
        # reduction -> the phase that made it, and the scratch with its partial results
        self._made: dict[Reduction, tuple[Phase, Buffer]] = {}
        self._pair_of = {b: a for step in steps for a, b in step.pairs.items()}

    def write(self) -> None:
        for number, step in enumerate(self._steps):
            name = self._kernel.name
            if len(self._steps) > 1:
                last = step.reductions[0][0].name if step.reductions else "out"
                name = f"{name}_{number}_{last}"
            self._function(name, step)

    def _function(self, name: str, step: Phase) -> None:
        source, kernel = self._source, self._kernel
        parts_in = [self._made[red][1] for red in self._needs(step)]
        parts_out = [self._scratch(red, step) for red in _reductions(step)]
        touched = buffers_of([step])
        source.tables |= {b for b in touched if b.role == "constant"}
        buffers = [*(b for b in touched if b.role != "constant"), *parts_in, *parts_out]
        writes = written([step]) | set(parts_out)
        code = Code({b.name for b in buffers} | {name}, source.used)
        code.set_rows(kernel.rows)
        with code.block(signature(name, buffers, writes)):
            self._constants(code, step)
            self._loops(code, step)
        source.functions.append("\n".join(code.lines))
        source.launches.append((name, [b.name for b in buffers]))
        source.declared |= code.declared
        add_tunables(source, code, buffers)

    def _needs(self, step: Phase) -> list[Reduction]:
        """Earlier reductions that the step uses, with the companions that combining them takes."""
        found: dict[Reduction, None] = {}
        for expr in walk(*step.roots):
            if expr.op == "reduced":
                if expr.reduction in self._pair_of:
                    found[self._pair_of[expr.reduction]] = None
                found[expr.reduction] = None
        return list(found)

    def _scratch(self, red: Reduction, step: Phase) -> Buffer:
        dtype = total_dtype(red)
        rows = math.prod(axis.size for axis in self._kernel.rows)
        outer, inner = _outer_inner(step)
        chunks = f"ceil_div({outer}, {_step_text(inner)})"
        taken = {name for name, _, _ in self._source.scratch}
        name, number = f"{red.name}_parts", 1
        while name in taken:
            number += 1
            name = f"{red.name}_parts{number}"
        self._source.scratch.append((name, dtype, [str(rows), chunks]))
        buffer = Buffer(name, dtype, (rows, 0), (0, 1), "scratch")
        self._made[red] = (step, buffer)
        return buffer

    def _constants(self, code: Code, step: Phase) -> None:
        """How many chunks a row has: of this step, and of those that made what it needs."""
        self._chunks: dict[object, str] = {}
        for phase in [step, *(self._made[red][0] for red in self._needs(step))]:
            outer, inner = _outer_inner(phase)
            if not phase.axes or (outer, inner) in self._chunks:
                continue
            code.tunes.add("CHUNK")
            size, count = code.name("size"), code.name("chunks")
            whole = "CHUNK" if inner == 1 else f"std::max<int64_t>(1, CHUNK / {inner})"
            code.line(f"constexpr int64_t {size} = {whole};")
            code.line(f"constexpr int64_t {count} = ({outer} + {size} - 1) / {size};")
            self._chunks[outer, inner] = count
            if phase is step:
                self._size = size

    def _loops(self, code: Code, step: Phase) -> None:
        rows = self._kernel.rows
        names = row_names(rows)
        for axis, name in zip(rows, names, strict=True):
            code.axis(axis, code.name(name))
        heads = [
            f"for (int64_t {name} = 0; {name} < {axis.size}; ++{name})"
            for axis, name in zip(rows, names, strict=True)
        ]
        chunk = ""
        if step.axes:
            chunk = code.name("chunk")
            count = self._chunks[_outer_inner(step)]
            heads.append(f"for (int64_t {chunk} = 0; {chunk} < {count}; ++{chunk})")
        if not heads:
            self._task(code, step, chunk)
            return
        clause = f" collapse({len(heads)})" if len(heads) > 1 else ""
        parallel = self._schedule.threads != "one"
        if parallel and streamed(self._schedule, step):
            with code.block("#pragma omp parallel\n  "):
                code.line(f"#pragma omp for{clause} schedule(static) nowait")
                self._nest(code, heads, step, chunk)
                code.line("stream_end();")
            return
        if parallel:
            code.line(f"#pragma omp parallel for{clause} schedule(static)")
        self._nest(code, heads, step, chunk)

    def _nest(self, code: Code, heads: list[str], step: Phase, chunk: str) -> None:
        if not heads:
            self._task(code, step, chunk)
            return
        with code.block(heads[0]):
            self._nest(code, heads[1:], step, chunk)

    def _task(self, code: Code, step: Phase, chunk: str) -> None:
        code.pointers(places([step]), written([step]))
        done: set[Reduction] = set()
        for red in self._needs(step):
            if red not in done:
                done |= self._combine(code, red)
        bounds = {}
        if chunk:
            begin, end = code.name("begin"), code.name("end")
            code.line(f"const int64_t {begin} = {chunk} * {self._size};")
            limit = step.axes[0].size
            code.line(f"const int64_t {end} = std::min<int64_t>({begin} + {self._size}, {limit});")
            bounds[0] = (begin, end)
        partials = PhaseWriter(code, self._pool, self._schedule, step, bounds).write()
        for partial in partials:
            place = self._part_index(code, partial.red, chunk)
            code.line(f"{self._made[partial.red][1].name}[{place}] = {partial.total};")

    def _part_index(self, code: Code, red: Reduction, chunk: str) -> str:
        rows = self._kernel.rows
        step = self._made[red][0]
        if not step.axes:
            return self._row_text(code)
        row = self._row_text(code)
        count = self._chunks[_outer_inner(step)]
        if not rows:
            return chunk
        return (
            f"{row} * {count} + {chunk}" if row.isidentifier() else f"({row}) * {count} + {chunk}"
        )

    def _row_text(self, code: Code) -> str:
        rows = self._kernel.rows
        strides = contiguous([axis.size for axis in rows])
        return code.index(flatten([Index.of(axis) for axis in rows], strides))

    def _combine(self, code: Code, red: Reduction) -> set[Reduction]:
        """Totals of a row from its chunks; a pair's together."""
        step, buffer = self._made[red]
        second = step.pairs.get(red)
        first = self._total(code, red)
        c = code.name("c")
        count = self._chunks[_outer_inner(step)]
        place = self._part_index(code, red, c)
        with code.block(f"for (int64_t {c} = 0; {c} < {count}; ++{c})"):
            code.line(combine(red, first.total, f"{buffer.name}[{place}]", code.used))
        if second is None:
            finish(code, first)
            return {red}
        other = self._total(code, second)
        part = f"{self._made[second][1].name}[{place}]"
        with code.block(f"for (int64_t {c} = 0; {c} < {count}; ++{c})"):
            if is_squares(other):
                self._squares(code, step, first, other, (f"{buffer.name}[{place}]", part), c)
            else:
                top = f"{buffer.name}[{place}]"
                scale = exp_call(code, red.dtype, f"{top} - {first.total}")
                # A chunk of nothing but -inf adds nothing.
                code.line(f"if ({top} != -INFINITY) {other.total} += {part} * {scale};")
        if not is_squares(other):
            code.line(nan_if_empty(first, other))
        finish(code, first)
        finish(code, other)
        return {red, second}

    def _squares(
        self,
        code: Code,
        step: Phase,
        first: Partial,
        other: Partial,
        parts: tuple[str, str],
        c: str,
    ) -> None:
        outer, inner = _outer_inner(step)
        size, n, shift = self._size_of(step), code.name("count"), code.name("shift")
        ends = f"std::min<int64_t>({size}, {outer} - {c} * {size})"
        code.line(f"const double {n} = (double){ends}{f' * {inner}' if inner > 1 else ''};")
        total = first.red.count
        code.line(f"const double {shift} = {parts[0]} / {n} - {first.total} / {total};")
        code.line(f"{other.total} += {parts[1]} + {n} * {shift} * {shift};")
        code.release(n, shift)

    def _size_of(self, step: Phase) -> str:
        count = self._chunks[_outer_inner(step)]
        return count.replace("chunks", "size")

    def _total(self, code: Code, red: Reduction) -> Partial:
        kind = total_dtype(red)
        expr = self._pool.make("reduced", (), red.dtype, red, red.name)
        total = code.name(red.name if kind == red.dtype else f"{red.name}_total")
        code.line(f"{C_TYPES[kind]} {total} = {identity(red.kind, red.dtype)};")
        return Partial(red, expr, total, total, kind)


def _reductions(step: Phase) -> list[Reduction]:
    return [red for red, _ in step.reductions] + list(step.pairs.values())


def _outer_inner(step: Phase) -> tuple[int, int]:
    """Steps of the outermost loop, and the elements in each."""
    if not step.axes:
        return 1, 1
    return step.axes[0].size, math.prod(axis.size for axis in step.axes[1:])


def _step_text(inner: int) -> str:
    return "CHUNK" if inner == 1 else f"max(1, CHUNK // {inner})"
