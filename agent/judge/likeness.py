"""What simple slip would give a program's wrong numbers: a factor, an offset, a shifted index."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from agent.judge.wrong import Wrong

_MOST = 0.95
_FEW = 8
_SORTABLE = 1 << 22


def likeness(wrong: Wrong, some: torch.Tensor) -> Iterator[str]:
    """The likeliest slip in a line, if there is one.

    Args:
        some: Places of wrong elements to judge by.
    """
    got, right = wrong.got[some].double(), wrong.right[some].double()
    sound = got.isfinite() & right.isfinite()
    if int(sound.sum()) < _FEW:
        return
    some, got, right = some[sound], got[sound], right[sound]
    moved = _moved(wrong, some, got)
    if moved:
        yield moved
        return
    told = (right != 0) & (got != 0)
    if int(told.sum()) >= _FEW and float(told.double().mean()) > _MOST:
        factor = _same((got / right)[told], 1.0)
        if factor is not None:
            yield f"got is {factor:.5g} times expected wherever it is wrong"
            return
    plus = _same(got - right)
    if plus is not None and float(right.max() - right.min()) > abs(plus) / 100:
        yield f"got is expected {'+' if plus > 0 else '-'} {abs(plus):.5g} wherever it is wrong"
        return
    if _shuffled(wrong):
        yield "the right numbers are all there, in other places: look at the output's index"


def _same(values: torch.Tensor, neutral: float = 0.0) -> float | None:
    """The value that all but a few are, as far as one can tell it from the neutral one."""
    middle = float(values.median())
    near = (values - middle).abs() <= 0.01 * abs(middle - neutral)
    return middle if middle != neutral and float(near.double().mean()) > _MOST else None


def _moved(wrong: Wrong, some: torch.Tensor, got: torch.Tensor) -> str:
    """Whether each wrong element is what belongs so many places before or after it."""
    width = wrong.shape[-1] if wrong.shape else 1
    steps = [1, 2, 4, 8, 16, 32, *([width] if width > 1 else [])]
    for step in dict.fromkeys(sign * step for step in steps for sign in (1, -1)):
        place = some + step
        inside = (place >= 0) & (place < wrong.right.numel())
        if float(inside.double().mean()) < 0.5:
            continue
        place, here = place[inside], got[inside]
        other = wrong.right[place].double()
        limit = 0.0 if wrong.allowed is None else wrong.allowed[place].double()
        if float(((here - other).abs() <= limit).double().mean()) > _MOST:
            way = "after" if step > 0 else "before"
            what = "one row" if abs(step) == width > 1 else f"{abs(step)} element(s)"
            return f"got is what is expected {what} {way} it: an index is off"
    return ""


def _shuffled(wrong: Wrong) -> bool:
    """Whether the wrong elements are the right ones of these places in another order."""
    if wrong.count > _SORTABLE or wrong.count < _FEW:
        return False
    got = wrong.got[wrong.bad].double().sort()[0]
    right = wrong.right[wrong.bad].double().sort()[0]
    limit = 0.0 if wrong.allowed is None else wrong.allowed[wrong.bad].double().max()
    near = (got - right).abs() <= limit
    spread = float(right[-1] - right[0])
    return float(near.double().mean()) > _MOST and spread > 100 * float(limit)
