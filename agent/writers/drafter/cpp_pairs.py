"""Two reductions in one walk: blocks that stay in the first cache are walked twice.

Maximum and sum of exponentials: the sum so far is rescaled when a block brings a larger maximum
(M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018). Sum and squares
about the mean: squares about a block's own mean are combined with those so far (T. Chan, G. Golub,
R. LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.writers.drafter.cpp_expr import C_TYPES
from agent.writers.drafter.partials import Partial, combine

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.writers.drafter.cpp_code import Code


def is_squares(second: Partial) -> bool:
    return second.red.parts[0].value.op == "mul"


def exp_call(code: Code, dtype: str, text: str) -> str:
    if dtype != "float32":
        return f"std::exp({text})"
    code.used.add("exp_f32")
    return f"exp_f32({text})"


def nan_if_empty(first: Partial, second: Partial) -> str:
    """-inf - -inf is NaN, and so is the sum over a row in which there is nothing else."""
    return f"if ({first.total} == -INFINITY) {second.total} = NAN;"


def write_pair(
    code: Code,
    first: Partial,
    second: Partial,
    bounds: tuple[str, str],
    seen: str,
    loop: Callable[[], None],
) -> None:
    """After a block's first walk: update the totals of both, with the second walk ``loop``."""
    if is_squares(second):
        _squares(code, first, second, bounds, seen, loop)
    else:
        _exponentials(code, first, second, loop)


def _exponentials(code: Code, first: Partial, second: Partial, loop: Callable[[], None]) -> None:
    top, dtype = first.total, C_TYPES[first.red.dtype]
    code.used.add("max_nan")
    higher = code.name(f"{first.red.name}_next")
    code.line(f"const {dtype} {higher} = max_nan({top}, {first.part});")
    with code.block(f"if ({higher} != {top})"):
        scale = exp_call(code, first.red.dtype, f"{top} - {higher}")
        code.line(f"{second.total} *= {scale};")
        code.line(f"{top} = {higher};")
    # As long as all is -inf there is nothing to add, and -inf - -inf would be NaN.
    with code.block(f"if ({top} != -INFINITY)"):
        code.know(first.expr, top)
        loop()
        code.line(combine(second.red, second.total, second.part, code.used))
    code.release(higher)


def _squares(
    code: Code,
    first: Partial,
    second: Partial,
    bounds: tuple[str, str],
    seen: str,
    loop: Callable[[], None],
) -> None:
    start, end = bounds
    dtype = C_TYPES[first.red.dtype]
    center, shift, count = (code.name(hint) for hint in ("center", "shift", "count"))
    code.line(f"const double {count} = {end} - {start};")
    code.line(f"const {dtype} {center} = ({dtype})({first.part} / {count});")
    centered = second.red.parts[0].value.args[0]
    with code.block(""):
        code.know(centered.args[1], center)
        loop()
        code.line(combine(second.red, second.total, second.part, code.used))
    code.line(f"const double {shift} = {seen} > 0 ? {center} - {first.total} / {seen} : 0.0;")
    code.line(f"{second.total} += {shift} * {shift} * {seen} * {count} / ({seen} + {count});")
    code.line(combine(first.red, first.total, first.part, code.used))
    code.release(center, shift, count)
