"""Layer norm with weight and bias, float32."""

import torch
import torch.nn.functional as F


def reference(x, weight, bias):
    return F.layer_norm(x, weight.shape, weight, bias)


def inputs(device):
    rows, width = (2048 if device == "cpu" else 8192), 768
    x = torch.randn(rows, width, device=device)
    weight = torch.randn(width, device=device)
    bias = torch.randn(width, device=device)
    return x, weight, bias
