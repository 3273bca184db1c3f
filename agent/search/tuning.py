"""Closing a program's tunables by measurement: coordinate descent over short timings.

The default values come first (they must pass the check before anything else is tried); then one
tunable after another, all its other values at once, the best kept, until a round changes nothing
or the allowance is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    Values = dict[str, int]


class Tuner:
    """Proposes variants in batches and is told their times.

    Args:
        tune: Tunables with their values, the default first.
        allowance: How many variants may be tried besides the default.
    """

    def __init__(self, tune: Mapping[str, tuple[int, ...]], allowance: int) -> None:
        self._tune = dict(tune)
        self._left = allowance
        self._center = {name: values[0] for name, values in tune.items()}
        # The default needs no proposal; a first batch may be built before its time is known.
        self._times: dict[tuple[int, ...], int | None] = {self._key(self._center): None}
        self._queue = list(tune)
        self._moved = False

    def _key(self, values: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(values[name] for name in self._tune)

    def report(self, values: Values, time_ns: int | None) -> None:
        """A variant's time, or None when it failed."""
        self._times[self._key(values)] = time_ns

    def next_batch(self) -> list[Values]:
        """Variants to try next; empty when tuning is done."""
        while self._left > 0:
            self._recenter()
            if not self._queue:
                if not self._moved:
                    return []
                self._moved, self._queue = False, list(self._tune)
            name = self._queue.pop(0)
            batch = [
                candidate
                for value in self._tune[name]
                if self._key(candidate := {**self._center, name: value}) not in self._times
            ][: self._left]
            if batch:
                self._left -= len(batch)
                return batch
        return []

    def _recenter(self) -> None:
        ranking = self.ranking()
        if ranking and ranking[0] != self._center:
            self._center, self._moved = ranking[0], True

    def ranking(self) -> list[Values]:
        """The variants that were timed, fastest first."""
        timed = [(ns, key) for key, ns in self._times.items() if ns is not None]
        return [dict(zip(self._tune, key, strict=True)) for _, key in sorted(timed)]
