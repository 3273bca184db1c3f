"""Nothing of the judge's goes through the host: every tensor is made where the target lies."""

from __future__ import annotations

import pytest
import torch
from torch.overrides import TorchFunctionMode

from agent.judge.arena import GUARD_BYTE, Arena, Wanted, lay_out
from agent.judge.cases import Cases
from agent.judge.inputs import FAMILIES, NUDGED, nudge, transform
from agent.judge.report import describe
from agent.judge.tolerance import answer, compare
from tests.agent.judge.inprocess import Target, judged, size

_MAKERS = {
    torch.empty, torch.zeros, torch.ones, torch.full, torch.tensor, torch.arange, torch.linspace,
    torch.rand, torch.randn, torch.randint, torch.randperm, torch.empty_strided,
}  # fmt: skip


class NamesItsDevice(TorchFunctionMode):
    """Fails on a tensor made without saying where."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        assert func not in _MAKERS or "device" in (kwargs or {}), f"{func} names no device"
        return func(*args, **(kwargs or {}))


def softmax():
    return Target(lambda x, w: torch.softmax(x, -1) * w,
                  lambda: [torch.randn(24, 64), torch.rand(64)],
                  kinds={"x1": "weight"})  # fmt: skip


def test_every_tensor_names_its_device():
    target = softmax()
    args = target.sample(1)
    exact, eager = target.float64(args), target.function(*args)
    layout = lay_out([Wanted("x", "float32", (4, 4), (4, 1)), Wanted("e", "int8", (0,), (1,))])
    arena = Arena(torch.zeros(layout.size, dtype=torch.uint8))
    case = Cases(target, 1).get("normal", 0)
    generator = torch.Generator().manual_seed(1)
    with NamesItsDevice():
        for family in FAMILIES:
            transform(family, args, target.spec.args, 1)
        nudge(args, args, target.spec.args, 1)
        for broken in (1.0, float("nan")):
            known = answer(exact[0], eager[0] * broken, exact[0], 4.0, generator)
            compare(eager[0], known)
            found = compare(eager[0] + 1, known)
            describe(case, target.spec.outputs[0], eager[0] + 1, known, found)
        arena.fill_guards(layout)
        arena.tensor(layout.slots["e"])
        arena.bytes[0] = 0
        assert arena.broken_guard(layout) is not None


def test_a_check_makes_nothing_elsewhere():
    """All but the argument maker, which is the task's own."""
    target = softmax()
    strided = Target(lambda x: (x * 2, x > 0), lambda: [torch.randn(9, 8)[:, :5]])
    kept = {id(one): [one.sample(seed) for seed in range(30)] for one in (target, strided)}

    def program(at):
        at["out"].copy_(torch.softmax(at["x0"], -1) * at["x1"])

    def doubled(at):
        at["out"].copy_(at["x0"] * 2)
        at["out1"].copy_(at["x0"] > 0)

    for one, run in ((target, program), (strided, doubled)):
        samples = kept[id(one)]
        one.sample = lambda seed, samples=samples: [
            value.clone() if value.is_contiguous() else value for value in samples[seed % 30]
        ]
        with NamesItsDevice():
            assert judged(size(one, run)).failure is None


@pytest.mark.gpu
def test_on_the_gpu_everything_is_on_the_gpu():
    target = Target(lambda x: torch.softmax(x, -1), lambda: [torch.randn(64, 100)], device="cuda")
    cases = Cases(target, 1)
    for family in (*FAMILIES, NUDGED):
        if family == "signed":
            continue
        case = cases.get(family, 0)
        assert all(value.is_cuda for value in case.args)
        assert case.answers[0].exact.is_cuda
        assert case.answers[0].allowed.is_cuda


@pytest.mark.gpu
def test_guards_and_alignment_on_the_gpu():
    layout = lay_out([
        Wanted("x", "float32", (5, 7), (7, 1), 256), Wanted("y", "bfloat16", (3,), (2,), 2),
    ])  # fmt: skip
    arena = Arena(torch.zeros(layout.size, dtype=torch.uint8, device="cuda"))
    arena.bytes.fill_(GUARD_BYTE)
    x = arena.tensor(layout.slots["x"])
    assert x.data_ptr() == arena.address(layout.slots["x"])
    assert x.data_ptr() % 512 == 256
    x.fill_(1.0)
    arena.settle()
    assert arena.broken_guard(layout) is None
    slot = layout.slots["y"]
    arena.bytes[slot.offset + slot.span + 9] = 0
    assert arena.broken_guard(layout) == ("y", 10)
