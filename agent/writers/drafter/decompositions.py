"""How compound operators come apart into pointwise operations and reductions.

PyTorch's own decompositions are used where they give that; those below replace the ones that keep
a compound operator, leave a view of scratch memory, or lose accuracy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

aten = torch.ops.aten
_HALF = (torch.bfloat16, torch.float16)
_FROM_TORCH = (
    aten._softmax, aten._log_softmax, aten.gelu, aten.silu, aten.hardswish, aten.hardsigmoid,
    aten.hardtanh, aten.elu, aten.leaky_relu, aten.softplus, aten.mish, aten.huber_loss,
    aten.mse_loss, aten.smooth_l1_loss, aten.soft_margin_loss, aten.log_sigmoid_forward,
    aten.binary_cross_entropy, aten.binary_cross_entropy_with_logits, aten.logsumexp, aten.glu,
    aten.nll_loss_forward, aten.nll_loss2d_forward, aten.addcmul, aten.addcdiv,
    aten.lerp, aten.hardshrink, aten.softshrink, aten.threshold, aten.masked_fill, aten.tril,
    aten.triu, aten.std.correction, aten.std_mean, aten.rsub, aten.stack, aten.special_entr,
    aten.xlogy, aten.logaddexp, aten.nan_to_num, aten.roll, aten.isnan, aten.isinf, aten.trunc,
    aten.frac, aten._prelu_kernel, aten.square, aten.heaviside, aten.clamp_min, aten.clamp_max,
    aten.split_with_sizes, aten.unbind, aten.celu, aten.sgn, aten.dist,
    aten.eye, aten.ones_like, aten.zeros_like, aten.new_full, aten.new_zeros, aten.fill,
)  # fmt: skip


def table() -> dict[Any, Callable[..., Any]]:
    """Decompositions for ``make_fx``, by operator."""
    known: dict[Any, Callable[..., Any]] = dict(core_aten_decompositions())
    known.update(get_decompositions(_FROM_TORCH))
    known.update(
        {
            aten.mean.default: lambda x, *, dtype=None: _mean(x, None, dtype=dtype),
            aten.mean.dim: _mean,
            aten.var.correction: _var,
            aten.var_mean.correction: _var_mean,
            aten.linalg_vector_norm.default: _vector_norm,
            aten.native_layer_norm.default: _layer_norm,
            aten.native_group_norm.default: _group_norm,
            aten.native_batch_norm.default: _batch_norm,
            aten._native_batch_norm_legit_no_training.default: _batch_norm_eval,
            aten._native_batch_norm_legit.no_stats: _batch_norm_no_stats,
            aten._fused_rms_norm.default: _rms_norm,
            aten.constant_pad_nd.default: _constant_pad,
            aten.frobenius_norm.dim: lambda x, dim, keepdim=False: _vector_norm(x, 2, dim, keepdim),
        }
    )
    # These stay whole: a scan is refused by its name, a row of a table is looked up as it is.
    for name in (
        aten.cumsum.default,
        aten.logcumsumexp.default,
        aten.embedding.default,
        aten.index_select.default,
    ):
        known.pop(name, None)
    return known


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.float32) if x.dtype in _HALF else x


def _dims(x: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    if dim is None or (not isinstance(dim, int) and not dim):
        return list(range(x.dim()))
    return [d % max(1, x.dim()) for d in ([dim] if isinstance(dim, int) else dim)]


def _count(x: Tensor, dims: Sequence[int]) -> int:
    return math.prod(x.shape[d] for d in dims) if x.dim() else 1


def _mean(
    x: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    result = dtype or x.dtype
    dims = _dims(x, dim)
    wide = _wide(x.to(result))
    return (wide.sum(dims, keepdim) / _count(x, dims)).to(result)


def _var_mean(
    x: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    """Variance about the mean, in two steps: right for means much larger than the spread."""
    dims = _dims(x, dim)
    count = _count(x, dims)
    wide = _wide(x)
    mean = wide.sum(dims, True) / count
    centered = wide - mean
    divisor = max(0, count - (1 if correction is None else correction))
    squares = (centered * centered).sum(dims, keepdim)
    var = squares / divisor if divisor else squares / 0.0
    if not keepdim:
        mean = mean.reshape(var.shape)
    return var.to(x.dtype), mean.to(x.dtype)


def _var(x: Tensor, dim: Any = None, **kwargs: Any) -> Tensor:
    return _var_mean(x, dim, **kwargs)[0]


def _vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    result = dtype or x.dtype
    dims = _dims(x, dim)
    size = _wide(x.to(result)).abs()
    if ord == math.inf:
        norm = size.amax(dims, keepdim)
    elif ord == -math.inf:
        norm = size.amin(dims, keepdim)
    elif ord == 0:
        norm = (size != 0).to(size.dtype).sum(dims, keepdim)
    elif ord == 1:
        norm = size.sum(dims, keepdim)
    elif ord == 2:
        norm = (size * size).sum(dims, keepdim).sqrt()
    else:
        norm = size.pow(ord).sum(dims, keepdim).pow(1.0 / ord)
    return norm.to(result)


def _constant_pad(x: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """Joined with constant pieces, from the last dimension on; a negative pad cuts off."""
    for place in range(len(pad) // 2):
        dim, low, high = x.dim() - 1 - place, pad[2 * place], pad[2 * place + 1]
        x = x.narrow(dim, max(0, -low), x.shape[dim] + min(0, low) + min(0, high))
        sides = [
            torch.full((*x.shape[:dim], max(0, n), *x.shape[dim + 1 :]), value, dtype=x.dtype)
            for n in (low, high)
        ]
        pieces = [piece for piece in (sides[0], x, sides[1]) if piece.shape[dim]]
        x = torch.cat(pieces, dim) if len(pieces) > 1 else pieces[0]
    return x


def _normalized(x: Tensor, dims: list[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Centred values, mean and reciprocal deviation, in float32 or wider."""
    wide = _wide(x)
    var, mean = _var_mean(wide, dims, correction=0, keepdim=True)
    return wide - mean, mean, torch.rsqrt(var + eps)


def _layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    dims = list(range(x.dim() - len(shape), x.dim()))
    centered, mean, rstd = _normalized(x, dims, eps)
    out = centered * rstd
    if weight is not None:
        out = out * weight
    if bias is not None:
        out = out + bias
    return out.to(x.dtype), mean, rstd


def _group_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    n: int,
    c: int,
    hw: int,
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    centered, mean, rstd = _normalized(x.reshape(n, groups, c // groups, hw), [2, 3], eps)
    if weight is not None:
        rstd_weight = rstd * weight.reshape(1, groups, c // groups, 1)
        out = centered * rstd_weight
    else:
        out = centered * rstd
    if bias is not None:
        out = out + bias.reshape(1, groups, c // groups, 1)
    return out.reshape(x.shape).to(x.dtype), mean.reshape(n, groups), rstd.reshape(n, groups)


def _rms_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, eps: float | None
) -> tuple[Tensor, Tensor]:
    dims = list(range(x.dim() - len(shape), x.dim()))
    wide = _wide(x)
    small = torch.finfo(wide.dtype).eps if eps is None else eps
    rstd = torch.rsqrt(_mean(wide * wide, dims, True) + small)
    out = wide * rstd
    if weight is not None:
        out = out * weight
    return out.to(x.dtype), rstd


def _batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    by_channel = [1, x.shape[1]] + [1] * (x.dim() - 2)
    if training:
        dims = [d for d in range(x.dim()) if d != 1]
        centered, mean, scale = _normalized(x, dims, eps)
    else:
        assert running_mean is not None
        assert running_var is not None
        centered = _wide(x) - running_mean.reshape(by_channel)
        mean = running_mean
        scale = torch.rsqrt(_wide(running_var).reshape(by_channel) + eps)
    rstd = scale
    if weight is not None:
        scale = scale * weight.reshape(by_channel)
    out = centered * scale
    if bias is not None:
        out = out + bias.reshape(by_channel)
    return out.to(x.dtype), mean.reshape(-1), rstd.reshape(-1)


def _batch_norm_eval(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return _batch_norm(x, weight, bias, running_mean, running_var, False, momentum, eps)


def _batch_norm_no_stats(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return _batch_norm(x, weight, bias, None, None, True, momentum, eps)
