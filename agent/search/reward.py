"""From a measured speedup to a reward that means the same for every target.

The reward is the lower confidence bound of log(speedup), scaled so that 1/16x is 0 and the speed of
light is 1. Programs slower than eager still rank, and microseconds or milliseconds make no
difference (a rule on raw times degenerates on short kernels).
"""

from __future__ import annotations

import math

WORST = 1 / 16
CEILING = 1.1


def reward(low: float, sol_speedup: float | None) -> float:
    """The reward of a speedup's lower bound.

    Args:
        low: Lower bound of the speedup against eager, > 0.
        sol_speedup: Eager time over SOL time; None when no SOL is known (then 4x counts as 1).

    Returns:
        Between 0 and 1.1; a little over 1 where a program beats the streaming kernel.
    """
    best = max(sol_speedup if sol_speedup is not None else 4.0, 2 * WORST)
    scaled = (math.log(max(low, 1e-9)) - math.log(WORST)) / (math.log(best) - math.log(WORST))
    return min(max(scaled, 0.0), CEILING)
