"""The gated activation of a language model's MLP, bfloat16."""

import torch
import torch.nn.functional as F


def reference(gate, up):
    return F.silu(gate) * up


def inputs(device):
    rows, width = (128 if device == "cpu" else 4096), 14336
    gate = torch.randn(rows, width, device=device, dtype=torch.bfloat16)
    up = torch.randn(rows, width, device=device, dtype=torch.bfloat16)
    return gate, up
