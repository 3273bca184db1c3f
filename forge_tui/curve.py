"""The best-so-far curve: every judged node a dot, failures in a lane of their own, log scale."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from forge_tui import figures
from forge_tui.view import fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forge_tui.glyphs import Glyphs
    from forge_tui.series import Mark, Series
    from forge_tui.view import Line

LABEL = 7
_LEAST, _MOST = 1 / 8, 4096.0


class Scale:
    """A log scale from a speedup to a row of the plot, 0 at the top."""

    def __init__(self, low: float, high: float, rows: int) -> None:
        self.low, self.high, self.rows = low, high, rows

    def row(self, ratio: float) -> int:
        ratio = min(max(ratio, self.low), self.high)
        part = math.log(ratio / self.low) / math.log(self.high / self.low)
        return round((1 - part) * (self.rows - 1))


def columns(marks: Sequence[Mark], size: int, cap: int = 0) -> list[list[Mark]]:
    """The marks dealt to plot columns, in order; several to a column when they are many.

    ``cap`` is how many are expected: the plot then fills up instead of being squeezed.
    """
    if len(marks) <= size:
        step = max(1, min(8, size // max(1, len(marks), cap)))
        out: list[list[Mark]] = []
        for mark in marks:
            out.append([mark])
            out.extend([] for _ in range(step - 1))
        return out[:size]
    ends = [index * len(marks) // size for index in range(size + 1)]
    return [list(marks[start:end]) for start, end in pairwise(ends)]


def curve(
    series: Series,
    sol: float | None,
    cells: int,
    rows: int,
    glyphs: Glyphs,
    cap: int = 0,
    stands: float | None = None,
) -> list[Line]:
    """The plot as ``rows`` lines of ``cells`` cells.

    Args:
        series: A target's nodes in the order in which they ended.
        sol: The speedup that the speed of light would be, or None.
        cap: How many nodes the target may have, 0 if not known.
        stands: The best that counts now, if known: one that led may have been pruned or refused.
    """
    size = cells - LABEL - 1
    marks = series.all()
    good = [mark.best for mark in marks if mark.best is not None]
    if size < 8 or rows < 4:
        return []
    if not marks:
        empty = fill(((" " * LABEL, "text"), ("no node has ended yet", "muted")), cells)
        return [empty, *[fill((), cells)] * (rows - 1)]
    best = max(good, default=1.0)
    high = max(1.25, best * 1.1)
    show_sol = sol is not None and 0 < sol <= max(8.0, best * 4)
    if show_sol and sol is not None:
        high = max(high, sol * 1.05)
    least = [mark.least for mark in marks if mark.least is not None]
    low = max(_LEAST, min(0.8, *least) * 0.95) if least else 0.8
    plot = Scale(low, min(high, _MOST), rows - 1)
    dealt = columns(marks, size, cap)
    grid, roles = _paint(dealt, plot, size, sol if show_sol else None, glyphs)
    labels = _labels(plot, stands or (best if good else None), sol if show_sol else None)
    lines: list[Line] = []
    for y in range(plot.rows):
        text, role = labels.get(y, ("", "muted"))
        lines.append(
            (
                (f"{text:>{LABEL - 1}} ", role),
                *_runs(grid[y], roles[y]),
                (" ", "text"),
            )
        )
    return [*lines, _lane(dealt, size, glyphs)]


def _labels(plot: Scale, best: float | None, sol: float | None) -> dict[int, tuple[str, str]]:
    labels = {}
    if sol is not None:
        labels[plot.row(sol)] = ("SOL", "muted")
    labels[plot.row(1.0)] = ("eager", "muted")
    if best is not None:
        labels[plot.row(best)] = (figures.speedup(best), "best")
    return labels


def _paint(
    dealt: list[list[Mark]], plot: Scale, size: int, sol: float | None, glyphs: Glyphs
) -> tuple[list[list[str]], list[list[str]]]:
    grid = [[" "] * size for _ in range(plot.rows)]
    roles = [["text"] * size for _ in range(plot.rows)]

    def put(x: int, y: int, sign: str, role: str) -> None:
        grid[y][x], roles[y][x] = sign, role

    for level in (1.0, sol):
        if level is not None:
            for x in range(size):
                put(x, plot.row(level), glyphs.rule, "faint")
    best: float | None = None
    for x, column in enumerate(dealt):
        for mark in column:
            for ratio in (mark.least, mark.best):
                if ratio is not None:
                    put(x, plot.row(ratio), glyphs.dot, "muted")
        top = max((mark.best for mark in column if mark.best is not None), default=None)
        if top is None or (best is not None and top <= best):
            if best is not None:
                put(x, plot.row(best), glyphs.line, "best")
            continue
        start, end = plot.row(best if best is not None else top), plot.row(top)
        for y in range(end + 1, start):
            put(x, y, glyphs.rise, "best")
        if start != end:
            put(x, start, glyphs.turn_up, "best")
        put(x, end, glyphs.turn_right if start != end else glyphs.line, "best")
        best = top
    return grid, roles


def _runs(signs: list[str], roles: list[str]) -> list[tuple[str, str]]:
    """Neighbouring cells of one role joined."""
    out: list[tuple[str, str]] = []
    for sign, role in zip(signs, roles, strict=True):
        if out and out[-1][1] == role:
            out[-1] = (out[-1][0] + sign, role)
        else:
            out.append((sign, role))
    return out


def _lane(dealt: list[list[Mark]], size: int, glyphs: Glyphs) -> Line:
    """The lane of failures below the plot."""
    failed = [any(mark.failed for mark in column) for column in dealt]
    signs = "".join(glyphs.failed if one else " " for one in failed)[:size]
    label = "failed" if any(failed) else ""
    return fill(((f"{label:>{LABEL - 1}} ", "muted"), (signs, "bad")), size + LABEL + 1)
