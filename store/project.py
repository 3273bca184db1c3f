"""From events to rows: the one place where rows are written.

``apply`` runs inside the transaction that appends the event, so rows and events never disagree.
The same function rebuilds a past moment from events alone (``store.rebuild``). The rules for what
was measured lie in ``store.results``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from store.results import back_up
from store.rules import RULES, dump, dump_or_null, insert, rule, storable, update

if TYPE_CHECKING:
    import sqlite3

    from store.events import Event

MAX_HINT = 10_000


def apply(conn: sqlite3.Connection, event: Event) -> None:
    """Bring the rows up to date with one event; kinds without a rule touch no row."""
    known = RULES.get(event.kind)
    if known is not None:
        known(conn, event)


# -- the session -----------------------------------------------------------------------------------


@rule("SessionCreated")
def _session_created(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    insert(
        conn,
        "session",
        {"id": 1, "session": p["session"], "name": p["name"], "task": p["task"],
         "config": dump(p["config"]), "state": "new", "created_us": event.at_us,
         "rev": event.seq},
    )  # fmt: skip


@rule("EngineStarted")
def _engine_started(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    row = {"state": "running", "started_us": event.at_us, "stopped_us": None, "stop_reason": "",
           "host": p["host"], "machine": dump(p["machine"]), "rev": event.seq}  # fmt: skip
    update(conn, "session", 1, row)


@rule("EngineStopped")
def _engine_stopped(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    row = {"state": p["state"], "stop_reason": p["reason"], "stopped_us": event.at_us}
    update(conn, "session", 1, {**row, "rev": event.seq})


@rule("SearchPausing", "SearchPaused", "SearchResumed")
def _search_state(conn: sqlite3.Connection, event: Event) -> None:
    state = {"SearchPausing": "pausing", "SearchPaused": "paused", "SearchResumed": "running"}
    update(conn, "session", 1, {"state": state[event.kind], "rev": event.seq})


@rule("BudgetChanged")
def _budget_changed(conn: sqlite3.Connection, event: Event) -> None:
    (config,) = conn.execute("SELECT config FROM session").fetchone()
    merged = {**json.loads(config), **event.payload["caps"]}
    update(conn, "session", 1, {"config": dump(merged), "rev": event.seq})


# -- targets ---------------------------------------------------------------------------------------


@rule("TargetAdded")
def _target_added(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    conn.execute("DELETE FROM targets WHERE id = ?", [event.target])  # it may have been refused
    insert(
        conn,
        "targets",
        {"id": event.target, "name": p["name"], "device": str(p["spec"].get("device", "")),
         "spec": dump(p["spec"]), "task": dump(p["task"]), "state": "open", "confirmed": 0,
         "rev": event.seq},
    )  # fmt: skip


@rule("TargetRefused")
def _target_refused(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    conn.execute("DELETE FROM targets WHERE id = ?", [event.target])
    insert(
        conn,
        "targets",
        {"id": event.target, "name": p["name"], "state": "refused", "reason": p["message"],
         "cure": p["cure"], "code": p["code"], "confirmed": 0, "rev": event.seq},
    )  # fmt: skip


@rule("TargetClosed")
def _target_closed(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    row = {"state": "closed", "reason": p["reason"], "code": p["code"], "rev": event.seq}
    update(conn, "targets", event.target, row)


# -- nodes -----------------------------------------------------------------------------------------


@rule("NodeCreated")
def _node_created(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    insert(
        conn,
        "nodes",
        {"id": event.node, "target": event.target, "parent": p["parent"],
         "second_parent": p["second_parent"], "action": p["action"], "writer": p["writer"],
         "model": p["model"], "step": p["step"], "title": "", "state": "live",
         "stage": "writing", "visits": 0, "pruned": 0, "confirmed": 0, "attempts": 1,
         "micro_dollars": 0,
         "created_us": event.at_us, "stage_us": event.at_us, "rev": event.seq},
    )  # fmt: skip


@rule("NodeStage")
def _node_stage(conn: sqlite3.Connection, event: Event) -> None:
    row = {"stage": event.payload["stage"], "stage_us": event.at_us, "rev": event.seq}
    update(conn, "nodes", event.node, row)


@rule("NodeRequeued")
def _node_requeued(conn: sqlite3.Connection, event: Event) -> None:
    conn.execute(
        "UPDATE nodes SET state = 'live', stage = 'queued', attempts = attempts + ?, "
        "stage_us = ?, rev = ? WHERE id = ?",
        [int(event.payload["died"]), event.at_us, event.seq, event.node],
    )


@rule("ProgramWritten")
def _program_written(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    row = {"program": p["program"], "title": p["title"], "library": int(bool(p["library"])),
           "schedule": dump_or_null(p["schedule"]), "rev": event.seq}  # fmt: skip
    update(conn, "nodes", event.node, row)


@rule("NodeDropped")
def _node_dropped(conn: sqlite3.Connection, event: Event) -> None:
    row = {"state": "dropped", "stage": "", "reason": event.payload["reason"],
           "finished_us": event.at_us, "rev": event.seq}  # fmt: skip
    update(conn, "nodes", event.node, row)


@rule("BranchPruned", "BranchUnpruned")
def _branch_pruned(conn: sqlite3.Connection, event: Event) -> None:
    pruned = int(event.kind == "BranchPruned")
    update(conn, "nodes", event.node, {"pruned": pruned, "rev": event.seq})
    back_up(conn, event, visit=False)


@rule("HintGiven")
def _hint_given(conn: sqlite3.Connection, event: Event) -> None:
    row = {"hint": storable(event.payload["text"], MAX_HINT) or None, "rev": event.seq}
    update(conn, "nodes" if event.node else "targets", event.node or event.target, row)


# -- money -----------------------------------------------------------------------------------------


@rule("CallReserved")
def _call_reserved(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    row = {name: p[name] for name in ("model", "action", "purpose", "writer", "prompt", "attempt")}
    row |= {"id": p["call"], "target": event.target, "node": event.node, "state": "reserved",
            "reserved": p["micro_dollars"], "reserved_tokens": p["tokens"],
            "at_us": event.at_us, "rev": event.seq}  # fmt: skip
    insert(conn, "model_calls", row)
    conn.execute(
        "UPDATE nodes SET calls = calls + 1, rev = ? WHERE id = ?", [event.seq, event.node]
    )


@rule("CallSettled")
def _call_settled(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    row = {name: p[name] for name in ("state", "micro_dollars", "tokens_in", "tokens_out",
                                      "tokens_cached", "tokens_reasoning", "error", "finish",
                                      "seconds")}  # fmt: skip
    row |= {"estimated": None if p["estimated"] is None else int(p["estimated"]),
            "settled_us": event.at_us, "rev": event.seq}  # fmt: skip
    update(conn, "model_calls", p["call"], row)
    conn.execute(
        "UPDATE nodes SET micro_dollars = micro_dollars + ?, tokens_in = tokens_in + ?, "
        "tokens_out = tokens_out + ?, unpriced = unpriced + ?, lost = lost + ?, rev = ? "
        "WHERE id = ?",
        [p["micro_dollars"] or 0, p["tokens_in"] or 0, p["tokens_out"] or 0,
         int(p["micro_dollars"] is None and p["state"] != "answered"), int(p["state"] == "lost"),
         event.seq, event.node],
    )  # fmt: skip
