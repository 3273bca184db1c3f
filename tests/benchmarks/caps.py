"""A cap of $0.05 with eight calls at once: ``python -m tests.benchmarks.caps [SCHEDULES]``.

Random schedules against a server on this machine that answers, fails, breaks off and reports tokens
by chance, at the prices that litellm lists for two models.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile

from agent.writers.llm import retry
from tests.agent.test_caps import CAP, PARALLEL, schedule


def main(count: int) -> None:
    retry.delay = lambda error, attempt, chance: 0.0 if attempt < 3 else None
    spent, billed, calls, over = [], [], 0, 0
    for seed in range(count):
        with tempfile.TemporaryDirectory() as home:
            os.environ["FORGE_HOME"] = home
            purse, rows, bill = asyncio.run(schedule(seed))
        spent.append(purse.spent / 1e6)
        billed.append(bill)
        calls += len(rows)
        over += purse.spent > CAP * 1e6
    print(f"{count} schedules, {PARALLEL} calls at once, a cap of ${CAP}: {calls} calls")
    print(f"spent: most ${max(spent):.4f}, mean ${sum(spent) / count:.4f}; over the cap: {over}")
    print(f"billed by the server: most ${max(billed):.4f}, mean ${sum(billed) / count:.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
