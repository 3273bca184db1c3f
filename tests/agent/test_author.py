from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agent.operations import MOST_CHARS, MOST_LINES
from agent.reference import Reference, load
from agent.task import TargetSpec, TaskSource, open_task
from agent.workers import author

if TYPE_CHECKING:
    import pytest


def test_where_the_drafter_does_not_write_the_target_is_loaded_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load_as_cuda(task: TaskSource) -> Reference:
        reference = load(replace(task, device="cpu"))
        reference.spec = replace(reference.spec, device=task.device)
        return reference

    monkeypatch.setattr(author, "load", load_as_cuda)
    task = open_task("suite:softmax_decode", "cuda")
    answer = author.load_target({"target": 1, "task": task.to_json()})
    assert TargetSpec.from_json(answer["spec"]).device == "cuda"
    assert answer["refusal"] == "the drafter writes C++ for the CPU only so far"
    ask = {"target": 1, "action": "draft", "tried": [], "parent_schedule": None, "failure": None}
    assert author.propose(ask) == {"exhausted": answer["refusal"]}


def graph_of(text: str) -> list[str]:
    task = TaskSource("plain", "t", "", f"import torch\n{text}", "cpu")
    return list(author.load_target({"target": 1, "task": task.to_json()})["graph"])


def test_the_operations_are_lines_with_what_each_gives() -> None:
    graph = graph_of(
        "def reference(x, w):\n"
        "    y = torch.softmax(x @ w, -1)\n"
        "    return y.to(torch.bfloat16), y.max(-1).indices\n"
        "def inputs():\n    return torch.randn(3, 4), torch.randn(4, 5)\n"
    )
    assert graph[:3] == [
        "mm: float32[3, 5] = mm(x, w)",
        "_softmax: float32[3, 5] = _softmax(mm, -1, False)",
        "_to_copy: bfloat16[3, 5] = _to_copy(_softmax, dtype=bfloat16)",
    ]
    assert graph[-2:] == ["out = _to_copy", "out1 = getitem_1"]


def test_what_becomes_of_a_changed_argument_is_told() -> None:
    graph = graph_of(
        "MUTATES = ('cache',)\n"
        "def reference(cache, x):\n    cache.add_(x)\n    return x * 2\n"
        "def inputs():\n    return torch.randn(3), torch.randn(3)\n"
    )
    assert graph[-1].startswith("what becomes of changed argument 1 = add")
    assert graph[-2] == "out = mul"


def test_a_long_reference_is_told_by_its_beginning_and_its_end() -> None:
    graph = graph_of(
        "def reference(x):\n"
        "    for n in range(400):\n        x = x + n\n"
        "    return torch.cat([x] * 60)\n"
        "def inputs():\n    return torch.randn(3)\n"
    )
    assert len(graph) == MOST_LINES
    assert all(len(line) <= MOST_CHARS and line.isprintable() for line in graph)
    assert graph[0].startswith("add: float32[3] = add(x, 0)")
    assert graph[-1] == "out = cat"
    assert any(line.startswith("... ") and line.endswith(" more") for line in graph)


def test_what_is_too_long_for_the_drafter_is_loaded_all_the_same() -> None:
    text = "import torch\ndef reference(x):\n    for n in range(900):\n        x = x + n\n"
    text += "    return x\ndef inputs():\n    return torch.randn(3)\n"
    task = TaskSource("plain", "t", "", text, "cpu")
    answer = author.load_target({"target": 1, "task": task.to_json()})
    assert answer["refusal"] == "the reference is too long for the drafter"
    assert answer["graph"]
