"""The outcomes of a target's nodes in the order in which they ended, in bounded memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

MOST_MARKS = 2048


@dataclass(frozen=True, slots=True)
class Mark:
    """One node that ended, or a few neighbours: their best and least speedup, and any failure."""

    best: float | None
    least: float | None
    failed: bool

    def join(self, other: Mark) -> Mark:
        best = [value for value in (self.best, other.best) if value is not None]
        least = [value for value in (self.least, other.least) if value is not None]
        return Mark(max(best, default=None), min(least, default=None), self.failed or other.failed)


class Series:
    """A target's ended nodes in order, joined in pairs whenever they grow too many to matter."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self.count = 0
        self._stride = 1
        self._waiting: Mark | None = None
        self._held = 0

    def add(self, ratio: float | None) -> None:
        """A node ended with this speedup; None for a failure."""
        self.count += 1
        good = ratio is not None and math.isfinite(ratio) and ratio > 0
        mark = Mark(ratio, ratio, False) if good else Mark(None, None, True)
        self._waiting = mark if self._waiting is None else self._waiting.join(mark)
        self._held += 1
        if self._held < self._stride:
            return
        self.marks.append(self._waiting)
        self._waiting, self._held = None, 0
        if len(self.marks) >= MOST_MARKS:
            pairs = zip(self.marks[::2], self.marks[1::2], strict=True)
            self.marks = [first.join(second) for first, second in pairs]
            self._stride *= 2

    def all(self) -> list[Mark]:
        return self.marks if self._waiting is None else [*self.marks, self._waiting]
