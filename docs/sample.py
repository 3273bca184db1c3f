"""Makes a sample of a session: ``python docs/sample.py SESSION.forge.db NAME``.

The file is written anew from the session's events and content, without the machine's name, paths of
folders, commands and heartbeat, so that it can be given away. It lands in ``store/samples``.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from pathlib import Path

from sqlite_utils import Database

from store.events import Event
from store.paths import SUFFIX, samples_folder
from store.reading import SessionReader
from store.rebuild import rebuild
from store.schema import SESSION

CONTENT = ("programs", "samples", "prompts", "replies", "streams")
_PATH = re.compile(r"(?:/[\w.~-]+){2,}/(?=[\w.~-])")
_PROJECTED = ("events", "session", "targets", "nodes", "variants", "verdicts", "model_calls")


def scrubbed(event: Event) -> Event:
    """The event without the machine's name, and with files in place of their whole paths."""
    text = _PATH.sub("", json.dumps(event.payload))
    payload = json.loads(text)
    for name in ("host", "pid"):
        if name in payload:
            payload[name] = "somewhere" if name == "host" else 1
    if isinstance(machine := payload.get("machine"), dict):
        machine["system"] = str(machine.get("system", "")).partition(" ")[0]
    values = {name: getattr(event, name) for name in Event.__slots__}
    return Event(**{**values, "payload": payload})


def make(source: Path, target: Path) -> None:
    """Write the sample.

    Args:
        source: A session at rest.
        target: Is replaced.
    """
    target.unlink(missing_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with SessionReader(source) as reader:
        rows = rebuild(scrubbed(event) for event in reader.events())
    conn = sqlite3.connect(target, isolation_level=None)
    SESSION.apply(Database(conn))
    rows.execute("PRAGMA query_only = 1")
    for table in _PROJECTED:
        _copy(rows, conn, table)
    with sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True) as old:
        for table in CONTENT:
            _copy(old, conn, table)
    conn.execute("VACUUM")
    conn.close()


def _copy(old: sqlite3.Connection, new: sqlite3.Connection, table: str) -> None:
    found = old.execute(f"SELECT * FROM {table}")
    names = ", ".join(f'"{column[0]}"' for column in found.description)
    marks = ", ".join("?" * len(found.description))
    new.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", found)


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve(), samples_folder() / f"{sys.argv[2]}{SUFFIX}")
