from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from agent.errors import MachineError
from agent.judge import shelf
from agent.judge.cases import Cases, Refused
from agent.judge.inputs import FAMILIES
from agent.judge.shelf import Shelf, peak_bytes
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
    for family in sorted(set(FAMILIES) - {"signed"}):
        case = made.get(family, 0)
        assert 0 <= float(case.args[0].min()) <= float(case.args[0].max()) <= 1
        assert made.get(family, 0) is case
    with pytest.raises(Refused):
        made.get("signed", 0)


def test_cases_differ_by_number_family_and_secret():
    first, other = cases(LOSS), cases(LOSS, secret=2)
    seeds = {first.seed("normal", 0), first.seed("normal", 1), first.seed("wide", 0),
             other.seed("normal", 0)}  # fmt: skip
    assert len(seeds) == 4
    assert cases(LOSS).seed("normal", 0) == first.seed("normal", 0)


def test_a_case_without_room_is_made_again_and_is_the_same():
    made = cases(LOSS, shelf=Shelf("cpu", 12_000))
    first = made.get("normal", 0)
    assert made.get("normal", 0) is first
    late = [made.get("normal", number) for number in range(1, 5)][-1]
    again = made.get("normal", 4)
    assert again is not late
    assert all(bool((a == b).all()) for a, b in zip(again.args, late.args, strict=True))
    assert made.get("normal", 0) is first


def test_the_target_used_longest_ago_makes_room():
    kept = Shelf("cpu", 12_000)
    first, other = cases(LOSS, shelf=kept), cases(LOSS, secret=2, shelf=kept)
    before = first.get("normal", 0)
    for number in range(3):
        other.get("normal", number)
    assert first.get("normal", 0) is not before
    assert first.get("normal", 0).bytes < 12_000


def test_how_much_a_graph_takes_is_read_from_it():
    x = torch.randn(10, 100)
    grows = make_fx(lambda x: ((x * 2).exp() + 1).sum())(x)
    # Two of these at a time: what is read and what is made of it.
    assert 2 * 8000 <= peak_bytes(grows) <= 3 * 8000 + 8
    keeps = make_fx(lambda x: torch.cat([x * 2, x * 3, x * 4, x * 5]))(x)
    assert 8 * 8000 <= peak_bytes(keeps) <= 9 * 8000


def test_a_label_is_said_with_the_family():
    made = cases(LOSS, label="@rows=7")
    assert made.get("normal", 0).family == "normal @rows=7"


def test_what_the_reference_raises_on_is_said(monkeypatch):
    made = cases(LOSS)

    def refuse(*_):
        raise ValueError("outside of the domain")

    monkeypatch.setattr(made.reference, "function", refuse)
    with pytest.raises(Refused, match="domain"):
        made.get("wide", 0)


def test_a_card_that_is_too_small_is_said_before(monkeypatch):
    monkeypatch.setattr(shelf, "_free", lambda: 3 << 30)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    kept = Shelf("cuda", 100)
    kept.put("a", 1, "case", 10)
    kept.make_room(2 << 30, "softmax")
    assert kept.get("a", 1) == "case"
    with pytest.raises(MachineError, match=r"softmax takes about 4\.0 GiB.*3\.0 GiB are free"):
        kept.make_room(4 << 30, "softmax")
    assert kept.get("a", 1) is None


def test_running_out_of_memory_is_no_refusal(monkeypatch):
    made = cases(LOSS)

    def starve(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(made.reference, "function", starve)
    with pytest.raises(MachineError) as caught:
        made.get("normal", 0)
    assert caught.value.code == "device-memory"
