"""Shapes of the results of library steps; each raises ValueError with the reason for a misfit.

A tensor among the values is given by its shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Shape = tuple[int, ...]


def product(values: Sequence[Any]) -> Shape:
    """``mm``, ``bmm``, ``mv``, ``matmul``: batch dimensions broadcast, vectors lose theirs."""
    a, b = values[0], values[1]
    if not a or not b:
        raise ValueError("a product of a number; it takes at least 1 dimension")
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    if left[-1] != right[-2]:
        raise ValueError(f"{list(a)} and {list(b)} do not fit: {left[-1]} is not {right[-2]}")
    rows, columns = left[-2:-1], right[-1:]
    batch = _broadcast(left[:-2], right[:-2])
    return (*batch, *(rows if len(a) > 1 else ()), *(columns if len(b) > 1 else ()))


def ranked(first: int, second: int, at: int = 0) -> Callable[[Sequence[Any]], Shape]:
    """A product of exactly so many dimensions each, added to a first argument when ``at`` is 1."""

    def shape(values: Sequence[Any]) -> Shape:
        a, b = values[at], values[at + 1]
        if (len(a), len(b)) != (first, second):
            raise ValueError(f"{list(a)} and {list(b)} must have {first} and {second} dimensions")
        if first == 3 and a[0] != b[0]:
            raise ValueError(f"{list(a)} and {list(b)} are batches of different sizes")
        found = product([a, b])
        if at and _broadcast(values[0], found) != found:
            raise ValueError(f"{list(values[0])} cannot be added to {list(found)}")
        return found

    return shape


def linear(values: Sequence[Any]) -> Shape:
    x, weight = values[0], values[1]
    if len(weight) != 2 or not x or x[-1] != weight[1]:
        raise ValueError(f"{list(x)} does not fit the weight {list(weight)} of [out, in]")
    return (*x[:-1], weight[0])


def _broadcast(a: Sequence[int], b: Sequence[int]) -> Shape:
    size = max(len(a), len(b))
    left, right = (1,) * (size - len(a)) + tuple(a), (1,) * (size - len(b)) + tuple(b)
    if any(x != y and 1 not in (x, y) for x, y in zip(left, right, strict=True)):
        raise ValueError(f"{list(a)} and {list(b)} do not broadcast")
    return tuple(y if x == 1 else x for x, y in zip(left, right, strict=True))


def convolved(
    x: Shape, weight: Shape, stride: Any, padding: Any, dilation: Any, more: Any, groups: int
) -> Shape:
    """Of a convolution, or of a transposed one when ``more`` (output padding) is not None.

    The formulas of ``torch.nn.ConvNd`` and ``torch.nn.ConvTransposeNd``.
    """
    dims = len(weight) - 2
    if dims < 1 or len(x) not in (dims + 1, dims + 2):
        raise ValueError(f"{list(x)} does not fit the weight {list(weight)}")
    channels = weight[0] if more is not None else weight[1] * groups
    if groups < 1 or x[-dims - 1] != channels:
        raise ValueError(f"{list(x)} has not the {channels} channels of the weight {list(weight)}")
    steps, pads, spread, extra = (
        _each(given, dims) for given in (stride, padding, dilation, more or 0)
    )
    if min(steps) < 1 or min(spread) < 1 or min(pads) < 0 or min(extra) < 0:
        raise ValueError("stride and dilation are at least 1, padding at least 0")
    spans = [far * (size - 1) for far, size in zip(spread, weight[2:], strict=True)]
    sizes = []
    for size, step, pad, span, add in zip(x[-dims:], steps, pads, spans, extra, strict=True):
        if more is not None:
            sizes.append((size - 1) * step - 2 * pad + span + add + 1)
        elif size + 2 * pad <= span:
            raise ValueError(f"the weight {list(weight)} is larger than {list(x)}")
        else:
            sizes.append((size + 2 * pad - span - 1) // step + 1)
    made = weight[1] * groups if more is not None else weight[0]
    return (*x[: -dims - 1], made, *sizes)


def _each(value: Any, dims: int) -> list[int]:
    found = list(value) if isinstance(value, list | tuple) else [value]
    if len(found) == 1:
        found *= dims
    if len(found) != dims:
        raise ValueError(f"{found} has not one number for each of {dims} dimensions")
    return found


def at_or(values: Sequence[Any], place: int, default: Any) -> Any:
    return values[place] if place < len(values) else default


def convolution(values: Sequence[Any]) -> Shape:
    stride, padding, dilation, transposed, more, groups = values[3:]
    return convolved(
        values[0], values[1], stride, padding, dilation, more if transposed else None, groups
    )


def attention(values: Sequence[Any]) -> Shape:
    query, key, value = values[:3]
    if len(query) < 2 or len(key) != len(query) or len(value) != len(query):
        raise ValueError("query, key and value have the same number of dimensions, at least 2")
    if query[-1] != key[-1] or key[-2] != value[-2]:
        raise ValueError(f"{list(query)}, {list(key)} and {list(value)} do not fit each other")
    return (*query[:-1], value[-1])


def reshaped(values: Sequence[Any]) -> Shape:
    x, sizes = values
    total, known = 1, 1
    for size in x:
        total *= size
    for size in sizes:
        known *= size if size != -1 else 1
    if sizes.count(-1) == 1 and known > 0 and total % known == 0:
        sizes = [total // known if size == -1 else size for size in sizes]
        known = total
    if known != total or any(size < 0 for size in sizes):
        raise ValueError(f"{list(x)} cannot become {list(sizes)}")
    return tuple(sizes)


def permuted(values: Sequence[Any]) -> Shape:
    x, order = values
    places = [place + len(x) if place < 0 else place for place in order]
    if sorted(places) != list(range(len(x))):
        raise ValueError(f"{order} does not order the {len(x)} dimensions of {list(x)}")
    return tuple(x[place] for place in places)


def transposed(values: Sequence[Any]) -> Shape:
    x, first, second = values
    order = list(range(len(x)))
    if not all(-len(x) <= place < len(x) for place in (first, second)):
        raise ValueError(f"{list(x)} has no dimensions {first} and {second}")
    order[first], order[second] = order[second], order[first]
    return tuple(x[place] for place in order)
