"""Caps on model calls: what is set aside and what is spent never exceed them."""

from __future__ import annotations

import random

import pytest

from agent.search.purse import DEFAULT_DOLLARS, DEFAULT_TOKENS, Purse, Worst


def test_the_worst_case_of_calls_in_flight_counts_until_they_are_settled() -> None:
    purse = Purse(50_000)
    purse.hold(1, Worst(30_000, 5000))
    assert purse.lacks(Worst(30_000, 5000)) == "dollars"
    purse.settle(1, 2_000, 700)
    assert purse.lacks(Worst(30_000, 5000)) == ""
    assert (purse.spent, purse.spent_tokens, purse.made) == (2_000, 700, 1)


def test_a_call_that_took_nothing_counts_as_none() -> None:
    purse = Purse(50_000, calls=1)
    purse.hold(1, Worst(10, 10))
    assert purse.lacks(Worst(10, 10)) == "calls"
    purse.settle(1, 0, 0)
    assert purse.lacks(Worst(10, 10)) == ""


def test_calls_without_a_price_are_held_to_a_number_of_tokens() -> None:
    purse = Purse.of({})
    assert purse.micro_dollars == DEFAULT_DOLLARS * 1e6
    assert purse.lacks(Worst(None, DEFAULT_TOKENS)) == ""
    assert purse.lacks(Worst(None, DEFAULT_TOKENS + 1)) == "tokens"
    assert purse.lacks(Worst(5, DEFAULT_TOKENS + 1)) == ""  # money holds what has a price
    assert Purse.of({"tokens": 10**9}).lacks(Worst(None, DEFAULT_TOKENS + 1)) == ""


def test_a_cap_in_dollars_that_a_person_set_lets_nothing_pass_without_a_price() -> None:
    assert Purse.of({"dollars": 0.05}).lacks(Worst(None, 10)) == "dollars"


@pytest.mark.parametrize("which", ["dollars", "tokens", "calls"])
def test_what_is_said_of_a_cap_is_in_its_unit(which: str) -> None:
    purse = Purse(2_000_000, tokens=500, calls=7)
    purse.hold(1, Worst(90, 90))
    purse.settle(1, 1_500_000, 40)
    assert purse.said(which) == {"dollars": (1.5, 2.0), "tokens": (40, 500), "calls": (1, 7)}[which]


def test_no_order_of_holding_and_settling_breaks_a_cap() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        purse = Purse(50_000, tokens=20_000, calls=40)
        for call in range(120):
            if purse.held and chance.random() < 0.5:
                done, worst = chance.choice(list(purse.held.items()))
                share = chance.random()
                money = int((worst.micro_dollars or 0) * share)
                purse.settle(done, money, int(worst.tokens * share))
            worst = Worst(chance.randrange(20_000), chance.randrange(6000))
            if not purse.lacks(worst):
                purse.hold(call, worst)
            held = sum(item.micro_dollars or 0 for item in purse.held.values())
            tokens = sum(item.tokens for item in purse.held.values())
            assert purse.spent + held <= 50_000
            assert purse.spent_tokens + tokens <= 20_000
            assert purse.made <= 40
