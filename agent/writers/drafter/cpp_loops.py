"""One phase of a row as C++ loops: partial results, blocks, lanes, streaming stores."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.writers.drafter.cpp_expr import C_TYPES, MEMORY_TYPES, TO
from agent.writers.drafter.cpp_pairs import is_squares, nan_if_empty, write_pair
from agent.writers.drafter.partials import Partial, combine, identity, total_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent.writers.drafter.cpp_code import Code
    from agent.writers.drafter.index import Axis
    from agent.writers.drafter.ir import Expr, Pool, Reduction, Store
    from agent.writers.drafter.phases import Phase
    from agent.writers.drafter.schedule import Schedule

# Sums of float32 longer than this are made of blocks that are added up in double.
LONG = 4096
STREAM_LEAST = 256
_CLAUSE = {"sum": "+", "prod": "*", "max": "maximum", "min": "minimum", "any": "|", "all": "&"}


def streamed(schedule: Schedule, phase: Phase) -> list[Store]:
    """Stores that go through a small block of their own and then past the caches."""
    if schedule.store != "stream" or not phase.axes:
        return []
    last = phase.axes[-1]
    return [
        store
        for store in phase.stores
        if store.buffer.role == "out"
        and store.index.factor(last) == 1
        and last.size >= STREAM_LEAST
    ]


class PhaseWriter:
    """Writes the loops of one phase into a function.

    Args:
        bounds: Where an axis, by its depth, does not run over all its steps: begin and end.
    """

    def __init__(
        self,
        code: Code,
        pool: Pool,
        schedule: Schedule,
        phase: Phase,
        bounds: Mapping[int, tuple[str, str]] | None = None,
        totals: Mapping[Reduction, Partial] | None = None,
    ) -> None:
        self._code = code
        self._pool = pool
        self._schedule = schedule
        self._phase = phase
        self._bounds = bounds or {}
        self._totals = totals or {}
        self._local: dict[Store, str] = {}

    def write(self) -> list[Partial]:
        """Write the loops.

        Returns:
            The reductions with the names of their totals; their final values are not yet named.
        """
        code, phase = self._code, self._phase
        code.hoist(phase.roots, phase.axes, 0)
        partials = [self._start(red) for red, _ in phase.reductions]
        seconds = [
            self._start(phase.pairs[red]) for red, _ in phase.reductions if red in phase.pairs
        ]
        done = self._count_name()
        if not phase.axes:
            self._statements(partials, phase.stores, {p.red: p.total for p in partials})
            return partials
        names = []
        with ExitStack() as stack:
            for depth, axis in enumerate(phase.axes[:-1]):
                name = code.name("k")
                names.append(name)
                code.axis(axis, name)
                begin, end = self._range(depth)
                head = f"for (int64_t {name} = {begin}; {name} < {end}; ++{name})"
                stack.enter_context(code.block(head))
                code.hoist(phase.roots, phase.axes, depth + 1)
            self._innermost(partials, seconds, done)
        code.release(*names)
        for first, second in zip(
            [p for p in partials if p.red in phase.pairs], seconds, strict=True
        ):
            if not is_squares(second):
                code.line(nan_if_empty(first, second))
        return partials + seconds

    def _range(self, depth: int) -> tuple[str, str]:
        return self._bounds.get(depth, ("0", str(self._phase.axes[depth].size)))

    def _start(self, red: Reduction) -> Partial:
        """Declare the total; it is the part too where one loop makes it all."""
        code = self._code
        if red in self._totals:
            return replace(self._totals[red], part=code.name(f"{red.name}_part"))
        expr = self._pool.make("reduced", (), red.dtype, red, red.name)
        kind = total_dtype(red)
        simple = not self._blocked() and len(self._phase.axes) <= 1 and len(red.parts) == 1
        if simple:
            kind = red.dtype
        total = code.name(red.name if kind == red.dtype else f"{red.name}_total")
        code.line(f"{C_TYPES[kind]} {total} = {identity(red.kind, red.dtype)};")
        part = total if simple else code.name(f"{red.name}_part")
        return Partial(red, expr, total, part, kind)

    def _blocked(self) -> bool:
        phase = self._phase
        if not phase.axes:
            return False
        long = phase.axes[-1].size > LONG and any(
            red.kind in ("sum", "prod") and red.dtype == "float32" for red, _ in phase.reductions
        )
        return long or bool(phase.pairs) or bool(streamed(self._schedule, phase))

    def _count_name(self) -> str:
        """A running count of elements, which squares about a mean need."""
        if not any(second.parts[0].value.op == "mul" for second in self._phase.pairs.values()):
            return ""
        name = self._code.name("seen")
        self._code.line(f"double {name} = 0;")
        return name

    def _innermost(self, partials: list[Partial], seconds: list[Partial], seen: str) -> None:
        code, phase = self._code, self._phase
        axis = phase.axes[-1]
        begin, end = self._range(len(phase.axes) - 1)
        if not self._blocked():
            self._parts(partials)
            self._loop(axis, (begin, end), partials, phase.stores)
            self._fold(partials)
            return
        code.tunes.add("BLOCK")
        first, last = code.name("j0"), code.name("j1")
        with code.block(f"for (int64_t {first} = {begin}; {first} < {end}; {first} += BLOCK)"):
            code.line(f"const int64_t {last} = std::min<int64_t>({first} + BLOCK, {end});")
            self._blocks(axis, (first, last), partials, seconds, seen)
        code.release(first, last)

    def _blocks(
        self,
        axis: Axis,
        bounds: tuple[str, str],
        partials: list[Partial],
        seconds: list[Partial],
        seen: str,
    ) -> None:
        code, phase = self._code, self._phase
        first, last = bounds
        for store in streamed(self._schedule, phase):
            name = code.name(f"{store.buffer.name}_block")
            self._local[store] = f"{name}[{{}} - {first}]"
            code.line(f"alignas(64) {MEMORY_TYPES[store.buffer.dtype]} {name}[BLOCK];")
        self._parts(partials)
        self._loop(axis, bounds, partials, phase.stores)
        of = {partial.red: partial for partial in partials}
        for second in seconds:
            first_red = next(red for red, other in phase.pairs.items() if other is second.red)
            write_pair(
                code, of[first_red], second, bounds, seen, self._second(axis, bounds, second)
            )
        self._fold([p for p in partials if p.red not in phase.pairs])
        if seen:
            code.line(f"{seen} += {last} - {first};")
        for store, place in self._local.items():
            code.used.add("stream")
            code.axis(axis, first)
            start = code.element(store.buffer, store.index)
            block = place.partition("[")[0]
            size = f"({last} - {first}) * (int64_t)sizeof({block}[0])"
            code.line(f"stream(&{start}, {block}, {size});")
            code.release(block)
        self._local = {}

    def _parts(self, partials: list[Partial]) -> None:
        for partial in partials:
            if partial.separate:
                red = partial.red
                start = identity(red.kind, red.dtype)
                self._code.line(f"{C_TYPES[red.dtype]} {partial.part} = {start};")

    def _fold(self, partials: list[Partial]) -> None:
        for partial in partials:
            if partial.separate:
                self._code.line(combine(partial.red, partial.total, partial.part, self._code.used))

    def _second(self, axis: Axis, bounds: tuple[str, str], second: Partial) -> Callable[[], None]:
        """Writes the inner loop of a pair's second reduction."""

        def write() -> None:
            self._parts([second])
            self._loop(axis, bounds, [second], [])

        return write

    def _loop(
        self, axis: Axis, bounds: tuple[str, str], partials: list[Partial], stores: list[Store]
    ) -> None:
        """The innermost loop."""
        code, vector = self._code, self._schedule.vector
        begin, end = bounds
        name = code.name("j")
        code.axis(axis, name)
        if vector == "lanes" and partials:
            with code.block(""):
                self._lanes(name, bounds, partials, stores)
        else:
            if vector != "auto":
                code.tunes.add("WIDTH")
                clauses = "".join(f" reduction({_CLAUSE[p.red.kind]} : {p.part})" for p in partials)
                self._declare(partials)
                code.line(f"#pragma omp simd simdlen(WIDTH){clauses}")
            with code.block(f"for (int64_t {name} = {begin}; {name} < {end}; ++{name})"):
                self._statements(partials, stores, {p.red: p.part for p in partials}, name)
        code.release(name)

    def _declare(self, partials: list[Partial]) -> None:
        """OpenMP's own max and min lose NaN: note that ours are to be declared."""
        for partial in partials:
            if partial.red.kind in ("max", "min"):
                self._code.used.add(f"{partial.red.kind}_nan")
                self._code.declared.add((partial.red.kind, partial.red.dtype))

    def _lanes(
        self, name: str, bounds: tuple[str, str], partials: list[Partial], stores: list[Store]
    ) -> None:
        """Partial results in arrays, one element a lane; the rest of the row goes to lane 0."""
        code = self._code
        code.tunes.add("LANES")
        begin, end = bounds
        step, lane = code.name("step"), code.name("lane")
        inner = {p.red: code.name(f"{p.red.name}_lane") for p in partials}
        kinds = [f"{C_TYPES[p.red.dtype]}& {inner[p.red]}" for p in partials]
        with code.block(f"const auto {step} = [&](int64_t {name}, {', '.join(kinds)})", ";"):
            self._statements(partials, stores, inner, name)
        arrays = [code.name(f"{p.red.name}_lanes") for p in partials]
        for partial, array in zip(partials, arrays, strict=True):
            red = partial.red
            code.line(f"{C_TYPES[red.dtype]} {array}[LANES];")
            start = identity(red.kind, red.dtype)
            code.line(f"for (int {lane} = 0; {lane} < LANES; ++{lane}) {array}[{lane}] = {start};")
        code.line(f"int64_t {name} = {begin};")
        with code.block(f"for (; {name} + LANES <= {end}; {name} += LANES)"):
            code.line("#pragma omp simd")
            passed = ", ".join(f"{array}[{lane}]" for array in arrays)
            head = f"for (int {lane} = 0; {lane} < LANES; ++{lane})"
            code.line(f"{head} {step}({name} + {lane}, {passed});")
        passed = ", ".join(f"{array}[0]" for array in arrays)
        code.line(f"for (; {name} < {end}; ++{name}) {step}({name}, {passed});")
        for partial, array in zip(partials, arrays, strict=True):
            statement = combine(partial.red, partial.part, f"{array}[{lane}]", code.used)
            code.line(f"for (int {lane} = 0; {lane} < LANES; ++{lane}) {statement}")
        code.release(step, lane, *inner.values(), *arrays)

    def _statements(
        self, partials: list[Partial], stores: list[Store], into: dict[Reduction, str], at: str = ""
    ) -> None:
        """The heart of the nest: values, partial results, stores."""
        code, phase = self._code, self._phase
        values = [_value_of(phase, p.red) for p in partials]
        code.hoist([*values, *(store.value for store in stores)], phase.axes, len(phase.axes))
        for store in stores:
            place = self._local.get(store)
            target = place.format(at) if place else code.element(store.buffer, store.index)
            code.line(f"{target} = {self._stored(store)};")
        for partial, value in zip(partials, values, strict=True):
            name = into.get(partial.red, partial.part)
            code.line(combine(partial.red, name, code.text(value), code.used))

    def _stored(self, store: Store) -> str:
        """The value as the buffer holds it; a plain copy is not converted."""
        code, value = self._code, store.value
        if value.op == "load" and value.buffer.dtype == store.buffer.dtype:
            return code.element(value.buffer, value.index)
        to = TO.get(store.buffer.dtype)
        if to is None:
            return code.text(value)
        code.used.add(to)
        return f"{to}({code.text(value)})"


def _value_of(phase: Phase, red: Reduction) -> Expr:
    for own, value in phase.reductions:
        if own is red:
            return value
    return red.parts[0].value
