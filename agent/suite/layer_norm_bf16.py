"""Layer norm with weight and bias, bfloat16."""

import torch
import torch.nn.functional as F


def reference(x, weight, bias):
    return F.layer_norm(x, weight.shape, weight, bias)


def inputs(device):
    rows, width = (1024 if device == "cpu" else 8192), 1536
    x = torch.randn(rows, width, device=device, dtype=torch.bfloat16)
    weight = torch.randn(width, device=device, dtype=torch.bfloat16)
    bias = torch.randn(width, device=device, dtype=torch.bfloat16)
    return x, weight, bias
