"""A wrong answer in a few lines of numbers: where, what kind, how far off, and what it looks like.

For the prompt that asks for a repair: a writer that sees "wrong where index % 8 is 4 to 7" or "got
is 0.125 times expected" knows which line to look at. Made on failure only, on the answers' device,
stretch by stretch, so that it needs little memory beside them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from agent.judge.arena import UNWRITTEN, bits
from agent.judge.likeness import likeness
from agent.judge.tolerance import QUANTILES, FloatAnswer
from agent.judge.wrong import first_of, index_of, last_of, number, some_of, stretches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.judge.wrong import Wrong

_SORTABLE = 1 << 22
_MOST = 0.95
_FEW, _RARE = 8, 20
_EVERY = "at every index"
# Powers of two: errors below this share of the value are no slip of an index.
_COARSE = -6.0
_ROUNDING = "rounding to bfloat16 gives about 2^-10, to float16 or tf32 2^-13, to float32 2^-26"


def sketch(wrong: Wrong) -> list[str]:
    """The lines, the most telling first."""
    some = some_of(wrong.bad)
    return [
        f"{wrong.count} of {wrong.got.numel()} elements are wrong",
        *_where(wrong),
        *_kinds(wrong),
        *_errors(wrong, some),
        *likeness(wrong, some),
        *(_example(wrong, at) for at in wrong.first),
    ]


def imprecise(value: torch.Tensor, expected: FloatAnswer) -> list[str]:
    """Lines for an answer whose elements are each near enough, but as a whole are not."""
    exact = expected.exact[expected.places]
    off = value.reshape(-1)[expected.places].double() - exact
    units = off.abs() / expected.unit
    units = units[units.isfinite()]
    if not units.numel():
        return []
    at = torch.tensor(QUANTILES, dtype=units.dtype, device=units.device)
    found = torch.quantile(units, at).tolist()
    lines = [
        "errors in ulps: "
        + ", ".join(
            f"{100 * share:.0f} % are below {ulps:.3g} (allowed {limit:.3g})"
            for share, ulps, limit in zip(QUANTILES, found, expected.quantiles, strict=True)
        )
    ]
    counted = (off != 0) & off.isfinite() & (exact != 0)
    off, exact = off[counted], exact[counted]
    if off.numel() < _FEW:
        return lines
    size = math.log2(float((off / exact).abs().median()))
    lines.append(f"where it is off, it typically is by 2^{size:.1f} of the value ({_ROUNDING})")
    larger = float((off * exact.sign() > 0).double().mean())
    if max(larger, 1 - larger) > _MOST:
        way = "too far from zero" if larger > 0.5 else "too near to zero"
        lines.append(f"{100 * max(larger, 1 - larger):.0f} % of the errors go one way: {way}")
    return lines


# -- where -----------------------------------------------------------------------------------------


def _where(wrong: Wrong) -> Iterator[str]:
    if wrong.count == wrong.got.numel() or wrong.count == 1:
        return
    first, last = wrong.first[0], last_of(wrong.bad)
    if last - first + 1 == wrong.count:
        end = ", up to the end" if last == wrong.got.numel() - 1 else ""
        yield f"they are one stretch in row-major order: elements {first} to {last}{end}"
    if len([size for size in wrong.shape if size > 1]) < 2:
        yield f"along its one dimension ({wrong.got.numel()}): {along(wrong.bad)}"
        return
    told = []
    for dim, size in enumerate(wrong.shape):
        if size > 1:
            outer, inner = math.prod(wrong.shape[:dim]), math.prod(wrong.shape[dim + 1 :])
            touched = wrong.bad.view(outer, size, inner).any(2).any(0)
            told.append(f"along dimension {dim} ({size}): {along(touched)}")
    if all(line.endswith(_EVERY) for line in told):
        yield "they are all over it: at every index of every dimension"
        return
    yield from told


def along(touched: torch.Tensor) -> str:
    """Which indices of one dimension a mask has, as a rule where there is one."""
    size, count = touched.numel(), int(touched.sum())
    first, last = first_of(touched, 1)[0], last_of(touched)
    if count == size:
        return _EVERY
    if count == 1:
        return f"at {first} alone"
    if last - first + 1 == count:
        tail = f", the last {count}" if last == size - 1 else ""
        return f"from {first} to {last}{tail}"
    rule = _periodic(touched, count) if size <= _SORTABLE else ""
    return rule or f"at {count} of {size}, the first {first}, the last {last}"


def _periodic(touched: torch.Tensor, count: int) -> str:
    """The rule, if a mask has just the indices that leave certain rests."""
    index = torch.arange(touched.numel(), device=touched.device)
    for period in (2, 3, 4, 8, 16, 32, 64, 128):
        if 2 * period > len(index):
            break
        rests = torch.unique(index[touched] % period)
        if 2 * len(rests) <= period and int(torch.isin(index % period, rests).sum()) == count:
            low, high = int(rests[0]), int(rests[-1])
            if high - low + 1 == len(rests) > 1:
                return f"where index % {period} is {low} to {high}"
            shown = [str(rest) for rest in rests[:_FEW].tolist()]
            return f"where index % {period} is {', '.join(shown)}" + (
                ", ..." if len(rests) > _FEW else ""
            )
    return ""


# -- what ------------------------------------------------------------------------------------------


def _kinds(wrong: Wrong) -> Iterator[str]:
    """What the wrong elements are, where that says more than that they differ."""
    if not wrong.got.is_floating_point():
        return
    names = ("never written", "NaN", "infinite", "zero", "a number where NaN is expected")
    counts = torch.zeros(len(names), dtype=torch.int64, device=wrong.got.device)
    for start, bad in stretches(wrong.bad):
        got = wrong.got[start : start + len(bad)]
        unwritten = bits(got) == UNWRITTEN[got.element_size()]
        nan = got.isnan()
        instead = wrong.right[start : start + len(bad)].isnan() & ~nan
        masks = (unwritten, nan & ~unwritten, got.isinf(), got == 0, instead)
        counts += torch.stack([(mask & bad).sum() for mask in masks])
    found = dict(zip(names, counts.tolist(), strict=True))
    if found["zero"] * _RARE < wrong.count:
        found["zero"] = 0  # by chance
    told = [f"{n} {name}" for name, n in found.items() if n]
    if told:
        yield f"of the wrong ones: {', '.join(told)}"


def _errors(wrong: Wrong, some: torch.Tensor) -> Iterator[str]:
    """How far off, for numbers where numbers are expected."""
    if wrong.allowed is None or wrong.count == 1:
        return
    got, right = wrong.got[some].double(), wrong.right[some]
    sound = got.isfinite() & right.isfinite()
    if not bool(sound.any()):
        return
    off, right = (got - right).abs()[sound], right[sound]
    share = off / wrong.allowed[some].double()[sound]
    yield (
        f"errors of the wrong ones: {float(share.median()):.3g} times what is allowed in the "
        f"median, {float(share.max()):.3g} times at most"
    )
    part = (off / right.abs())[right != 0]
    if len(part) < _FEW:
        return
    size = math.log2(max(float(part.median()), 1e-300))
    if size < _COARSE and len(part) > len(off) / 2:
        yield (
            f"they are small beside the values, 2^{size:.1f} of them in the median: it may be "
            f"arithmetic of lower precision, a fast approximation or a long plain sum; {_ROUNDING}"
        )


def _example(wrong: Wrong, at: int) -> str:
    got, right = number(wrong.got[at]), number(wrong.right[at])
    text = f"at {index_of(at, wrong.shape)}: got {got}, expected {right}"
    if wrong.allowed is None:
        return text
    off = abs(float(wrong.got[at]) - float(wrong.right[at]))
    if not math.isfinite(off):
        return text
    return f"{text}, off by {off:.3g}, allowed {float(wrong.allowed[at]):.3g}"
