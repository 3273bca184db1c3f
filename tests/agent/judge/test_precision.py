"""Who passes: honest float32 in any order. Who does not: whatever computes in less."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.agent.judge.inprocess import Target, wrong_families

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def tf32(value):
    return _cut(value, 13)


def bfloat16(value):
    return value.bfloat16().float()


def float16(value):
    return value.half().float()


def _cut(value, low):
    """Round to nearest with so many low bits of a float32 gone."""
    whole = value.contiguous().view(torch.int32)
    kept = (whole + (1 << (low - 1))) & -(1 << low)
    return torch.where(value.isfinite(), kept.view(torch.float32), value)


LOWER = [tf32, bfloat16, float16]


def softmax(x):
    return torch.softmax(x, -1)


def norm(x):
    return torch.nn.functional.layer_norm(x, x.shape[-1:])


def total(x):
    return x.sum(-1)


def axpy(x, y):
    return x * 1.7 + y


def rows(*shapes):
    return lambda: [torch.randn(*shape) for shape in shapes]


WORK = {
    "axpy": (axpy, rows((24, 333), (24, 333))),
    "gelu": (torch.nn.functional.gelu, rows((24, 333))),
    "exp": (torch.exp, rows((24, 333))),
    "softmax": (softmax, rows((24, 333))),
    "layer_norm": (norm, rows((24, 333))),
    "sum": (total, rows((16, 4096))),
    "mean of everything": (torch.mean, rows((64, 512))),
    "mm, K = 8": (torch.mm, rows((64, 8), (8, 48))),
    "mm, K = 4096": (torch.mm, rows((24, 4096), (4096, 32))),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("lower", LOWER)
@pytest.mark.parametrize("name", WORK)
def test_float32_on_rounded_arguments_fails(name, lower, device):
    function, make = WORK[name]
    target = Target(function, make, device=device)
    assert wrong_families(target, lambda *args: function(*map(lower, args)))
    assert wrong_families(target, lambda *args: lower(function(*args)))
    assert wrong_families(target, function) == []


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("lower", LOWER)
def test_one_rounded_step_in_the_middle_fails(lower, device):
    def soft(x):
        powers = lower(torch.exp(x - x.amax(-1, keepdim=True)))
        return powers / powers.sum(-1, keepdim=True)

    def scaled(x):
        apart = lower(x - x.mean(-1, keepdim=True))
        return apart * torch.rsqrt(apart.square().mean(-1, keepdim=True) + 1e-5)

    for function, honest in ((soft, softmax), (scaled, norm)):
        target = Target(honest, rows((24, 333)), device=device)
        assert wrong_families(target, function)


def by_blocks(x):
    return sum(part.sum(-1) for part in x.split(64, -1))


def backwards(x):
    return x.flip(-1).sum(-1)


def shuffled(x):
    """As atomics add: a new order at each call."""
    return x[:, torch.randperm(x.shape[1], device=x.device)].sum(-1)


def one_by_one(x):
    return torch.from_numpy(np.cumsum(x.cpu().numpy(), -1, dtype=np.float32)[:, -1]).to(x.device)


def kahan(x):
    return x.double().sum(-1).float()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("program", [by_blocks, backwards, shuffled, one_by_one, kahan])
def test_sums_in_any_order_pass(program, device):
    for secret in range(3):
        target = Target(total, rows((32, 4096)), device=device)
        with np.errstate(invalid="ignore", over="ignore"):
            assert wrong_families(target, program, secret) == []


def split_k(x, w):
    return sum(a @ b for a, b in zip(x.split(256, 1), w.split(256, 0), strict=True))


def term_by_term(x, w):
    result = torch.zeros(x.shape[0], w.shape[1], device=x.device)
    for at in range(x.shape[1]):
        result += x[:, at : at + 1] * w[at]
    return result


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("program", [split_k, term_by_term])
@pytest.mark.parametrize("inner", [8, 2048])
def test_products_in_any_order_pass(program, inner, device):
    target = Target(torch.mm, rows((24, inner), (inner, 32)), device=device)
    assert wrong_families(target, program) == []


def online(x):
    """Softmax from two halves, put together afterwards, with a reciprocal."""
    halves = x.tensor_split(2, -1)
    # A half may be masked with -inf as a whole: any finite top will do for it then.
    tops = [half.amax(-1, keepdim=True).clamp(min=-1e38) for half in halves]
    sums = [torch.exp(h - t).sum(-1, keepdim=True) for h, t in zip(halves, tops, strict=True)]
    top = torch.maximum(*tops)
    whole = sum(s * torch.exp(t - top) for s, t in zip(sums, tops, strict=True))
    return torch.exp(x - top) * (1.0 / whole)


def welford(x):
    """Mean and variance from two halves, put together as Chan does."""
    parts = x.tensor_split(2, -1)
    counts = [part.shape[-1] for part in parts]
    means = [part.mean(-1, keepdim=True) for part in parts]
    squares = [(p - m).square().sum(-1, keepdim=True) for p, m in zip(parts, means, strict=True)]
    count = sum(counts)
    apart = means[1] - means[0]
    mean = means[0] + apart * (counts[1] / count)
    square = sum(squares) + apart.square() * (counts[0] * counts[1] / count)
    return (x - mean) * torch.rsqrt(square / count + 1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("honest", "program"), [(softmax, online), (norm, welford)], ids=["softmax", "layer_norm"]
)
def test_other_ways_to_the_same_answer_pass(honest, program, device):
    for secret in range(3):
        target = Target(honest, rows((48, 1000)), device=device)
        assert wrong_families(target, program, secret) == []


def narrow(*shapes):
    return lambda: [torch.randn(*shape).bfloat16() for shape in shapes]


def bfloat16_accumulator(x):
    result = torch.zeros(x.shape[0], dtype=torch.bfloat16, device=x.device)
    for at in range(x.shape[1]):
        result += x[:, at]
    return result


@pytest.mark.parametrize("device", DEVICES)
def test_a_bfloat16_target_wants_a_float32_accumulator(device):
    target = Target(total, narrow((16, 512)), device=device)
    assert wrong_families(target, lambda x: by_blocks(x.float()).bfloat16()) == []
    assert wrong_families(target, bfloat16_accumulator)
    target = Target(torch.mm, narrow((16, 512), (512, 24)), device=device)
    assert wrong_families(target, lambda x, w: split_k(x.float(), w.float()).bfloat16()) == []
    rounding = lambda x, w: sum(  # noqa: E731
        (a.float() @ b.float()).bfloat16()
        for a, b in zip(x.split(16, 1), w.split(16, 0), strict=True)
    )
    assert wrong_families(target, rounding)


def steps(x):
    """As model code has it: each step rounds to bfloat16."""
    scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    return x * scale * 1.5


@pytest.mark.parametrize("device", DEVICES)
def test_where_eager_rounds_at_each_step_a_program_may_or_may_not(device):
    target = Target(steps, narrow((32, 512)), device=device)
    assert wrong_families(target, lambda x: steps(x.float()).bfloat16()) == []

    def other_steps(x):
        scale = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)
        return x * 1.5 * scale.bfloat16()

    assert wrong_families(target, other_steps) == []


def convolve(x, w):
    return torch.nn.functional.conv2d(x, w, padding=1)


@pytest.mark.parametrize("device", DEVICES)
def test_where_eager_is_tf32_a_program_may_be_but_in_nothing_less(device, monkeypatch):
    # Simulated, so that it is the same with and without cuDNN.
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)

    def eager(x, w):
        return convolve(tf32(x), tf32(w))

    def other_order(x, w):
        halves = zip(tf32(x).tensor_split(2, 1), tf32(w).tensor_split(2, 1), strict=True)
        return sum(convolve(a, b) for a, b in halves)

    target = Target(convolve, rows((2, 32, 14, 14), (16, 32, 3, 3)), device=device, eager=eager)
    assert wrong_families(target, other_order) == []
    assert wrong_families(target, convolve) == []
    for secret in range(3):
        lower = wrong_families(target, lambda x, w: convolve(bfloat16(x), bfloat16(w)), secret)
        assert "normal" in lower
    strict = Target(convolve, rows((2, 32, 14, 14), (16, 32, 3, 3)), device=device)
    assert wrong_families(strict, eager)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("lower", LOWER)
def test_integers_and_booleans_from_rounded_arguments_fail(lower, device):
    target = Target(lambda x: x.argmax(-1), rows((200, 333)), device=device)
    assert wrong_families(target, lambda x: lower(x).argmax(-1))
    target = Target(lambda x, y: x > y, rows((200, 333), (1, 333)), device=device)
    assert wrong_families(target, lambda x, y: lower(x) > lower(y))
    assert wrong_families(target, lambda x, y: y < x) == []
