"""How fast a writer gets fast: ``python -m tests.benchmarks.writers SESSION...``.

For each session (a file, or ``sample:NAME``) how many nodes it took, how many failed and were
repaired, and the best speedup and gain after 1, 5, 10 and 20 nodes of a writer in words. Nothing is
measured: it is read from the sessions.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from store.reading import SessionReader
from store.sessions import find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from store.rows import NodeRow

AFTER = (1, 5, 10, 20)
WRITERS = frozenset({"model", "inbox", "replay"})


def best(nodes: Sequence[NodeRow]) -> str:
    """The best speedup and gain of some nodes."""
    scored = [node for node in nodes if node.state == "scored" and not node.library]
    if not scored:
        return "-"
    top = max(scored, key=lambda node: node.low or 0.0)
    return f"{top.ratio or 0.0:.2f}x ({top.gain or 0.0:.2f}x)"


def row(name: str) -> str:
    """A session as a line of a Markdown table."""
    with SessionReader(find(name)) as reader:
        nodes, targets = reader.nodes(), reader.targets()
        asked = len(reader.calls())
    told = sorted((node for node in nodes if node.writer in WRITERS and node.state != "dropped"),
                  key=lambda node: node.id)  # fmt: skip
    failed = [node for node in told if node.state == "failed"]
    repaired = [node for node in told if node.action == "repair" and node.state == "scored"]
    cells = [
        ", ".join(f"{target.name} ({target.device})" for target in targets), str(asked),
        str(len(told)), str(len(failed)), str(len(repaired)),
        *(best(told[:count]) if len(told) >= count else "-" for count in AFTER), best(told),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main(names: Sequence[str]) -> None:
    heads = ["target", "prompts", "nodes", "failed", "repaired",
             *(f"node {count}" for count in AFTER), "last"]  # fmt: skip
    print(f"| {' | '.join(heads)} |")
    print(f"|{' --- |' * len(heads)}")
    for name in names:
        print(row(name))


if __name__ == "__main__":
    main(sys.argv[1:])
