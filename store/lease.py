"""One session at a time measures on a device: a lease by ``flock``, freed when its holder dies."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from store.errors import FolderError
from store.paths import writable_folder

if TYPE_CHECKING:
    from pathlib import Path


class DeviceLease:
    """The right to load a device, shared by all sessions of one data folder.

    ``try_take`` never waits; the engine retries, so that it can say on the screen that another
    session measures.
    """

    def __init__(self, home: Path, device: str) -> None:
        path = writable_folder(home) / f"lease-{device}.lock"
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise FolderError(
                f"cannot open {path}: {error.strerror}", "remove what is in its place"
            ) from None

    def try_take(self, holder: str) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, holder.encode()[:200], 0)
        return True

    def holder(self) -> str:
        """Who took the lease last."""
        return os.pread(self._file, 200, 0).decode(errors="replace")

    def give_back(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._file)
