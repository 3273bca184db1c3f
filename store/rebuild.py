"""Any past moment of a session, rebuilt from its events alone."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from sqlite_utils import Database

from store.events import encode
from store.older import SCHEMA_OF_CALLS
from store.project import apply
from store.reading import SessionReader
from store.schema import projected
from store.version import SESSION_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable

    from store.events import Event

_ASIDES = """
ATTACH DATABASE '{uri}' AS whole;
CREATE TEMP VIEW programs AS SELECT * FROM whole.programs;
CREATE TEMP VIEW samples AS SELECT * FROM whole.samples;
CREATE TEMP VIEW streams AS SELECT * FROM whole.streams WHERE at_us <= {at_us};
CREATE TEMP VIEW heartbeat AS SELECT * FROM whole.heartbeat WHERE 0;
CREATE TEMP VIEW commands AS SELECT * FROM whole.commands WHERE at_us <= {at_us};
"""
# A file of an older schema has no tables to look at.
_ASKED_NOTHING = """
CREATE TEMP VIEW prompts AS SELECT '' AS hash, '' AS system, '' AS user, 0 AS at_us WHERE 0;
CREATE TEMP VIEW replies AS
SELECT 0 AS call, 0 AS node, '' AS text, '' AS thinking, 0 AS at_us WHERE 0;
"""
_ASKED = """
CREATE TEMP VIEW prompts AS SELECT * FROM whole.prompts WHERE at_us <= {at_us};
CREATE TEMP VIEW replies AS SELECT * FROM whole.replies WHERE at_us <= {at_us};
"""


def rebuild(events: Iterable[Event]) -> sqlite3.Connection:
    """The projected tables after these events, in memory."""
    conn = sqlite3.connect(":memory:", isolation_level=None, uri=True, check_same_thread=False)
    projected(Database(conn))
    conn.execute(f"PRAGMA user_version = {SESSION_SCHEMA}")
    conn.execute("BEGIN")
    for event in events:
        conn.execute(
            "INSERT INTO events (seq, at_us, active_us, kind, version, target, node, payload) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [event.seq, event.at_us, event.active_us, event.kind, event.version, event.target,
             event.node, encode(event.kind, event.payload)],
        )  # fmt: skip
        apply(conn, event)
    conn.execute("COMMIT")
    return conn


def reader_at(reader: SessionReader, seq: int) -> SessionReader:
    """A reader of the session as it was right after event ``seq``."""
    events = reader.events(0, seq)
    conn = rebuild(events)
    at_us = events[-1].at_us if events else 0
    uri = f"{reader.path.as_uri()}?mode=ro".replace("'", "''")
    conn.executescript(_ASIDES.format(uri=uri, at_us=at_us))
    (schema,) = conn.execute("PRAGMA whole.user_version").fetchone()
    asked = _ASKED if schema >= SCHEMA_OF_CALLS else _ASKED_NOTHING
    conn.executescript(asked.format(at_us=at_us))
    return SessionReader(reader.path, conn)
