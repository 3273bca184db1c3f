from __future__ import annotations

import pytest

from agent.judge.cases import Cases, Refused
from agent.judge.inputs import FAMILIES
from agent.reference import load
from agent.task import TaskSource

LOSS = """
import torch
def reference(x, y):
    return torch.nn.functional.binary_cross_entropy(x, y)
def inputs():
    return [torch.rand(20, 30), torch.rand(20, 30).round()]
"""


def cases(text, secret=1, **more):
    return Cases(load(TaskSource("plain", "task", "", text, "cpu")), secret, **more)


def test_a_reference_with_a_domain_is_judged_within_it():
    made = cases(LOSS)
    for family in FAMILIES:
        case = made.get(family, 0)
        assert 0 <= float(case.args[0].min()) <= float(case.args[0].max()) <= 1
        assert made.get(family, 0) is case


def test_cases_differ_by_number_family_and_secret():
    first, other = cases(LOSS), cases(LOSS, secret=2)
    seeds = {first.seed("normal", 0), first.seed("normal", 1), first.seed("wide", 0),
             other.seed("normal", 0)}  # fmt: skip
    assert len(seeds) == 4
    assert cases(LOSS).seed("normal", 0) == first.seed("normal", 0)


def test_old_cases_make_room():
    made = cases(LOSS, room=12_000)
    first = made.get("normal", 0)
    for number in range(1, 5):
        made.get("normal", number)
    again = made.get("normal", 0)
    assert again is not first
    assert all(bool((a == b).all()) for a, b in zip(again.args, first.args, strict=True))


def test_what_the_reference_raises_on_is_said(monkeypatch):
    made = cases(LOSS)

    def refuse(*_):
        raise ValueError("outside of the domain")

    monkeypatch.setattr(made.reference, "function", refuse)
    with pytest.raises(Refused, match="domain"):
        made.get("wide", 0)
