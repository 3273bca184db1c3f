"""What the engine itself costs for each node: no model, a judge that answers at once.

Run: ``python -m tests.benchmarks.engine_overhead [NODES]``. Prints milliseconds for a node (every
event committed, selection, backup, best) around 100 nodes and at the end, and the time to take the
session up again.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from agent.workers.workshop import Proposal
from store.reading import SessionReader
from tests.agent.landscape import Landscape, engine_on, new_session

WINDOW = 100


class Instant(Landscape):
    """Answers at once and keeps no record."""

    _next = 0

    async def _count(self, verb: str, what: Any = None) -> None:
        pass

    async def propose(self, target: int, ask: dict[str, Any]) -> Proposal:
        Instant._next += 1
        return Proposal("idea", {"n": Instant._next, "key": str(Instant._next)})


async def search(nodes: int) -> tuple[list[float], float]:
    """Milliseconds of each node, and seconds to take the session up again."""
    path = new_session(nodes=nodes, minutes=1e6, patience=10**9)
    workshop = Instant(sol_ns=1)
    engine, session = await engine_on(path, workshop)
    await engine.run()
    session.close()
    with SessionReader(path) as reader:
        ended = sorted(row.finished_us for row in reader.nodes() if row.finished_us)
    spent = [(b - a) / 1000 for a, b in itertools.pairwise(ended)]
    begun = time.monotonic()
    _, session = await engine_on(path, workshop)
    resumed = time.monotonic() - begun
    session.close()
    return spent, resumed


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict("os.environ", {"FORGE_HOME": str(Path(folder) / "home")}),
    ):
        spent, resumed = asyncio.run(search(nodes))
    print(f"{'nodes':>8} {'ms a node, median':>18} {'p95':>8}")
    for end in (WINDOW, nodes):
        window = spent[max(end - WINDOW, 0) : end]
        p95 = statistics.quantiles(window, n=20)[-1]
        print(f"{end:>8} {statistics.median(window):>18.2f} {p95:>8.2f}")
    print(f"taken up again in {resumed:.2f} s")


if __name__ == "__main__":
    main()
