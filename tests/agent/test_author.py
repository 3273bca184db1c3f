from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

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
