"""Failures in the words of a prompt: compilers' logs cut down, and what the check saw."""

from __future__ import annotations

import pytest

from agent.devices.cpu import find_compiler
from agent.devices.cpu_build import build
from agent.errors import BuildError
from agent.failures import MOST_ERRORS, POISON, failure_of, first_errors

SOURCE = """// one
static float twice(float x) { return 2 * x; }

extern "C" void kernel(const float* x, float* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        out[i] = twice(x[i]) + missing;
    }
}
"""


def test_the_real_compiler_s_line_is_the_program_s_own_and_comes_with_its_neighbours(tmp_path):
    with pytest.raises(BuildError) as caught:
        build(find_compiler(), SOURCE, {}, ["kernel"], tmp_path)
    error = caught.value
    failure = failure_of("build", error.code, error.message, error.evidence, SOURCE)
    assert failure.log.startswith("program.cpp:6:")
    assert ">    6 |         out[i] = twice(x[i]) + missing;" in failure.log
    assert '     4 | extern "C" void kernel' in failure.log
    assert "\n     8 | }" in failure.log
    assert "twice(float x)" not in failure.log


def test_only_the_first_errors_are_kept():
    log = "\n".join(
        f"program.cu:{n}: error: number {n}\n  a line of source\n    ^" for n in range(1, 9)
    )
    text = first_errors(log)
    assert text.count("error:") == MOST_ERRORS
    assert "number 3\n  a line of source" in text
    assert "number 4" not in text


def test_lines_that_are_far_apart_are_shown_with_a_gap():
    source = "\n".join(f"line {n}" for n in range(1, 41))
    text = first_errors("program.cu:3: error: a\nprogram.cu:30: error: b", source)
    assert ">    3 | line 3" in text
    assert "     5 | line 5\n  ...\n    28 | line 28" in text
    assert ">   30 | line 30" in text
    assert "line 6" not in text


@pytest.mark.parametrize("place", ["program.cu:99:", "program.cu:0:", "input, line 2;"])
def test_lines_that_are_not_the_program_s_are_not_looked_up(place):
    assert first_errors(f"{place} error: x", "one\ntwo") == f"{place} error: x"


def test_a_hostile_log_is_printable_and_bounded():
    log = "\x1b[31mprogram.cu:1: error: " + "x" * 100_000 + "\n\x07" * 10_000
    failure = failure_of("build", "compile", "\x1b]0;a\x07\n" * 999, {"log": log}, "y" * 100_000)
    assert len(failure.log) < 10_000
    assert len(failure.message) <= 500
    assert all(c.isprintable() or c == "\n" for c in failure.log)
    assert failure.message.isprintable()


def test_a_failed_check_says_on_which_inputs_and_where():
    evidence = {
        "family": "special @rows=3",
        "output": "out",
        "shape": [3, 8],
        "sketch": ["2 of 24 elements are wrong", "at [0, 1]: got 1, expected nan"],
    }
    sketch = failure_of("check", "wrong-answer", "wrong", evidence).sketch.splitlines()
    assert sketch[0] == ("on special inputs (rows with infinities, NaN, -0.0 or denormal numbers "
                         "in them) at the size rows=3")  # fmt: skip
    assert sketch[1:] == ["output out of shape [3, 8]", *evidence["sketch"]]


def test_evidence_without_a_sketch_gives_its_examples():
    evidence = {"family": "wide", "bad": 5, "total": 9, "first": [1, 2], "got": [0.5],
                "expected": [1.5], "pattern": "scattered"}  # fmt: skip
    sketch = failure_of("check", "wrong-answer", "wrong", evidence).sketch
    assert "5 of 9 elements are wrong: scattered" in sketch
    assert "at [1, 2]: got 0.5, expected 1.5" in sketch


@pytest.mark.parametrize(("family", "told"), [("wide", True), ("special @rows=3", False)])
def test_nan_out_of_finite_inputs_is_explained(family, told):
    evidence = {"family": family, "sketch": ["of the wrong ones: 2 zero, 3 NaN"]}
    assert (POISON in failure_of("check", "wrong-answer", "x", evidence).sketch) == told


@pytest.mark.parametrize(
    ("calls", "words"),
    [(0, "in the first call, or right after it"), (3, "after 3 call(s) whose answers were right")],
)
def test_a_crash_says_what_went_well_before(calls, words):
    evidence = {"after_family": "normal", "calls": calls}
    failure = failure_of("check", "crashed", "crashed: signal 11", evidence)
    assert failure.sketch.startswith(words)
    assert "the task's own inputs" in failure.sketch


def test_nothing_is_made_up_where_nothing_is_known():
    failure = failure_of("read", "plan", "no kernel f", {})
    assert (failure.log, failure.sketch) == ("", "")
