"""What a viewer may ask of an engine: a row in ``commands``, answered by an event.

A command written while no engine runs is answered by the next one.
"""

from __future__ import annotations

import json
import sqlite3
import time
from typing import TYPE_CHECKING, Any

from store.errors import FolderError, StoreError
from store.paths import refuse_sample

if TYPE_CHECKING:
    from pathlib import Path

VERBS = {
    "pause": "nothing new starts; work in hand finishes",
    "resume": "the search goes on",
    "stop": "the engine ends, with everything saved",
    "prune": "close a branch: args node",
    "unprune": "open a branch again: args node",
    "hint": "tell the writers of a branch, or of a whole target: args node or target, and text",
}


def send(path: Path, verb: str, **args: Any) -> int:
    """Write a command and return its id.

    Raises:
        StoreError: Unknown verb.
        FolderError: The session cannot be written.
    """
    if verb not in VERBS:
        raise StoreError(f"unknown command {verb}", f"one of {', '.join(VERBS)}")
    refuse_sample(path)
    try:
        conn = sqlite3.connect(
            f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=5.0
        )
        try:
            cursor = conn.execute(
                "INSERT INTO commands (at_us, verb, args) VALUES (?, ?, ?)",
                [time.time_ns() // 1000, verb, json.dumps(args)],
            )
            return cursor.lastrowid or 0
        finally:
            conn.close()
    except sqlite3.OperationalError as error:
        raise FolderError(
            f"cannot write to {path.name}: {error}", "open it from a folder that you may write"
        ) from None


def answer_to(path: Path, command: int, patience_s: float) -> tuple[bool, str] | None:
    """Wait for the engine's answer: (ok, words), or None when it did not come in time."""
    conn = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5.0)
    end = time.monotonic() + patience_s
    try:
        while True:
            row = conn.execute(
                "SELECT payload FROM events WHERE seq = "
                "(SELECT answered FROM commands WHERE id = ? AND answered > 0)",
                [command],
            ).fetchone()
            if row is not None:
                payload = json.loads(row[0])
                return bool(payload["ok"]), str(payload["answer"])
            if time.monotonic() > end:
                return None
            time.sleep(0.05)
    finally:
        conn.close()
