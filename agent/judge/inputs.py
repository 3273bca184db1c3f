"""Inputs that programs are checked on: families of values made from the task's own.

A family changes only what the task gives as floating-point inputs, keeps each element's sign
where it can (so that a task on positive numbers stays on positive numbers), and leaves integers,
booleans and sizes alone. Weights are the module's own in the family ``normal``; in the others
they are perturbed too, so that a program with a weight's usual value written into it is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.task import ArgSpec

FAMILIES = ("normal", "wide", "heavy", "constant", "special", "structured", "integers")
# The arguments of "normal" with few elements changed: no family of the check, but a question put
# after timing to a program that may know the arguments again by some of their elements.
NUDGED = "nudged"
_NUDGED_SHARE = 1 / 64
# Inputs with less than this fraction of the largest one's elements get no special values.
_DATA = 8
_SPECIAL = (float("inf"), float("-inf"), float("nan"), -0.0)


def transform(
    family: str, args: Sequence[torch.Tensor], specs: Sequence[ArgSpec], seed: int
) -> list[torch.Tensor]:
    """The task's arguments made into those of a family, strides kept.

    Args:
        family: One of :data:`FAMILIES`.
        args: What ``Reference.sample`` gave; not changed.
        specs: Of the arguments, in the same order.
        seed: Decides every random choice.
    """
    generator = torch.Generator().manual_seed(seed)
    if family == "normal":
        return list(args)
    results = []
    largest = max((v.numel() for v in args if v.is_floating_point()), default=0)
    for value, spec in zip(args, specs, strict=True):
        if not value.is_floating_point() or not value.numel():
            results.append(value)
            continue
        if family == "special" and spec.kind == "input" and value.numel() < largest / _DATA:
            # A scale or a variance, not data: for infinite ones (x - m) * s and x * s - m * s
            # differ, and neither is wrong.
            results.append(value)
            continue
        change = _perturb if spec.kind == "weight" else _CHANGES[family]
        # One element may stand for many (stride 0): change what is stored, then repeat it.
        stored = value[tuple(slice(0, 1) if s == 0 else slice(None) for s in value.stride())]
        limit = torch.finfo(value.dtype).max / 4
        wide = change(stored.double(), generator, value.dtype)
        # Only what was finite is kept so: a family must not turn into the special one.
        wide = torch.where(wide.isfinite(), wide.clamp(-limit, limit), wide)
        fresh = torch.empty_strided(stored.shape, stored.stride(), dtype=value.dtype)
        results.append(fresh.copy_(wide).expand(value.shape))
    return results


def nudge(
    args: Sequence[torch.Tensor],
    others: Sequence[torch.Tensor],
    specs: Sequence[ArgSpec],
    seed: int,
) -> tuple[torch.Tensor, ...]:
    """``args`` with one element in 64 taken from ``others``, or a weight's made larger.

    Integers stay, for they may be places or lengths, unless there is nothing else.
    """
    generator = torch.Generator().manual_seed(seed)
    floats = any(value.is_floating_point() for value in args)
    results = []
    for value, other, spec in zip(args, others, specs, strict=True):
        if not value.numel() or floats != value.is_floating_point():
            results.append(value)
            continue
        at = tuple(slice(0, 1) if step == 0 else slice(None) for step in value.stride())
        stored = value[at]
        count = max(1, round(stored.numel() * _NUDGED_SHARE))
        chosen = torch.zeros(stored.numel(), dtype=torch.bool)
        chosen[torch.randint(stored.numel(), (count,), generator=generator)] = True
        fresh = stored * 1.25 if spec.kind == "weight" and floats else other[at]
        made = torch.empty_strided(stored.shape, stored.stride(), dtype=value.dtype)
        made.copy_(torch.where(chosen.view(stored.shape), fresh, stored))
        results.append(made.expand(value.shape))
    return tuple(results)


def _uniform(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(like.shape, generator=generator, dtype=torch.float64)


def _perturb(value: torch.Tensor, generator: torch.Generator, _: torch.dtype) -> torch.Tensor:
    """Each weight times 0.5 to 1.5; all-zero weights become small numbers."""
    if not bool(value.any()):
        return 0.1 * torch.randn(value.shape, generator=generator, dtype=torch.float64)
    return value * (0.5 + _uniform(value, generator))


def _wide(value: torch.Tensor, generator: torch.Generator, _: torch.dtype) -> torch.Tensor:
    """Each element times 1e-4 to 1e4, log-uniform."""
    return value * 10.0 ** (8 * _uniform(value, generator) - 4)


def _heavy(value: torch.Tensor, generator: torch.Generator, _: torch.dtype) -> torch.Tensor:
    """A Pareto tail: most elements as they are, few a thousand times larger."""
    return value * _uniform(value, generator).clamp(1e-9) ** -0.7


def _rows(value: torch.Tensor) -> torch.Tensor:
    """As a matrix of slices along the last dimension, copied."""
    width = value.shape[-1] if value.dim() else 1
    return value.reshape(-1, max(1, width)).clone()


def _constant(value: torch.Tensor, _: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    """Each row one value, of 12 significant bits where the dtype has them.

    Sums of up to 4096 such values are exact in float32 in any order, while rounding one of them
    to 11 bits or fewer (float16, tf32, bfloat16) is off by as much as rounding can be.
    """
    rows = _rows(value)
    first = rows[:, :1]
    if dtype in (torch.float32, torch.float64):
        mantissa, exponent = torch.frexp(first)
        odd = (torch.floor(mantissa.abs() * 2**11) + 0.5) / 2**11
        exact = torch.ldexp(torch.where(mantissa < 0, -odd, odd), exponent)
        first = torch.where((mantissa == 0) | ~first.isfinite(), first, exact)
    return first.expand(rows.shape).reshape(value.shape)


def _special(value: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    """In a quarter of the rows up to three elements are infinite, NaN, -0.0 or denormal."""
    rows = _rows(value)
    count, width = rows.shape
    kinds = (*_SPECIAL, float(torch.finfo(dtype).smallest_normal) / 4)
    chosen = torch.randperm(count, generator=generator)[: max(5, count // 4)]
    places = torch.randint(width, (len(chosen), 3), generator=generator)
    values = torch.tensor(kinds, dtype=torch.float64)[torch.arange(len(chosen)) % len(kinds)]
    rows[chosen[:, None], places] = values[:, None]
    return rows.reshape(value.shape)


def _structured(value: torch.Tensor, generator: torch.Generator, _: torch.dtype) -> torch.Tensor:
    """By turns: a ramp, two alternating levels, and a row whose last element outweighs the rest.

    The levels vary by 5 %: the same number again and again would make a sequential sum's rounding
    errors add up instead of cancelling, in honest programs too.
    """
    rows = _rows(value)
    count, width = rows.shape
    scale = torch.where(rows.isfinite(), rows, torch.zeros(())).abs().amax(1, keepdim=True)
    low = -1.0 if bool((rows < 0).any()) else 0.0
    ramp = torch.linspace(low, 1.0, width, dtype=torch.float64)
    alternating = torch.where(torch.arange(width) % 2 == 0, 1.0, low or 0.5).double()
    alternating = alternating * (1.0 - 0.05 * _uniform(rows, generator))
    turn = (torch.arange(count) + (count == 1) * 2)[:, None] % 3
    tail = rows.clone()
    tail[:, -1] = tail[:, -1] * 1e4
    made = torch.where(turn == 0, ramp * scale, torch.where(turn == 1, alternating * scale, tail))
    return made.reshape(value.shape)


def _integers(value: torch.Tensor, generator: torch.Generator, _: torch.dtype) -> torch.Tensor:
    """Whole numbers from -4 to 4, or 0 to 4: products and sums of them are exact."""
    low = -4 if bool((value < 0).any()) else 0
    return torch.randint(low, 5, value.shape, generator=generator).double()


_CHANGES: dict[str, Callable[[torch.Tensor, torch.Generator, torch.dtype], torch.Tensor]] = {
    "wide": _wide,
    "heavy": _heavy,
    "constant": _constant,
    "special": _special,
    "structured": _structured,
    "integers": _integers,
}
