"""What a traced graph says about rounding: how long its sums are, and what order it leaves open."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

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


def leaves_order_open(graph: fx.GraphModule) -> bool:
    """Whether the graph has an operator that may take equal elements in any order."""
    return any(
        node.target.name().partition("::")[2].partition(".")[0] in _OPEN
        for node in graph.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
    )
