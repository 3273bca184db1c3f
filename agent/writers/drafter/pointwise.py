"""Pointwise operators: which expression each one makes, with PyTorch's dtype promotion."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from agent.writers.drafter.index import Index
from agent.writers.drafter.ir import Expr, Pool, is_float, value_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.fx import Node

# name of the operator -> name of the expression; operands in the dtype of the result.
_SAME_DTYPE = {
    "neg": "neg", "abs": "abs", "maximum": "maximum", "minimum": "minimum", "floor": "floor",
    "ceil": "ceil", "round": "round", "trunc": "trunc", "sign": "sign", "sgn": "sign",
    "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "bitwise_not": "not",
    "relu": "relu", "fmod": "fmod", "remainder": "remainder", "mul": "mul",
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sqrt": "sqrt", "rsqrt": "rsqrt",
    "reciprocal": "reciprocal", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin",
    "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "erf": "erf", "erfc": "erfc",
    "sigmoid": "sigmoid", "atan2": "atan2",
}  # fmt: skip
_COMPARE = {"eq", "ne", "lt", "le", "gt", "ge"}
_LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor", "logical_not": "not"}
_MORE = {"add", "sub", "div", "pow", "where", "clamp", "isnan", "isinf", "true_divide"}
POINTWISE = frozenset(_SAME_DTYPE) | _COMPARE | frozenset(_LOGICAL) | _MORE

Operand = Expr | float | bool | int | None


def torch_dtype(node: Node) -> str:
    """The dtype of a node's result, as PyTorch has it."""
    return str(node.meta["val"].dtype).removeprefix("torch.")


def expr_dtype(node: Node) -> str:
    return value_dtype(torch_dtype(node))


class Pointwise:
    """Makes the expression of a pointwise node from its operands' expressions."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def make(self, name: str, node: Node, operands: Sequence[Operand]) -> Expr:
        """``operands`` are the node's arguments: expressions for tensors, numbers otherwise."""
        dtype = expr_dtype(node)
        hint = node.name.rstrip("_0123456789") or name
        make = self._pool.make
        if name in _COMPARE:
            common = _promoted(node)
            args = tuple(self.cast(arg, common) for arg in operands[:2])
            return make(name, args, "bool", None, hint)
        if name in ("isnan", "isinf"):
            return make(name, (self._expr(operands[0]),), "bool", None, hint)
        if name in _LOGICAL:
            args = tuple(self.cast(arg, "bool") for arg in operands)
            return make(_LOGICAL[name], args, "bool", None, hint)
        if name == "where":
            a, b = (self.cast(arg, dtype) for arg in operands[1:3])
            return make("where", (self.cast(operands[0], "bool"), a, b), dtype, None, hint)
        special: Callable[..., Expr] | None = getattr(self, f"_{name}", None)
        if special is not None:
            return special(node, operands, dtype, hint)
        args = tuple(self.cast(arg, dtype) for arg in operands)
        return self._simple(_SAME_DTYPE[name], args, dtype, hint)

    def cast(self, value: Operand, dtype: str) -> Expr:
        if not isinstance(value, Expr):
            assert value is not None
            return self._pool.const(value, dtype)
        if value.dtype == dtype:
            return value
        if value.op == "const":
            number = value.attr
            assert isinstance(number, (int, float))
            if is_float(dtype) or math.isfinite(number):
                return self._pool.const(number, dtype)
        return self._pool.make("cast", (value,), dtype, None, value.hint)

    def _expr(self, value: Operand) -> Expr:
        assert isinstance(value, Expr)
        return value

    def _simple(self, op: str, args: tuple[Expr, ...], dtype: str, hint: str) -> Expr:
        if op == "mul" and dtype != "bool":
            for one, other in (args, args[::-1]):
                if one.op == "const" and one.attr == 1:
                    return other
        if op == "mul" and dtype == "bool":
            op = "and"
        folded = self._folded(op, args) if dtype == "int64" else None
        if folded is not None:
            return folded
        if op == "fmod" and not is_float(dtype):
            op = "mod_trunc"
        return self._pool.make(op, args, dtype, None, hint)

    def _folded(self, op: str, args: tuple[Expr, ...]) -> Expr | None:
        """Arithmetic on loop variables and whole numbers is one index again."""
        indices = []
        for arg in args:
            if arg.op == "index":
                indices.append(arg.index)
            elif arg.op == "const" and isinstance(arg.attr, int):
                indices.append(Index((), arg.attr))
        if len(indices) < len(args) or not any(arg.op == "index" for arg in args):
            return None
        result = None
        if op == "neg":
            result = indices[0] * -1
        elif op in ("add", "sub"):
            result = indices[0] + indices[1] * (1 if op == "add" else -1)
        elif op == "mul" and not (indices[0].terms and indices[1].terms):
            scale = min(indices, key=lambda index: len(index.terms))
            result = max(indices, key=lambda index: len(index.terms)) * scale.const
        if result is None:
            return None
        return self._pool.make("index", (), "int64", result, "place")

    def _add(self, node: Node, operands: Sequence[Operand], dtype: str, hint: str) -> Expr:
        a, b = (self.cast(arg, dtype) for arg in operands[:2])
        alpha = node.kwargs.get("alpha", operands[2] if len(operands) > 2 else 1)
        if alpha != 1:
            b = self._simple("mul", (b, self.cast(_number(alpha), dtype)), dtype, hint)
        op = str(node.target._schema.name).partition("::")[2]
        if dtype == "bool":
            op = {"add": "or", "sub": "xor"}[op]
        return self._simple(op, (a, b), dtype, hint)

    _sub = _add

    def _div(self, node: Node, operands: Sequence[Operand], dtype: str, hint: str) -> Expr:
        a, b = (self.cast(arg, dtype) for arg in operands[:2])
        mode = node.kwargs.get("rounding_mode")
        if mode is not None and not is_float(dtype):
            return self._pool.make(f"div_{mode}", (a, b), dtype, None, hint)
        if b.op == "const" and isinstance(b.attr, float) and b.attr and mode is None:
            exact = math.frexp(b.attr)[0] in (0.5, -0.5) and 1e-30 < abs(b.attr) < 1e30
            if exact:
                return self._simple("mul", (a, self.cast(1.0 / b.attr, dtype)), dtype, hint)
        quotient = self._pool.make("div", (a, b), dtype, None, hint)
        return quotient if mode is None else self._pool.make(mode, (quotient,), dtype, None, hint)

    _true_divide = _div

    def _pow(self, node: Node, operands: Sequence[Operand], dtype: str, hint: str) -> Expr:
        base = self.cast(operands[0], dtype)
        power = operands[1]
        make = self._pool.make
        if isinstance(power, (int, float)) and is_float(dtype):
            if power == 0.5:
                return make("sqrt", (base,), dtype, None, hint)
            if power == -0.5:
                return make("rsqrt", (base,), dtype, None, hint)
            if abs(power) in (1, 2, 3, 4):
                square = make("mul", (base, base), dtype, None, "square")
                result = {1: base, 2: square}.get(int(abs(power)))
                if result is None:
                    other = base if abs(power) == 3 else square
                    result = make("mul", (square, other), dtype, None, hint)
                return result if power > 0 else make("reciprocal", (result,), dtype, None, hint)
        elif isinstance(power, int) and power in (2, 3):
            square = make("mul", (base, base), dtype, None, "square")
            return square if power == 2 else make("mul", (square, base), dtype, None, hint)
        return make("pow", (base, self.cast(power, dtype)), dtype, None, hint)

    def _clamp(self, node: Node, operands: Sequence[Operand], dtype: str, hint: str) -> Expr:
        limits = [*operands[1:], None, None][:2]
        for i, name in enumerate(("min", "max")):
            if limits[i] is None and isinstance(node.kwargs.get(name), (int, float)):
                limits[i] = _number(node.kwargs[name])
        result = self.cast(operands[0], dtype)
        for limit, op in zip(limits, ("maximum", "minimum"), strict=True):
            if limit is not None:
                # A limit that is a plain number is never NaN: the cheaper form keeps NaN in x.
                plain = not isinstance(limit, Expr) and limit == limit
                name = {"maximum": "at_least", "minimum": "at_most"}[op] if plain else op
                result = self._pool.make(name, (result, self.cast(limit, dtype)), dtype, None, hint)
        return result


def _number(value: Any) -> float:
    assert isinstance(value, (int, float))
    return value


def _promoted(node: Node) -> str:
    values = [arg.meta["val"] if isinstance(arg, torch.fx.Node) else arg for arg in node.args[:2]]
    common = torch.result_type(*values)
    return value_dtype(str(common).removeprefix("torch."))
