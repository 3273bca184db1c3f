"""The check at neighbouring sizes, at the smallest ones, and of arguments changed in place."""

from __future__ import annotations

import pytest
import torch

from tests.agent.judge.inprocess import Target, judged, size

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def relu(device, *shape):
    return Target(torch.relu, lambda: [torch.randn(*shape)], device=device)


def honest(at):
    at["out"].copy_(torch.relu(at["x0"]))


def whole_tiles(at):
    """Right for sizes that are multiples of 32 only."""
    count = at["x0"].numel() // 32 * 32
    at["out"].view(-1)[:count] = torch.relu(at["x0"].view(-1)[:count])


@pytest.mark.parametrize("device", DEVICES)
def test_neighbours_are_checked_and_named(device):
    sizes = [
        size(relu(device, 64, 32), honest),
        size(relu(device, 65, 32), honest, label="@rows=65"),
        size(relu(device, 1, 32), honest, label="@rows=1"),
    ]
    checked = judged(*sizes)
    assert checked.failure is None
    names = [family.family for family in checked.families]
    assert names.count("normal") == 2
    assert names[-4:] == [
        "normal @rows=65", "structured @rows=65", "normal @rows=1", "structured @rows=1",
    ]  # fmt: skip
    assert all(family.ok for family in checked.families)


@pytest.mark.parametrize("device", DEVICES)
def test_a_program_for_its_own_size_alone_fails_at_a_neighbour(device):
    checked = judged(
        size(relu(device, 64, 33), whole_tiles),
        size(relu(device, 65, 33), whole_tiles, label="@rows=65"),
        size(relu(device, 67, 33), honest, label="@rows=67"),
    )
    assert checked.failure.code == "wrong-answer"
    assert checked.failure.evidence["family"] == "normal @rows=65"
    assert "never written" in checked.failure.evidence["pattern"]
    assert checked.families[-1].family == "normal @rows=65"
    assert not checked.families[-1].ok


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(0, 7), (3, 0), (1,), (1, 1), ()])
def test_no_elements_or_one_are_no_special_case(shape, device):
    def reference(x):
        return torch.relu(x), x > 0, (x * 2).to(torch.bfloat16)

    def program(at):
        for name, value in zip(("out", "out1", "out2"), reference(at["x0"]), strict=True):
            at[name].copy_(value)

    target = Target(reference, lambda: [torch.randn(shape)], device=device)
    assert judged(size(target, program)).failure is None


def test_one_element_can_be_wrong():
    checked = judged(size(relu("cpu", 1), lambda at: at["out"].copy_(at["x0"])))
    assert checked.failure.code == "wrong-answer"
    assert checked.failure.evidence["first"] == [0]


def norm(x, seen):
    """The normalised rows, and what the count of rows seen becomes."""
    return torch.softmax(x, -1), seen + x.sum(0)


def in_place(device):
    def make():
        return [torch.randn(20, 33), torch.rand(33)]

    return Target(norm, make, device=device, mutated=["x1"])


def update(at):
    at["out"].copy_(torch.softmax(at["x0"], -1))
    at["x1"].add_(at["x0"].sum(0))


@pytest.mark.parametrize("device", DEVICES)
def test_an_argument_changed_by_intent_is_an_answer(device):
    assert judged(size(in_place(device), update)).failure is None


def forgets(at):
    at["out"].copy_(torch.softmax(at["x0"], -1))


def changes_the_other(at):
    update(at)
    at["x0"][3, 3] = 1


def changes_twice(at):
    update(at)
    at["x1"].add_(at["x0"].sum(0))


def beside(at):
    update(at)
    at["x1"].as_strided((1,), (1,), at["x1"].storage_offset() + 33).fill_(0.0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("program", "code"),
    [
        (forgets, "wrong-answer"), (changes_twice, "wrong-answer"),
        (changes_the_other, "argument-changed"), (beside, "out-of-bounds"),
    ],
)  # fmt: skip
def test_what_a_program_must_not_do_to_its_arguments(program, code, device):
    failure = judged(size(in_place(device), program)).failure
    assert failure.code == code
    if code == "wrong-answer":
        assert failure.evidence["output"] == "x1"


def test_only_the_changed_argument_may_be_all_there_is():
    target = Target(lambda x: x * 2 + 1, lambda: [torch.randn(9, 9)], mutated=["x0"])
    assert target.spec.outputs == ()
    assert judged(size(target, lambda at: at["x0"].mul_(2).add_(1))).failure is None
    assert judged(size(target, lambda at: None)).failure.code == "wrong-answer"


@pytest.mark.parametrize("device", DEVICES)
def test_a_second_call_may_differ_in_bits_but_not_be_wrong(device):
    target = Target(lambda x: x.sum(-1), lambda: [torch.randn(16, 1000)], device=device)

    def atomic(at):
        order = torch.randperm(1000, device=at["x0"].device)
        at["out"].copy_(at["x0"][:, order].sum(-1))

    assert judged(size(target, atomic)).failure is None
    calls = []

    def racy(at):
        calls.append(1)
        at["out"].copy_(at["x0"].sum(-1))
        if len(calls) == 2:
            at["out"][5] += 1

    failure = judged(size(target, racy)).failure
    assert failure.code == "unstable"


def test_every_call_carries_both_errors():
    target = Target(lambda x: x.sum(-1), lambda: [torch.randn(16, 1000)])
    checked = judged(size(target, lambda at: at["out"].copy_(at["x0"].flip(-1).sum(-1))))
    counted = [family for family in checked.families if not family.skipped]
    assert any(family.max_error > 0 for family in counted)
    assert any(family.eager_error > 0 for family in counted)
    assert all(family.worst <= 1 for family in counted)
