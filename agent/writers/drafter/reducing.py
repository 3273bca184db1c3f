"""Reductions in the trace: which nodes they are, and over what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch.fx import Node

from agent.writers.drafter.ir import value_dtype
from agent.writers.drafter.trace import refuse
from agent.writers.drafter.views import shape_of

if TYPE_CHECKING:
    from agent.writers.drafter.views import Indices

_REDUCTIONS = {
    "sum": "sum", "amax": "max", "amin": "min", "max": "max", "min": "min", "prod": "prod",
    "any": "any", "all": "all",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wanted:
    """A reduction at one index: the node, and its index along the dimensions that it keeps."""

    node: Node
    outer: Indices


@dataclass(frozen=True, slots=True)
class Reducing:
    """What a reduction node does: to which node, over which dimensions, how."""

    source: Node
    kind: str
    dims: tuple[int, ...]
    keepdim: bool


def result_shape(node: Node) -> tuple[int, ...]:
    """The shape of a node's result, or of the first of its results."""
    value = node.meta["val"]
    return tuple(int(s) for s in (value[0] if isinstance(value, tuple) else value).shape)


def result_dtype(node: Node) -> str:
    """The dtype in which a node's (first) result is computed."""
    value = node.meta["val"]
    name = str((value[0] if isinstance(value, tuple) else value).dtype).removeprefix("torch.")
    return value_dtype(name)


def opname(node: Node) -> str:
    schema = getattr(node.target, "_schema", None)
    return schema.name.partition("::")[2] if schema is not None else str(node.target)


def reducing(node: Node) -> Reducing | None:
    """What the node reduces, or None when it is no reduction."""
    if node.op != "call_function" or opname(node) not in _REDUCTIONS:
        return None
    source = node.args[0]
    assert isinstance(source, Node)
    rank = len(shape_of(source))
    dims: Any = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    if isinstance(dims, Node):
        raise refuse(f"{opname(node)} of two tensors is not drafted")
    if dims is None or (not isinstance(dims, int) and not dims):
        chosen = tuple(range(rank))
    else:
        chosen = tuple(
            sorted(d % max(1, rank) for d in ([dims] if isinstance(dims, int) else dims))
        )
    keepdim = bool(node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False))
    return Reducing(source, _REDUCTIONS[opname(node)], chosen if rank else (), keepdim)
