"""The check rung: is the program right, on inputs it cannot know, and does it touch only its own.

For every case the judge writes fresh arguments between guard bands, spoils the outputs and the
scratch memory, lets the runner call the program once, and then looks at everything itself:
answers, guards, arguments. One call is repeated on outputs that hold the right answer but for a
few spoilt elements: a program that keeps what looks right, or that races, differs there; it may
differ in bits, as sums in any order do, if it is right again. And while a second call works
elsewhere, the first call's output must stay.

An argument that the target declares as changed in place is written anew before every call, and
what it holds afterwards is compared like an output.
"""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

from agent.errors import WorkerError
from agent.judge.arena import (
    GUARD_BYTE,
    UNWRITTEN,
    Arena,
    Layout,
    Slot,
    Wanted,
    bits,
    lay_out,
    torch_dtype,
)
from agent.judge.cases import Refused, results
from agent.judge.inputs import FAMILIES, seeded
from agent.judge.report import describe
from agent.judge.tolerance import compare
from agent.judge.verdict import Checked, Failure, Family

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agent.judge.cases import Case, Cases
    from agent.task import TargetSpec

_AGAIN = "/again"
# Beyond this many bytes of arguments only the families that find most are used.
_LARGE = {"cpu": 256 << 20, "cuda": 4 << 30}
_LARGE_FAMILIES = ("normal", "wide", "special", "structured", "blocks")
_NEAR_FAMILIES = ("normal", "structured")


class Call(Protocol):
    """Runs the program once on the named slots; raises WorkerError ``crashed`` or ``hung``."""

    def __call__(self, layout: Layout, slots: dict[str, Slot]) -> None: ...


class Space(Protocol):
    """Gives the shared memory for a layout."""

    def __call__(self, layout: Layout) -> Arena: ...


@dataclass(frozen=True, slots=True)
class Size:
    """A program at one set of sizes of its target.

    Attributes:
        cases: Of the target at these sizes; its label says which.
        scratch: What the plan bound for these sizes wants.
        call: Runs that plan.
    """

    cases: Cases
    scratch: Sequence[Wanted]
    call: Call


def check(sizes: Iterable[Size], space: Space) -> Checked:
    """Check a program at its target's own sizes, which come first, and then at neighbouring ones.

    Ends at the first failure. Sizes may be made one by one as they are asked for.

    Raises:
        MachineError: ``device-memory``.
        WorkerError: The runner failed, not the program.
    """
    started = time.monotonic()
    families: list[Family] = []
    failure: Failure | None = None
    for at, size in enumerate(sizes):
        failure = Check(size, space, families, near=at > 0).run()
        if failure is not None:
            break
    return Checked(tuple(families), round(time.monotonic() - started, 4), failure)


class Check:
    """One variant being checked at one set of sizes.

    Args:
        families: Takes what is found, call by call.
        near: Whether these are neighbouring sizes, for which fewer calls must do.
    """

    def __init__(self, size: Size, space: Space, families: list[Family], *, near: bool) -> None:
        self._cases = size.cases
        self._spec: TargetSpec = size.cases.reference.spec
        self._call = size.call
        self._near = near
        self._families = families
        self._results = results(self._spec)
        self._outputs = [out.name for out in self._spec.outputs]
        self._scratch = [item.name for item in size.scratch]
        self._layout = lay_out([*self._wanted(), *size.scratch])
        self._memory = space(self._layout)
        self._memory.bytes[: self._layout.size].fill_(GUARD_BYTE)
        self._random = random.Random(self._cases.seed("spoil", time.perf_counter_ns()))
        self._sums: dict[str, int] = {}
        device = self._memory.bytes.device
        self._gaps = {
            arg.name: gaps
            for arg in self._spec.args
            if (gaps := _gaps(self._layout.slots[arg.name], device)) is not None
        }

    def _wanted(self) -> Iterator[Wanted]:
        for arg in self._spec.args:
            yield Wanted(arg.name, arg.dtype, arg.shape, arg.strides, arg.alignment)
        for suffix in ("", _AGAIN):
            for out in self._spec.outputs:
                yield Wanted(out.name + suffix, out.dtype, out.shape, out.strides)

    def run(self) -> Failure | None:
        """All families; the first failure."""
        try:
            for failure in self._steps():
                if failure is not None:
                    return failure
        except WorkerError as error:
            if error.code not in ("crashed", "hung"):
                raise
            family = self._families[-1].family if self._families else FAMILIES[0]
            evidence = {"after_family": family, "calls": len(self._families)}
            return Failure("check", error.code, error.message, evidence)
        return None

    def _chosen(self) -> tuple[str, ...]:
        """The families for these sizes: fewer where there is no room for more."""
        if self._near:
            return _NEAR_FAMILIES
        size = sum(slot.span for slot in self._layout.slots.values())
        return FAMILIES if size < _LARGE[self._spec.device] else _LARGE_FAMILIES

    def _steps(self) -> Iterator[Failure | None]:
        families = self._chosen()
        first = self._cases.get(families[0], 0)
        yield self._once(first, "")
        yield self._repeat(first)
        kept: list[torch.Tensor] | None = [self._bits(name).clone() for name in self._outputs]
        for family in families[1:]:
            try:
                case = self._cases.get(family, 0)
            except Refused as refused:
                self._skip(family, str(refused))
                continue
            yield self._once(case, _AGAIN)
            if kept is not None:
                yield self._untouched(kept, case.family)
                kept = None
        if not self._near:
            yield self._once(self._cases.get(families[0], 1), "")

    def _skip(self, family: str, why: str) -> None:
        name = family + self._cases.label
        self._families.append(Family(name, 0, True, 0.0, 0.0, 0.0, f"not asked: {why}"))

    def _once(self, case: Case, suffix: str) -> Failure | None:
        """Fresh arguments, spoilt outputs, one call, and a look at everything."""
        self._write(case)
        for out in self._spec.outputs:
            self._spoil(self._layout.slots[out.name + suffix], out.dtype)
        self._spoil_scratch()
        self._call_on(suffix)
        return self._touched(case) or self._answers(case, suffix)

    def _repeat(self, case: Case) -> Failure | None:
        """The same arguments again, over an output that is right but for a few elements."""
        names = [result.name for result in self._results]
        before = [self._bits(name).clone() for name in names]
        self._write(case, mutated=True)
        for out in self._spec.outputs:
            self._spoil_some(out.name, out.dtype)
        self._spoil_scratch()
        self._call_on("")
        failure = self._touched(case)
        if failure is not None:
            return failure
        same = all(
            torch.equal(self._bits(name), old) for name, old in zip(names, before, strict=True)
        )
        if same:
            return None
        failure = self._answers(case, "", record=False)
        if failure is None:
            return None
        message = "a second call on the same arguments gives another, wrong answer"
        return Failure("check", "unstable", message, failure.evidence)

    def _untouched(self, kept: list[torch.Tensor], family: str) -> Failure | None:
        for name, old in zip(self._outputs, kept, strict=True):
            if not torch.equal(self._bits(name), old):
                message = f"a later call changes the output {name} of an earlier one"
                return Failure("check", "output-changed", message, {"family": family})
        return None

    def _call_on(self, suffix: str) -> None:
        """One call; the outputs of other calls, which it must leave alone, are summed up before."""
        idle = [name + (_AGAIN if suffix == "" else "") for name in self._outputs]
        self._sums = {name: self._sum(name) for name in idle}
        self._memory.settle()
        self._call(self._layout, self._slots(suffix))

    def _sum(self, name: str) -> int:
        raw = self._memory.raw(self._layout.slots[name])
        whole = len(raw) // 8 * 8
        return int(raw[:whole].view(torch.int64).sum() + 31 * raw[whole:].sum())

    def _touched(self, case: Case) -> Failure | None:
        """Whether guards, arguments, or the outputs of other calls were written to."""
        broken = self._memory.broken_guard(self._layout)
        if broken is not None:
            name, distance = broken
            name = name.removesuffix(_AGAIN)
            where = "after its end" if distance > 0 else "before its start"
            message = f"writes out of bounds: {abs(distance)} bytes {where}, beside {name}"
            evidence = {"family": case.family, "tensor": name, "bytes": distance}
            return Failure("check", "out-of-bounds", message, evidence)
        for name, before in self._sums.items():
            if self._sum(name) != before:
                message = f"writes out of bounds: into the output {name.removesuffix(_AGAIN)} of "
                message += "another call"
                return Failure("check", "out-of-bounds", message, {"family": case.family})
        for name, gaps in self._gaps.items():
            raw = self._memory.raw(self._layout.slots[name])
            if bool(((raw != GUARD_BYTE) & gaps).any()):
                message = f"writes out of bounds: between the elements of its argument {name}"
                evidence = {"family": case.family, "tensor": name}
                return Failure("check", "out-of-bounds", message, evidence)
        for spec, value in zip(self._spec.args, case.args, strict=True):
            if not spec.mutated and not torch.equal(self._bits(spec.name), bits(value)):
                message = f"changes its argument {spec.name}"
                evidence = {"family": case.family, "tensor": spec.name}
                return Failure("check", "argument-changed", message, evidence)
        return None

    def _answers(self, case: Case, suffix: str, *, record: bool = True) -> Failure | None:
        worst = largest = eager = 0.0
        failure = None
        for out, expected in zip(self._results, case.answers, strict=True):
            own = suffix if out.name in self._outputs else ""
            slot = self._layout.slots[out.name + own]
            if out.dtype == "bool" and bool((self._memory.raw(slot) > 1).any()):
                message = f"{out.name}: a boolean must be stored as 0 or 1"
                failure = Failure("check", "wrong-answer", message, {"family": case.family})
                break
            value = self._memory.tensor(slot)
            found = compare(value, expected)
            worst, largest = max(worst, found.worst), max(largest, found.max_error)
            eager = max(eager, getattr(expected, "eager_error", 0.0))
            if not found.ok:
                failure = describe(case, out, value, expected, found)
                break
        if record:
            self._families.append(
                Family(case.family, case.seed, failure is None, largest, eager, worst)
            )
        return failure

    def _write(self, case: Case, *, mutated: bool = False) -> None:
        """All arguments, or those alone that a call changes."""
        for spec, value in zip(self._spec.args, case.args, strict=True):
            if spec.mutated or not mutated:
                write_tensor(self._memory.tensor(self._layout.slots[spec.name]), value)

    def _spoil(self, slot: Slot, dtype: str) -> None:
        if "float" in dtype:
            value = bits(self._memory.tensor(slot))
            value.fill_(UNWRITTEN[value.element_size()])
        else:
            self._memory.raw(slot).fill_(self._random.randrange(2, 255))

    def _spoil_some(self, name: str, dtype: str) -> None:
        """Spoil one element in a hundred, at places that nobody can know."""
        value = self._bits(name)
        if not value.numel():
            return
        generator = seeded(self._random.getrandbits(40), [value])
        count = (max(1, value.numel() // 100),)
        places = torch.randint(value.numel(), count, generator=generator, device=value.device)
        index = torch.unravel_index(places, value.shape) if value.dim() else ()
        if "float" in dtype:
            value[index] = UNWRITTEN[value.element_size()]
        else:
            value[index] = 1 - value[index] if dtype == "bool" else value[index] ^ 0x55

    def _spoil_scratch(self) -> None:
        for name in self._scratch:
            self._memory.raw(self._layout.slots[name]).fill_(GUARD_BYTE)

    def _slots(self, suffix: str) -> dict[str, Slot]:
        names = [arg.name for arg in self._spec.args] + self._scratch
        slots = {name: self._layout.slots[name] for name in names}
        return {**slots, **{name: self._layout.slots[name + suffix] for name in self._outputs}}

    def _bits(self, name: str) -> torch.Tensor:
        slot = self._layout.slots[name]
        return bits(self._memory.tensor(slot))


def _gaps(slot: Slot, device: torch.device) -> torch.Tensor | None:
    """Which of the slot's bytes belong to no element; None if there are none."""
    size = torch_dtype(slot.dtype).itemsize
    stored = math.prod(n for n, step in zip(slot.shape, slot.strides, strict=True) if step)
    if stored * size >= slot.span:
        return None
    used = torch.zeros(slot.span, dtype=torch.bool, device=device)
    steps = (*(step * size for step in slot.strides), 1)
    stored_once = used.as_strided((*slot.shape, size), steps)
    stored_once[tuple(slice(0, 1) if step == 0 else slice(None) for step in steps)] = True
    return ~used


def write_tensor(place: torch.Tensor, value: torch.Tensor) -> None:
    """Copy, writing elements that are repeated (stride 0) once."""
    stored = tuple(slice(0, 1) if step == 0 else slice(None) for step in place.stride())
    place[stored].copy_(value[stored])


def slots_json(slots: dict[str, Slot]) -> list[dict[str, Any]]:
    return [{**slot.to_json(), "name": name} for name, slot in slots.items()]
