"""Work left out because these numbers, usually, do not need it: a family finds each."""

from __future__ import annotations

import pytest
import torch

from tests.agent.judge.inprocess import Target, wrong_families

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def normal(*shapes):
    return lambda: [torch.randn(*shape) for shape in shapes]


def positive(*shapes):
    return lambda: [torch.rand(*shape) for shape in shapes]


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v


def window(q, k, v):
    return attention(q, k[..., 64:, :], v[..., 64:, :])


def decayed(x):
    """A running state that forgets: after 40 steps of usual numbers nothing is left."""
    state = torch.zeros_like(x[0])
    for row in x:
        state = 0.5 * state + row
    return state


def recent(x):
    return decayed(x[-20:])


def prefix(x):
    """Only as far as usual numbers go: a sum that stops where terms are usually small."""
    return x[:, :-8].sum(-1)


def by_tiles(share):
    """A sum that leaves out tiles of 64 which are small beside the row's largest element."""

    def program(x):
        tiles = x.split(64, -1)
        top = x.abs().amax(-1)
        kept = [torch.where(t.abs().amax(-1) > share * top, t.sum(-1), 0.0) for t in tiles]
        return sum(kept)

    return program


def buckets(x):
    """Which of four buckets each row goes to, by the place of its largest element."""
    return (x.argmax(-1)[:, None] % 4 == torch.arange(4, device=x.device)).to(x.dtype)


def routed(x):
    """The sum of the rows in each bucket."""
    return buckets(x).t() @ x


def balanced(x):
    """The same with room for half of the rows in each bucket."""
    chosen = buckets(x)
    chosen = torch.where(chosen.cumsum(0) > x.shape[0] // 2, 0.0, chosen)
    return chosen.t() @ x


def online(x):
    """logsumexp block by block, with the highest so far; -inf - -inf in a block that is masked."""
    high, total = torch.full_like(x[..., 0], -torch.inf), torch.zeros_like(x[..., 0])
    for block in x.split(64, -1):
        best = torch.maximum(high, block.amax(-1))
        fresh = torch.exp(block - best[..., None]).sum(-1)
        total = total * torch.exp(high - best) + fresh
        high = best
    return high + total.log()


def symmetric(*shape):
    def make():
        made = torch.randn(*shape)
        return [made + made.t(), torch.randn(*shape)]

    return make


# What is left out; the honest function; the short one; arguments; a family that must find it.
SHORTCUTS = {
    "the answer is always about 1 / 64": (
        lambda x: torch.softmax(x, -1).amax(-1), lambda x: torch.full_like(x[:, 0], 1 / 64),
        lambda: [torch.randn(20, 64) * 1e-9], "wide",
    ),
    "a ReLU of what is positive": (torch.relu, lambda x: x, positive((20, 50)), "signed"),
    "an absolute value": (torch.abs, lambda x: x, positive((20, 50)), "signed"),
    "a clamp that is never reached": (
        lambda x: x.clamp(-50, 50) * 2, lambda x: x * 2, normal((20, 50)), "wide",
    ),
    "a maximum that is not subtracted": (
        lambda x: torch.softmax(x, -1), lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True),
        normal((20, 50)), "wide",
    ),
    "a matrix that is symmetric": (
        lambda a, b: a @ b, lambda a, b: a.t() @ b, symmetric(32, 32), "heavy",
    ),
    "keys far away": (
        attention, window, normal((2, 32, 64), (2, 128, 64), (2, 128, 64)), "blocks",
    ),
    "what the state has forgotten": (decayed, recent, normal((60, 8)), "special"),
    "a mask over the first block": (
        lambda x: x.logsumexp(-1), online, normal((24, 512)), "special",
    ),
    "the end of a long row": (
        lambda x: x.sum(-1), prefix, lambda: [torch.randn(8, 512) * 0.1 ** torch.arange(512)],
        "integers",
    ),
    "more rows in one bucket than fit": (routed, balanced, normal((64, 64)), "clustered"),
    "tiles below 1e-2": (lambda x: x.sum(-1), by_tiles(1e-2), normal((16, 4096)), "blocks"),
    "tiles below 1e-3": (lambda x: x.sum(-1), by_tiles(1e-3), normal((16, 4096)), "blocks"),
    "tiles below 1e-4": (lambda x: x.sum(-1), by_tiles(1e-4), normal((16, 1024)), "blocks"),
}  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SHORTCUTS)
def test_a_family_finds_each_shortcut(name, device):
    honest, short, make, family = SHORTCUTS[name]
    for secret in range(3):
        target = Target(honest, make, device=device)
        assert family in wrong_families(target, short, secret)
        assert wrong_families(target, honest, secret) == []


@pytest.mark.parametrize("device", DEVICES)
def test_a_sign_is_not_asked_of_what_has_a_domain(device):
    def entropy(x):
        return -(x * x.log()).sum(-1)

    def careful(x):
        return -torch.where(x > 0, x * x.log(), 0.0).sum(-1)

    target = Target(entropy, lambda: [torch.rand(20, 50) + 0.01], device=device)
    assert "signed" not in wrong_families(target, careful)
