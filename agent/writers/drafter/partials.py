"""Partial results of reductions: what they start with, and how they are combined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.writers.drafter.cpp_expr import C_TYPES
from agent.writers.drafter.ir import is_float

if TYPE_CHECKING:
    from agent.writers.drafter.ir import Expr, Reduction


def identity(kind: str, dtype: str) -> str:
    """What a reduction starts with."""
    if kind in ("sum", "prod"):
        return {"sum": "0", "prod": "1"}[kind]
    if kind in ("any", "all"):
        return {"any": "false", "all": "true"}[kind]
    sign = "-" if kind == "max" else ""
    if is_float(dtype):
        return f"{sign}INFINITY"
    limit = "lowest" if kind == "max" else "max"
    return f"std::numeric_limits<{C_TYPES[dtype]}>::{limit}()"


def total_dtype(red: Reduction) -> str:
    """The dtype in which partial results are added up."""
    return "float64" if red.dtype == "float32" and red.kind in ("sum", "prod") else red.dtype


def combine(red: Reduction, into: str, value: str, used: set[str]) -> str:
    """The statement that adds a value to a partial result."""
    match red.kind:
        case "sum" | "prod":
            if not is_float(red.dtype):
                sign = {"sum": "add", "prod": "mul"}[red.kind]
                used.add(f"wrap_{sign}")
                return f"{into} = wrap_{sign}<{C_TYPES[red.dtype]}>({into}, {value});"
            return f"{into} {'+' if red.kind == 'sum' else '*'}= {value};"
        case "any" | "all":
            sign = "|" if red.kind == "any" else "&"
            return f"{into} = {into} {sign} ({value});"
    name = f"{red.kind}_nan"
    used.add(name)
    return f"{into} = {name}({into}, {value});"


@dataclass(slots=True)
class Partial:
    """Names of a reduction while its loops run: the total and the innermost loop's part."""

    red: Reduction
    expr: Expr
    total: str
    part: str
    total_dtype: str

    @property
    def separate(self) -> bool:
        return self.total != self.part
