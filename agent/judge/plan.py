"""A bound plan as it comes from outside, checked before memory is laid out for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from agent.errors import ProgramError
from agent.judge.arena import Wanted, contiguous_strides, torch_dtype

if TYPE_CHECKING:
    from agent.task import TargetSpec

SCRATCH_ROOM = 256 << 20
_NUMBERS = ("int32", "int64", "float32", "float64")


def wanted_scratch(spec: TargetSpec, bound: dict[str, Any]) -> list[Wanted]:
    """The scratch tensors of a plan, after checking that its launches name only what exists.

    Args:
        spec: The target.
        bound: ``{"scratch": [..], "launches": [..]}`` as ``Bound.to_json`` gives it.

    Raises:
        ProgramError: ``plan``, ``scratch-size``.
    """
    known = {arg.name for arg in spec.args} | {out.name for out in spec.outputs}
    scratch, total = [], 0
    for item in bound["scratch"]:
        shape = tuple(int(size) for size in item["shape"])
        if item["name"] in known or any(size < 0 for size in shape):
            raise _bad(f"scratch {item['name'][:40]} has a taken name or a negative size")
        known.add(item["name"])
        total += math.prod(shape) * torch_dtype(item["dtype"]).itemsize
        scratch.append(Wanted(item["name"], item["dtype"], shape, contiguous_strides(shape)))
    room = max(SCRATCH_ROOM, 8 * (spec.read_bytes + spec.write_bytes))
    if total > room:
        raise ProgramError(
            f"the plan wants {total >> 20} MiB of scratch, more than {room >> 20} MiB",
            "use less scratch",
            code="scratch-size",
        )
    if not bound["launches"]:
        raise _bad("the plan launches nothing")
    for launch in bound["launches"]:
        for arg in launch["args"]:
            if "tensor" in arg:
                if arg["tensor"] not in known:
                    raise _bad(f"{launch['kernel'][:40]}: there is no tensor {arg['tensor'][:40]}")
            elif arg.get("type") not in _NUMBERS:
                raise _bad(f"{launch['kernel'][:40]}: no such type {str(arg.get('type'))[:40]}")
    return scratch


def _bad(message: str) -> ProgramError:
    return ProgramError(message, "correct the plan", code="plan")
