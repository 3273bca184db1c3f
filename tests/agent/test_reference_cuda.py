"""References on a GPU: where their tensors live, what they take, what they leave behind."""

from __future__ import annotations

import pytest
import torch

from agent import settings
from agent.errors import TaskError
from agent.reference import Reference, load
from agent.task import TaskSource, open_task, suite_index

pytestmark = pytest.mark.gpu

LAYERS = (
    "class Model(nn.Module):\n  def __init__(self):\n    super().__init__()\n"
    "    self.conv = nn.Conv2d(3, 8, 3, bias=False); self.norm = nn.BatchNorm2d(8)\n"
    "    self.lstm = nn.LSTM(8, 8, batch_first=True)\n  def forward(self, x):\n"
    "    return self.lstm(self.norm(self.conv(x)).flatten(2).transpose(1, 2))[0]\n"
    "def get_inputs():\n  return [torch.randn(2, 3, 8, 8)]\n"
)


def source(text: str, kind: str = "plain") -> TaskSource:
    return TaskSource(kind, "t", "", f"import torch\nfrom torch import nn\n{text}", "cuda")


def check(reference: Reference, tolerance: float) -> None:
    args = reference.sample(3)
    assert all(arg.is_cuda for arg in args)
    exact = reference.float64(args)
    mutated = [arg.mutated for arg in reference.spec.args]
    results = [*reference.function(*args)]
    results += [x for x, changed in zip(args, mutated, strict=True) if changed]
    for eager, wide in zip(results, exact, strict=True):
        assert wide.is_cuda
        assert wide.dtype is torch.float64
        torch.testing.assert_close(eager.double(), wide, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", suite_index())
def test_the_suite_has_its_shapes_and_lets_go_of_its_memory(name: str) -> None:
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    reference = load(open_task(f"suite:{name}", "cuda"))
    spec = reference.spec
    assert spec.device == "cuda"
    assert {arg.alignment for arg in spec.args} == {256}
    largest = max(spec.read_bytes + spec.write_bytes, 1 << 26)
    if name != "embedding":  # whose table is much larger than what is read of it
        assert torch.cuda.max_memory_allocated() - before < 16 * largest
    assert torch.cuda.memory_allocated() - before < 1 << 20
    check(reference, 5e-2 if "bfloat16" in str(spec.args) else 1e-3)


def test_layers_with_operators_of_their_own_on_a_gpu() -> None:
    reference = load(source(LAYERS, "kernelbench"))
    names = [str(node.target) for node in reference.graph.graph.nodes]
    assert not any("cudnn" in name for name in names)
    assert torch.backends.cudnn.enabled
    check(reference, 1e-2)  # convolutions of eager are in tf32


def test_attention() -> None:
    check(
        load(source(
            "def reference(q, k):\n"
            "  return nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True)\n"
            "def inputs(device):\n  q = torch.randn(2, 4, 64, 64, device=device).bfloat16()\n"
            "  return q, torch.randn_like(q)\n"
        )),
        5e-2,
    )  # fmt: skip


def test_inputs_are_made_on_the_device_if_they_can_be() -> None:
    made = "def reference(x): return x + 1\ndef inputs():\n"
    on_gpu = load(source(made + "  assert torch.ones(1).is_cuda\n  return torch.randn(8)\n"))
    assert on_gpu.sample(1)[0].is_cuda
    mixed = load(source(made + "  return torch.randn(8) + torch.Tensor(torch.ones(8).tolist())\n"))
    assert mixed.sample(1)[0].is_cuda
    assert torch.ones(1).device.type == "cpu"


def test_strides_survive_the_move() -> None:
    reference = load(source(
        "def reference(q, k): return q + 1, k * 2\n"
        "def inputs(): return torch.arange(48.).view(4, 12).chunk(2, -1)\n"
    ))  # fmt: skip
    assert [arg.strides for arg in reference.spec.args] == [(12, 1), (12, 1)]


def test_in_place_and_ranges() -> None:
    reference = load(source(
        "MUTATES = ('x',)\nRANGES = {'rows': (1, 40)}\ndef reference(x, y): x.add_(y)\n"
        "def inputs(device, rows=12):\n"
        "  return torch.randn(rows, 8, device=device), torch.randn(8, device=device)\n"
    ))  # fmt: skip
    assert len(reference.spec.neighbours) == 5
    check(reference, 1e-5)


def test_too_large_for_the_gpu() -> None:
    text = "def reference(x): return x + 1\ndef inputs(device):\n"
    with pytest.raises(TaskError) as caught:
        load(source(text + "  return torch.empty(1 << 42, device=device)\n"))
    assert caught.value.code == "task-memory"
    check(load(source(text + "  return torch.ones(8, device=device)\n")), 1e-5)


def test_flags_of_the_gpu_are_left_alone() -> None:
    before = settings.snapshot()
    text = "def reference(x): return x + 1\ndef inputs(): return torch.ones(8)\n"
    for flag in ("cuda.matmul.allow_tf32", "cudnn.benchmark"):
        with pytest.raises(TaskError) as caught:
            load(source(f"torch.backends.{flag} = True\n{text}"))
        assert caught.value.code == "task-settings"
    assert not settings.changed(before, settings.snapshot())
