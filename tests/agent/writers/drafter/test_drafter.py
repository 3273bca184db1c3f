"""Choices, refusals, and what the drafter's texts look like."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict, replace

import pytest

from agent.errors import ForgeError
from agent.program import parse_reply
from agent.task import ArgSpec, OutputSpec
from agent.writers.drafter import Drafter, Schedule

from .cases import CASES
from .harness import reference


def softmax(rows: int = 600, columns: int = 1000) -> Drafter:
    return Drafter(reference(CASES["softmax"][0], f"torch.randn({rows}, {columns})", "softmax"))


def test_drafts_differ_and_start_with_the_most_promising() -> None:
    drafter = softmax()
    drafts = drafter.drafts()
    assert drafts[0] == Schedule(keep="row", walk="ahead")
    assert len(set(drafts)) == len(drafts) >= 4
    texts = {drafter.write(schedule) for schedule in drafts}
    assert len(texts) == len(drafts)


@pytest.mark.parametrize("case", ["softmax", "layer_norm", "gelus", "cross_entropy"])
def test_neighbours_differ_in_one_choice_and_in_their_text(case: str) -> None:
    drafter = Drafter(reference(*CASES[case], name=case))
    for schedule in drafter.drafts():
        near = drafter.neighbours(schedule)
        assert len(set(near)) == len(near)
        for other in near:
            one, two = asdict(schedule), asdict(other)
            assert sum(one[name] != two[name] for name in one) == 1
            assert drafter.write(other) != drafter.write(schedule)


def test_schedules_survive_json_and_have_short_stable_keys() -> None:
    schedule = Schedule(passes="one", store="stream")
    assert Schedule.from_json(json.loads(json.dumps(schedule.to_json()))) == schedule
    assert schedule.key == "rows-one-recompute-simd-static-stream-reciprocal-plain"
    assert schedule.title == ("statistics in one pass over blocks, streaming stores")
    with pytest.raises(ValueError, match="passes is one of"):
        Schedule(passes="three")


def test_repair_takes_back_one_daring_choice_at_a_time() -> None:
    drafter = softmax()
    schedule: Schedule | None = Schedule(passes="one", keep="row", store="stream")
    seen = []
    while schedule is not None:
        seen.append(schedule)
        schedule = drafter.repair(schedule, {"rung": "check"})
    assert len(seen) >= 4
    assert seen[-1] == Schedule(divide="exact", vector="auto")


@pytest.mark.parametrize("case", CASES)
def test_texts_are_replies_and_come_out_the_same_each_time(case: str) -> None:
    ref = reference(*CASES[case], name=case)
    first, second = Drafter(ref), Drafter(ref)
    assert first.drafts() == second.drafts()
    for schedule in first.drafts():
        text = first.write(schedule)
        assert text == second.write(schedule) == first.write(schedule)
        program = parse_reply(text, "cpp")
        assert program.title == schedule.title
        bound = program.bind(ref.spec, program.defaults(), {"cores": 2, "l2": 1 << 20})
        assert len(bound.steps) >= 1
        assert max(len(line) for line in program.source.splitlines()) <= 160


def test_a_draft_reads_well() -> None:
    text = softmax(64, 300).write(Schedule(keep="row"))
    source = parse_reply(text, "cpp").source
    start = source.index('extern "C"')
    assert source[start:].strip() == SOFTMAX.strip()


SOFTMAX = """
extern "C" void softmax(const float* __restrict__ x, float* __restrict__ out) {
  #pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < 64; ++row) {
    alignas(64) float kept_exp[300];
    const float* __restrict__ x_row = x + row * 300;
    float* __restrict__ out_row = out + row * 300;
    float amax = -INFINITY;
    #pragma omp simd simdlen(WIDTH) reduction(maximum : amax)
    for (int64_t j = 0; j < 300; ++j) {
      amax = max_nan(amax, x_row[j]);
    }
    float sum = 0;
    #pragma omp simd simdlen(WIDTH) reduction(+ : sum)
    for (int64_t j = 0; j < 300; ++j) {
      const float exp = exp_f32(x_row[j] - amax);
      kept_exp[j] = exp;
      sum += exp;
    }
    const float inverse_sum = 1.0f / sum;
    #pragma omp simd simdlen(WIDTH)
    for (int64_t j = 0; j < 300; ++j) {
      out_row[j] = kept_exp[j] * inverse_sum;
    }
  }
}
"""


@pytest.mark.parametrize(
    ("body", "inputs", "why"),
    [
        ("return x.cumsum(-1)", "torch.randn(3, 5)", "cumsum is a scan"),
        ("return x @ x.t()", "torch.randn(3, 5)", "mm is a product of matrices"),
        ("return x.argmax(-1)", "torch.randn(3, 5)", "argmax asks for a place"),
        ("return x.max(-1)", "torch.randn(3, 5)", "argmax asks for a place"),
        ("return x.sort(-1)[0]", "torch.randn(3, 5)", "sort moves elements"),
        ("return F.max_pool2d(x, 2)", "torch.randn(1, 1, 4, 4)", "max_pool2d"),
        ("return F.avg_pool2d(x, 2)", "torch.randn(1, 1, 4, 4)", "avg_pool2d"),
        (
            "return F.conv1d(x, torch.ones(1, 1, 2))",
            "torch.randn(1, 1, 4)",
            "convolution is a product",
        ),
    ],
)
def test_refusals_say_why(body: str, inputs: str, why: str) -> None:
    ref = reference(f"def reference(x):\n    {body}", inputs)
    with pytest.raises(ForgeError, match=why) as caught:
        Drafter(ref)
    assert caught.value.code == "cannot-draft"
    assert caught.value.cure


def test_size_zero_is_drafted() -> None:
    # A reference with an empty input is refused before it comes here; the text is right anyway.
    body = "def reference(x):\n    return x.exp(), x.sum(-1)"
    ref = reference(body, "torch.randn(3, 5)")
    empty = copy.copy(ref)
    empty.spec = replace(
        ref.spec,
        args=(ArgSpec("x", "input", "float32", (3, 0), (0, 1)),),
        outputs=(
            OutputSpec("out", "float32", (3, 0), (0, 1)),
            OutputSpec("out1", "float32", (3,), (1,)),
        ),
    )
    text = Drafter(empty).write(Schedule())
    assert "out1[j] = 0.0f;" in text
    assert "j < 0;" in text
