"""Batch norm with given statistics, then ReLU, float32."""

import torch
import torch.nn.functional as F


def reference(x, mean, var, weight, bias):
    return F.relu(F.batch_norm(x, mean, var, weight, bias))


def inputs(device):
    batch, channels = (2 if device == "cpu" else 32), 64
    x = torch.randn(batch, channels, 112, 112, device=device)
    mean = torch.randn(channels, device=device)
    var = torch.rand(channels, device=device) + 0.5
    weight = torch.randn(channels, device=device)
    bias = torch.randn(channels, device=device)
    return x, mean, var, weight, bias
