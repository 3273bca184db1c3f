"""The least that must be read: no honest program may be told that it reads too little."""

from __future__ import annotations

import pytest
import torch

from agent.reference import load
from agent.task import TaskSource
from agent.traffic import changed_bytes


def read(body: str, inputs: str, params: str = "x") -> int:
    text = "import torch\nfrom torch.nn import functional as F\n"
    text += f"def reference({params}):\n    return {body}\ndef inputs():\n    return {inputs}\n"
    return load(TaskSource("plain", "t", "", text, "cpu")).spec.read_bytes


@pytest.mark.parametrize(
    ("body", "inputs", "elements"),
    [
        ("x.tril() + 1", "torch.randn(3, 4, 4)", 3 * 10),
        ("x.triu(1) + 1", "torch.randn(4, 6)", 5 + 4 + 3 + 2),
        ("x.chunk(2, -1)[0] + 1", "torch.randn(4, 6)", 12),
        ("x.chunk(2, -1)[0] * x.chunk(2, -1)[1]", "torch.randn(4, 6)", 24),
        ("x.t()[:2].contiguous() + 1", "torch.randn(4, 6)", 8),
        ("x.view(2, 2, 6)[1].sum(0) + x.sum(0)", "torch.randn(4, 6)", 24),
        ("F.avg_pool2d(x, 1, stride=2)", "torch.randn(1, 3, 8, 8)", 3 * 16),
        ("F.max_pool2d(x, 3, 2, 1)", "torch.randn(1, 3, 8, 8)", 3 * 64),
        ("F.interpolate(x, scale_factor=0.5)", "torch.randn(1, 3, 8, 8)", 3 * 16),
        ("(x.exp() * 2).bfloat16()[:2]", "torch.randn(4, 6)", 12),
        ("x.softmax(-1)[:, 0].contiguous() + 1", "torch.randn(4, 6)", 24),
        ("x.exp()[0], x.sum(0)", "torch.randn(4, 6)", 24),
        ("torch.softmax(x, -1)", "torch.randn(5, 1).expand(5, 7)", 5),
    ],
)  # fmt: skip
def test_parts_of_one_input(body: str, inputs: str, elements: int) -> None:
    assert read(body, inputs) == 4 * elements


def test_a_pointwise_convolution_with_a_stride_leaves_gaps() -> None:
    inputs = "torch.randn(1, 3, 8, 8), torch.randn(5, 3, 1, 1)"
    assert read("F.conv2d(x, w, stride=2)", inputs, "x, w") == 4 * (3 * 16 + 15)
    inputs = "torch.randn(1, 3, 8, 8), torch.randn(3, 5, 1, 1)"
    assert read("F.conv_transpose2d(x, w, stride=2)", inputs, "x, w") == 4 * (3 * 64 + 15)


def test_what_a_mask_hides_need_not_be_read() -> None:
    inputs = "torch.randn(8, 8), torch.ones(8, 8).triu(1).bool()"
    assert read("x.masked_fill(m, -1.0).softmax(-1)", inputs, "x, m") == 64 + 4 * 36
    inputs = "torch.arange(8)[:, None] < 7, torch.randn(8, 8), torch.randn(8, 8)"
    assert read("torch.where(m, x, y)", inputs, "m, x, y") == 8 + 4 * 64
    inputs = "torch.arange(8)[:, None] < 7, torch.randn(8, 8)"
    assert read("torch.where(m, x, 0.0)", inputs, "m, x") == 8 + 4 * 56


def test_stretches_of_memory_that_differ() -> None:
    before = torch.zeros(20, 8)
    after = before.clone()
    assert changed_bytes(before, after) == 0
    after[3, 1] = 1
    after[3, 5] = 1
    after[19] = 1
    assert changed_bytes(before, after) == 2 * 32
    assert changed_bytes(before.t(), after.t()) == 2 * 32
    assert changed_bytes(torch.zeros(9), torch.ones(9)) == 36
    assert changed_bytes(torch.zeros(3, dtype=torch.int8), torch.ones(3, dtype=torch.int8)) == 3
    assert changed_bytes(torch.zeros(()), torch.ones(())) == 4
