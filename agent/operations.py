"""A traced reference in words: one line for each operation, for prompts.

``mul_1: float32[64, 4096] = mul(x, rsqrt)``: a name, what it is, the operation, its arguments. The
names of arguments are those of the target, so a writer can go from a line to the reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_LINES, MOST_CHARS = 200, 200
_MOST_ITEMS = 12
# Where and how a tensor is kept says nothing of what is computed.
_UNTOLD = frozenset({"device", "layout", "pin_memory", "memory_format"})


def operations(graph: fx.GraphModule, outputs: int) -> list[str]:
    """The lines, bounded to :data:`MOST_LINES` of :data:`MOST_CHARS` characters.

    Args:
        graph: Of a :class:`agent.reference.Reference`.
        outputs: How many of its results are outputs; the rest are what becomes of the arguments
            that it changes, in their order.
    """
    lines = list(_lines(graph, outputs))
    left = len(lines) - MOST_LINES
    if left > 0:
        # The end says what the results are.
        first, last = lines[: MOST_LINES - 41], lines[-40:]
        lines = [*first, f"... {len(lines) - len(first) - len(last)} more", *last]
    return [_bounded(text) for text in lines]


def _bounded(text: str) -> str:
    clean = "".join(char if char.isprintable() else " " for char in text)
    return clean if len(clean) <= MOST_CHARS else clean[: MOST_CHARS - 1] + "…"


def _lines(graph: fx.GraphModule, outputs: int) -> Iterator[str]:
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            value = getattr(graph, node.target)
            yield f"{node.name}: {_kind(value)} = a constant"
        elif node.op == "call_function":
            told = [_value(value) for value in node.args]
            told += [
                f"{name}={_value(value)}"
                for name, value in node.kwargs.items()
                if value is not None and name not in _UNTOLD
            ]
            yield f"{node.name}: {_kind(node.meta.get('val'))} = {_name(node)}({', '.join(told)})"
        elif node.op == "output":
            yield from _results(node, outputs)


def _results(node: fx.Node, outputs: int) -> Iterator[str]:
    results = node.args[0]
    assert isinstance(results, tuple | list)
    for at, value in enumerate(results[:outputs]):
        yield f"out{at or ''} = {_value(value)}"
    for at, value in enumerate(results[outputs:], start=1):
        yield f"what becomes of changed argument {at} = {_value(value)}"


def _name(node: fx.Node) -> str:
    """``mul`` for ``aten.mul.Tensor``."""
    if isinstance(node.target, torch._ops.OpOverload):
        return str(node.target._schema.name).rpartition("::")[2]
    return str(getattr(node.target, "__name__", node.target))


def _kind(value: Any) -> str:
    """``float32[64, 4096]``; of several results each one's."""
    if isinstance(value, torch.Tensor):
        return f"{_dtype(value.dtype)}[{', '.join(str(int(size)) for size in value.shape)}]"
    if isinstance(value, tuple | list):
        return f"({', '.join(_kind(item) for item in value)})"
    return type(value).__name__


def _value(value: Any) -> str:
    """One argument as it would be written down."""
    if isinstance(value, fx.Node):
        return str(value.name)
    if isinstance(value, torch.dtype):
        return _dtype(value)
    if isinstance(value, tuple | list):
        items = [_value(item) for item in value[:_MOST_ITEMS]]
        return f"[{', '.join([*items, '...'] if len(value) > _MOST_ITEMS else items)}]"
    return str(value)


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
