"""Writes the table of docs/judge.md: each known trick, the audit's programs, where they fall.

``python docs/judge_table.py`` brings docs/judge.md up to date; ``--check`` only says whether it is.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from agent.audit import rows
from agent.audit.tricks import GROUPS, Trick

if TYPE_CHECKING:
    from agent.audit.rows import Row

PAGE = Path(__file__).parent / "judge.md"
BEGIN, END = "<!-- table: docs/judge_table.py -->\n", "<!-- end of table -->"


def falls(some: list[Row]) -> str:
    """How many programs must fall on which rung."""
    counts = Counter(row.expected.replace("|", " or ") for row in some)
    return "; ".join(f"{count} {rung}" for rung, count in sorted(counts.items()))


def line(name: str, trick: Trick, every: list[Row]) -> str:
    """One trick's line."""
    mine = [row for row in every if row.trick == name]
    tried = [f"{len(mine)}: {falls(mine)}"] if mine else []
    if trick.impossible:
        tried.insert(0, f"impossible: {trick.impossible}")
    if trick.duty:
        tried.append(trick.duty)
    return f"| {name} | {trick.what} | {'. '.join(tried)} |\n"


def table() -> str:
    """All tricks in their groups."""
    every = [*rows("cpp"), *rows("cuda")]
    text = ""
    for group, tricks in GROUPS.items():
        text += f"\n**{group}**\n\n| trick | what is tried | programs and where they fall |\n"
        text += "| --- | --- | --- |\n"
        text += "".join(line(name, trick, every) for name, trick in tricks.items())
    honest = {name: sum(row.kind == "honest" for row in rows(name)) for name in ("cpp", "cuda")}
    cheats = {name: len(rows(name)) - honest[name] for name in honest}
    return (
        f"\n{cheats['cpp']} C++ and {cheats['cuda']} CUDA programs that cheat or break; "
        f"{honest['cpp']} C++ and {honest['cuda']} CUDA programs that are right.\n{text}\n"
    )


def main() -> int:
    """Bring the page up to date, or check it."""
    before = PAGE.read_text(encoding="utf-8")
    head, _, rest = before.partition(BEGIN)
    _, _, tail = rest.partition(END)
    after = head + BEGIN + table() + END + tail
    if "--check" in sys.argv[1:]:
        return int(before != after)
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
