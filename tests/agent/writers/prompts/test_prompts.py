"""What a prompt tells, question by question: as in the golden files, and within any budget."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from agent.writers.brief import Failure, Rule, Tried
from agent.writers.prompts import CONTRACT, render, repair_format
from agent.writers.prompts.budget import tokens
from tests.agent.writers.prompts.briefs import (
    CHECK,
    EACH,
    HINT,
    brief,
    cpp_target,
    cuda_target,
    failed,
    written,
)

GOLDEN = Path(__file__).parents[3] / "data" / "prompts"
ROOMY = 12_000
NOTHING = 100


@pytest.mark.parametrize(("language", "what"), EACH)
def test_it_is_as_it_was_read_and_approved(language, what):
    prompt = render(brief(language, what), ROOMY)
    golden = GOLDEN / f"{language}-{what}.md"
    if os.environ.get("FORGE_GOLDEN"):
        golden.write_text(prompt.user)
    assert prompt.user == golden.read_text()
    assert prompt.system == CONTRACT[language]


@pytest.mark.parametrize(("language", "what"), EACH)
def test_the_same_brief_makes_the_same_prompt(language, what):
    assert render(brief(language, what), ROOMY) == render(brief(language, what), ROOMY)


@pytest.mark.parametrize("language", ["cuda", "cpp"])
@pytest.mark.parametrize("budget", [NOTHING, 4000, ROOMY])
def test_all_asks_of_a_target_begin_alike(language, budget):
    asks = [render(brief(language, what), budget) for of, what in EACH if of == language]
    assert len({ask.system for ask in asks}) == 1
    stable = {re.split(r"(?<=\n\n)# (?!Target|Machine|Time)", ask.user)[0] for ask in asks}
    assert len(stable) == 1
    assert re.match(r"# Target: .*\n# Machine: .*\n# Time to beat\n.*speed of light",
                    stable.pop(), re.S)  # fmt: skip


# -- budgets ---------------------------------------------------------------------------------------


def long_brief():
    """Ten times more than any budget of these tests."""
    source = "\n".join(f"    v[{at}] = x[{at} * THREADS + threadIdx.x];" for at in range(4000))
    full = brief("cuda", "large")
    return replace(
        full,
        target=replace(
            full.target,
            reference="\n".join(f"layer_{at} = Linear({at})" for at in range(3000)),
            graph=tuple(f"mul_{at}: float32[64] = mul(x, {at})" for at in range(200)),
        ),
        parent=written("cuda", source=source),
        rules=tuple(Rule(f"Never do the thing of number {at}.", 3) for at in range(12)),
        tried=tuple(Tried(at, f"Idea of number {at}", "improve", 1.1) for at in range(20, 32)),
    )


@pytest.mark.parametrize("budget", [5000, 6000, 8000, 12_000, 16_000, 24_000])
def test_it_keeps_to_its_budget(budget):
    prompt = render(long_brief(), budget)
    used = tokens(prompt.system + prompt.user)
    assert used <= budget
    # ... and uses it: what fits is told.
    assert used > 0.6 * budget


def test_the_least_useful_goes_first():
    full = long_brief()
    seen = {}
    for budget in (40_000, 20_000, 12_000, 8000, 6000, 4500, NOTHING):
        text = render(full, budget).user
        seen[budget] = {
            "rules": text.count("Never do the thing"),
            "tried": text.count("Idea of number"),
            "source": text.count("* THREADS + threadIdx.x]"),
            "reference": text.count("= Linear("),
        }
    for name in ("rules", "tried", "source", "reference"):
        counts = [item[name] for item in seen.values()]
        assert counts == sorted(counts, reverse=True), name
    assert seen[40_000]["rules"] == 12
    assert seen[NOTHING]["rules"] == seen[NOTHING]["tried"] == 0
    assert seen[NOTHING]["source"] > 0
    # The program that is worked on goes last of all.
    assert seen[20_000]["rules"] == seen[20_000]["tried"] == 3


@pytest.mark.parametrize("budget", [0, NOTHING, 3000])
@pytest.mark.parametrize(("language", "what"), EACH)
def test_what_cannot_be_done_without_is_always_there(language, what, budget):
    full = brief(language, what)
    prompt = render(full, budget)
    assert prompt.system == CONTRACT[language]
    for tensor in full.target.spec.tensors:
        assert f" {tensor.name}: {tensor.dtype}{list(tensor.shape)}" in prompt.user
    assert "def reference(" in prompt.user
    assert "# Your task" in prompt.user
    if full.hint:
        assert all(line in prompt.user for line in HINT.split("\n"))
    if full.parent is not None:
        assert full.parent.source in prompt.user
        assert full.parent.plan in prompt.user
    if full.parent is not None and full.parent.failure is not None:
        assert full.parent.failure.message.split(": ")[1] in prompt.user


def test_a_cut_is_marked_with_what_is_left_out():
    text = render(long_brief(), 6000).user
    assert "lines are left out here ...]" in text
    mark = next(line for line in text.split("\n") if "of 3000 lines are left out here" in line)
    left = int(mark.removeprefix("[... ").split()[0])
    assert left + text.count("= Linear(") == 3000
    assert "layer_0 = " in text
    assert "layer_2999 = " in text


def test_many_arguments_are_bounded():
    target = cuda_target()
    one = target.spec.args[1]
    args = tuple(replace(one, name=f"layers_{at}_weight", kind="weight") for at in range(900))
    full = replace(brief("cuda", "draft"),
                   target=replace(target, spec=replace(target.spec, args=args)))  # fmt: skip
    prompt = render(full, ROOMY)
    assert tokens(prompt.system + prompt.user) < ROOMY
    assert "more, named by the file" in prompt.user
    assert "output out:" in prompt.user


# -- what is told ----------------------------------------------------------------------------------


def test_it_says_what_bounds_the_target():
    spec = cuda_target().spec
    by_products = render(brief("cuda", "draft"), ROOMY).user
    assert "34.3 us, bound by arithmetic: 24 GFLOP at the 720 TFLOP/s" in by_products
    moved = replace(brief("cuda", "draft"), target=replace(
        cuda_target(), spec=replace(spec, flops=0), sol_ns=5000))  # fmt: skip
    assert "bound by memory: 16.8 MB at 3.36 TB/s" in render(moved, ROOMY).user


def test_the_fastest_baseline_is_named_by_its_measured_ratio():
    text = render(brief("cuda", "draft"), ROOMY).user
    assert "The fastest to beat is compile-max at 38.3 us: 1.12 times the speed of light." in text
    assert "compile: 44.6 us device time, 1.27x eager" in text  # eager over the ratio


def test_rows_that_no_vector_fits_are_told_and_others_are_not():
    text = render(brief("cpp", "draft"), ROOMY).user
    assert "input x: float32[512, 4099], contiguous, rows begin at multiples of 4 bytes" in text
    assert "rows begin" not in render(brief("cuda", "draft"), ROOMY).user


def test_sizes_that_vary_are_told_with_where_they_are_checked():
    text = render(brief("cpp", "draft"), ROOMY).user
    assert "rows (tuned for 512, from 1 to 8192)" in text
    assert "checked at rows=1, rows=513, rows=8192 too" in text
    assert "All sizes are fixed" in render(brief("cuda", "draft"), ROOMY).user


@pytest.mark.parametrize("rung", ["read", "build", "check", "measure"])
def test_a_repair_tells_each_rung_with_its_log_and_sketch(rung):
    failure = Failure(rung, "some-code", "what went wrong", "the log's line", "the sketch's line")
    asked = replace(brief("cuda", "repair"), parent=failed("cuda", failure))
    text = render(asked, ROOMY).user
    for part in ("some-code", "what went wrong", "the log's line", "the sketch's line"):
        assert part in text
    assert ("work back from" in text) == (rung == "check")


def test_a_program_that_could_not_be_read_is_asked_for_anew():
    failure = Failure("read", "reply", "the reply has no block with a source")
    parent = replace(failed("cuda", failure), source="", plan="")
    text = render(replace(brief("cuda", "repair"), parent=parent), ROOMY).user
    assert "the reply has no block with a source" in text
    assert "Of node 7 no program could be read" in text
    assert "```cuda" not in text


def test_a_combination_without_a_second_program_is_an_improvement():
    text = render(replace(brief("cuda", "combine"), second=None), ROOMY).user
    assert "Make one change to node 3" in text


def test_without_speed_of_light_or_baselines_nothing_is_made_up():
    target = replace(cpp_target(), baselines=(), facts={}, graph=())
    text = render(replace(brief("cpp", "draft"), target=target), ROOMY).user
    assert "speed of light was not measured" in text
    for word in ("nan", "None", "inf", "fastest to beat"):
        assert word not in text.replace("-inf", "")


# -- putting a reply right -------------------------------------------------------------------------


def test_a_reply_is_put_right_without_the_brief():
    prompt = repair_format("cuda", "Here is ```cuda\nint x;\n```", "there is no plan", "give one")
    assert prompt.system == CONTRACT["cuda"]
    assert "there is no plan (give one)" in prompt.user
    assert "int x;" in prompt.user
    assert "Target" not in prompt.user
    question = render(brief("cuda", "draft"), ROOMY).user
    told = repair_format("cuda", "Here is ```cuda\nint x;\n```", "no plan", "", question).user
    assert "Names for the plan:" in told  # what a plan that is missing must name
    assert "# Time to beat" not in told
    assert len(told) < len(question)


def test_a_reply_without_a_program_is_asked_for_with_the_whole_question():
    question = render(brief("cuda", "draft"), ROOMY).user
    told = repair_format("cuda", "Sorry, I do not know.", "no ```cuda block", "", question).user
    assert told.startswith(question)
    assert "no ```cuda block" in told
    assert "Sorry" in told


def test_a_huge_reply_is_bounded():
    prompt = repair_format("cpp", "x\n" * 300_000, CHECK.message, "")
    assert len(prompt.user) < 70_000
    assert "lines are left out here" in prompt.user
