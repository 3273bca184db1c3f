"""Tensors as arguments: which can be handed to a program, copied with their layout."""

from __future__ import annotations

import torch
from torch import nn

from agent.errors import TaskError
from agent.usercode import one_line

DTYPES = (
    "float32",
    "bfloat16",
    "float16",
    "float64",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
)


def check_tensor(tensor: torch.Tensor, what: str) -> None:
    """Refuse what a program could not be handed: only plain dense tensors can be."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    fault = ""
    if tensor.layout is not torch.strided:
        fault = "is sparse"
    elif tensor.is_quantized or tensor.is_complex() or dtype not in DTYPES:
        fault = f"has the dtype {dtype}"
    elif type(tensor) not in (torch.Tensor, nn.Parameter, nn.Buffer):
        fault = f"is a {one_line(type(tensor).__name__, 60)}, not a plain tensor"
    elif tensor.is_neg():
        fault = "is a negated view"
    if fault:
        raise TaskError(
            f"{what} {fault}, which is not supported",
            f"use a dense tensor of {', '.join(DTYPES)}",
            code="task-dtype",
        )


def own_memory(tensor: torch.Tensor, device: str | None = None) -> torch.Tensor:
    """A copy with the same strides, in memory of its own; repeated elements stay repeated.

    Args:
        tensor: Any plain tensor.
        device: Where the copy goes; None for where the tensor is.
    """
    stored = tensor[tuple(slice(0, 1) if s == 0 else slice(None) for s in tensor.stride())]
    copy = torch.empty_strided(
        stored.shape, stored.stride(), dtype=tensor.dtype, device=device or tensor.device
    )
    try:
        copy.copy_(stored)
    except RuntimeError:  # windows that overlap in part, as of unfold()
        return tensor.to(copy.device, copy=True, memory_format=torch.contiguous_format)
    return copy.expand(tensor.shape)
