"""Running sums of the last dimension, float32."""

import torch


def reference(x):
    return torch.cumsum(x, dim=-1)


def inputs(device):
    rows, width = (1024, 1024) if device == "cpu" else (4096, 4096)
    return torch.randn(rows, width, device=device)
