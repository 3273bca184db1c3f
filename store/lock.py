"""The engine's life as a file lock: held by ``flock``, freed by the kernel when it dies."""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

from store.errors import FolderError, SessionBusy
from store.paths import lock_path

if TYPE_CHECKING:
    from pathlib import Path


class EngineLock:
    """An exclusive lock on a session, held from ``acquire`` to ``release`` or the process's end."""

    def __init__(self, session: Path) -> None:
        self._path = lock_path(session)
        self._file = -1

    def acquire(self, patience_s: float = 1.0) -> None:
        """Take the lock; a viewer's probe holds it for microseconds, so try for ``patience_s``.

        Raises:
            SessionBusy: Another engine holds it.
            FolderError: The lock file cannot be made.
        """
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise FolderError(
                f"cannot make {self._path}: {error.strerror}",
                "copy the session to a folder that you may write",
            ) from None
        end = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    self.release()
                    raise SessionBusy(
                        "this session is already running",
                        "watch it with `forge-tui attach`, or stop it with `forge-tui stop`",
                    ) from None
                time.sleep(0.01)
            else:
                return

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def engine_alive(session: Path) -> bool:
    """Whether an engine holds the session's lock (probed with a shared lock)."""
    try:
        file = os.open(lock_path(session), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(file)
