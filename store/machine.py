"""What is known of this machine: measured values, and rules that failures taught.

One file, safe for many processes.
"""

from __future__ import annotations

import fcntl
import json
import sqlite3
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from store.errors import FolderError
from store.paths import network_file_system, writable_folder
from store.rows import Row
from store.rules import storable
from store.version import MACHINE_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_RULES = 500
"""Rules kept for a machine and language: more would be of use to nobody."""
_MAX_KEY = 200
_MAX_TEXT = 500


@dataclass(frozen=True, slots=True)
class LearnedRule(Row):
    """A rule that failures on a machine taught.

    Attributes:
        language: ``"cpp"`` or ``"cuda"``.
        count: How often the mistake was seen; ``first_us`` and ``last_us`` say when.
        muted: 1 when a person wants no writer to be told it.
    """

    key: str
    machine: str
    language: str
    text: str
    count: int
    first_us: int
    last_us: int
    muted: int


class MachineStore:
    """Measured values by kind (``sol``, ``rate``, ``baseline``), machine key and key; and rules.

    The machine key names everything a figure depends on: device UUID or CPU model and cores,
    driver, toolchain versions. A row is replaced whole, so concurrent writers cannot mix. Opening
    an older file brings it up to date.

    Raises:
        FolderError: The file cannot be made or written.
    """

    def __init__(self, path: Path) -> None:
        writable_folder(path.parent)
        self._path = path
        with self._usable():
            self._conn = sqlite3.connect(path, isolation_level=None, timeout=10.0)
            if self._conn.execute("PRAGMA user_version").fetchone()[0] < MACHINE_SCHEMA:
                self._bring_up_to_date(path)

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Turn what a broken file leads to into FolderError."""
        try:
            yield
        except (sqlite3.DatabaseError, ValueError, TypeError) as error:
            raise FolderError(
                f"{self._path} cannot be used: {_line(str(error), 200)}",
                "remove the file; what it held is measured and learned anew",
            ) from None

    def _bring_up_to_date(self, path: Path) -> None:
        """Make the tables, one process at a time: SQLite itself does not wait for a schema."""
        from sqlite_utils import Database

        from store.schema import MACHINE

        with open(path.with_suffix(".lock"), "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if network_file_system(path) is None:
                self._conn.execute("PRAGMA journal_mode = WAL")
            MACHINE.apply(Database(self._conn))

    def get(self, kind: str, machine: str, key: str) -> dict[str, Any] | None:
        with self._usable():
            row = self._conn.execute(
                "SELECT value FROM measured WHERE kind = ? AND machine = ? AND key = ?",
                [kind, machine, key],
            ).fetchone()
            return None if row is None else dict(json.loads(row[0]))

    def put(self, kind: str, machine: str, key: str, value: dict[str, Any]) -> None:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
        with self._usable():
            self._conn.execute(
                "INSERT OR REPLACE INTO measured (kind, machine, key, value, at_us) "
                "VALUES (?, ?, ?, ?, ?)",
                [kind, machine, key, text, time.time_ns() // 1000],
            )

    # -- rules -------------------------------------------------------------------------------------

    def learn(self, machine: str, language: str, key: str, text: str) -> None:
        """Note that a mistake was seen, once more if it is known under ``key``.

        Of more than ``MAX_RULES`` the rarest and oldest go; those that a person muted stay.
        """
        now = time.time_ns() // 1000
        kind = [machine, language]
        with self._usable():
            self._conn.execute(
                "INSERT INTO rules (machine, language, key, text, count, first_us, last_us, muted) "
                "VALUES (?, ?, ?, ?, 1, ?, ?, 0) ON CONFLICT (machine, language, key) DO UPDATE "
                "SET count = count + 1, last_us = excluded.last_us, text = excluded.text",
                [*kind, _line(key, _MAX_KEY), _line(text, _MAX_TEXT), now, now],
            )
            self._conn.execute(
                "DELETE FROM rules WHERE rowid IN (SELECT rowid FROM rules "
                "WHERE machine = ? AND language = ? AND muted = 0 "
                "ORDER BY last_us = ? DESC, count DESC, last_us DESC LIMIT -1 OFFSET ?)",
                [*kind, now, MAX_RULES],
            )

    def rules(
        self, machine: str | None = None, language: str | None = None, muted: bool = False
    ) -> list[LearnedRule]:
        """Rules, the most frequent first; with ``muted`` those too that nobody is told."""
        with self._usable():
            found = self._conn.execute(
                f"SELECT {LearnedRule.columns()} FROM rules "
                "WHERE machine = coalesce(?, machine) AND language = coalesce(?, language) "
                "AND muted <= ? ORDER BY count DESC, last_us DESC, key",
                [machine, language, int(muted)],
            )
            return [LearnedRule.make(row) for row in found]

    def mute(self, key: str, machine: str, muted: bool) -> bool:
        """Tell a rule to no writer any more, or again; False when there is none of that key."""
        return self._change("UPDATE rules SET muted = ?", [int(muted)], key, machine)

    def forget(self, key: str, machine: str) -> bool:
        """Drop a rule, to be learned anew if it is seen again; False when there is none."""
        return self._change("DELETE FROM rules", [], key, machine)

    def _change(self, what: str, values: list[int], key: str, machine: str) -> bool:
        with self._usable():
            cursor = self._conn.execute(
                f"{what} WHERE key = ? AND machine = ?", [*values, key, machine]
            )
            return cursor.rowcount > 0

    def close(self) -> None:
        self._conn.close()


def _line(text: str, most: int) -> str:
    """A text that a model had a hand in as one printable line."""
    printable = "".join(char if char.isprintable() else " " for char in storable(text, 4 * most))
    return " ".join(printable.split())[:most]
