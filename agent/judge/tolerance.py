"""How far a right answer may be from the exact one: the one place where this is decided.

Let *exact* be the float64 answer, *eager* PyTorch's own, and *conditioned* the float64 answer for
arguments that were each changed by at most one part in 2^23 (2^52 for float64): an ulp, which is
what computing in float32 on them means at best. ``ulp(v)`` is the distance between neighbouring
numbers of the output's dtype at v. An element of a program's answer may differ from exact by at
most ::

    max( n * ulp(exact),  K * max|eager - exact|,  K * g * max|conditioned - exact| )

with the maxima over the element's slice along the last dimension (over the trailing dimensions
that together have 16 elements or more, where the last is shorter), and with ::

    g = 1 + sqrt(min(N, 16384)) / 6          N: terms of the longest sum, 1 without sums
    n = 2 + 8 (g - 1) 2^-16 for bfloat16;  2 + 8 (g - 1) 2^-13 for float16;  8 g otherwise
    K = 8

Besides, at the 50th, 90th and 99th percentile of all elements, the error in ulps may be at most
max(n, K * eager's percentile, K * g * conditioned's percentile): so a few elements may be as bad
as eager's worst, but not most of them. A percentile counts if at least two elements lie beyond it:
among few elements it is one element's luck, in which a single draw of conditioned says little.

On constant rows and structured ones, and on small integers unless eager is exact there, g is at
least what makes n equal min(N / 4, 1024): there the
rounding errors of a sequential sum can all have one sign, so they grow with N, not with its square
root. (The constants are chosen so that a lower precision is 4096 ulps off.)

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
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import fx

K = 8.0
QUANTILES = (0.5, 0.9, 0.99)
SAMPLE = 1 << 15
_BEYOND = 2.0
MAX_CHAIN = 16384
_SLICE = 16

# Of each dtype: fraction bits, exponent of the smallest normal number.
_FORMATS = {
    torch.float64: (52, -1022),
    torch.float32: (23, -126),
    torch.bfloat16: (7, -126),
    torch.float16: (10, -14),
}
# Operators that only move or make elements.
_MOVES = {
    "view", "_unsafe_view", "reshape", "expand", "permute", "transpose", "t", "slice", "select",
    "squeeze", "unsqueeze", "clone", "_to_copy", "cat", "stack", "split", "split_with_sizes",
    "unbind", "flip", "roll", "repeat", "gather", "index", "index_select", "embedding", "alias",
    "detach", "as_strided", "constant_pad_nd", "narrow", "unfold", "lift_fresh_copy",
    "scalar_tensor", "full", "full_like", "zeros", "zeros_like", "ones", "ones_like", "arange",
    "empty", "copy",
    "triu", "tril", "sort", "topk", "argsort", "max", "min", "amax", "amin", "argmax", "argmin",
    "max_pool2d_with_indices", "any", "all", "where", "masked_fill", "linspace", "eye", "diagonal",
    "new_zeros", "new_ones", "new_full", "new_empty", "pixel_shuffle", "chunk", "movedim",
}  # fmt: skip

_OPEN = {"sort", "topk", "argsort", "kthvalue", "median", "nanmedian", "mode"}


def chain_length(graph: fx.GraphModule) -> int:
    """An upper bound for the terms of the longest sum in a graph; 1 if it has none.

    An operator that is neither elementwise nor mere movement may add over everything but the
    first dimension of an operand, or over all that makes its result smaller than its operands.
    """
    longest = 1
    for node in graph.graph.nodes:
        target = node.target
        if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
            continue
        name = target.name().partition("::")[2].partition(".")[0]
        if torch.Tag.pointwise in target.tags or name in _MOVES:
            continue
        sizes = [_size(operand) for operand in node.all_input_nodes]
        result = _size(node)[0]
        for count, first in sizes:
            longest = max(longest, count // max(1, first), count // max(1, result))
    return longest


def _size(node: fx.Node) -> tuple[int, int]:
    """Elements of a node's (first) tensor, and the size of its first dimension."""
    value: Any = node.meta.get("val")
    if isinstance(value, list | tuple):
        value = next((item for item in value if isinstance(item, torch.Tensor)), None)
    if not isinstance(value, torch.Tensor) or not value.dim():
        return 1, 1
    return int(value.numel()), int(value.shape[0])


def is_exact(exact: Sequence[torch.Tensor], eager: Sequence[torch.Tensor]) -> bool:
    """Whether eager's answers are the exact ones, to the last bit."""
    return all(torch.equal(one.to(two.dtype), two) for one, two in zip(exact, eager, strict=True))


def leaves_order_open(graph: fx.GraphModule) -> bool:
    """Whether the graph has an operator that may take equal elements in any order."""
    return any(
        node.target.name().partition("::")[2].partition(".")[0] in _OPEN
        for node in graph.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
    )


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
    kinds = torch.zeros(value.shape, dtype=torch.int8)
    kinds[value.isnan()] = 1
    kinds[value == math.inf] = 2
    kinds[value == -math.inf] = 3
    return kinds


@dataclass(frozen=True, slots=True)
class FloatAnswer:
    """What is known about one floating-point output on one set of arguments.

    Everything is flat, in the output's logical order.

    Attributes:
        exact: The float64 answer.
        allowed: Largest error of each element.
        places: A random sample of elements, for the percentiles.
        unit: One ulp at those elements.
        quantiles: Largest error in ulps at :data:`QUANTILES`.
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
    flat = exact.reshape(-1)
    eager64 = eager.double().reshape(-1)
    unit = ulp(flat, dtype)
    n = ulps_allowed(dtype, g)
    allowed = unit * n
    width = _slice_width(shape)
    eager_off = _error(eager64, flat)
    allowed = torch.maximum(allowed, _widest(eager_off, width, K))
    rounded = flat.to(dtype)
    sound = rounded.isfinite() & eager64.isfinite()
    finite = bool(sound.all())
    places = _sample(sound, finite, generator)
    limits = [max(n, K * at) for at in _percentiles(eager_off[places] / unit[places])]
    if conditioned is not None:
        off = _error(conditioned.reshape(-1), flat)
        allowed = torch.maximum(allowed, _widest(off, width, K * g))
        noise = _percentiles(off[places] / unit[places])
        limits = [max(limit, K * g * at) for limit, at in zip(limits, noise, strict=True)]
    if dtype is not torch.float64:
        allowed = allowed.float().clamp_(min=2.0**-149)
    return FloatAnswer(
        dtype, flat, allowed,
        places, unit[places], tuple(limits), float(eager_off.max()) if eager_off.numel() else 0.0,
        None if finite else eager64, None if finite else kind_of(rounded),
    )  # fmt: skip


def _sample(sound: torch.Tensor, finite: bool, generator: torch.Generator) -> torch.Tensor:
    """Places of random elements, of those that are finite in every answer."""
    if finite:
        count = sound.numel()
        return torch.randint(count, (min(SAMPLE, count),), generator=generator)
    places = sound.nonzero()[:, 0]
    return places[torch.randperm(len(places), generator=generator)[:SAMPLE]]


def _slice_width(shape: tuple[int, ...]) -> int:
    width = 1
    for size in reversed(shape):
        width *= size
        if width >= _SLICE:
            break
    return max(1, width)


def _error(value: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Absolute difference; 0 where it is not finite, for that is judged apart."""
    return (value - exact).abs_().nan_to_num_(0.0, 0.0, 0.0)


def _widest(error: torch.Tensor, width: int, factor: float) -> torch.Tensor:
    rows = error.view(-1, width)
    return (rows.amax(1, keepdim=True) * factor).expand(rows.shape).reshape(-1)


def _percentiles(values: torch.Tensor) -> list[float]:
    kept = values[values.isfinite()]
    if not kept.numel():
        return [0.0] * len(QUANTILES)
    return [float(at) for at in torch.quantile(kept, torch.tensor(QUANTILES, dtype=kept.dtype))]


@dataclass(frozen=True, slots=True)
class Deviation:
    """How a program's output compares.

    Attributes:
        bad: Mask of the elements that are wrong, flat; None when there is none.
        worst: Largest error as a share of what is allowed; infinite for a wrong kind.
        max_error: Largest absolute error among finite elements.
        percentile: Which percentile is over its limit, if only that is wrong; with its value
            and limit in ulps.
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
    flat = value.reshape(-1).double()
    error = (flat - expected.exact).abs_()
    share = error / expected.allowed
    good = share <= 1.0
    if expected.eager is not None:
        good = _kinds_agree(flat, expected, good)
    finite = share[share.isfinite()] if expected.eager is not None else share
    worst = float(finite.max()) if finite.numel() else 0.0
    shown = error[error.isfinite()] if expected.eager is not None else error
    largest = float(shown.max()) if shown.numel() else 0.0
    if not bool(good.all()):
        return Deviation(~good, math.inf if math.isnan(worst) else worst, largest, None)
    found = _percentiles(error[expected.places] / expected.unit)
    count = len(expected.places)
    for at, ulps, limit in zip(QUANTILES, found, expected.quantiles, strict=True):
        if ulps > limit and (1.0 - at) * count >= _BEYOND:
            return Deviation(None, worst, largest, (at, ulps, limit))
    return Deviation(None, worst, largest, None)


def _kinds_agree(flat: torch.Tensor, expected: FloatAnswer, near: torch.Tensor) -> torch.Tensor:
    """Which elements are right where eager or exact has NaN or infinities."""
    assert expected.eager is not None
    assert expected.exact_kind is not None
    kind, eager_kind = kind_of(flat), kind_of(expected.eager)
    same = (kind == eager_kind) | (kind == expected.exact_kind)
    beside_eager = (flat - expected.eager).abs() <= K * ulp(expected.eager, expected.dtype)
    both = (expected.exact_kind != 0) & (eager_kind != 0)
    finite = torch.where(expected.exact_kind == 0, near, beside_eager & ~both)
    return torch.where(kind != 0, same, finite)
