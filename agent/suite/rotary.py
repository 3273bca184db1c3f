"""Rotary position embedding as language models write it, bfloat16."""

import torch


def rotate_half(x):
    left, right = x.chunk(2, dim=-1)
    return torch.cat((-right, left), dim=-1)


def reference(x, cos, sin):
    return x * cos + rotate_half(x) * sin


def inputs(device):
    heads, positions, width = (8, 1024, 128) if device == "cpu" else (32, 4096, 128)
    x = torch.randn(heads, positions, width, device=device, dtype=torch.bfloat16)
    place = torch.arange(positions, device=device, dtype=torch.float32)
    step = torch.arange(0, width, 2, device=device, dtype=torch.float32)
    angle = torch.outer(place, 10000.0 ** (-step / width)).repeat(1, 2)
    return x, angle.cos().to(torch.bfloat16), angle.sin().to(torch.bfloat16)
