from __future__ import annotations

import math
import random

import pytest

from agent.judge.statistics import Ratio, median, rank, ratio


def test_median():
    assert median([3, 1, 2]) == 2
    assert median([4, 1, 2, 3]) == 2.5


@pytest.mark.parametrize(("count", "k"), [(5, 0), (6, 1), (15, 4), (20, 6), (100, 40)])
def test_ranks_are_those_of_the_binomial_tables(count, k):
    assert rank(count) == k
    below = sum(math.comb(count, i) for i in range(k)) / 2**count
    assert below <= 0.025


def test_the_interval_covers_the_true_ratio_as_often_as_it_says():
    generator = random.Random(1)
    covered = 0
    for _ in range(400):
        pairs = [
            (1.2 * math.exp(generator.gauss(0, 0.1)), math.exp(generator.gauss(0, 0.1)))
            for _ in range(15)
        ]
        found = ratio(pairs)
        covered += found.low <= 1.2 <= found.high
    assert covered >= 0.93 * 400


def test_outliers_do_not_move_it():
    pairs = [(2.0, 1.0)] * 14 + [(2000.0, 1.0)]
    assert ratio(pairs) == Ratio(pytest.approx(2), pytest.approx(2), pytest.approx(2))


def test_too_few_pairs_say_nothing():
    found = ratio([(2.0, 1.0)] * 3)
    assert found.low == 0
    assert found.high == math.inf
    assert found.verdict == "UNSURE"


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.03, 1.5, "FASTER"), (1.01, 1.03, "SAME"), (0.97, 1.04, "SAME"),
        (0.7, 0.9, "SLOWER"), (0.9, 1.2, "UNSURE"), (1.01, 1.4, "UNSURE"),
    ],
)  # fmt: skip
def test_verdicts(low, high, verdict):
    assert Ratio(math.sqrt(low * high), low, high).verdict == verdict
