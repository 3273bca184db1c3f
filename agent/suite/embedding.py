"""Rows of a language model's embedding table, bfloat16."""

import torch
import torch.nn.functional as F


def reference(tokens, table):
    return F.embedding(tokens, table)


def inputs(device):
    count, words, width = (2048, 8192, 1024) if device == "cpu" else (4096, 128256, 4096)
    tokens = torch.randint(words, (count,), device=device)
    table = torch.randn(words, width, device=device, dtype=torch.bfloat16)
    return tokens, table
