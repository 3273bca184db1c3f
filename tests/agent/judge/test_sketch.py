from __future__ import annotations

import json

import pytest
import torch

from agent.judge.arena import UNWRITTEN, bits
from agent.judge.cases import Case
from agent.judge.report import describe
from agent.judge.sketch import along
from agent.judge.tolerance import answer, compare
from agent.task import OutputSpec
from tests.agent.judge.inprocess import Target, judged, size


def failed(value, exact, g=1.0):
    """The failure that a check makes of an answer."""
    eager = exact.to(value.dtype)
    known = answer(exact, eager, None, g, torch.Generator().manual_seed(1))
    found = compare(value, known)
    assert not found.ok
    dtype = str(value.dtype).removeprefix("torch.")
    out = OutputSpec("out", dtype, tuple(value.shape), value.stride())
    return describe(Case("normal", 1, (), (known,)), out, value, known, found)


def told(value, exact, g=1.0):
    sketch = failed(value, exact, g).evidence["sketch"]
    json.dumps(sketch, allow_nan=False)
    return "\n".join(sketch)


def exact_values(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def test_a_single_wrong_element_is_shown_with_its_error_and_what_is_allowed():
    exact = exact_values(6, 8)
    value = exact.float()
    value[2, 5] += 0.5
    text = told(value, exact)
    assert "1 of 48 elements are wrong" in text
    assert "at [2, 5]: got" in text
    assert "off by 0.5, allowed" in text


def test_a_tail_of_the_columns_is_told_from_the_first_index_on():
    exact = exact_values(16, 100)
    value = exact.float()
    value[:, 96:] = 0
    text = told(value, exact)
    assert "along dimension 0 (16): at every index" in text
    assert "along dimension 1 (100): from 96 to 99, the last 4" in text
    assert "64 zero" in text


def test_wrong_vector_lanes_are_told_as_a_rule():
    exact = exact_values(4, 64)
    value = exact.float()
    value[:, 3::4] += 1
    assert "along dimension 1 (64): where index % 4 is 3" in told(value, exact)


def test_the_end_of_the_output_is_told_as_one_stretch():
    exact = exact_values(5, 10)
    value = exact.float()
    bits(value.view(-1))[44:] = UNWRITTEN[4]
    text = told(value, exact)
    assert "one stretch in row-major order: elements 44 to 49, up to the end" in text
    assert "6 never written" in text


def test_kinds_are_counted_apart():
    exact = exact_values(40)
    exact[30:33] = torch.nan
    value = exact.float()
    value[:2], value[2:5], value[30:33] = torch.nan, torch.inf, 1.0
    text = told(value, exact)
    assert "of the wrong ones: 2 NaN, 3 infinite, 3 a number where NaN is expected" in text


@pytest.mark.parametrize(
    ("slip", "words"),
    [
        (lambda x: x * 0.125, "got is 0.125 times expected"),
        (lambda x: -x, "got is -1 times expected"),
        (lambda x: x + 3, "got is expected + 3"),
        (lambda x: x.roll(1, -1), "got is what is expected 1 element(s) before it"),
        (lambda x: x.roll(-1, 0), "got is what is expected one row after it"),
        (lambda x: x.t().reshape(x.shape), "the right numbers are all there, in other places"),
    ],
    ids=["scale", "sign", "offset", "column", "row", "transposed"],
)
def test_a_simple_slip_is_recognised(slip, words):
    exact = exact_values(64, 96)
    assert words in told(slip(exact).float(), exact)


def test_unrelated_numbers_look_like_nothing():
    text = told(exact_values(64, 96, seed=1).float(), exact_values(64, 96))
    assert "times expected" not in text
    assert "index" not in text


def test_coarse_arithmetic_is_told_from_a_wrong_factor():
    exact = exact_values(64, 96)
    text = told(exact.to(torch.bfloat16).float(), exact)
    assert "it may be arithmetic of lower precision" in text
    assert "small beside the values, 2^-9" in text
    assert "times expected" not in text
    assert "at every index of every dimension" in text


def test_a_factor_near_one_is_told_where_it_is_the_same_everywhere():
    exact = exact_values(64, 96)
    assert "got is 0.99219 times expected" in told((exact * (127 / 128)).float(), exact)


def test_integers_have_no_allowed_error():
    exact = torch.arange(60).view(6, 10)
    value = exact.clone()
    value[:, 0] = -1
    text = told(value, exact)
    assert "along dimension 1 (10): at 0 alone" in text
    assert "at [0, 0]: got -1, expected 0" in text
    assert "allowed" not in text


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 7), (3, 1, 5, 2)])
def test_any_shape_can_be_told_of(shape):
    exact = exact_values(*shape)
    assert "elements are wrong" in told(exact.float() + 1, exact)


def test_an_answer_that_is_only_imprecise_is_told_in_ulps():
    exact = exact_values(200, 300)
    # Eager's own errors are small but for one element of each slice, so each may be as large.
    eager = exact.float()
    eager[:, ::16] *= 1 + 1e-4
    known = answer(exact, eager, None, 1.0, torch.Generator().manual_seed(1))
    value = exact.float() * (1 + 3e-5)
    found = compare(value, known)
    assert found.bad is None
    assert found.percentile is not None
    out = OutputSpec("out", "float32", (200, 300), (300, 1))
    failure = describe(Case("wide", 1, (), (known,)), out, value, known, found)
    text = "\n".join(failure.evidence["sketch"])
    assert failure.code == "imprecise"
    assert "errors in ulps: 50 % are below" in text
    assert "it typically is by 2^-15" in text
    assert "100 % of the errors go one way: too far from zero" in text


@pytest.mark.parametrize(
    ("indices", "words"),
    [
        ([7], "at 7 alone"),
        (range(32), "at every index"),
        (range(8, 32), "from 8 to 31, the last 24"),
        (range(4, 9), "from 4 to 8"),
        ([i for i in range(32) if i % 8 >= 6], "where index % 8 is 6 to 7"),
        ([0, 1, 5, 30], "at 4 of 32, the first 0, the last 30"),
    ],
)
def test_indices_along_a_dimension(indices, words):
    mask = torch.zeros(32, dtype=torch.bool)
    mask[list(indices)] = True
    assert along(mask) == words


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_failed_check_carries_the_sketch(device):
    def program(memory):
        torch.mul(memory["x0"], 2, out=memory["out"])
        memory["out"][:, 30:] *= 0.5

    target = Target(lambda x: x * 2, lambda: [torch.randn(8, 32)], device=device)
    checked = judged(size(target, program))
    assert checked.failure is not None
    told = json.loads(json.dumps(checked.failure.to_json(), allow_nan=False))
    sketch = told["evidence"]["sketch"]
    assert "along dimension 1 (32): from 30 to 31, the last 2" in sketch
    assert "got is 0.5 times expected wherever it is wrong" in sketch


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_every_sort_of_wrong_answer_can_be_told_of(device):
    """What programs may leave behind, in every sort of number: no sketch may break a verdict."""
    makes = {
        "float": lambda: [torch.randn(3, 5, 7)],
        "half": lambda: [torch.randn(40).to(torch.bfloat16)],
        "double": lambda: [torch.randn(4, 4, dtype=torch.float64)],
        "integer": lambda: [torch.randint(-9, 9, (6, 6))],
        "scalar": lambda: [torch.randn(())],
        "boolean": lambda: [torch.randn(9) > 0],
    }

    def spoils(out):
        yield lambda: None
        yield out.zero_
        if out.is_floating_point():
            for value in (torch.nan, torch.inf, -torch.inf, 1e38):
                yield lambda value=value: out.fill_(value)
        yield lambda: out.copy_(out.flip(0)) if out.dim() else None

    for name, make in makes.items():
        pure = torch.logical_not if name == "boolean" else torch.neg
        target = Target(pure, make, device=device)
        for at in range(8):

            def program(memory, at=at):
                if at:
                    memory["out"].copy_(memory["x0"])
                for spoil in list(spoils(memory["out"]))[at : at + 1]:
                    spoil()

            failure = judged(size(target, program)).failure
            assert failure is not None, (name, at)
            json.dumps(failure.to_json(), allow_nan=False)
