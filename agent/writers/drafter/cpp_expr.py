"""Expressions as C++ text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from agent.writers.drafter.ir import Expr, is_float

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.writers.drafter.index import Axis, Index

C_TYPES = {
    "float32": "float", "float64": "double", "bfloat16": "uint16_t", "float16": "uint16_t",
    "int64": "int64_t", "int32": "int32_t", "int16": "int16_t", "int8": "int8_t",
    "uint8": "uint8_t", "bool": "bool",
}  # fmt: skip
MEMORY_TYPES = C_TYPES | {"bool": "uint8_t"}
FROM = {"bfloat16": "from_bf16", "float16": "from_f16"}
TO = {"bfloat16": "to_bf16", "float16": "to_f16"}

# Precedences of C++, as far as they are used.
ATOM, UNARY, PRODUCT, SUM, COMPARE, EQUAL, BIT_AND, BIT_XOR, BIT_OR, TERNARY = range(10, 0, -1)
_INFIX = {
    "mul": ("*", PRODUCT), "div": ("/", PRODUCT), "add": ("+", SUM), "sub": ("-", SUM),
    "lt": ("<", COMPARE), "le": ("<=", COMPARE), "gt": (">", COMPARE), "ge": (">=", COMPARE),
    "eq": ("==", EQUAL), "ne": ("!=", EQUAL), "and": ("&", BIT_AND), "xor": ("^", BIT_XOR),
    "or": ("|", BIT_OR), "div_trunc": ("/", PRODUCT), "mod_trunc": ("%", PRODUCT),
}  # fmt: skip
# Functions by operation: with a helper of ours for float32, the library's for float64.
_OURS = {name: f"{name}_f32" for name in ("exp", "expm1", "log", "log1p", "tanh", "erf", "sigmoid")}
_STD = {
    "abs": "fabs", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint",
    "sqrt": "sqrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin",
    "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "erf": "erf", "erfc": "erfc",
    "pow": "pow", "atan2": "atan2", "fmod": "fmod",
}  # fmt: skip
_HELPERS = {
    "maximum": "max_nan", "minimum": "min_nan", "at_least": "at_least", "at_most": "at_most",
    "sign": "sign_of", "remainder": "floor_mod", "isnan": "is_nan", "isinf": "is_inf",
    "sigmoid": "sigmoid", "div_floor": "floor_div", "rsqrt": "inverse_sqrt",
}  # fmt: skip
_WRAPPING = {"add": "wrap_add", "sub": "wrap_sub", "mul": "wrap_mul"}


def number(value: object, dtype: str) -> str:
    """A constant in C++."""
    if dtype == "bool":
        return "true" if value else "false"
    assert isinstance(value, (int, float))
    if not is_float(dtype):
        if value == -(2**63):
            return "INT64_MIN"
        return f"{int(value)}" if abs(value) < 2**31 else f"INT64_C({int(value)})"
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    if dtype == "float64":
        return repr(float(value))
    return _float32(float(value))


def _float32(value: float) -> str:
    import struct

    try:
        single = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return "INFINITY" if value > 0 else "-INFINITY"
    for digits in range(1, 10):
        text = f"{single:.{digits}g}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == single:
            break
    if "." not in text and "e" not in text:
        text += ".0"
    return f"{text}f"


def index_text(index: Index, names: Callable[[Axis], str], size_name: Callable[[int], str]) -> str:
    """An index as a sum; ``names`` gives the C++ variable of an axis."""
    pieces = []
    ordered = sorted(index.terms, key=lambda term: (-abs(term[1]), term[0].name))
    for axis, factor in ordered:
        name = names(axis)
        if factor in (1, -1):
            pieces.append(name if factor == 1 else f"-{name}")
        else:
            pieces.append(f"{name} * {size_name(factor)}")
    if index.const or not pieces:
        pieces.append(str(index.const))
    text = pieces[0]
    for piece in pieces[1:]:
        text += f" - {piece[1:]}" if piece.startswith("-") else f" + {piece}"
    return text


class ExprText:
    """Prints expressions; notes the helpers that they use.

    Args:
        leaf: The text of a load, an index, or a reduced value.
    """

    def __init__(self, leaf: Callable[[Expr], tuple[str, int]], used: set[str]) -> None:
        self._leaf = leaf
        self.used = used

    def text(self, expr: Expr, known: Callable[[Expr], str | None]) -> str:
        return self._print(expr, known)[0]

    def _print(self, expr: Expr, known: Callable[[Expr], str | None]) -> tuple[str, int]:
        name = known(expr)
        if name is not None:
            return name, ATOM
        return self._operation(expr, known)

    def _operation(self, expr: Expr, known: Callable[[Expr], str | None]) -> tuple[str, int]:
        op = expr.op
        if op == "const":
            text = number(expr.attr, expr.dtype)
            return text, UNARY if text.startswith("-") else ATOM
        if op in ("load", "index", "reduced"):
            return self._leaf(expr)
        args = [self._print(arg, known) for arg in expr.args]
        if op == "cast":
            return self._cast(expr, args[0])
        if op == "where":
            test, yes, no = (_wrap(arg, TERNARY + 1) for arg in args)
            return f"{test} ? {yes} : {no}", TERNARY
        integer = not is_float(expr.dtype) and expr.dtype != "bool"
        if op == "neg":
            if integer:
                self.used.add("wrap_sub")
                return f"wrap_sub<{C_TYPES[expr.dtype]}>(0, {args[0][0]})", ATOM
            return f"-{_wrap(args[0], UNARY + 1)}", UNARY
        if op == "not":
            if expr.dtype == "bool":
                return f"!{_wrap(args[0], UNARY)}", UNARY
            return f"({C_TYPES[expr.dtype]})~{_wrap(args[0], UNARY)}", UNARY
        if op == "reciprocal":
            return f"{number(1.0, expr.dtype)} / {_wrap(args[0], PRODUCT + 1)}", PRODUCT
        if integer and op in _WRAPPING:
            name = _WRAPPING[op]
            self.used.add(name)
            return f"{name}<{C_TYPES[expr.dtype]}>({', '.join(text for text, _ in args)})", ATOM
        if op in _INFIX:
            sign, precedence = _INFIX[op]
            left, right = _wrap(args[0], precedence), _wrap(args[1], precedence + 1)
            return f"{left} {sign} {right}", precedence
        return self._function(expr, [text for text, _ in args])

    def _function(self, expr: Expr, args: list[str]) -> tuple[str, int]:
        op, dtype = expr.op, expr.dtype
        if op == "relu":
            op, args = "at_least", [args[0], number(0, dtype)]
        if op == "abs" and not is_float(dtype):
            return self._call("abs_of", args)
        if dtype == "float32" and op in _OURS:
            return self._call(_OURS[op], args)
        if op in _HELPERS:
            if op in ("maximum", "minimum", "at_least", "at_most", "remainder", "div_floor"):
                args = [_typed(arg, expr) for arg in args]
            return self._call(_HELPERS[op], args)
        return f"std::{_STD[op]}({', '.join(args)})", ATOM

    def _call(self, name: str, args: list[str]) -> tuple[str, int]:
        self.used.add(name)
        return f"{name}({', '.join(args)})", ATOM

    def _cast(self, expr: Expr, arg: tuple[str, int]) -> tuple[str, int]:
        source = expr.args[0].dtype
        if expr.dtype == "bool":
            return f"{_wrap(arg, EQUAL)} != 0", EQUAL
        to = C_TYPES[expr.dtype]
        if expr.dtype in ("uint8", "int8", "int16") and is_float(source):
            return f"({to})(int64_t){_wrap(arg, UNARY)}", UNARY
        return f"({to}){_wrap(arg, UNARY)}", UNARY


def _wrap(arg: tuple[str, int], least: int) -> str:
    text, precedence = arg
    return text if precedence >= least else f"({text})"


def _typed(arg: str, expr: Expr) -> str:
    """Integer constants are plain ``int``; templates want both operands of one type."""
    plain = arg.lstrip("-").isdigit()
    return f"({C_TYPES[expr.dtype]}){arg}" if plain and expr.dtype != "int32" else arg
