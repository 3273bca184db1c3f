"""Turning a plan into plain numbers and names for one target and one choice of tunables.

Everything that the judge needs to launch a program is in a :class:`Bound`; it is JSON, and no
expression is left in it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from agent.errors import ProgramError
from agent.plan.launches import bind_launch
from agent.plan.library import bind_call
from agent.plan.maps import bind_tensormap
from agent.plan.names import Names, Tensor, bad
from agent.plan.parts import ITEM_BYTES, Launch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.plan.parts import Scratch
    from agent.program import Program
    from agent.task import TargetSpec

MAX_SCRATCH_BYTES = 2**34


@dataclass(frozen=True, slots=True)
class Bound:
    """A plan with every number filled in.

    Attributes:
        scratch: ``{"name", "dtype", "shape", "zero"}`` of each scratch tensor.
        tensormaps: ``{"name", "tensor", "dtype", "dims", "strides", "box", "element_strides",
            "swizzle", "interleave", "l2", "fill"}``; strides in bytes, lists innermost first.
        steps: ``{"kernel", "args"}`` and for ``cuda`` ``grid``, ``block``, ``shared`` (bytes),
            ``cluster`` (or None), ``cooperative``; or ``{"call", "args", "to"}``. A launch's
            argument is ``{"tensor": name}``, ``{"tensormap": name}`` or ``{"type": "int64",
            "value": 4096}``; a call's is ``{"tensor": name}`` or ``{"value": ...}``.
        neighbours: The same at the target's neighbouring sizes, each with ``sizes``.
    """

    scratch: tuple[dict[str, Any], ...]
    tensormaps: tuple[dict[str, Any], ...]
    steps: tuple[dict[str, Any], ...]
    neighbours: tuple[dict[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Bound:
        names = ("scratch", "tensormaps", "steps", "neighbours")
        return Bound(*(tuple(data[name]) for name in names))


def bind(
    program: Program, spec: TargetSpec, values: Mapping[str, int], facts: Mapping[str, Any]
) -> Bound:
    """The program's steps for a target, and for the target's neighbouring sizes.

    Args:
        program: What was written.
        spec: The target.
        values: A value for each tunable.
        facts: Device facts that expressions may use, such as ``cores`` or ``sms``.

    Raises:
        ProgramError: ``plan``: an expression, a name or a number does not fit.
    """
    if values.keys() != program.tune.keys():
        raise bad(f"tunables are {list(program.tune)}, not {list(values)}")
    bound = _bind_one(program, spec, values, facts)
    neighbours = []
    for near in spec.neighbours:
        try:
            found = _bind_one(program, near, values, facts).to_json()
        except ProgramError as error:
            sizes = ", ".join(f"{name}={size}" for name, size in near.sizes.items())
            raise ProgramError(f"at {sizes}: {error.message}", error.cure, code="plan") from None
        del found["neighbours"]
        neighbours.append({"sizes": dict(near.sizes), **found})
    return replace(bound, neighbours=tuple(neighbours))


def _bind_one(
    program: Program, spec: TargetSpec, values: Mapping[str, int], facts: Mapping[str, Any]
) -> Bound:
    names = Names(spec, values, facts, program.tensormaps)
    scratch = tuple(_bind_scratch(item, names) for item in program.scratch)
    total = sum(math.prod(item["shape"]) * ITEM_BYTES[item["dtype"]] for item in scratch)
    if total > MAX_SCRATCH_BYTES:
        raise bad(f"the plan asks for {total} bytes of scratch")
    maps = tuple(bind_tensormap(item, names) for item in program.tensormaps)
    steps = tuple(
        bind_launch(step, names, facts) if isinstance(step, Launch) else bind_call(step, names)
        for step in program.steps
    )
    for out in spec.outputs:
        if out.name not in names.given:
            raise bad(f"no launch is given the output {out.name}")
    for arg in spec.args:
        if arg.mutated and arg.name not in names.given:
            raise bad(f"no launch is given {arg.name}, which the target changes in place")
    return Bound(scratch, maps, steps)


def _bind_scratch(item: Scratch, names: Names) -> dict[str, Any]:
    if item.name in names.tensors:
        raise bad(f"scratch {item.name} has a tensor's name")
    shape = names.ints(item.shape)
    if any(size < 0 for size in shape):
        raise bad(f"scratch {item.name} has shape {shape}")
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(1, size)
    tensor = Tensor("scratch", item.dtype, tuple(shape), tuple(reversed(strides)))
    names.know(item.name, tensor)
    return {"name": item.name, "dtype": item.dtype, "shape": shape, "zero": item.zero}
