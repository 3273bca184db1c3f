"""When to ask again: the schedule of retries, pure.

Full jitter as Brooker describes it (AWS Architecture Blog, "Exponential Backoff and Jitter", 2015):
many callers that failed together do not come back together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from agent.errors import ModelError

BASE_S = 2.0
CAP_S = 60.0
MAX_ATTEMPTS = 6
MAX_PAID = 3
"""Attempts while something came each time: such are paid, and the next may end alike."""
MAX_ASKED_S = 300.0
LEAST_S = 0.25


def delay(error: ModelError, attempt: int, chance: random.Random) -> float | None:
    """Seconds to wait before the next attempt; None if there should be none.

    Args:
        error: Why this attempt failed. What the provider asks for is the least that is waited;
            more than ``MAX_ASKED_S`` is not waited for.
        attempt: Which attempt it was, from 1.
        chance: For the jitter.
    """
    most = MAX_ATTEMPTS if error.partial is None else MAX_PAID
    if error.fatal or not error.again or attempt >= most:
        return None
    ceiling = min(CAP_S, BASE_S * 2 ** (attempt - 1))
    wait: float = LEAST_S + chance.random() * (ceiling - LEAST_S)
    if error.wait_s is None:
        return wait
    if error.wait_s > MAX_ASKED_S:
        return None
    # A little later than asked, and not all at the same moment.
    extra: float = chance.random() * BASE_S
    return error.wait_s + extra
