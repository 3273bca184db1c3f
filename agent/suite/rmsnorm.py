"""RMSNorm as language models write it: computed in float32, scaled in bfloat16."""

import torch


def reference(x, weight):
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * wide.to(x.dtype)


def inputs(device):
    rows, width = (512 if device == "cpu" else 4096), 4096
    x = torch.randn(rows, width, device=device, dtype=torch.bfloat16)
    weight = torch.randn(width, device=device, dtype=torch.bfloat16)
    return x, weight
