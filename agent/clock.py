"""How long a search has been running, pauses left out."""

from __future__ import annotations

import time


class ActiveClock:
    """Microseconds of running time, going on from what earlier engines recorded."""

    def __init__(self, past_us: int) -> None:
        self._past_us = past_us
        self._since_ns: int | None = None

    @property
    def running(self) -> bool:
        return self._since_ns is not None

    def go(self) -> None:
        if self._since_ns is None:
            self._since_ns = time.monotonic_ns()

    def halt(self) -> None:
        self._past_us, self._since_ns = self.us(), None

    def us(self) -> int:
        if self._since_ns is None:
            return self._past_us
        return self._past_us + (time.monotonic_ns() - self._since_ns) // 1000
