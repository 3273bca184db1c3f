"""The schedule of retries."""

from __future__ import annotations

import random

import pytest

from agent.errors import ModelError
from agent.writers.llm.retry import BASE_S, CAP_S, MAX_ASKED_S, MAX_ATTEMPTS, delay


def waits(error: ModelError, attempt: int) -> list[float]:
    found = [delay(error, attempt, random.Random(seed)) for seed in range(200)]
    assert None not in found
    return [wait for wait in found if wait is not None]


@pytest.mark.parametrize("attempt", range(1, MAX_ATTEMPTS))
def test_waits_double_up_to_a_cap_and_differ(attempt: int) -> None:
    ceiling = min(CAP_S, BASE_S * 2 ** (attempt - 1))
    found = waits(ModelError("x", again=True), attempt)
    assert 0 < min(found) < 0.3 * ceiling
    assert 0.9 * ceiling < max(found) <= ceiling
    assert len(set(found)) > 150


def test_what_the_provider_asks_for_is_the_least() -> None:
    found = waits(ModelError("x", again=True, wait_s=20), 1)
    assert min(found) >= 20
    assert max(found) <= 20 + BASE_S
    assert len(set(found)) > 150
    assert max(waits(ModelError("x", again=True, wait_s=0), 1)) <= BASE_S


@pytest.mark.parametrize(
    ("error", "attempt"),
    [
        (ModelError("x"), 1),
        (ModelError("x", again=True, fatal=True), 1),
        (ModelError("x", again=True), MAX_ATTEMPTS),
        (ModelError("x", again=True, wait_s=MAX_ASKED_S + 1), 1),
    ],
)
def test_when_there_is_no_next_attempt(error: ModelError, attempt: int) -> None:
    assert delay(error, attempt, random.Random(1)) is None


def test_the_same_seed_waits_the_same() -> None:
    error = ModelError("x", again=True)
    assert delay(error, 3, random.Random(7)) == delay(error, 3, random.Random(7))
