"""Foreign text in prompts: printable, bounded, and fenced so that it cannot end its own fence.

References, compilers' messages, titles, and people's hints are data. A fence is longer than any
run of its own characters inside it, so nothing in a block can be read as standing outside of it.
"""

from __future__ import annotations

import re
from itertools import accumulate

_RUN = re.compile(r"`+")
_LINE = 2000
MOST = 1 << 16  # characters of one block, before any budget


def one_line(text: str, limit: int = 200) -> str:
    """Foreign text as one bounded line of printable characters, without backquotes."""
    shown = " ".join(_printable(text[: 4 * limit]).replace("`", "'").split())
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def lines_of(text: str) -> list[str]:
    """Foreign text as printable lines; blank ones at both ends are left out."""
    found = [
        _printable(_short(line.expandtabs(4))).rstrip()
        for line in text[: 4 * MOST].replace("\r\n", "\n").replace("\r", "\n").split("\n")
    ]
    while found and not found[-1]:
        found.pop()
    while found and not found[0]:
        found.pop(0)
    return found


def fenced(text: str, label: str = "text", limit: int = MOST) -> str:
    """Foreign text as a block of about ``limit`` characters at most; a cut is marked."""
    body = "\n".join(cut(lines_of(text), limit))
    longest = max((len(run) for run in _RUN.findall(body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{label}\n{body}\n{fence}"


def _short(line: str) -> str:
    return line if len(line) <= _LINE else line[: _LINE - 1] + "…"


def cut(lines: list[str], limit: int) -> list[str]:
    """The first two thirds and the last third of what fits, and how many lines are left out."""
    if sum(map(len, lines)) + len(lines) <= limit:
        return lines
    first = _fitting(lines, 2 * limit // 3)
    last = _fitting(lines[:first:-1], limit // 3) if first < len(lines) else 0
    left = len(lines) - first - last
    mark = f"[... {left} of {len(lines)} lines are left out here ...]"
    return [*lines[:first], mark, *lines[len(lines) - last :]]


def _fitting(lines: list[str], limit: int) -> int:
    """How many of the first lines have ``limit`` characters together."""
    return sum(total <= limit for total in accumulate(len(line) + 1 for line in lines))


def _printable(text: str) -> str:
    """Without control codes, escapes, and marks that hide or reorder what is read."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " for char in text)
