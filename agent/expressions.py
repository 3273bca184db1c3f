"""Small arithmetic for sizes and scalars in a plan, evaluated without Python's ``eval``.

Allowed: integers, floats, ``+ - * // / %``, comparisons, ``and or not``, ``a if c else b``,
``min max ceil_div round_up next_pow2 sqrt``, and names: ``x.shape[0]``, ``x.stride[1]``,
``x.numel``, tunables, scalars, ranged sizes, ``device.sms``. Everything else is refused with the
place named.
"""

from __future__ import annotations

import ast
import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.errors import ProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent.task import TargetSpec

Number = int | float
MAX_LENGTH = 500
LIMIT = 2**62

_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Number, Number], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_CALLS: dict[str, Callable[..., Number]] = {
    "min": min,
    "max": max,
    "ceil_div": lambda a, b: -(-a // b),
    "round_up": lambda a, b: -(-a // b) * b,
    "next_pow2": lambda a: 1 << max(0, math.ceil(a) - 1).bit_length(),
    "sqrt": math.sqrt,
}
# How many values each takes; min and max take any number.
_TAKES = {"ceil_div": 2, "round_up": 2, "next_pow2": 1, "sqrt": 1}


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that an expression may use.

    Attributes:
        tensors: name -> (shape, strides) in elements; no strides where a library chooses them.
        numbers: tunables, scalars, ranged sizes.
        device: facts such as ``cores`` or ``sms``, ``l2`` (bytes).
    """

    tensors: Mapping[str, tuple[tuple[int, ...], tuple[int, ...] | None]]
    numbers: Mapping[str, Number]
    device: Mapping[str, Any]

    @staticmethod
    def of(spec: TargetSpec, values: Mapping[str, int], device: Mapping[str, Any]) -> Scope:
        tensors: dict[str, tuple[tuple[int, ...], tuple[int, ...] | None]]
        tensors = {arg.name: (tuple(arg.shape), tuple(arg.strides)) for arg in spec.args}
        tensors |= {out.name: (tuple(out.shape), tuple(out.strides)) for out in spec.outputs}
        scalars = {
            name: int(value) if isinstance(value, bool) else value
            for name, value in spec.scalars.items()
        }
        return Scope(tensors, {**spec.sizes, **scalars, **values}, device)


def evaluate(text: str, scope: Scope) -> Number:
    """The value of an expression.

    Raises:
        ProgramError: Not in the language above, an unknown name, or a value beyond 2**62.
    """
    if len(text) > MAX_LENGTH:
        raise ProgramError(f"an expression is longer than {MAX_LENGTH} characters", code="plan")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        value = _value(tree.body, scope)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ProgramError(f"cannot read the expression {text!r}", code="plan") from None
    except ZeroDivisionError:
        raise ProgramError(f"{text!r} divides by zero", code="plan") from None
    except _Refused as refusal:
        raise ProgramError(f"{text!r}: {refusal}", code="plan") from None
    except (OverflowError, TypeError) as error:
        raise ProgramError(f"{text!r}: {error}", code="plan") from None
    return value


def evaluate_int(text: str, scope: Scope) -> int:
    """Like ``evaluate``, for a size: an integer."""
    value = evaluate(text, scope)
    if not isinstance(value, int):
        raise ProgramError(f"{text!r} is {value}, not a whole number", code="plan")
    return value


class _Refused(Exception):
    """A construct or name outside the language."""


def _value(node: ast.expr, scope: Scope) -> Number:
    value = _raw_value(node, scope)
    if abs(value) > LIMIT:
        raise _Refused("the value is too large")
    return value


def _raw_value(node: ast.expr, scope: Scope) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number):
            return int(number) if isinstance(number, bool) else number
        case ast.Name(id=name):
            if name in scope.numbers:
                return scope.numbers[name]
            raise _Refused(f"unknown name {name}")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, scope), _value(right, scope))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, scope)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return int(not _value(operand, scope))
        case ast.BoolOp(op=op, values=values):
            wanted = all if isinstance(op, ast.And) else any
            return int(wanted([bool(_value(value, scope)) for value in values]))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            return int(_COMPARE[type(op)](_value(left, scope), _value(right, scope)))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, scope) else orelse, scope)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS and args:
            if len(args) != _TAKES.get(name, len(args)):
                raise _Refused(f"{name} takes {_TAKES[name]} values, not {len(args)}")
            given = [_value(arg, scope) for arg in args]
            return given[0] if len(given) == 1 and name not in _TAKES else _CALLS[name](*given)
        case ast.Attribute(value=ast.Name(id="device"), attr=fact):
            known = scope.device.get(fact)
            if isinstance(known, int | float):
                return known
            raise _Refused(f"unknown fact device.{fact}")
        case ast.Attribute(value=ast.Name(id=name), attr="numel"):
            shape, _ = _tensor(name, scope)
            total = 1
            for size in shape:
                total *= size
            return total
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id=name), attr="shape" | "stride" as which),
            slice=index,
        ):
            shape, strides = _tensor(name, scope)
            sizes = shape if which == "shape" else strides
            if sizes is None:
                raise _Refused(f"the strides of {name} are the library's choice")
            place = _value(index, scope)
            if not isinstance(place, int) or not -len(sizes) <= place < len(sizes):
                raise _Refused(f"{name} has no dimension {place}")
            return sizes[place]
    raise _Refused(f"{ast.unparse(node)[:60]} is not allowed in a plan")


def _tensor(name: str, scope: Scope) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    if name not in scope.tensors:
        raise _Refused(f"unknown tensor {name}")
    return scope.tensors[name]
