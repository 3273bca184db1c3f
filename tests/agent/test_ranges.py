"""Targets with ranged dimensions: their sizes, their neighbours, and what is refused."""

from __future__ import annotations

import json

import pytest
import torch

from agent.errors import TaskError
from agent.reference import Reference, load
from agent.task import TargetSpec, TaskSource

SOFTMAX = "def reference(x):\n    return x.softmax(-1)\n"
MODEL = (
    "class Model(nn.Module):\n  def __init__(self, width):\n    super().__init__()\n"
    "    self.layer = nn.Linear(width, 4)\n  def forward(self, x):\n    return self.layer(x)\n"
    "def get_inputs():\n  return [torch.randn(rows, width)]\n"
    "def get_init_inputs():\n  return [width]\n"
)


def ranged(
    ranges: str, reference: str = SOFTMAX, signature: str = "rows=12", shape: str = "rows, 8",
    sizes: dict[str, int] | None = None,
) -> Reference:  # fmt: skip
    text = (
        f"RANGES = {ranges}\n{reference}def inputs({signature}):\n    return torch.randn({shape})\n"
    )
    return load(TaskSource("plain", "t", "", f"import torch\n{text}", "cpu"), sizes)


def model(text: str, sizes: dict[str, int] | None = None) -> Reference:
    text = f"import torch\nfrom torch import nn\n{text}{MODEL}"
    return load(TaskSource("kernelbench", "t", "", text, "cpu"), sizes)


def failure(*args: str, **kwargs: str) -> TaskError:
    with pytest.raises(TaskError) as caught:
        ranged(*args, **kwargs)
    assert caught.value.cure
    return caught.value


def test_a_plain_target_and_its_neighbours() -> None:
    reference = ranged('{"rows": (1, 40)}', signature="device, rows=12")
    spec = reference.spec
    assert (spec.sizes, spec.ranges) == ({"rows": 12}, {"rows": (1, 40)})
    assert [other.sizes["rows"] for other in spec.neighbours] == [1, 40, 11, 13, 7]
    for other in spec.neighbours:
        rows = other.sizes["rows"]
        assert other.args[0].shape == other.outputs[0].shape == (rows, 8)
        assert other.read_bytes == other.write_bytes == 32 * rows
        assert (other.ranges, other.neighbours) == (spec.ranges, ())
    assert TargetSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_one_size_alone() -> None:
    reference = ranged('{"rows": (1, 40)}', sizes={"rows": 3})
    assert reference.spec.sizes == {"rows": 3}
    assert reference.spec.neighbours == ()
    (x,) = reference.sample(1)
    assert x.shape == (3, 8)
    torch.testing.assert_close(reference.graph(x), reference.function(x))


def test_a_model_is_run_as_if_the_other_number_stood_there() -> None:
    text = 'RANGES = {"rows": (1, 8), "width": (2, 16)}\nrows = 4\nwidth = 2 * rows\n'
    spec = model(text).spec
    assert spec.sizes == {"rows": 4, "width": 8}
    other = model(text, {"width": 5})
    assert [arg.shape for arg in other.spec.args] == [(4, 5), (4, 5), (4,)]
    assert model(text, {"rows": 3}).spec.args[0].shape == (3, 6)


def test_the_same_weights_at_each_size() -> None:
    text = 'RANGES = {"rows": (1, 8)}\nrows = 4\nwidth = 8\n'
    weights = [model(text, {"rows": rows}).sample(0)[1] for rows in (1, 8)]
    assert torch.equal(*weights)


def test_python_branches_on_sizes_are_traced_at_each() -> None:
    text = "def reference(x):\n    return x.sum(0) if len(x) > 12 else x.cumsum(0)[-1] * 1\n"
    spec = ranged('{"rows": (1, 40)}', text).spec
    assert len(spec.neighbours) == 5
    reference = ranged('{"rows": (1, 40)}', text, sizes={"rows": 13})
    names = [str(node.target) for node in reference.graph.graph.nodes]
    assert "aten.sum.dim_IntList" in names


def test_empty_tensors_where_the_range_allows_them() -> None:
    spec = ranged('{"rows": (0, 40)}').spec
    assert spec.neighbours[0].outputs[0].shape == (0, 8)
    assert spec.neighbours[0].write_bytes == 0


def test_numbers_may_follow_the_size() -> None:
    text = 'RANGES = {"n": (1, 40)}\ndef reference(x, count): return x.sum(-1) / count\n'
    text += "def inputs(n=12): return torch.randn(n, n), n\n"
    spec = load(TaskSource("plain", "t", "", f"import torch\n{text}", "cpu")).spec
    assert [other.scalars["count"] for other in spec.neighbours] == [1, 24, 11, 13, 7]


@pytest.mark.parametrize(
    ("ranges", "given", "code", "says"),
    [
        ('{"rows": (1, 40)}', {"reference": "def reference(x): return x.view(-1, 32) + 1\n"},
         "task-raises", "at rows=6, which RANGES allows: line 3"),
        ('{"rows": (1, 40)}', {"shape": "5, 8"}, "task-ranges", "no shape depends on it"),
        ('{"rows": (1, 40)}', {"reference": "def reference(x):\n  y = x + 1\n"
         "  return (y, y * 2) if len(x) == 13 else y\n"}, "task-ranges", "at rows=13"),
        ('{"rows": (1, 40)}', {"signature": "rows=6 * 8"}, "task-ranges", "rows = 48 lies outside"),
        ('{"rows": (1, 40)}', {"signature": "rows=-3.0 + 9"}, "task-ranges", "no integer"),
    ],
)  # fmt: skip
def test_refused(ranges: str, given: dict[str, str], code: str, says: str) -> None:
    error = failure(ranges, **given)
    assert error.code == code, error.message
    assert says in error.message


def test_sizes_must_be_declared_and_in_range() -> None:
    for sizes, says in (({"row": 3}, "no ranged dimension row"), ({"rows": 41}, "(1, 40)")):
        with pytest.raises(TaskError) as caught:
            ranged('{"rows": (1, 40)}', sizes=sizes)
        assert caught.value.code == "task-ranges"
        assert says in caught.value.message
