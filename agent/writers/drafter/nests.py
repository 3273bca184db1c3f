"""Loop nests: lower an element over some axes, splitting and cutting the loops as views need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.writers.drafter.index import Axis, Cut, Index, NotAffine, Split
from agent.writers.drafter.trace import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.writers.drafter.ir import Expr
    from agent.writers.drafter.views import Indices

MAX_PARTS = 16
MAX_SPLITS = 64


@dataclass(frozen=True, slots=True)
class Nest:
    """Loop axes, the index along each dimension in terms of them, and the value there."""

    axes: tuple[Axis, ...]
    dims: Indices
    value: Expr


def dim_axes(shape: tuple[int, ...], prefix: str) -> tuple[tuple[Axis, ...], Indices]:
    """An axis for each dimension that has more than one element, and the dimensions' indices."""
    axes = [Axis(f"{prefix}{d}", size) for d, size in enumerate(shape)]
    return tuple(axis for axis in axes if axis.size != 1), tuple(Index.of(axis) for axis in axes)


def split_axis(axis: Axis, inner: int) -> tuple[tuple[Axis, Axis], Index]:
    """The outer and the inner axis, and the old axis in terms of them."""
    outside = Axis(f"{axis.name}a", axis.size // inner)
    inside = Axis(f"{axis.name}b", inner)
    return (outside, inside), Index.of(outside) * inner + Index.of(inside)


def lower_nest(
    element: Callable[[Indices], Expr], axes: tuple[Axis, ...], dims: Indices
) -> list[Nest]:
    """Lower ``element`` at ``dims`` for all steps of ``axes``: one nest, or several after cuts.

    Raises:
        Split, Cut: Of an axis that is not among ``axes``.
        ForgeError: No affine nest exists, or too many would be needed.
    """
    todo, done, splits = [(axes, dims)], [], 0
    while todo:
        axes, dims = todo.pop()
        try:
            done.append(Nest(axes, dims, element(dims)))
            continue
        except Split as request:
            if request.axis not in axes:
                raise
            new, index = split_axis(request.axis, request.inner)
            change: list[tuple[tuple[Axis, ...], dict[Axis, Index]]] = [
                (new, {request.axis: index})
            ]
            splits += 1
        except Cut as request:
            axis, at = request.axis, request.at
            if axis not in axes:
                raise
            low, high = Axis(f"{axis.name}l", at), Axis(f"{axis.name}h", axis.size - at)
            change = [
                ((high,), {axis: Index.of(high).plus(at)}),
                ((low,), {axis: Index.of(low)}),
            ]
        except NotAffine as problem:
            raise refuse(f"a layout change is not drafted: {problem}") from None
        old = next(iter(change[0][1]))
        for new_axes, values in change:
            place = axes.index(old)
            moved = tuple(a for a in new_axes if a.size != 1)
            todo.append(
                (
                    axes[:place] + moved + axes[place + 1 :],
                    tuple(index.replace(values) for index in dims),
                )
            )
        if splits > MAX_SPLITS or len(todo) + len(done) > MAX_PARTS:
            raise refuse("the layout changes need too many loops")
    return done
