"""What paired timings say about a ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Within this share of 1 a difference is of no use to anybody, and below what a machine with
# other people on it can tell.
BAND = 0.02
SAME_BAND = 0.05


@dataclass(frozen=True, slots=True)
class Ratio:
    """A speedup (first side's time over the second's) with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """FASTER, SLOWER, SAME or UNSURE of the second side.

        FASTER and SLOWER need the whole interval more than 2 % from 1; SAME needs it within 5 %.
        """
        if self.low > 1.0 + BAND:
            return "FASTER"
        if self.high < 1.0 / (1.0 + BAND):
            return "SLOWER"
        if self.low > 1.0 / (1.0 + SAME_BAND) and self.high < 1.0 + SAME_BAND:
            return "SAME"
        return "UNSURE"


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def rank(count: int, level: float = 0.95) -> int:
    """Which order statistic from either end bounds the median: the largest k (from 1) with
    P(Binomial(count, 1/2) < k) <= (1 - level) / 2; 0 when there are too few values."""
    tail, term = 0.0, 0.5**count
    for k in range(count + 1):
        tail += term
        if tail > (1.0 - level) / 2:
            return k
        term = term * (count - k) / (k + 1)
    return 0


def ratio(pairs: Sequence[tuple[float, float]]) -> Ratio:
    """Speedup from pairs of (first, second) times taken next to each other.

    The value is the median of the pairs' ratios; the interval is the distribution-free one for a
    median, between two order statistics chosen by the binomial distribution (for example the 4th
    of 15 from either end). It assumes nothing of the noise but that pairs are independent; load
    that comes and goes hits both members of a pair.
    """
    logs = sorted(math.log(first / second) for first, second in pairs)
    k = rank(len(logs))
    low, high = (logs[k - 1], logs[-k]) if k else (-math.inf, math.inf)
    return Ratio(math.exp(median(logs)), math.exp(low), math.exp(high) if k else math.inf)
