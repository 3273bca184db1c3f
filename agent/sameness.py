"""Whether two results are the same: exactly, or but for the order in which sums were taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

# Two runs may differ by this much of the largest value, because sums are reordered.
_NOISE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
# Elements that are compared at once.
_PIECE = 1 << 24


def alike(left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> bool:
    """Whether two runs' results are the same but for the order of additions."""
    return len(left) == len(right) and all(map(_alike, left, right))


def _alike(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if not left.is_floating_point():
        return bool(torch.equal(left, right))
    if identical(left, right):
        return True
    # In float64 a few elements at a time: outputs may be as large as half of the memory.
    parts = list(zip(_pieces(left), _pieces(right), strict=True))
    scale = 0.0
    for mine, others in parts:
        finite = mine.isfinite()
        if not torch.equal(finite, others.isfinite()):
            return False
        if not identical(mine[~finite], others[~finite]):
            return False
        if bool(finite.any()):
            scale = max(scale, float(mine[finite].abs().max()))
    bound = _NOISE[left.dtype] * scale
    for mine, others in parts:
        difference = (mine.double() - others.double())[mine.isfinite()].abs()
        if not bool((difference <= bound).all()):
            return False
    return True


def _pieces(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Views of the tensor along its longest dimension, none of them large."""
    if tensor.numel() <= _PIECE:
        return (tensor,)
    longest = max(range(tensor.dim()), key=lambda dim: tensor.shape[dim])
    step = max(1, _PIECE * tensor.shape[longest] // tensor.numel())
    pieces: tuple[torch.Tensor, ...] = tensor.split(step, longest)
    return pieces


def identical(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal values, NaN equal to NaN."""
    if left.shape != right.shape:
        return False
    if torch.equal(left, right):
        return True
    if not left.is_floating_point():
        return False
    same = (left == right) | (left.isnan() & right.isnan())
    return bool(same.all())
