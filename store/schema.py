"""Tables of a session and of the machine's data, as named migrations in order.

Three sorts of tables. *Projected* rows (session, targets, nodes, variants, verdicts, model_calls)
are what the events say and nothing more; ``rev`` is the event that last touched a row. *Content*
(programs, samples, streams, prompts, replies) is too large for events, which name it. *Asides*:
``heartbeat`` is overwritten each second, ``commands`` is what viewers write.
"""

from __future__ import annotations

import json

from sqlite_utils import Database, Migrations

from store.rows import eager_as_record

SESSION = Migrations("session")
MACHINE = Migrations("machine")


@SESSION()
def m001_first(db: Database) -> None:
    _projected_first(db)
    db.table("programs").create(
        {"hash": str, "language": str, "source": str, "plan": str, "title": str, "at_us": int},
        pk="hash",
        not_null={"language", "source", "plan", "title", "at_us"},
    )
    db.table("samples").create({"verdict": int, "pairs": str}, pk="verdict", not_null={"pairs"})
    db.table("streams").create(
        {"id": int, "node": int, "channel": str, "at_us": int, "text": str},
        pk="id",
        not_null={"node", "channel", "at_us", "text"},
    )
    db.table("streams").create_index(["node", "id"])
    db.table("heartbeat").create(
        {"id": int, "at_us": int, "active_us": int, "pid": int, "doing": str, "device": str},
        pk="id",
    )
    db.table("commands").create(
        {"id": int, "at_us": int, "verb": str, "args": str, "answered": int},
        pk="id",
        not_null={"at_us", "verb", "args", "answered"},
        defaults={"answered": 0},
    )
    db.execute("PRAGMA user_version = 1")


@SESSION()
def m002_baselines(db: Database) -> None:
    """What a session of the first schema holds comes out as its events would bring it about now."""
    _projected_second(db)
    db.execute("UPDATE nodes SET gain = ratio")
    found = db.execute("SELECT id, baselines FROM targets WHERE baselines IS NOT NULL").fetchall()
    for target, text in found:
        told = json.dumps(eager_as_record(json.loads(text)), separators=(",", ":"))
        db.execute("UPDATE targets SET baselines = ? WHERE id = ?", [told, target])
    db.execute("PRAGMA user_version = 2")


@SESSION()
def m003_calls(db: Database) -> None:
    _projected_third(db)
    _count_calls(db)
    db.table("prompts").create(
        {"hash": str, "system": str, "user": str, "at_us": int},
        pk="hash",
        not_null={"system", "user", "at_us"},
    )
    db.table("replies").create(
        {"call": int, "node": int, "text": str, "thinking": str, "at_us": int},
        pk="call",
        not_null={"node", "text", "thinking", "at_us"},
    )
    # An engine looks for new commands all the time, and may have answered many.
    db.execute("CREATE INDEX idx_commands_unanswered ON commands(id) WHERE answered = 0")
    db.execute("PRAGMA user_version = 3")


def _count_calls(db: Database) -> None:
    """What the second schema's calls say in the third's columns."""
    settled = db.execute(
        "SELECT at_us, json_extract(payload, '$.call') FROM events WHERE kind = 'CallSettled'"
    ).fetchall()
    for row in settled:
        db.execute("UPDATE model_calls SET settled_us = ? WHERE id = ?", row)
    for name, counted in (("calls", "count(*)"), ("tokens_in", "total(tokens_in)"),
                          ("tokens_out", "total(tokens_out)"),
                          ("lost", "total(state = 'lost')")):  # fmt: skip
        db.execute(
            f"UPDATE nodes SET {name} = CAST((SELECT {counted} FROM model_calls "
            "WHERE node = nodes.id) AS INTEGER) WHERE id IN (SELECT node FROM model_calls)"
        )


def projected(db: Database) -> None:
    """The tables that follow from events alone, for rebuilding a past moment."""
    _projected_first(db)
    _projected_second(db)
    _projected_third(db)


def _projected_third(db: Database) -> None:
    db.table("targets").add_column("hint", str)
    nodes = db.table("nodes")
    for name in ("step", "hint"):
        nodes.add_column(name, str)
    for name in ("calls", "tokens_in", "tokens_out", "unpriced", "lost"):
        nodes.add_column(name, int, not_null_default=0)
    calls = db.table("model_calls")
    for name, kind in (("action", str), ("purpose", str), ("writer", str),
                       ("reserved_tokens", int), ("prompt", str), ("attempt", int),
                       ("tokens_cached", int), ("tokens_reasoning", int), ("estimated", int),
                       ("error", str), ("finish", str), ("seconds", float),
                       ("settled_us", int)):  # fmt: skip
        calls.add_column(name, kind)
    calls.create_index(["node"])
    calls.create_index(["rev"])


def _projected_second(db: Database) -> None:
    nodes = db.table("nodes")
    for name, kind in (("call_ns", int), ("gain", float), ("advice", str), ("against", str),
                       ("sanitizer", str)):  # fmt: skip
        nodes.add_column(name, kind)
    nodes.add_column("library", int, not_null_default=0)
    nodes.add_column("foreign", int, not_null_default=0)
    for name in ("call_ns", "eager_call_ns"):
        db.table("verdicts").add_column(name, int)


def _projected_first(db: Database) -> None:
    db.table("events").create(
        {"seq": int, "at_us": int, "active_us": int, "kind": str, "version": int, "target": int,
         "node": int, "payload": str},
        pk="seq",
        not_null={"at_us", "active_us", "kind", "version", "target", "node", "payload"},
    )  # fmt: skip
    db.table("session").create(
        {"id": int, "session": str, "name": str, "task": str, "config": str, "state": str,
         "created_us": int, "started_us": int, "stopped_us": int, "host": str, "machine": str,
         "stop_reason": str, "rev": int},
        pk="id",
    )  # fmt: skip
    db.table("targets").create(
        {"id": int, "name": str, "device": str, "spec": str, "task": str, "state": str,
         "reason": str, "cure": str, "code": str, "eager_ns": int, "sol_ns": int,
         "floor_ns": int, "baselines": str, "detail": str, "best_node": int, "best_ratio": float,
         "confirmed": int, "rev": int},
        pk="id",
    )  # fmt: skip
    db.table("nodes").create(
        {"id": int, "target": int, "parent": int, "second_parent": int, "action": str,
         "writer": str, "model": str, "program": str, "title": str, "schedule": str,
         "state": str, "stage": str, "rung": str, "code": str, "reason": str, "outcome": str,
         "variant": int, "time_ns": int, "ratio": float, "low": float, "high": float,
         "sol_fraction": float, "reward": float, "visits": int, "value": float, "pruned": int,
         "confirmed": int, "attempts": int, "micro_dollars": int, "seconds": str,
         "created_us": int, "finished_us": int, "stage_us": int, "rev": int},
        pk="id",
    )  # fmt: skip
    db.table("nodes").create_index(["rev"])
    db.table("nodes").create_index(["parent"])
    db.table("variants").create(
        {"id": int, "node": int, "program": str, "tuned": str, "state": str, "rung": str,
         "code": str, "reason": str, "evidence": str, "build_s": float, "screened_ns": int,
         "screened_ratio": float, "verdict": int, "rev": int},
        pk="id",
    )  # fmt: skip
    db.table("variants").create_index(["node"])
    db.table("verdicts").create(
        {"id": int, "variant": int, "node": int, "key": str, "outcome": str, "time_ns": int,
         "eager_ns": int, "ratio": float, "low": float, "high": float, "timing": str,
         "confirm": int, "evidence": str, "at_us": int, "rev": int},
        pk="id",
    )  # fmt: skip
    db.table("verdicts").create_index(["node"])
    db.table("model_calls").create(
        {"id": int, "target": int, "node": int, "model": str, "state": str, "reserved": int,
         "micro_dollars": int, "tokens_in": int, "tokens_out": int, "at_us": int, "rev": int},
        pk="id",
    )  # fmt: skip


@MACHINE()
def m001_measured(db: Database) -> None:
    db.table("measured").create(
        {"kind": str, "machine": str, "key": str, "value": str, "at_us": int},
        pk=("kind", "machine", "key"),
    )
    db.execute("PRAGMA user_version = 1")


@MACHINE()
def m002_rules(db: Database) -> None:
    db.table("rules").create(
        {"machine": str, "language": str, "key": str, "text": str, "count": int, "first_us": int,
         "last_us": int, "muted": int},
        pk=("machine", "language", "key"),
        not_null={"text", "count", "first_us", "last_us", "muted"},
    )  # fmt: skip
    db.execute("PRAGMA user_version = 2")
