"""Launches of the program's own functions, bound."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from agent.expressions import evaluate, evaluate_int
from agent.plan.limits import check_launch
from agent.plan.names import Names, bad

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent.plan.parts import Argument, Launch

# No GPU keeps more threads than this on a multiprocessor at once.
_RESIDENT_THREADS = 2048


def bind_launch(launch: Launch, names: Names, facts: Mapping[str, Any]) -> dict[str, Any]:
    """A launch as numbers and names.

    Raises:
        ProgramError: ``plan``.
    """
    args = [_argument(launch.kernel, arg, names) for arg in launch.args]
    step: dict[str, Any] = {"kernel": launch.kernel, "args": args}
    if not launch.grid:
        return step
    step["grid"] = _three(names, launch.grid)
    step["block"] = _three(names, launch.block)
    step["shared"] = evaluate_int(launch.shared, names.scope)
    step["cluster"] = _three(names, launch.cluster) if launch.cluster else None
    step["cooperative"] = launch.cooperative
    check_launch(step)
    _fits_device(step, facts)
    return step


def _three(names: Names, texts: Sequence[str]) -> list[int]:
    return [*names.ints(texts), 1, 1][:3]


def _fits_device(step: dict[str, Any], facts: Mapping[str, Any]) -> None:
    kernel = step["kernel"]
    if step["shared"] > facts["shared"]:
        raise bad(
            f"{kernel}: {step['shared']} bytes of dynamic shared memory; this GPU has "
            f"{facts['shared']} for a block (device.shared)"
        )
    if step["cluster"] and facts["major"] < 9:
        raise bad(f"{kernel}: clusters need compute capability 9.0; this GPU has not")
    if not step["cooperative"]:
        return
    blocks, threads = math.prod(step["grid"]), math.prod(step["block"])
    room = facts["sms"] * max(1, _RESIDENT_THREADS // threads)
    if blocks > room:
        raise bad(
            f"{kernel}: a cooperative grid must be on the GPU all at once; {blocks} blocks of "
            f"{threads} threads are more than {room}: loop over the work with fewer blocks"
        )


def _argument(kernel: str, arg: Argument, names: Names) -> dict[str, Any]:
    if arg.text in names.maps:
        names.given.add(names.maps[arg.text].tensor)
        return {"tensormap": arg.text}
    if arg.text in names.tensors:
        names.given.add(arg.text)
        return {"tensor": arg.text}
    value = evaluate(arg.text, names.scope)
    if not arg.type.startswith("int"):
        return {"type": arg.type, "value": float(value)}
    if not isinstance(value, int):
        raise bad(f"{arg.text!r} is {value}, not a whole number")
    if arg.type == "int32" and not -(2**31) <= value < 2**31:
        raise bad(f"{arg.text!r} is {value}: too large for int32")
    return {"type": arg.type, "value": value}
