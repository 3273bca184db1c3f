"""References that change their arguments in place by intent."""

from __future__ import annotations

import pytest
import torch

from agent.errors import TaskError
from agent.reference import Reference, load
from agent.task import TaskSource

BOTH = "torch.randn(6, 16), torch.randn(16)"
CACHE = "torch.zeros(2, 100, 8), torch.tensor([7]), torch.randn(2, 1, 8)"


def source(text: str, kind: str = "plain") -> TaskSource:
    return TaskSource(kind, "t", "", f"import torch\nfrom torch import nn\n{text}", "cpu")


def plain(body: str, inputs: str = BOTH, params: str = "x, y", names: str = "'x',") -> Reference:
    text = f"MUTATES = ({names})\ndef reference({params}):\n    {body}\n"
    return load(source(f"{text}def inputs():\n    return {inputs}\n"))


def check(reference: Reference) -> None:
    """Function, graph and float64 agree, and the latter two leave the arguments alone."""
    args = reference.sample(5)
    kept = [arg.clone() for arg in args]
    traced, exact = reference.graph(*args), reference.float64(args)
    assert all(map(torch.equal, args, kept))
    outputs = reference.function(*args)
    assert len(outputs) == len(reference.spec.outputs)
    mutated = [arg.mutated for arg in reference.spec.args]
    results = [*outputs, *(x for x, changed in zip(args, mutated, strict=True) if changed)]
    assert not any(map(torch.equal, results[len(outputs) :], kept))
    for eager, graph, wide in zip(results, traced, exact, strict=True):
        torch.testing.assert_close(eager, graph)
        assert wide.dtype is torch.float64
        torch.testing.assert_close(eager.double(), wide, rtol=1e-5, atol=1e-5)
    for old, new, changed in zip(kept, args, mutated, strict=True):
        assert changed or torch.equal(old, new)


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ("x.add_(y)", []),
        ("return x.add_(y)", []),
        ("x.add_(y); return x, x * 2, [x]", [(6, 16)]),
        ("x[1:3, 2] += y[0]; return x.sum()", [()]),
        ("x.copy_(y * 2)", []),
        ("x.zero_(); return y + 1", [(16,)]),
        ("x.data.mul_(y); return x + 1", [(6, 16)]),
        ("torch.add(y, 1, out=x[0]); return x", []),
        ("for row in x.unbind(0): row.mul_(y)", []),
    ],
)
def test_what_is_changed_is_a_result(body: str, outputs: list[tuple[int, ...]]) -> None:
    reference = plain(body)
    assert [out.shape for out in reference.spec.outputs] == outputs
    assert [arg.mutated for arg in reference.spec.args] == [True, False]
    check(reference)


def test_several_in_the_order_of_the_arguments() -> None:
    reference = plain(
        "x.mul_(2); y.add_(x); return y", "torch.randn(3, 4).t(), torch.randn(4, 3)",
        names="'y', 'x'",
    )  # fmt: skip
    x, y = reference.sample(1)
    first, second = reference.graph(x, y)
    torch.testing.assert_close(first, 2 * x)
    torch.testing.assert_close(second, y + 2 * x)
    check(reference)


def test_arguments_inside_of_lists_and_reserved_names() -> None:
    check(plain("xs[0].add_(xs[1])", "([torch.randn(3), torch.randn(3)],)", "xs", "'xs_0',"))
    check(plain("out.add_(y)", BOTH, "out, y", "'out_',"))


def test_a_buffer_of_a_model() -> None:
    text = (
        "MUTATES = ('cache',)\nclass Model(nn.Module):\n  def __init__(self):\n"
        "    super().__init__(); self.register_buffer('cache', torch.zeros(4, 6))\n"
        "  def forward(self, x):\n    self.cache.mul_(0.9).add_(x)\n    return self.cache.sum(-1)\n"
        "def get_inputs(): return [torch.randn(4, 6)]\n"
    )
    reference = load(source(text, "kernelbench"))
    assert [(arg.name, arg.mutated) for arg in reference.spec.args] == [
        ("x", False),
        ("cache", True),
    ]
    before = reference.sample(1)[1]
    check(reference)
    assert torch.equal(reference.sample(1)[1], before)


@pytest.mark.parametrize(
    ("body", "inputs", "params", "read", "write"),
    [
        ("x.add_(y)", BOTH, "x, y", 4 * (96 + 16), 4 * 96),
        ("x.copy_(y * 2)", BOTH, "x, y", 4 * 16, 4 * 96),
        ("x.zero_(); return y + 1", BOTH, "x, y", 4 * 16, 4 * (96 + 16)),
        ("x.index_copy_(1, at, y)", CACHE, "x, at, y", 8 + 4 * 16, 4 * 16),
        ("x[:, at] = y", CACHE, "x, at, y", 8 + 4 * 16, 4 * 16),
        ("x[:, 5:7] = y; return x[:, :6].sum(1)", "torch.zeros(2, 99, 8), torch.randn(2, 2, 8)",
         "x, y", 4 * (2 * 2 * 8 + 2 * 4 * 8), 4 * (2 * 2 * 8 + 16)),
        ("x[1:3, 2:4].mul_(2); return y + 1", BOTH, "x, y", 4 * (4 + 16), 2 * 32 + 4 * 16),
        ("x.masked_fill_(y, 0.5)", "torch.randn(64, 8), torch.arange(64)[:, None] < 8", "x, y",
         64, 4 * 8 * 8),
    ],
)  # fmt: skip
def test_only_the_part_touched_counts(
    body: str, inputs: str, params: str, read: int, write: int
) -> None:
    spec = plain(body, inputs, params).spec
    assert spec.write_bytes == write
    assert spec.read_bytes == read


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ("x.add_(y); return x[0]", "task-alias", "out is a view of x, which the reference changes"),
        ("x.add_(y); return x.t()", "task-alias", "out is a view of x"),
        ("x.add_(1); return y.view(4, 4)", "task-alias", "view of the argument y"),
        ("return x + y", "task-mutates", "MUTATES names x, but"),
        ("x.add_(1); y.add_(1)", "task-mutates", "writes to its argument y"),
        ("x.numpy()[:] = 3; return y + 1", "task-values", "outside of tensor operations"),
        ("x.t_(); return y + 1", "task-mutates", "changes the shape"),
        ("x.add_(torch.randn(16)); return y + 1", "task-random", "random"),
        ("x.add_(1)", "task-ignores", "input y"),
    ],
)
def test_refused(body: str, code: str, says: str) -> None:
    with pytest.raises(TaskError) as caught:
        plain(body)
    assert caught.value.code == code, caught.value.message
    assert says in caught.value.message
    assert caught.value.cure


def test_the_cure_names_the_declaration() -> None:
    with pytest.raises(TaskError) as caught:
        plain("x.add_(y); return y + 1", names="")
    assert caught.value.code == "task-mutates"
    assert 'MUTATES = ("x",)' in caught.value.cure
    with pytest.raises(TaskError, match="MUTATES names z, which is no argument"):
        load(
            source(
                "MUTATES = ('z',)\nreference = torch.relu_\ndef inputs(): return torch.randn(3)\n"
            )
        )
