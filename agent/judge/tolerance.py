"""How far a right answer may be from the exact one: the one place where this is decided.

Let *exact* be the float64 answer, *eager* PyTorch's own, and *conditioned* the float64 answer for
arguments that were each changed by at most one part in 2^23 (2^52 for float64): an ulp, which is
what computing in float32 on them means at best. ``ulp(v)`` is the distance between neighbouring
numbers of the output's dtype at v. What honest arithmetic may be off by is ::

    honest = max( n * ulp(exact),  K * g * max|conditioned - exact| )

and an element of a program's answer may differ from exact by at most ::

    max( honest,  min( K * max|eager - exact|,  W * max(honest, max'|eager - exact|) ) )

with max over the element's slice along the last dimension (over the trailing dimensions that
together have 16 elements or more, where the last is shorter), max' the same with 256, and with ::

    g = 1 + sqrt(min(N, 16384)) / 6          N: terms of the longest sum, 1 without sums
    n = 2 + 8 (g - 1) 2^-16 for bfloat16;  2 + 8 (g - 1) 2^-13 for float16;  8 g otherwise
    K = 8,  W = 3

Besides, at the 50th, 90th and 99th percentile of all elements, the error in units may be at most
the same of n and of eager's and conditioned's percentiles: so a few elements may be as bad as
eager's worst, but not most of them. A unit is an ulp of exact, or conditioned's largest error in
the slice where that is more: what is left of a cancellation has no digits worth counting. A
percentile counts if at least eight elements lie beyond it: among few elements it is one element's
luck, in which a single draw of conditioned says little.

Eager's own error is what it is under PyTorch's defaults on this machine, because that is what a
user has today. On a GPU float32 matrix products are float32 by default and a program in tf32 fails;
convolutions are tf32 by default (cuDNN), so a convolution in tf32 or float16 passes, being as exact
as eager, and one in bfloat16, whose errors are eight times as large, does not: that is why W is
near the middle of 1 and 8. Where eager is honest itself, W keeps a lucky K from adding up.

On constant rows, structured ones, blocks, values of very different sizes (wide, heavy, clustered),
and on small integers unless eager is exact there, g is at least what makes n equal
min(N / 4, 1024): there the rounding errors of a sequential sum can all have one sign, as where
many small terms follow a large one, so they grow with N, not with its square root. (The constants
are chosen so that a lower precision is 4096 ulps off.)

Why g: rounding errors of a plain sequential float32 sum of N terms grow like a random walk. For
positive terms their standard deviation is at most sqrt(N)/3 ulps of the sum, and for terms that
cancel it is that of changing each term by 0.7 sqrt(N) parts in 2^24. So an honest sequential sum
passes at four standard deviations and more for N up to 16384; longer ones must sum in blocks, as
every fast program does. Computing in tf32, float16 or bfloat16 changes terms by 4096 parts in 2^23
or more, beyond K * g even at the cap (178); tests hold both sides. Without sums g is 1: cheap
approximations of exp or tanh that are wrong in the sixth digit fail.

Not-a-numbers and infinities must sit where eager's sit, or where those of exact, rounded to the
output's dtype, sit. Integers and booleans must equal eager's, exact's or conditioned's: these
differ only where a comparison is a tie within rounding noise, such as an argmax. Where elements are
equal by construction and the operator leaves their order open (sort, topk), indices need only be
in range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

K = 8.0
W = 3.0
QUANTILES = (0.5, 0.9, 0.99)
SAMPLE = 1 << 15
_BEYOND = 8.0
MAX_CHAIN = 16384
_SLICE, _BROAD = 16, 256
# Elements worked on at a time: what this needs beside the answers stays under 2 GiB.
_CHUNK = 1 << 25

# Of each dtype: fraction bits, exponent of the smallest normal number.
_FORMATS = {
    torch.float64: (52, -1022),
    torch.float32: (23, -126),
    torch.bfloat16: (7, -126),
    torch.float16: (10, -14),
}


def is_exact(exact: Sequence[torch.Tensor], eager: Sequence[torch.Tensor]) -> bool:
    """Whether eager's answers are the exact ones, to the last bit."""
    return all(torch.equal(one.to(two.dtype), two) for one, two in zip(exact, eager, strict=True))


def growth(chain: int, *, constant: bool = False) -> float:
    """The factor g for sums of ``chain`` terms; ``constant`` if all terms may be equal."""
    if chain <= 1:
        return 1.0
    g = 1.0 + math.sqrt(min(chain, MAX_CHAIN)) / 6.0
    return max(g, min(chain / 4, 1024.0) / 8.0) if constant else g


def ulps_allowed(dtype: torch.dtype, g: float) -> float:
    """The number n of output ulps that any answer may be off by."""
    if dtype in (torch.bfloat16, torch.float16):
        return 2.0 + 8.0 * (g - 1.0) * 2.0 ** (_FORMATS[dtype][0] - 23)
    return 8.0 * g


def ulp(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Distance between neighbours of ``dtype`` at each (float64) value; infinite where it is."""
    bits, lowest = _FORMATS[dtype]
    power = (exact.contiguous().view(torch.int64) & (0x7FF << 52)).view(torch.float64)
    return power.clamp_(min=2.0**lowest).mul_(2.0**-bits)


def kind_of(value: torch.Tensor) -> torch.Tensor:
    """0 finite, 1 NaN, 2 infinity, 3 minus infinity."""
    kinds = value.isnan().to(torch.int8)
    kinds.masked_fill_(value == math.inf, 2)
    return kinds.masked_fill_(value == -math.inf, 3)


@dataclass(frozen=True, slots=True)
class FloatAnswer:
    """What is known about one floating-point output on one set of arguments.

    Everything is flat, in the output's logical order.

    Attributes:
        exact: The float64 answer.
        allowed: Largest error of each element.
        places: A random sample of elements, for the percentiles.
        unit: One unit at those elements.
        quantiles: Largest error in units at :data:`QUANTILES`.
        eager_error: Eager's largest absolute error.
        eager: Eager's answer, where it or exact has anything that is not finite; else None.
        exact_kind: :func:`kind_of` exact in the output's dtype; None like ``eager``.
    """

    dtype: torch.dtype
    exact: torch.Tensor
    allowed: torch.Tensor
    places: torch.Tensor
    unit: torch.Tensor
    quantiles: tuple[float, ...]
    eager_error: float
    eager: torch.Tensor | None
    exact_kind: torch.Tensor | None

    @property
    def bytes(self) -> int:
        extra = 0 if self.eager is None else 9 * self.exact.numel()
        return int(12 * self.exact.numel()) + extra


@dataclass(frozen=True, slots=True)
class IntegerAnswer:
    """Integer or boolean output: the answers of which an element must equal one.

    With ``open_order`` any value from 0 to below it will do.
    """

    dtype: torch.dtype
    answers: tuple[torch.Tensor, ...]
    open_order: int = 0

    @property
    def bytes(self) -> int:
        return sum(answer.numel() * answer.element_size() for answer in self.answers)


Answer = FloatAnswer | IntegerAnswer


def answer(
    exact: torch.Tensor,
    eager: torch.Tensor,
    conditioned: torch.Tensor | None,
    g: float,
    generator: torch.Generator,
    *,
    open_order: int = 0,
) -> Answer:
    """Work out what is allowed; see the module's text.

    Args:
        exact: The float64 answer (or integers).
        eager: PyTorch's answer, in the output's dtype.
        conditioned: The float64 answer for slightly changed arguments, or None.
        g: From :func:`growth`.
        generator: Chooses the sampled elements.
        open_order: If equal elements of these arguments may be taken in any order, the largest
            size of a dimension; else 0.
    """
    if not eager.is_floating_point():
        found = [eager.reshape(-1)]
        for other in (exact, conditioned):
            if other is not None and not torch.equal(other.reshape(-1).to(eager.dtype), found[0]):
                found.append(other.reshape(-1).to(eager.dtype))
        return IntegerAnswer(eager.dtype, tuple(found), open_order)
    dtype, shape = eager.dtype, tuple(exact.shape)
    flat, own = exact.reshape(-1), eager.reshape(-1)
    changed = None if conditioned is None else conditioned.reshape(-1)
    widths = _slice_width(shape, _SLICE), _slice_width(shape, _BROAD)
    step = max(1, _CHUNK // widths[1]) * widths[1]
    n = ulps_allowed(dtype, g)
    sound, allowed, errors, noise = [], [], [], []
    for start in range(0, max(1, flat.numel()), step):
        at = slice(start, start + step)
        sound.append(flat[at].to(dtype).isfinite() & own[at].isfinite())
        off = _error(own[at].double(), flat[at])
        errors.append(off.max() if off.numel() else off.sum())
        honest = ulp(flat[at], dtype) * n
        if changed is not None:
            noise.append(_rows_max(_error(changed[at], flat[at]), widths[0]))
            honest = torch.maximum(honest, _spread(noise[-1] * (K * g), widths[0]))
        near, far = (_spread(_rows_max(off, width), width) for width in widths)
        limit = _limit(honest, near, far)
        allowed.append(limit if dtype is torch.float64 else limit.float().clamp_(min=2.0**-149))
    finite = all(bool(part.all()) for part in sound)
    places = _sample(torch.cat(sound), finite, generator)
    unit = ulp(flat[places], dtype)
    limits = [n] * len(QUANTILES)
    if changed is not None:
        unit = torch.maximum(unit, torch.cat(noise)[places // widths[0]])
        apart = _percentiles(_error(changed[places], flat[places]) / unit)
        limits = [max(n, K * g * at) for at in apart]
    found = _percentiles(_error(own[places].double(), flat[places]) / unit)
    limits = [max(h, min(K * e, W * max(h, e))) for h, e in zip(limits, found, strict=True)]
    return FloatAnswer(
        dtype, flat, torch.cat(allowed), places, unit, tuple(limits),
        float(torch.stack(errors).max()),
        None if finite else own.double(), None if finite else kind_of(flat.to(dtype)),
    )  # fmt: skip


def _limit(honest: torch.Tensor, near: torch.Tensor, far: torch.Tensor) -> torch.Tensor:
    """The largest error of each element, of eager's in its slice and in its broad one."""
    like_eager = torch.minimum(near * K, torch.maximum(far, honest).mul_(W))
    return torch.maximum(honest, like_eager)


def _sample(sound: torch.Tensor, finite: bool, generator: torch.Generator) -> torch.Tensor:
    """Places of random elements, of those that are finite in every answer."""
    device, count = sound.device, sound.numel()
    if finite:
        size = (min(SAMPLE, count),)
        return torch.randint(max(1, count), size, generator=generator, device=device)
    places = sound.nonzero()[:, 0]
    return places[torch.randperm(len(places), generator=generator, device=device)[:SAMPLE]]


def _slice_width(shape: tuple[int, ...], least: int) -> int:
    """Elements of the fewest trailing dimensions that have ``least`` or more."""
    width = 1
    for size in reversed(shape):
        width *= size
        if width >= least:
            break
    return max(1, width)


def _error(value: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Absolute difference; 0 where it is not finite, for that is judged apart."""
    return (value - exact).abs_().nan_to_num_(0.0, 0.0, 0.0)


def _rows_max(error: torch.Tensor, width: int) -> torch.Tensor:
    return error.view(-1, width).amax(1)


def _spread(rows: torch.Tensor, width: int) -> torch.Tensor:
    """One value for each slice, repeated for its elements."""
    return rows[:, None].expand(-1, width).reshape(-1)


def _percentiles(values: torch.Tensor) -> list[float]:
    kept = values[values.isfinite()]
    if not kept.numel():
        return [0.0] * len(QUANTILES)
    wanted = torch.tensor(QUANTILES, dtype=kept.dtype, device=kept.device)
    return [float(at) for at in torch.quantile(kept, wanted).tolist()]


@dataclass(frozen=True, slots=True)
class Deviation:
    """How a program's output compares.

    Attributes:
        bad: Mask of the elements that are wrong, flat; None when there is none.
        worst: Largest error as a share of what is allowed; infinite for a wrong kind.
        max_error: Largest absolute error among finite elements.
        percentile: Which percentile is over its limit, if only that is wrong; with its value
            and limit in units.
    """

    bad: torch.Tensor | None
    worst: float
    max_error: float
    percentile: tuple[float, float, float] | None

    @property
    def ok(self) -> bool:
        return self.bad is None and self.percentile is None


def compare(value: torch.Tensor, expected: Answer) -> Deviation:
    """Compare a program's output, of the right shape and dtype, with what is allowed."""
    if isinstance(expected, IntegerAnswer):
        flat = value.reshape(-1)
        good = flat == expected.answers[0]
        if expected.open_order:
            good = (flat >= 0) & (flat < expected.open_order)
        for other in expected.answers[1:]:
            good |= flat == other
        wrong = bool((~good).any())
        return Deviation(~good if wrong else None, math.inf if wrong else 0.0, 0.0, None)
    flat = value.reshape(-1)
    parts = [_part(flat, expected, start) for start in range(0, flat.numel(), _CHUNK)]
    good, worst, largest = _gather([part[1] for part in parts])
    if not good:
        bad = torch.cat([~part[0] for part in parts])
        return Deviation(bad, math.inf if math.isnan(worst) else worst, largest, None)
    off = (flat[expected.places].double() - expected.exact[expected.places]).abs_()
    found = _percentiles(off / expected.unit)
    count = len(expected.places)
    for at, ulps, limit in zip(QUANTILES, found, expected.quantiles, strict=True):
        if ulps > limit and (1.0 - at) * count >= _BEYOND:
            return Deviation(None, worst, largest, (at, ulps, limit))
    return Deviation(None, worst, largest, None)


def _part(
    flat: torch.Tensor, expected: FloatAnswer, start: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of one stretch: which elements are right; whether all are, worst share, largest error."""
    at = slice(start, start + _CHUNK)
    value = flat[at].double()
    error = (value - expected.exact[at]).abs_()
    share = error / expected.allowed[at]
    good = share <= 1.0
    if expected.eager is not None:
        good = _kinds_agree(value, expected, at, good)
        share = torch.where(share.isfinite(), share, 0.0)
        error = torch.where(error.isfinite(), error, 0.0)
    return good, torch.stack([good.all().double(), share.max(), error.max()])


def _gather(parts: Sequence[torch.Tensor]) -> tuple[bool, float, float]:
    """What :func:`_part` says of all stretches together; an answer without elements is right."""
    if not parts:
        return True, 0.0, 0.0
    found = torch.stack(list(parts))
    good, worst, largest = torch.cat([found[:, :1].amin(0), found[:, 1:].amax(0)]).tolist()
    return good == 1.0, worst, largest


def _kinds_agree(
    value: torch.Tensor, expected: FloatAnswer, at: slice, near: torch.Tensor
) -> torch.Tensor:
    """Which elements are right where eager or exact has NaN or infinities."""
    assert expected.eager is not None
    assert expected.exact_kind is not None
    eager, exact_kind = expected.eager[at], expected.exact_kind[at]
    kind, eager_kind = kind_of(value), kind_of(eager)
    same = (kind == eager_kind) | (kind == exact_kind)
    beside_eager = (value - eager).abs() <= K * ulp(eager, expected.dtype)
    both = (exact_kind != 0) & (eager_kind != 0)
    finite = torch.where(exact_kind == 0, near, beside_eager & ~both)
    return torch.where(kind != 0, same, finite)
