import torch
from torch import nn


class Model(nn.Module):
    """A linear layer with in-place ReLU, dropout, and a layer that is never called."""

    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, depth), nn.ReLU(inplace=True), nn.Dropout(0.5))
        self.unused = nn.Linear(width, depth)
        self.scale = torch.rand(depth)

    def forward(self, x):
        return self.layers(x) * self.scale


def get_inputs():
    return [torch.randn(8, 32)]


def get_init_inputs():
    return [32, 16]
