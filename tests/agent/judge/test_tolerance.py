from __future__ import annotations

import math

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from agent.judge import tolerance
from agent.judge.chains import chain_length, leaves_order_open
from agent.judge.tolerance import FloatAnswer, answer, compare, growth, ulp, ulps_allowed


def generator():
    return torch.Generator().manual_seed(0)


def answer_for(exact, eager=None, conditioned=None, g=1.0, dtype=torch.float32):
    exact = torch.as_tensor(exact, dtype=torch.float64)
    eager = exact.to(dtype) if eager is None else torch.as_tensor(eager, dtype=dtype)
    return answer(exact, eager, conditioned, g, generator())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_an_ulp_is_the_distance_to_the_next_number(dtype):
    values = torch.tensor([1.0, 1.5, -3.0, 1000.0, 2.0**-20, 0.0], dtype=torch.float64)
    found = ulp(values, dtype)
    kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    near = values.to(dtype)
    step = (near.view(kind) + 1).view(dtype).double() - near.double()
    # 2^-20 is a denormal of float16: there all steps are the same.
    assert torch.equal(found, step.abs())


def test_a_few_ulps_are_allowed_and_more_are_not():
    exact = torch.linspace(1.0, 1.9, 64, dtype=torch.float64)
    known = answer_for(exact)
    assert compare((exact + 7 * 2.0**-23).float(), known).ok
    assert not compare((exact + 9.5 * 2.0**-23).float(), known).ok
    half = answer_for(exact, dtype=torch.bfloat16)
    assert compare((exact + 2.0**-7).bfloat16(), half).ok
    assert not compare((exact + 4 * 2.0**-7).bfloat16(), half).ok


def test_where_eager_is_inexact_a_program_may_be():
    exact = torch.ones(4, 32, dtype=torch.float64)
    eager = exact.float()
    eager[1, 3] += 1e-4
    known = answer_for(exact, eager)
    value = exact.float()
    value[1, 20] -= 2.5e-4
    assert compare(value, known).ok
    value[2, 20] -= 2.5e-4
    assert not compare(value, known).ok
    assert compare(value, known).bad.nonzero()[:, 0].tolist() == [2 * 32 + 20]


def test_one_bad_element_of_eager_does_not_excuse_all():
    exact = torch.rand(1, 4096, generator=generator(), dtype=torch.float64) + 1
    eager = exact.float()
    eager[0, 0] += 0.1
    found = compare((exact + 1e-3).float(), answer_for(exact, eager))
    assert found.bad is None
    assert found.percentile is not None
    assert not found.ok


def test_ill_conditioned_answers_have_room():
    exact = torch.zeros(2, 64, dtype=torch.float64)
    known = answer_for(exact, conditioned=exact + 1e-6)
    assert compare((exact + 5e-6).float(), known).ok
    assert not compare((exact + 1e-4).float(), known).ok


def test_nan_and_infinity_must_sit_where_eagers_or_exacts_sit():
    inf, nan = math.inf, math.nan
    exact = torch.tensor([1.0, nan, inf, 1e300, -inf, 2.0] * 8, dtype=torch.float64)
    known = answer_for(exact)
    assert isinstance(known, FloatAnswer)
    right = exact.float()
    assert compare(right, known).ok
    for at, wrong in [(0, nan), (1, 1.0), (2, -inf), (3, 3e38), (4, nan), (5, inf)]:
        value = right.clone()
        value[at] = wrong
        found = compare(value, known)
        assert found.bad is not None
        assert found.bad.nonzero()[:, 0].tolist() == [at]


def test_an_overflow_of_eager_alone_may_be_followed_or_not():
    exact = torch.full((32,), 5.0, dtype=torch.float64)
    eager = exact.float()
    eager[3] = math.nan
    known = answer_for(exact, eager)
    assert compare(eager, known).ok
    assert compare(exact.float(), known).ok
    assert not compare(exact.float() + 1, known).ok


def test_integers_are_exact_but_for_ties_in_the_noise():
    exact, eager = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4])
    known = answer(exact, eager, torch.tensor([1, 2, 3]), 1.0, generator())
    assert compare(torch.tensor([1, 2, 3]), known).ok
    assert compare(torch.tensor([1, 2, 4]), known).ok
    assert not compare(torch.tensor([1, 2, 5]), known).ok
    flags = torch.tensor([True, False])
    known = answer(flags, flags, None, 1.0, generator())
    assert not compare(~flags, known).ok


def test_growth_is_for_sums_alone_and_has_an_end():
    assert growth(1) == 1
    assert growth(4096) == pytest.approx(1 + 64 / 6)
    assert growth(1 << 30) == growth(16384)
    # Beyond this, computing in tf32 would pass: 8192 parts in 2^24.
    assert 8 * growth(1 << 30) < 8192 / 8
    assert growth(4096, constant=True) * 8 == 1024
    assert ulps_allowed(torch.float32, 1.0) == 8
    assert ulps_allowed(torch.bfloat16, growth(4096)) < 2.01


def graph_of(function, *args):
    return make_fx(function)(*args)


def test_chains_are_read_from_the_graph():
    x, w = torch.randn(8, 100), torch.randn(100, 30)
    assert chain_length(graph_of(lambda x: torch.relu(x) * 2 + x.t().reshape(8, 100), x)) == 1
    assert chain_length(graph_of(lambda x: torch.nn.functional.gelu(x), x)) == 1
    assert chain_length(graph_of(lambda x: x.argmax(-1), x)) == 1
    assert chain_length(graph_of(lambda x: x.softmax(-1), x)) == 100
    assert chain_length(graph_of(lambda x: x.sum(), x)) == 800
    assert chain_length(graph_of(lambda x, w: x @ w, x, w)) >= 100
    image, kernel = torch.randn(2, 16, 9, 9), torch.randn(4, 16, 3, 3)
    conv = graph_of(lambda x, w: torch.nn.functional.conv2d(x, w), image, kernel)
    assert chain_length(conv) >= 144


def test_where_the_order_is_open_indices_need_only_be_in_range():
    known = answer(torch.tensor([7, 7]), torch.tensor([7, 7]), None, 1.0, generator(), open_order=9)
    assert compare(torch.tensor([0, 8]), known).ok
    assert not compare(torch.tensor([0, 9]), known).ok
    assert not compare(torch.tensor([-1, 0]), known).ok
    assert leaves_order_open(graph_of(lambda x: torch.topk(x, 2)[1], torch.randn(9)))
    assert not leaves_order_open(graph_of(lambda x: x.argmax(), torch.randn(9)))


def test_percentiles_are_of_the_elements_that_are_finite():
    exact = torch.full((4096,), math.nan, dtype=torch.float64)
    exact[:40] = torch.linspace(1, 2, 40, dtype=torch.float64)
    known = answer_for(exact)
    value = exact.float()
    assert compare(value, known).ok
    assert int(known.places.max()) < 40


def test_large_answers_are_compared_in_parts_to_the_same_end(monkeypatch):
    exact = torch.randn(64, 48, generator=generator(), dtype=torch.float64)
    exact[7, 7] = math.nan
    eager = exact.float() * (1 + 1e-6)
    value = exact.float()
    value[50, 3] += 1
    whole = answer_for(exact, eager, exact + 1e-7, 4.0)
    found = compare(value, whole)
    monkeypatch.setattr(tolerance, "_CHUNK", 500)
    parts = answer_for(exact, eager, exact + 1e-7, 4.0)
    again = compare(value, parts)
    assert torch.equal(whole.allowed.nan_to_num(), parts.allowed.nan_to_num())
    assert (whole.quantiles, whole.eager_error) == (parts.quantiles, parts.eager_error)
    assert torch.equal(found.bad, again.bad)
    assert (found.worst, found.max_error) == (again.worst, again.max_error)
    assert again.bad.nonzero()[:, 0].tolist() == [50 * 48 + 3]


def test_beyond_honest_errors_a_program_may_be_three_times_as_bad_as_eager():
    exact = torch.rand(8, 512, generator=generator(), dtype=torch.float64) + 1
    sign = torch.where(torch.arange(512) % 2 == 0, 1.0, -1.0)
    known = answer_for(exact, exact + 1e-3 * sign)
    assert compare((exact - 2.5e-3 * sign).float(), known).ok
    assert not compare((exact - 4e-3 * sign).float(), known).ok


def test_what_cancels_has_no_digits_to_count():
    exact = torch.rand(8, 512, generator=generator(), dtype=torch.float64) + 1
    exact[:, ::2] *= 1e-12
    known = answer_for(exact, exact.float(), exact + 1e-7)
    assert compare((exact + 3e-7).float(), known).ok
