"""Inputs that programs are checked on: families of values made from the task's own.

A family changes only what the task gives as floating-point inputs, keeps each element's sign
where it can (so that a task on positive numbers stays on positive numbers; ``signed`` is the
exception), and leaves integers, booleans and sizes alone. Together they are made so that no work
can be left out: wherever an element lies there is a family in which it outweighs others, one in
which it is small beside others, and one in which rows that usually differ are alike. Weights are
the module's own in the family ``normal``; in the others they are perturbed too, so that a program
with a weight's usual value written into it is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.task import ArgSpec

FAMILIES = (
    "normal", "wide", "heavy", "constant", "special", "structured", "blocks", "clustered",
    "integers", "signed",
)  # fmt: skip
# The arguments of "normal" with few elements changed: no family of the check, but a question put
# after timing to a program that may know the arguments again by some of their elements.
NUDGED = "nudged"
_NUDGED_SHARE = 1 / 64
# Families that only count where the reference's answers for them are finite.
TENTATIVE = ("signed",)
_NEGATIVE = 0.1
# Elements changed at a time.
_PART = 1 << 25
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
    if family == "normal":
        return list(args)
    generator = seeded(seed, args)
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
        fresh = _like(stored)
        for part, place in zip(_parts(stored), _parts(fresh), strict=True):
            place.copy_(_kept(change(part.double(), generator, value.dtype), value.dtype))
        results.append(fresh.expand(value.shape))
    return results


def _parts(value: torch.Tensor) -> Sequence[torch.Tensor]:
    """Stretches along the first dimension, so that what is made on the way stays small."""
    if value.numel() <= _PART:
        return (value,)
    dim = next(at for at, size in enumerate(value.shape) if size > 1)
    size = value.shape[dim]
    parts: tuple[torch.Tensor, ...] = value.split(max(1, _PART * size // value.numel()), dim)
    return parts


def _kept(wide: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Finite where it was: a family must not turn into the special one."""
    limit = torch.finfo(dtype).max / 4
    return torch.where(wide.isfinite(), wide.clamp(-limit, limit), wide)


def nudge(
    args: Sequence[torch.Tensor],
    others: Sequence[torch.Tensor],
    specs: Sequence[ArgSpec],
    seed: int,
) -> tuple[torch.Tensor, ...]:
    """``args`` with one element in 64 taken from ``others``, or a weight's made larger.

    Integers stay, for they may be places or lengths, unless there is nothing else.
    """
    generator = seeded(seed, args)
    floats = any(value.is_floating_point() for value in args)
    results = []
    for value, other, spec in zip(args, others, specs, strict=True):
        if not value.numel() or floats != value.is_floating_point():
            results.append(value)
            continue
        at = tuple(slice(0, 1) if step == 0 else slice(None) for step in value.stride())
        stored = value[at]
        count = max(1, round(stored.numel() * _NUDGED_SHARE))
        chosen = torch.zeros(stored.numel(), dtype=torch.bool, device=value.device)
        places = torch.randint(stored.numel(), (count,), generator=generator, device=value.device)
        chosen[places] = True
        fresh = stored * 1.25 if spec.kind == "weight" and floats else other[at]
        made = _like(stored)
        made.copy_(torch.where(chosen.view(stored.shape), fresh, stored))
        results.append(made.expand(value.shape))
    return tuple(results)


def seeded(seed: int, args: Sequence[torch.Tensor]) -> torch.Generator:
    """A generator on the device of these tensors."""
    return torch.Generator(args[0].device if args else "cpu").manual_seed(seed)


def _like(stored: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(
        stored.shape, stored.stride(), dtype=stored.dtype, device=stored.device
    )


def _uniform(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(like.shape, generator=generator, dtype=torch.float64, device=like.device)


def _perturb(value: torch.Tensor, generator: torch.Generator, _: torch.dtype) -> torch.Tensor:
    """Each weight times 0.5 to 1.5; all-zero weights become small numbers."""
    if not bool(value.any()):
        return 0.1 * torch.randn(
            value.shape, generator=generator, dtype=torch.float64, device=value.device
        )
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
    """In a quarter of the rows up to three elements are infinite, NaN, -0.0 or denormal.

    Two more rows, where there are as many, are masked as attention masks them: -inf in their first
    half, or in their second. Whole blocks of a row are -inf then, and the answer is finite.
    """
    rows = _rows(value)
    count, width = rows.shape
    device = value.device
    denormal = float(torch.finfo(dtype).smallest_normal) / 4
    kinds = torch.tensor((*_SPECIAL, denormal), dtype=torch.float64, device=device)
    shuffled = torch.randperm(count, generator=generator, device=device)
    chosen = shuffled[: max(5, count // 4)]
    masked = shuffled[len(chosen) : len(chosen) + 2]
    for row, half in zip(masked, (slice(None, width // 2), slice(width // 2, None)), strict=False):
        rows[row, half] = float("-inf")
    places = torch.randint(width, (len(chosen), 3), generator=generator, device=device)
    values = kinds[torch.arange(len(chosen), device=device) % len(kinds)]
    rows[chosen[:, None], places] = values[:, None]
    return rows.reshape(value.shape)


def _structured(value: torch.Tensor, generator: torch.Generator, _: torch.dtype) -> torch.Tensor:
    """By turns: a ramp, two alternating levels, and a row whose last element outweighs the rest.

    The levels vary by 5 %: the same number again and again would make a sequential sum's rounding
    errors add up instead of cancelling, in honest programs too.
    """
    rows = _rows(value)
    count, width = rows.shape
    device = value.device
    scale = torch.where(rows.isfinite(), rows, 0.0).abs().amax(1, keepdim=True)
    low = -1.0 if bool((rows < 0).any()) else 0.0
    ramp = torch.linspace(low, 1.0, width, dtype=torch.float64, device=device)
    alternating = torch.where(torch.arange(width, device=device) % 2 == 0, 1.0, low or 0.5)
    alternating = alternating.double() * (1.0 - 0.05 * _uniform(rows, generator))
    turn = (torch.arange(count, device=device) + (count == 1) * 2)[:, None] % 3
    tail = rows.clone()
    tail[:, -1] = tail[:, -1] * 1e4
    made = torch.where(turn == 0, ramp * scale, torch.where(turn == 1, alternating * scale, tail))
    return made.reshape(value.shape)


def _blocks(value: torch.Tensor, generator: torch.Generator, _: torch.dtype) -> torch.Tensor:
    """Up to eight blocks along every dimension, whose weights fall from 1 in random order.

    To 1e-6 along the last dimension, to 1e-3 along the others together; the outermost have 1. So
    the first and the last position count for much wherever one stands, and there are tiles of
    little weight beside others, and rows of little weight.
    """
    long = [at for at, size in enumerate(value.shape) if size > 1]
    for at in long:
        size, device = value.shape[at], value.device
        count = min(8, size)
        powers = torch.zeros(count, dtype=torch.float64, device=device)
        order = torch.randperm(max(0, count - 2), generator=generator, device=device)
        powers[1:-1] = (order + 1.0) / max(1, count - 2)
        lowest = -6.0 if at == long[-1] else -3.0 / (len(long) - 1)
        block = torch.arange(size, device=device) * count // size
        weight = 10.0 ** (powers * lowest)
        value = value * weight[block].view(-1, *(1,) * (value.dim() - at - 1))
    return value


def _clustered(value: torch.Tensor, generator: torch.Generator, _: torch.dtype) -> torch.Tensor:
    """All rows alike but for a factor of 0.5 to 1: what chooses by rows chooses the same always."""
    rows = _rows(value)
    made = rows[:1] * (0.5 + 0.5 * _uniform(rows[:, :1], generator))
    return made.reshape(value.shape)


def _signed(value: torch.Tensor, generator: torch.Generator, _: torch.dtype) -> torch.Tensor:
    """Each element's sign by chance: a step that never mattered to positive numbers does now."""
    return torch.where(_uniform(value, generator) < 0.5, -value, value)


def both_signs(args: Sequence[torch.Tensor], specs: Sequence[ArgSpec]) -> bool:
    """Whether every input has a good share of negative elements already."""
    return all(
        float((value < 0).double().mean()) > _NEGATIVE
        for value, spec in zip(args, specs, strict=True)
        if spec.kind == "input" and value.is_floating_point() and value.numel() > 1
    )


def _integers(value: torch.Tensor, generator: torch.Generator, _: torch.dtype) -> torch.Tensor:
    """Whole numbers from -4 to 4, or 0 to 4: products and sums of them are exact."""
    low = -4 if bool((value < 0).any()) else 0
    whole = torch.randint(low, 5, value.shape, generator=generator, device=value.device)
    return whole.double()


_CHANGES: dict[str, Callable[[torch.Tensor, torch.Generator, torch.dtype], torch.Tensor]] = {
    "wide": _wide,
    "heavy": _heavy,
    "constant": _constant,
    "special": _special,
    "structured": _structured,
    "blocks": _blocks,
    "clustered": _clustered,
    "signed": _signed,
    "integers": _integers,
}
