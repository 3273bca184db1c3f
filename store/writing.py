"""The engine's side of a session: events with their rows, content, heartbeat, commands."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlite_utils import Database

from store.errors import FolderError, SessionDamaged, SessionTooNew, StoreError
from store.events import EVENTS, Event, complete, encode
from store.lock import EngineLock
from store.paths import network_file_system, refuse_sample
from store.project import apply
from store.reading import SessionReader, sound
from store.rules import storable
from store.schema import SESSION
from store.version import SESSION_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_STREAM = 64 * 1024
MAX_REPLY = 1024 * 1024
MAX_COMMANDS = 100
MAX_ARGS = 10_000


def now_us() -> int:
    """UTC time of day in microseconds."""
    return time.time_ns() // 1000


def open_database(path: Path) -> Database:
    """Open for writing, WAL where the file system can; schema brought up to date.

    Raises:
        SessionDamaged: SQLite cannot read the file.
        SessionTooNew: A newer forge-tui wrote it.
        FolderError: It cannot be written.
    """
    try:
        conn = sqlite3.connect(path, isolation_level=None, timeout=10.0)
        (version,) = conn.execute("PRAGMA user_version").fetchone()
        if version > SESSION_SCHEMA:
            raise SessionTooNew(f"{path.name} was written by a newer forge-tui", "update forge-tui")
        wal = network_file_system(path) is None
        conn.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'TRUNCATE'}")
        conn.execute("PRAGMA synchronous = NORMAL")
        database = Database(conn)
        SESSION.apply(database)
    except sqlite3.DatabaseError as error:
        if "readonly" in str(error) or "unable to open" in str(error):
            raise FolderError(
                f"{path} cannot be written: {error}", "copy it to a folder that you may write"
            ) from None
        raise SessionDamaged(
            f"{path.name} cannot be read: {error}", "restore it from a copy, or remove the file"
        ) from None
    return database


def append_event(
    conn: sqlite3.Connection,
    kind: str,
    payload: dict[str, Any],
    *,
    target: int = 0,
    node: int = 0,
    active_us: int = 0,
) -> Event:
    """Append one event and bring the rows up to date; the caller holds the transaction."""
    payload = complete(kind, payload)
    text = encode(kind, payload)
    at_us = now_us()
    version = EVENTS[kind].version
    cursor = conn.execute(
        "INSERT INTO events (at_us, active_us, kind, version, target, node, payload) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        [at_us, active_us, kind, version, target, node, text],
    )
    seq = cursor.lastrowid or 0
    event = Event(seq, at_us, active_us, kind, version, target, node, payload)
    apply(conn, event)
    return event


class SessionWriter:
    """A session held by an engine. Every change is one transaction, committed at once.

    Opening takes the engine's lock and brings the schema up to date; ``close`` folds the
    write-ahead log back so that the session is one plain file again.

    Raises:
        SessionBusy, SessionDamaged, SessionTooNew, FolderError: See ``store.errors``.
    """

    def __init__(self, path: Path) -> None:
        refuse_sample(path)
        self.path = path
        self._lock = EngineLock(path)
        self._lock.acquire()
        try:
            with sound(path):
                # A file that holds no session is left as it is.
                SessionReader(path).close()
                self._database = open_database(path)
                self.conn: sqlite3.Connection = self._database.conn
                self._last_ids: dict[str, int] = {}
                self.active_us = self._past_active_us()
        except BaseException:
            self._lock.release()
            raise

    def _past_active_us(self) -> int:
        (by_event,) = self.conn.execute("SELECT max(active_us) FROM events").fetchone()
        (by_beat,) = self.conn.execute("SELECT max(active_us) FROM heartbeat").fetchone()
        return max(by_event or 0, by_beat or 0)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Several changes in one transaction."""
        with self._database.atomic():
            yield

    def emit(self, kind: str, *, target: int = 0, node: int = 0, **payload: Any) -> Event:
        """Append an event of the catalogue and apply it to the rows, in one transaction.

        Raises:
            EventError: The event does not fit the catalogue.
        """
        with self._database.atomic():
            return append_event(
                self.conn, kind, payload, target=target, node=node, active_us=self.active_us
            )

    def next_id(self, table: str) -> int:
        """The next id of a projected table (ids are given by the engine and never reused)."""
        if table not in self._last_ids:
            (last,) = self.conn.execute(f"SELECT max(id) FROM {table}").fetchone()
            self._last_ids[table] = last or 0
        self._last_ids[table] += 1
        return self._last_ids[table]

    def store_program(self, key: str, language: str, source: str, plan: str, title: str) -> None:
        """Keep a program's text under its hash; the same text is kept once."""
        self.conn.execute(
            "INSERT OR IGNORE INTO programs (hash, language, source, plan, title, at_us) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            [key, language, source, plan, title, now_us()],
        )

    def program_nodes(self, key: str) -> list[int]:
        """The nodes that hold this program."""
        rows = self.conn.execute("SELECT id FROM nodes WHERE program = ? ORDER BY id", [key])
        return [row[0] for row in rows]

    def store_prompt(self, system: str, user: str) -> str:
        """Keep what a writer is asked and return its hash; the same text is kept once."""
        first, second = (part.encode("utf-8", "replace") for part in (system, user))
        # With its length before it, no text can pass for a part of another.
        key = hashlib.sha256(b"%d:" % len(first) + first + second).hexdigest()
        self.conn.execute(
            "INSERT OR IGNORE INTO prompts (hash, system, user, at_us) VALUES (?, ?, ?, ?)",
            [key, first.decode(), second.decode(), now_us()],
        )
        return key

    def store_reply(self, call: int, node: int, text: str, thinking: str) -> None:
        """Keep what a call was answered, each part cut to 1 Mi characters."""
        self.conn.execute(
            "INSERT OR REPLACE INTO replies (call, node, text, thinking, at_us) "
            "VALUES (?, ?, ?, ?, ?)",
            [call, node, storable(text, MAX_REPLY), storable(thinking, MAX_REPLY), now_us()],
        )

    def store_samples(self, verdict: int, pairs: list[list[int]]) -> None:
        """Keep a verdict's raw samples: (eager, candidate) nanoseconds in measured order."""
        self.conn.execute(
            "INSERT OR REPLACE INTO samples (verdict, pairs) VALUES (?, ?)",
            [verdict, json.dumps(pairs, separators=(",", ":"))],
        )

    def stream(self, node: int, channel: str, text: str) -> None:
        """Append streamed text (a model writing, a compiler), cut to 64 KiB a piece."""
        self.conn.execute(
            "INSERT INTO streams (node, channel, at_us, text) VALUES (?, ?, ?, ?)",
            [node, channel, now_us(), storable(text, MAX_STREAM)],
        )

    def beat(self, pid: int, doing: dict[str, Any], device: dict[str, Any]) -> None:
        """Overwrite the heartbeat; the engine calls it each second."""
        self.conn.execute(
            "INSERT OR REPLACE INTO heartbeat (id, at_us, active_us, pid, doing, device) "
            "VALUES (1, ?, ?, ?, ?, ?)",
            [now_us(), self.active_us, pid, json.dumps(doing), json.dumps(device)],
        )

    def new_commands(self) -> list[tuple[int, str, dict[str, Any]]]:
        """Commands that no engine has answered yet, oldest first, a handful: (id, verb, args).

        Anyone who can write to the file can write here: what is no command comes as one with a
        verb that there is not, or without args.
        """
        rows = self.conn.execute(
            "SELECT id, CAST(verb AS BLOB), CAST(args AS BLOB) FROM commands WHERE answered = 0 "
            "ORDER BY id LIMIT ?",
            [MAX_COMMANDS],
        ).fetchall()
        return [(row[0], _clean(row[1]), _args(row[2])) for row in rows]

    def answer(self, command: int, verb: str, ok: bool, answer: str, node: int = 0) -> None:
        """Answer a command: the event and the mark on the command, in one transaction."""
        with self._database.atomic():
            event = append_event(
                self.conn,
                "CommandAnswered",
                {"command": command, "verb": verb, "ok": ok, "answer": answer},
                node=node,
                active_us=self.active_us,
            )
            self.conn.execute("UPDATE commands SET answered = ? WHERE id = ?", [event.seq, command])

    def close(self) -> None:
        """Fold the write-ahead log back into one plain file and give the lock back."""
        try:
            fold_back(self.conn)
            self._database.close()
        finally:
            self._lock.release()


def _clean(text: bytes) -> str:
    shown = text[:200].decode(errors="replace")
    return "".join(char if char.isprintable() else "?" for char in shown)


def _args(text: bytes) -> dict[str, Any]:
    try:
        args = json.loads(text[:MAX_ARGS])
    except (ValueError, RecursionError):
        return {}
    return args if isinstance(args, dict) else {}


def explain(path: Path, error: sqlite3.Error) -> StoreError:
    """What a fault of SQLite in the middle of the work means, and what to do."""
    text = str(error)[:200]
    if "full" in text or "disk I/O" in text:
        return FolderError(
            f"{path.name} cannot be written: {text}",
            "free some disk space, then take the session up again: forge-tui resume",
        )
    if "readonly" in text or "unable to open" in text or "locked" in text:
        return FolderError(
            f"{path.name} cannot be written: {text}",
            "make the folder writable, then take the session up again: forge-tui resume",
        )
    return SessionDamaged(
        f"{path.name} cannot be used: {text}", "restore it from a copy, or remove the file"
    )


def fold_back(conn: sqlite3.Connection) -> bool:
    """Checkpoint and leave WAL mode; False while a viewer still reads (nothing is lost then)."""
    try:
        conn.execute("PRAGMA busy_timeout = 1000")
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (mode,) = conn.execute("PRAGMA journal_mode = DELETE").fetchone()
    except sqlite3.DatabaseError:
        return False
    return bool(mode == "delete")
