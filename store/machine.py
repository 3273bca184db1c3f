"""What is known of this machine: rates, SOL times, baselines; one file, safe for many processes."""

from __future__ import annotations

import fcntl
import json
import sqlite3
import time
from typing import TYPE_CHECKING, Any

from store.errors import FolderError
from store.paths import network_file_system, writable_folder

if TYPE_CHECKING:
    from pathlib import Path


class MachineStore:
    """Measured values by kind (``sol``, ``rate``, ``baseline``), machine key and key.

    The machine key names everything a figure depends on: device UUID or CPU model and cores,
    driver, toolchain versions. A row is replaced whole, so concurrent writers cannot mix.

    Raises:
        FolderError: The file cannot be made or written.
    """

    def __init__(self, path: Path) -> None:
        writable_folder(path.parent)
        try:
            self._conn = sqlite3.connect(path, isolation_level=None, timeout=10.0)
            if self._conn.execute("PRAGMA user_version").fetchone()[0] == 0:
                self._create(path)
        except sqlite3.DatabaseError as error:
            raise FolderError(
                f"{path} cannot be used: {error}", "remove the file; it is measured anew"
            ) from None

    def _create(self, path: Path) -> None:
        """Make the table, one process at a time: SQLite itself does not wait for a schema."""
        from sqlite_utils import Database

        from store.schema import MACHINE

        with open(path.with_suffix(".lock"), "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if network_file_system(path) is None:
                self._conn.execute("PRAGMA journal_mode = WAL")
            MACHINE.apply(Database(self._conn))

    def get(self, kind: str, machine: str, key: str) -> dict[str, Any] | None:
        row = self._conn.execute(
            "SELECT value FROM measured WHERE kind = ? AND machine = ? AND key = ?",
            [kind, machine, key],
        ).fetchone()
        return None if row is None else dict(json.loads(row[0]))

    def put(self, kind: str, machine: str, key: str, value: dict[str, Any]) -> None:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
        self._conn.execute(
            "INSERT OR REPLACE INTO measured (kind, machine, key, value, at_us) "
            "VALUES (?, ?, ?, ?, ?)",
            [kind, machine, key, text, time.time_ns() // 1000],
        )

    def close(self) -> None:
        self._conn.close()
