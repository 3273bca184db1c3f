"""Group norm of an image decoder, 32 groups, bfloat16."""

import torch
import torch.nn.functional as F


def reference(x, weight, bias):
    return F.group_norm(x, 32, weight, bias)


def inputs(device):
    side = 64 if device == "cpu" else 128
    x = torch.randn(1, 512, side, side, device=device, dtype=torch.bfloat16)
    weight = torch.randn(512, device=device, dtype=torch.bfloat16)
    bias = torch.randn(512, device=device, dtype=torch.bfloat16)
    return x, weight, bias
