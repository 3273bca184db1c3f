"""How fast a writer gets fast: ``python -m tests.benchmarks.writers SESSION...``.

For each session (a file, or ``sample:NAME``) and each of its targets: how many nodes a writer in
words wrote, how many failed, how many repairs passed, and the best speedup with its gain after 1,
5, 10 and 20 nodes. A session of several targets has a last line: the geometric mean of the best by
then, with 1 for targets without one. Nothing is measured: it is read from the sessions.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

from store.reading import SessionReader
from store.sessions import find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from store.rows import NodeRow

AFTER = (1, 5, 10, 20)
WRITERS = frozenset({"model", "inbox", "replay"})
Best = tuple[float, float]


def best(nodes: Sequence[NodeRow]) -> Best | None:
    """The speedup and the gain of the best of some nodes."""
    scored = [node for node in nodes if node.state == "scored" and not node.library]
    if not scored:
        return None
    top = max(scored, key=lambda node: (node.outcome == "FASTER", node.low or 0.0))
    return top.ratio or 0.0, top.gain or 0.0


def mean_best(nodes: Sequence[NodeRow], targets: Sequence[int]) -> Best:
    """The geometric mean over the targets, of speedups and of gains."""
    found = [best([node for node in nodes if node.target == target]) for target in targets]
    pairs = [pair or (1.0, 1.0) for pair in found]
    logs = [(math.log(speedup), math.log(gain)) for speedup, gain in pairs]
    speedup, gain = (sum(column) / len(logs) for column in zip(*logs, strict=True))
    return math.exp(speedup), math.exp(gain)


def line(name: str, nodes: Sequence[NodeRow], targets: Sequence[int]) -> str:
    """A line of a Markdown table."""
    failed = sum(node.state == "failed" for node in nodes)
    repaired = sum(node.action == "repair" and node.state == "scored" for node in nodes)
    cells = [name, str(len(nodes)), str(failed), str(repaired)]
    for count in (*AFTER, len(nodes)):
        pair = mean_best(nodes[:count], targets) if len(nodes) >= count else None
        cells.append("-" if pair is None else f"{pair[0]:.2f}x ({pair[1]:.2f}x)")
    return f"| {' | '.join(cells)} |"


def lines(name: str) -> list[str]:
    """The lines of a session."""
    with SessionReader(find(name)) as reader:
        nodes, targets = reader.nodes(), reader.targets()
    told = sorted((node for node in nodes if node.writer in WRITERS and node.state != "dropped"),
                  key=lambda node: node.id)  # fmt: skip
    found = [
        line(f"{target.name}, {target.device}", [n for n in told if n.target == target.id],
             [target.id])
        for target in targets
    ]  # fmt: skip
    if len(targets) > 1:
        found.append(line(f"all {len(targets)}", told, [target.id for target in targets]))
    return found


def main(names: Sequence[str]) -> None:
    heads = ["target", "nodes", "failed", "repaired", *(f"node {n}" for n in AFTER), "last"]
    print(f"| {' | '.join(heads)} |")
    print(f"|{' --- |' * len(heads)}")
    for name in names:
        print("\n".join(lines(name)))


if __name__ == "__main__":
    main(sys.argv[1:])
