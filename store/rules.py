"""How a kind of event becomes rows: the register of rules, and the few writes they are made of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from store.events import Event

RULES: dict[str, Callable[[sqlite3.Connection, Event], None]] = {}


def rule(*kinds: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as what these kinds of events do to the rows."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        for kind in kinds:
            RULES[kind] = function
        return function

    return register


def dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def dump_or_null(value: Any) -> str | None:
    return None if value is None else dump(value)


def storable(text: str, most: int) -> str:
    """At most ``most`` characters of a text from outside, as such that SQLite takes."""
    return text[:most].encode("utf-8", "replace").decode()


def insert(conn: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    names = ", ".join(f'"{name}"' for name in row)
    conn.execute(
        f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})", list(row.values())
    )


def update(conn: sqlite3.Connection, table: str, row_id: int, row: dict[str, Any]) -> None:
    sets = ", ".join(f'"{name}" = ?' for name in row)
    conn.execute(f"UPDATE {table} SET {sets} WHERE id = ?", [*row.values(), row_id])
