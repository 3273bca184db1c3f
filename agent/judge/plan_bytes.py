"""How many bytes a bound plan's steps move at least, and how its tensors' rows lie."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.judge.plan import call_results
from agent.plan.calls import OPERATIONS
from agent.plan.parts import ITEM_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent.task import TargetSpec


@dataclass(frozen=True, slots=True)
class PlanBytes:
    """Bytes by tensor name, and what the plan moves beyond the least.

    Attributes:
        sizes: Bytes of each tensor.
        rows: Bytes of one innermost row that lies together.
        units: The largest power of two that the address and every row's start are multiples of,
            and that a row's length is a multiple of too.
        reads, writes: Names of arguments, and of outputs and what is changed in place.
        least: What any program must move.
        extra: What the steps move more: scratch out and in, arguments read again.
        scratch: The part of ``extra`` that goes through scratch and library results.
        again: Arguments that more than one step is given, with the number of steps.
    """

    sizes: dict[str, int]
    rows: dict[str, int]
    units: dict[str, int]
    reads: frozenset[str]
    writes: frozenset[str]
    least: int
    extra: int
    scratch: int
    again: dict[str, int]


def plan_bytes(spec: TargetSpec, bound: Mapping[str, Any]) -> PlanBytes:
    """Each step is taken to move each tensor that it is given once, whole.

    Args:
        spec: The target.
        bound: As ``Bound.to_json`` gives it, checked.
    """
    sizes: dict[str, int] = {}
    rows: dict[str, int] = {}
    units: dict[str, int] = {}
    tensors: list[tuple[str, str, Sequence[int], Sequence[int], int]] = [
        (arg.name, arg.dtype, arg.shape, arg.strides, arg.alignment) for arg in spec.args
    ]
    tensors += [(out.name, out.dtype, out.shape, out.strides, 64) for out in spec.outputs]
    for name, dtype, shape, strides, alignment in tensors:
        width = ITEM_BYTES[dtype]
        sizes[name] = math.prod(shape) * width
        together = not strides or strides[-1] == 1 or shape[-1] == 1
        rows[name] = width * (shape[-1] if shape and together else 1)
        outer = [stride * width for size, stride in zip(shape, strides, strict=True) if size > 1]
        steps = outer[:-1] if together and shape and shape[-1] > 1 else outer
        units[name] = _power_of_two(math.gcd(alignment, rows[name], *steps))
    between = {
        item["name"]: math.prod(item["shape"]) * ITEM_BYTES[item["dtype"]]
        for item in bound["scratch"]
    }
    views = {
        step["to"] for step in bound["steps"] if "call" in step and OPERATIONS[step["call"]].view
    }
    for name, (dtype, shape) in call_results(spec, dict(bound)).items():
        if name not in sizes:
            between[name] = 0 if name in views else math.prod(shape) * ITEM_BYTES[dtype]
    given = _given(bound)
    args = {arg.name for arg in spec.args}
    # Of an argument that is only gathered from, a step reads a part: how much is not known.
    whole = {name for name in args if sizes[name] <= spec.read_bytes}
    again = {name: times for name, times in given.items() if name in whole and times > 1}
    outputs = {out.name for out in spec.outputs}
    repeated = sum((given[name] - 1) * sizes[name] for name in (*again, *outputs) if name in given)
    through = sum(given[name] * size for name, size in between.items())
    changed = {arg.name for arg in spec.args if arg.mutated}
    return PlanBytes(
        sizes, rows, units, frozenset(args), frozenset(outputs | changed),
        spec.read_bytes + spec.write_bytes, repeated + through, through, again,
    )  # fmt: skip


def _given(bound: Mapping[str, Any]) -> Counter[str]:
    """In how many steps each tensor appears; zeroing scratch and binding a result count."""
    maps = {item["name"]: item["tensor"] for item in bound["tensormaps"]}
    given = Counter(item["name"] for item in bound["scratch"] if item.get("zero"))
    for step in bound["steps"]:
        names = {arg["tensor"] for arg in step["args"] if "tensor" in arg}
        names |= {maps[arg["tensormap"]] for arg in step["args"] if "tensormap" in arg}
        given.update(names | ({step["to"]} if "call" in step else set()))
    return given


def _power_of_two(number: int) -> int:
    return number & -number if number else 1
