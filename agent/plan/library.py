"""Library steps, bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.expressions import evaluate, evaluate_int
from agent.plan.calls import OPERATIONS, Kind, result_shape
from agent.plan.names import Names, Tensor, bad

if TYPE_CHECKING:
    from agent.plan.parts import Call


def bind_call(call: Call, names: Names) -> dict[str, Any]:
    """A library step as numbers and names; its result is known from here on.

    Raises:
        ProgramError: ``plan``.
    """
    operation = OPERATIONS[call.op]
    if not operation.needed <= len(call.args) <= len(operation.params):
        wanted = ", ".join(name for name, _ in operation.params)
        raise bad(f"[[call]] {call.op} takes {wanted}; {len(call.args)} are given")
    args, shapes = [], []
    kinds: list[str] = []
    for given, (name, kind) in zip(call.args, operation.params, strict=False):
        arg = _argument(names, f"[[call]] {call.op}, {name}", given, kind)
        args.append(arg)
        if "tensor" in arg:
            tensor = names.tensors[arg["tensor"]]
            shapes.append(tensor.shape)
            if not (name == "attn_mask" and tensor.dtype == "bool"):
                kinds.append(tensor.dtype)
        else:
            shapes.append(arg["value"])
    if len(set(kinds)) > 1:
        raise bad(f"[[call]] {call.op}: its tensors have different dtypes: {', '.join(kinds)}")
    if not operation.view and "float" not in kinds[0]:
        raise bad(f"[[call]] {call.op} is for floating-point tensors, not {kinds[0]}")
    result = Tensor("result", kinds[0], result_shape(call.op, shapes), None)
    _result(call, result, names, view=operation.view)
    return {"call": call.op, "args": args, "to": call.to}


def _result(call: Call, result: Tensor, names: Names, *, view: bool) -> None:
    taken = names.tensors.get(call.to)
    if taken is None and call.to not in names.maps:
        names.know(call.to, result)
        return
    if taken is None or taken.role != "output" or call.to in names.given:
        raise bad(f"[[call]] {call.op}: the name {call.to} is taken")
    if any(item.tensor == call.to for item in names.maps.values()):
        raise bad(f"[[call]] {call.op}: its result {call.to} cannot have a tensor map")
    if view:
        raise bad(f"[[call]] {call.op}: an output cannot be a view; copy it in a kernel")
    if (taken.shape, taken.dtype) != (result.shape, result.dtype):
        raise bad(
            f"[[call]] {call.op} gives {result.dtype} {list(result.shape)}; the output "
            f"{call.to} is {taken.dtype} {list(taken.shape)}"
        )
    names.given.add(call.to)


def _argument(names: Names, where: str, given: str | tuple[str, ...], kind: Kind) -> dict[str, Any]:
    if kind in ("tensor", "tensor?"):
        if isinstance(given, str) and given in names.tensors:
            return {"tensor": given}
        if kind == "tensor?" and given == "none":
            return {"value": None}
        raise bad(f"{where}: there is no tensor {str(given)[:60]} by then")
    if kind == "ints":
        return {"value": names.ints([given] if isinstance(given, str) else given)}
    if not isinstance(given, str):
        raise bad(f"{where} is one value, not a list")
    if kind == "float?" and given == "none":
        return {"value": None}
    if kind == "bool":
        value = {"True": 1, "true": 1, "False": 0, "false": 0}.get(given)
        return {"value": bool(evaluate(given, names.scope) if value is None else value)}
    number = evaluate(given, names.scope)
    if kind == "int":
        return {"value": evaluate_int(given, names.scope)}
    if kind == "zero" and number:
        raise bad(f"{where} must be 0: a random result cannot be proved right")
    return {"value": float(number)}
