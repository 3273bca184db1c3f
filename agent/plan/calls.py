"""The library steps that a plan may name: PyTorch operations that only compute their result.

Each is the ``aten`` operation of its name, with its arguments in its order; those that ``aten``
takes by keyword alone (``alpha``, ``scale``) come last. Shapes of results are worked out here, so
that a plan that does not fit is refused in words before anything runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agent.errors import ProgramError
from agent.plan.shapes import (
    at_or,
    attention,
    convolution,
    convolved,
    linear,
    permuted,
    product,
    ranked,
    reshaped,
    transposed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.plan.shapes import Shape

Kind = Literal["tensor", "tensor?", "ints", "int", "float", "float?", "bool", "zero"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One library step.

    Attributes:
        params: Name and kind of each argument. A kind with ``?`` may be ``"none"``; ``zero`` is a
            number that must be 0.
        needed: How many of them must be given.
        keywords: How many of the last ones ``aten`` takes by keyword only.
        shape: From the arguments (shapes for tensors) to the result's shape; raises ValueError
            with the reason when they do not fit.
        view: Whether the result may share memory with the first argument.
    """

    params: tuple[tuple[str, Kind], ...]
    needed: int
    shape: Callable[[Sequence[Any]], Shape]
    keywords: int = 0
    view: bool = False


def split_keywords(op: str, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments for ``torch.ops.aten.<op>`` from a plan's list."""
    operation = OPERATIONS[op]
    first = len(operation.params) - operation.keywords
    names = [name for name, _ in operation.params[first:]]
    return list(values[:first]), dict(zip(names, values[first:], strict=False))


def result_shape(op: str, values: Sequence[Any]) -> Shape:
    """The shape of a step's result.

    Args:
        op: A name in :data:`OPERATIONS`.
        values: Its arguments; a tensor is given by its shape.

    Raises:
        ProgramError: ``plan``: the arguments do not fit each other.
    """
    try:
        shape = OPERATIONS[op].shape(values)
    except ValueError as error:
        raise ProgramError(f"[[call]] {op}: {error}", code="plan") from None
    if any(size < 0 for size in shape):
        raise ProgramError(f"[[call]] {op} would give the shape {list(shape)}", code="plan")
    return shape


def _conv(dims: int) -> Operation:
    def shape(values: Sequence[Any]) -> Shape:
        if len(values[1]) != dims + 2:
            raise ValueError(f"the weight {list(values[1])} must have {dims + 2} dimensions")
        stride, padding, dilation, groups = (
            at_or(values, place, default) for place, default in ((3, 1), (4, 0), (5, 1), (6, 1))
        )
        return convolved(values[0], values[1], stride, padding, dilation, None, groups)

    names: tuple[tuple[str, Kind], ...] = (
        ("stride", "ints"), ("padding", "ints"), ("dilation", "ints"), ("groups", "int"),
    )  # fmt: skip
    return Operation((*_FILTER, *names), 2, shape)


def _conv_transpose(dims: int) -> Operation:
    def shape(values: Sequence[Any]) -> Shape:
        if len(values[1]) != dims + 2:
            raise ValueError(f"the weight {list(values[1])} must have {dims + 2} dimensions")
        stride, padding, more, groups, dilation = (
            at_or(values, place, default)
            for place, default in ((3, 1), (4, 0), (5, [0]), (6, 1), (7, 1))
        )
        return convolved(values[0], values[1], stride, padding, dilation, more, groups)

    names: tuple[tuple[str, Kind], ...] = (
        ("stride", "ints"), ("padding", "ints"), ("output_padding", "ints"), ("groups", "int"),
        ("dilation", "ints"),
    )  # fmt: skip
    return Operation((*_FILTER, *names), 2, shape)


_TWO: tuple[tuple[str, Kind], ...] = (("a", "tensor"), ("b", "tensor"))
_FILTER: tuple[tuple[str, Kind], ...] = (
    ("input", "tensor"), ("weight", "tensor"), ("bias", "tensor?"),
)  # fmt: skip
_ADDED: tuple[tuple[str, Kind], ...] = (
    ("add", "tensor"), *_TWO, ("beta", "float"), ("alpha", "float"),
)  # fmt: skip
OPERATIONS: dict[str, Operation] = {
    "mm": Operation(_TWO, 2, ranked(2, 2)),
    "bmm": Operation(_TWO, 2, ranked(3, 3)),
    "mv": Operation(_TWO, 2, ranked(2, 1)),
    "addmm": Operation(_ADDED, 3, ranked(2, 2, at=1), keywords=2),
    "addmv": Operation(_ADDED, 3, ranked(2, 1, at=1), keywords=2),
    "baddbmm": Operation(_ADDED, 3, ranked(3, 3, at=1), keywords=2),
    "matmul": Operation(_TWO, 2, product),
    "linear": Operation(_FILTER, 2, linear),
    "conv1d": _conv(1),
    "conv2d": _conv(2),
    "conv3d": _conv(3),
    "conv_transpose1d": _conv_transpose(1),
    "conv_transpose2d": _conv_transpose(2),
    "conv_transpose3d": _conv_transpose(3),
    "convolution": Operation(
        (*_FILTER, ("stride", "ints"), ("padding", "ints"), ("dilation", "ints"),
         ("transposed", "bool"), ("output_padding", "ints"), ("groups", "int")), 9, convolution,
    ),
    "scaled_dot_product_attention": Operation(
        (("query", "tensor"), ("key", "tensor"), ("value", "tensor"), ("attn_mask", "tensor?"),
         ("dropout_p", "zero"), ("is_causal", "bool"), ("scale", "float?"),
         ("enable_gqa", "bool")), 3, attention, keywords=2,
    ),
    "reshape": Operation((("x", "tensor"), ("shape", "ints")), 2, reshaped, view=True),
    "permute": Operation((("x", "tensor"), ("dims", "ints")), 2, permuted, view=True),
    "transpose": Operation(
        (("x", "tensor"), ("dim0", "int"), ("dim1", "int")), 3, transposed, view=True
    ),
}  # fmt: skip
