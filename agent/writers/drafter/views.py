"""Views and other layout operators: where an element of the result lies in the operand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.writers.drafter.index import (
    Cut,
    Index,
    NotAffine,
    contiguous,
    flatten,
    unflatten,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.fx import Node

Indices = tuple[Index, ...]


def shape_of(node: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in node.meta["val"].shape)


def broadcast(indices: Indices, shape: Sequence[int]) -> Indices:
    """Indices into an operand of ``shape`` that is broadcast to the result."""
    own = indices[len(indices) - len(shape) :] if shape else ()
    return tuple(Index() if size == 1 else i for i, size in zip(own, shape, strict=True))


def _arg(node: Node, place: int, default: Any = None) -> Any:
    return node.args[place] if len(node.args) > place else default


def _reshape(node: Node, indices: Indices) -> Indices:
    target, source = shape_of(node), shape_of(node.args[0])
    return unflatten(flatten(indices, contiguous(target)), source)


def _permute(node: Node, indices: Indices) -> Indices:
    order = [d % len(indices) for d in _arg(node, 1)]
    result = [Index()] * len(indices)
    for place, dim in enumerate(order):
        result[dim] = indices[place]
    return tuple(result)


def _swap(node: Node, indices: Indices) -> Indices:
    result = list(indices)
    if len(result) > 1:
        a, b = (_arg(node, 1, 0), _arg(node, 2, 1))
        result[a], result[b] = result[b], result[a]
    return tuple(result)


def _expand(node: Node, indices: Indices) -> Indices:
    return broadcast(indices, shape_of(node.args[0]))


def _broadcast_in_dim(node: Node, indices: Indices) -> Indices:
    source = shape_of(node.args[0])
    kept = [indices[dim] for dim in _arg(node, 2)]
    return tuple(Index() if size == 1 else i for i, size in zip(kept, source, strict=True))


def _slice(node: Node, indices: Indices) -> Indices:
    source = shape_of(node.args[0])
    dim = _arg(node, 1, 0) % len(source)
    start, step = _arg(node, 2) or 0, _arg(node, 4, 1)
    start = min(max(0, start + source[dim] if start < 0 else start), source[dim])
    result = list(indices)
    result[dim] = (result[dim] * step).plus(start)
    return tuple(result)


def _select(node: Node, indices: Indices) -> Indices:
    source = shape_of(node.args[0])
    dim = _arg(node, 1) % len(source)
    at = Index((), _arg(node, 2) % source[dim])
    return (*indices[:dim], at, *indices[dim:])


def _unsqueeze(node: Node, indices: Indices) -> Indices:
    dim = _arg(node, 1) % len(indices)
    return indices[:dim] + indices[dim + 1 :]


def _squeeze(node: Node, indices: Indices) -> Indices:
    source = shape_of(node.args[0])
    dims = _arg(node, 1)
    chosen = range(len(source)) if dims is None else [dims] if isinstance(dims, int) else dims
    gone = {d % len(source) for d in chosen} if source else set()
    rest = iter(indices)
    return tuple(
        Index() if d in gone and size == 1 else next(rest) for d, size in enumerate(source)
    )


def _flip(node: Node, indices: Indices) -> Indices:
    source = shape_of(node.args[0])
    result = list(indices)
    for dim in _arg(node, 1):
        result[dim] = (result[dim] * -1).plus(source[dim] - 1)
    return tuple(result)


def _same(node: Node, indices: Indices) -> Indices:
    return indices


VIEWS: dict[str, Callable[[Node, Indices], Indices]] = {
    "view": _reshape, "_unsafe_view": _reshape, "reshape": _reshape, "permute": _permute,
    "transpose": _swap, "t": _swap, "expand": _expand, "slice": _slice, "select": _select,
    "unsqueeze": _unsqueeze, "squeeze": _squeeze, "flip": _flip, "clone": _same, "alias": _same,
    "contiguous": _same, "lift_fresh_copy": _same, "detach": _same,
    "broadcast_in_dim": _broadcast_in_dim, "collapse_view": _reshape,
}  # fmt: skip


def cat(tensors: Sequence[Node], dim: int, indices: Indices) -> tuple[Node, Indices]:
    """The operand of a ``cat`` in which the element lies, and its place there.

    Raises:
        Cut: The loop runs through more than one operand.
        NotAffine: It does so in a way that cannot be cut in two.
    """
    parts = [node for node in tensors if shape_of(node) != (0,)]
    dim %= len(indices)
    along, start = indices[dim], 0
    for node in parts:
        end = start + shape_of(node)[dim]
        if along.low < end <= along.high:
            raise _cut(along, end)
        if along.high < end:
            moved = (*indices[:dim], along.plus(-start), *indices[dim + 1 :])
            return node, moved
        start = end
    raise NotAffine("cat is read past its end")


def split_part(node: Node, place: int, indices: Indices) -> Indices:
    """The element of part ``place`` of a ``split_with_sizes``, in the operand."""
    sizes, dim = _arg(node, 1), _arg(node, 2, 0)
    result = list(indices)
    result[dim] = result[dim].plus(sum(sizes[:place]))
    return tuple(result)


def _cut(along: Index, end: int) -> Exception:
    """How to cut a loop so that ``along`` stays on one side of ``end``."""
    axis, factor = max(along.terms, key=lambda term: abs(term[1]))
    rest = Index(tuple(term for term in along.terms if term[0] != axis), along.const)
    at = -(-(end - rest.low) // factor) if factor > 0 else 0
    clean = factor > 0 and rest.high + factor * (at - 1) < end
    if axis.gathered is not None or not clean or not 0 < at < axis.size:
        return NotAffine("cat is read in an order that the drafter cannot cut into loops")
    return Cut(axis, at)
