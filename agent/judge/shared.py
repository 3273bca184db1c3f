"""Host memory that the judge and the runner share: an anonymous file that both map."""

from __future__ import annotations

import os
from typing import Any

from agent.judge.arena import Memory


class SharedFile:
    """The judge's side; ``fds`` are inherited by runners under the same numbers."""

    def __init__(self) -> None:
        self._fd = os.memfd_create("forge-judge", os.MFD_CLOEXEC)
        self._size = 0
        self.fds: tuple[int, ...] = (self._fd,)

    def grow(self, size: int) -> Memory:
        """An arena of so many bytes."""
        os.ftruncate(self._fd, size)
        self._size = size
        return Memory(self._fd, size)

    def describe(self) -> dict[str, Any]:
        """What the runner needs to map it."""
        return {"size": self._size}

    def close(self) -> None:
        os.close(self._fd)
