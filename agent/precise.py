"""A traced graph evaluated in float64: the answer that programs are judged by.

Every floating-point argument, constant and result is float64, and every cast or dtype in the graph
that names a narrower float is read as float64: what the author meant, without the rounding on the
way. Integers and booleans are left as they are.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Sequence

aten = torch.ops.aten

_WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
# These move elements about, in any dtype alike: only what they pick needs widening.
_PICKS = (
    aten.embedding.default,
    aten.index_select.default,
    aten.gather.default,
    aten.index.Tensor,
    aten.slice.Tensor,
    aten.select.int,
)
# These read a tensor's bits as another dtype, which has no meaning in float64.
REINTERPRETS = (aten.view.dtype,)


def evaluate(graph: fx.GraphModule, args: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The graph's results, its floating-point ones in float64.

    Args:
        graph: Of aten operators, returning a tuple of tensors.
        args: In the graph's order, in the dtypes that it was traced with; not changed. At most
            one operator's operands and results are held in float64, and what later ones use.
    """
    before = torch.get_default_dtype()
    # Also division of integers, and factories without a dtype, must give float64.
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            results: tuple[torch.Tensor, ...] = _Float64(graph).run(*args)
    finally:
        torch.set_default_dtype(before)
    return tuple(results)


class _Float64(fx.Interpreter):  # type: ignore[misc]
    """Arguments and constants are widened where they are used, so few are held in float64 at once.

    The interpreter itself lets go of each result after its last use.
    """

    def run_node(self, node: fx.Node) -> Any:
        self._node = node
        return super().run_node(node)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target not in _PICKS:
            args, kwargs = _widen((args, kwargs))
        if isinstance(target, torch._ops.OpOverload):
            target, args, kwargs = self._rewrite(target, args, kwargs)
        return _widen(super().call_function(target, args, kwargs))

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        return _widen(super().output(target, args, kwargs))

    def _rewrite(self, target: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
        args, kwargs = pytree.tree_map(_wide_dtype, (args, kwargs))
        if target in (aten._softmax.default, aten._log_softmax.default):
            return target, (*args[:2], False), {}  # half_to_float: there is no half here
        if target in (aten.view.default, aten._unsafe_view.default):
            return aten.reshape.default, args, kwargs  # layouts may differ in float64
        if target.name() in _ATTENTION:
            return _plain_attention, (), _by_name(target, args, kwargs)
        if target.name() == "aten::_fused_rms_norm":
            named = _by_name(target, args, kwargs)
            if named.get("eps") is None:  # the default is that of the dtype computed in
                named["eps"] = self._epsilon()
            return target, (), named
        if target.name() == "aten::nan_to_num":
            return target, (), self._bounds(_by_name(target, args, kwargs))
        return target, args, kwargs

    def _dtype(self) -> torch.dtype:
        """The dtype that the first operand had when the graph was traced."""
        first = self._node.args[0]
        assert isinstance(first, fx.Node)
        dtype: torch.dtype = first.meta["val"].dtype
        return dtype

    def _epsilon(self) -> float:
        wide = torch.promote_types(self._dtype(), torch.float32)
        return float(torch.finfo(wide).eps)

    def _bounds(self, named: dict[str, Any]) -> dict[str, Any]:
        dtype = self._dtype()
        if dtype.is_floating_point:
            for key, value in (
                ("posinf", torch.finfo(dtype).max),
                ("neginf", torch.finfo(dtype).min),
            ):
                if named.get(key) is None:
                    named[key] = value
        return named


_ATTENTION = {
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_fused_attention_overrideable",
}


def _plain_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **named: Any
) -> tuple[torch.Tensor | None, ...]:
    """Attention by its formula: the fused ones know no float64, and only result 0 is used.

    One head after the other, because the formula needs all scores at once.
    """
    mask = named.get("attn_mask", named.get("attn_bias"))
    heads, groups = query.shape[-3], key.shape[-3]
    result = query.new_empty(*query.shape[:-1], value.shape[-1])
    if mask is not None:
        mask = mask.expand(*query.shape[:-1], key.shape[-2])
    for at in itertools.product(*map(range, query.shape[:-2])):
        there = (*at[:-1], at[-1] * groups // heads)
        part, _ = aten._scaled_dot_product_attention_math(
            query[at][None, None],
            key[there][None, None],
            value[there][None, None],
            None if mask is None else mask[at][None, None],
            0.0,
            named.get("is_causal", False),
            scale=named.get("scale"),
        )
        result[at] = part[0, 0]
    return (result, *(None,) * 8)


def _by_name(target: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    names = [argument.name for argument in target._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _wide_dtype(value: Any) -> Any:
    return _WIDE.get(value, value) if isinstance(value, torch.dtype) else value


def _widen(value: Any) -> Any:
    return pytree.tree_map(_widen_one, value)


def _widen_one(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype in _WIDE:
        return value.to(_WIDE[value.dtype])
    return value
