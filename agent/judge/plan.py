"""A bound plan as it comes from outside, checked before memory is laid out for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from agent.errors import ProgramError
from agent.judge.arena import Wanted, contiguous_strides, torch_dtype
from agent.plan.calls import OPERATIONS, result_shape
from agent.plan.limits import check_launch, check_tensormap
from agent.plan.parts import ITEM_BYTES

if TYPE_CHECKING:
    from agent.task import TargetSpec

SCRATCH_ROOM = 256 << 20
_NUMBERS = ("int32", "int64", "float32", "float64")
_GEOMETRY = ("grid", "block", "shared", "cluster", "cooperative")
_Known = dict[str, tuple[str, tuple[int, ...]]]


def wanted_scratch(spec: TargetSpec, bound: dict[str, Any]) -> list[Wanted]:
    """The scratch tensors of a plan, after checking that its steps name only what exists by then.

    Args:
        spec: The target; a neighbour of it for a plan out of ``neighbours``.
        bound: As ``Bound.to_json`` gives it; ``neighbours``, where there, are checked too.

    Raises:
        ProgramError: ``plan``, ``scratch-size``.
    """
    try:
        scratch = _checked(spec, bound)
        near = spec.neighbours
        plans = bound.get("neighbours", [])
        if plans and [item["sizes"] for item in plans] != [dict(item.sizes) for item in near]:
            raise _bad("the plan's neighbouring sizes are not the target's")
        for neighbour, plan in zip(near, plans, strict=False):
            _checked(neighbour, plan)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _bad(f"the bound plan is not as it must be: {str(error)[:100]}") from None
    return scratch


def call_results(spec: TargetSpec, bound: dict[str, Any]) -> _Known:
    """Dtype and shape of what each library step of a checked plan gives, by name."""
    known = _tensors(spec) | {
        item["name"]: (item["dtype"], tuple(item["shape"])) for item in bound["scratch"]
    }
    results: _Known = {}
    for step in bound["steps"]:
        if "call" in step:
            results[step["to"]] = known[step["to"]] = _result(step, known)
    return results


def _tensors(spec: TargetSpec) -> _Known:
    args = {item.name: (item.dtype, tuple(item.shape)) for item in spec.args}
    return args | {item.name: (item.dtype, tuple(item.shape)) for item in spec.outputs}


def _checked(spec: TargetSpec, bound: dict[str, Any]) -> list[Wanted]:
    known = _tensors(spec)
    scratch, total = [], 0
    for item in bound["scratch"]:
        shape = tuple(int(size) for size in item["shape"])
        if item["name"] in known or any(size < 0 for size in shape):
            raise _bad(f"scratch {item['name'][:40]} has a taken name or a negative size")
        if item["dtype"] not in ITEM_BYTES or type(item["zero"]) is not bool:
            raise _bad(f"scratch {item['name'][:40]} has no known dtype, or zero is no bool")
        known[item["name"]] = (item["dtype"], shape)
        total += math.prod(shape) * torch_dtype(item["dtype"]).itemsize
        scratch.append(Wanted(item["name"], item["dtype"], shape, contiguous_strides(shape)))
    room = max(SCRATCH_ROOM, 8 * (spec.read_bytes + spec.write_bytes))
    if total > room:
        raise ProgramError(
            f"the plan wants {total >> 20} MiB of scratch, more than {room >> 20} MiB",
            "use less scratch",
            code="scratch-size",
        )
    if not bound["steps"]:
        raise _bad("the plan launches nothing")
    maps = {item["name"] for item in bound["tensormaps"]}
    if len(maps) != len(bound["tensormaps"]):
        raise _bad("two tensor maps have one name")
    called = {step["to"] for step in bound["steps"] if "call" in step}
    for item in bound["tensormaps"]:
        dtype, _ = known.get(item["tensor"], ("", ()))
        if dtype != item["dtype"] or item["tensor"] in called:
            raise _bad(f"tensormap {item['name'][:40]}: no {item['dtype'][:20]} tensor for it")
        check_tensormap(item)
    outputs = {out.name for out in spec.outputs}
    for step in bound["steps"]:
        if "call" in step:
            _check_call(step, known, outputs)
        else:
            _check_launch(step, known, maps, spec.device)
    return scratch


def _check_launch(step: dict[str, Any], known: _Known, maps: set[str], device: str) -> None:
    kernel = step["kernel"][:40]
    if device == "cuda":
        check_launch(step)
        if type(step["cooperative"]) is not bool:
            raise _bad(f"{kernel}: cooperative is no bool")
    elif any(name in step for name in _GEOMETRY):
        raise _bad(f"{kernel}: a grid is for the GPU")
    for arg in step["args"]:
        if "tensormap" in arg:
            if arg["tensormap"] not in maps:
                raise _bad(f"{kernel}: there is no tensor map {arg['tensormap'][:40]}")
        elif "tensor" in arg:
            if arg["tensor"] not in known:
                raise _bad(f"{kernel}: there is no tensor {arg['tensor'][:40]} by then")
        elif arg.get("type") not in _NUMBERS:
            raise _bad(f"{kernel}: no such type {str(arg.get('type'))[:40]}")
        elif isinstance(arg["value"], bool) or not isinstance(arg["value"], int | float):
            raise _bad(f"{kernel}: {str(arg['value'])[:40]} is no number")


def _check_call(step: dict[str, Any], known: _Known, outputs: set[str]) -> None:
    op, to = step["call"], step["to"]
    if op not in OPERATIONS:
        raise _bad(f"there is no library step {str(op)[:40]}")
    operation = OPERATIONS[op]
    if not operation.needed <= len(step["args"]) <= len(operation.params):
        raise _bad(f"{op}: {len(step['args'])} arguments")
    for arg, (name, kind) in zip(step["args"], operation.params, strict=False):
        if "tensor" in arg:
            if arg["tensor"] not in known or not kind.startswith("tensor"):
                raise _bad(f"{op}: there is no tensor {arg['tensor'][:40]} by then")
        elif kind == "tensor" or (kind == "zero" and arg["value"] != 0):
            raise _bad(f"{op}: {name} is not as it must be")
    dtype, shape = _result(step, known)
    if to in outputs:
        if operation.view or known[to] != (dtype, shape):
            raise _bad(f"{op}: its result cannot be the output {to}")
    elif to in known:
        raise _bad(f"{op}: the name {str(to)[:40]} is taken")
    known[to] = (dtype, shape)


def _result(step: dict[str, Any], known: _Known) -> tuple[str, tuple[int, ...]]:
    values = [known[arg["tensor"]][1] if "tensor" in arg else arg["value"] for arg in step["args"]]
    return known[step["args"][0]["tensor"]][0], result_shape(step["call"], values)


def _bad(message: str) -> ProgramError:
    return ProgramError(message, "correct the plan", code="plan")
