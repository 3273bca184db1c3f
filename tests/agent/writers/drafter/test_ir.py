"""From references to kernels: what is fused, what goes through scratch, how indices come out."""

from __future__ import annotations

import pytest

from agent.writers.drafter.build import build
from agent.writers.drafter.index import Axis, Index, NotAffine, Split, unflatten
from agent.writers.drafter.ir import Draft, Expr, Kernel, Pool
from agent.writers.drafter.phases import find_pairs, phases
from agent.writers.drafter.tidy import tidy
from agent.writers.drafter.trace import trace

from .cases import CASES
from .harness import reference

POOL = Pool()


def draft(body: str, inputs: str) -> Draft:
    ref = reference(body, inputs)
    return build(trace(ref), ref.spec, POOL)


def show(value: Expr) -> str:
    if value.op == "load":
        terms = [f"{c}{axis.name}" for axis, c in value.index.terms]
        return f"{value.buffer.name}[{'+'.join(terms) or value.index.const}]"
    if value.op == "const":
        return str(value.attr)
    if value.op == "reduced":
        return value.reduction.name
    return f"{value.op}({', '.join(show(arg) for arg in value.args)})"


def lines(kernel: Kernel) -> list[str]:
    result = [f"rows {[axis.size for axis in kernel.rows]}"]
    for red in kernel.reductions:
        result += [f"{red.level} {red.name} = {red.kind} {show(p.value)}" for p in red.parts]
    result += [f"{s.level} {s.buffer.name} = {show(s.value)}" for s in kernel.stores]
    return result


def test_softmax_is_one_kernel_of_three_steps() -> None:
    made = draft(*CASES["softmax"])
    assert [lines(kernel) for kernel in made.kernels] == [
        [
            "rows [5]",
            "0 amax = max x[1c0+37r0]",
            "1 sum = sum exp(sub(x[1c0+37r0], amax))",
            "2 out = div(exp(sub(x[1c0+37r0], amax)), sum)",
        ]
    ]


def test_group_norm_keeps_its_affine_in_the_row_of_a_group() -> None:
    made = draft(
        "def reference(x, w):\n    return F.group_norm(x, 3, w)",
        "(torch.randn(2, 6, 5, 4), torch.randn(6))",
    )
    (kernel,) = made.kernels
    merged = tidy(kernel, POOL, aligned=False)
    assert [axis.size for axis in merged.rows] == [2, 3]
    steps = phases(merged)
    assert [[axis.size for axis in step.axes] for step in steps] == [[40], [40], [2, 20]]


def test_rotary_cuts_the_row_in_two_and_has_one_loop() -> None:
    made = draft(*CASES["rotary"])
    (kernel,) = made.kernels
    assert len(kernel.stores) == 2
    (step,) = phases(tidy(kernel, POOL, aligned=False))
    assert step.axes[-1].size == 7
    assert len(step.stores) == 2


def test_totals_inside_rows_go_through_scratch() -> None:
    made = draft(*CASES["cross_entropy"])
    assert [buffer.name for buffer in made.scratch] == ["amax_of_rows", "sum_of_rows"]
    assert [[axis.size for axis in kernel.rows] for kernel in made.kernels] == [[9], []]


def test_results_that_share_rows_share_a_kernel() -> None:
    made = draft(*CASES["rms_norm_residual"])
    assert len(made.kernels) == 1
    assert {store.buffer.name for store in made.kernels[0].stores} == {"out", "out1"}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("torch.softmax(x, -1)", 1),
        ("F.layer_norm(x, (6,))", 1),
        ("x.var(-1)", 1),
        ("((x - x.mean(-1, True)) ** 2).mean(-1)", 1),
        ("x.sum(-1) + (x * x).sum(-1)", 0),
        ("(x.exp() - x.amax(-1, True)).sum(-1)", 0),
    ],
)
def test_reductions_that_one_walk_can_make(body: str, found: int) -> None:
    made = draft(f"def reference(x):\n    return {body}", "torch.randn(4, 6)")
    assert sum(len(find_pairs(kernel)) for kernel in made.kernels) == found


def test_a_reduction_is_made_once() -> None:
    made = draft(
        "def reference(x):\n    return x / x.sum(-1, keepdim=True), x.sum(-1)", "torch.randn(4, 6)"
    )
    assert [len(kernel.reductions) for kernel in made.kernels] == [1]


def test_half_precision_is_rounded_only_when_stored() -> None:
    made = draft(
        "def reference(x):\n    return (x * 3).bfloat16().float() + 1",
        "torch.randn(4).bfloat16()",
    )
    assert lines(made.kernels[0])[1] == "0 out = add(mul(x[1c0], 3.0), 1.0)"


def test_indices_divide_split_and_refuse() -> None:
    i, j = Axis("i", 6), Axis("j", 8)
    place = Index.of(i) * 8 + Index.of(j)
    assert unflatten(place, (6, 8)) == (Index.of(i), Index.of(j))
    with pytest.raises(Split) as caught:
        unflatten(place, (2, 3, 4, 2))
    assert (caught.value.axis, caught.value.inner) == (j, 2)
    with pytest.raises(NotAffine):
        (Index.of(j) * 3).divmod(7)
    assert (Index.of(i) * 4).plus(3).divmod(4) == (Index.of(i), Index((), 3))
    assert place.is_permutation_of(48)
    assert not (Index.of(i) * 2).is_permutation_of(6)
