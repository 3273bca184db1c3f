"""What each event does to the rows: the one place where rows are written.

``apply`` runs inside the transaction that appends the event, so rows and events never disagree.
The same function rebuilds a past moment from events alone (``store.rebuild``).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from store.events import Event

_RULES: dict[str, Callable[[sqlite3.Connection, Event], None]] = {}


def apply(conn: sqlite3.Connection, event: Event) -> None:
    """Bring the rows up to date with one event; kinds without a rule touch no row."""
    rule = _RULES.get(event.kind)
    if rule is not None:
        rule(conn, event)


def _rule(*kinds: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(function: Callable[..., None]) -> Callable[..., None]:
        for kind in kinds:
            _RULES[kind] = function
        return function

    return register


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _insert(conn: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    names = ", ".join(row)
    conn.execute(
        f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})", list(row.values())
    )


def _update(conn: sqlite3.Connection, table: str, row_id: int, row: dict[str, Any]) -> None:
    sets = ", ".join(f"{name} = ?" for name in row)
    conn.execute(f"UPDATE {table} SET {sets} WHERE id = ?", [*row.values(), row_id])


# -- the session -----------------------------------------------------------------------------------


@_rule("SessionCreated")
def _session_created(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    _insert(
        conn,
        "session",
        {"id": 1, "session": p["session"], "name": p["name"], "task": p["task"],
         "config": _dump(p["config"]), "state": "new", "created_us": event.at_us,
         "rev": event.seq},
    )  # fmt: skip


@_rule("EngineStarted")
def _engine_started(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    row = {"state": "running", "started_us": event.at_us, "stopped_us": None, "stop_reason": "",
           "host": p["host"], "machine": _dump(p["machine"]), "rev": event.seq}  # fmt: skip
    _update(conn, "session", 1, row)


@_rule("EngineStopped")
def _engine_stopped(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    row = {"state": p["state"], "stop_reason": p["reason"], "stopped_us": event.at_us}
    _update(conn, "session", 1, {**row, "rev": event.seq})


@_rule("SearchPausing", "SearchPaused", "SearchResumed")
def _search_state(conn: sqlite3.Connection, event: Event) -> None:
    state = {"SearchPausing": "pausing", "SearchPaused": "paused", "SearchResumed": "running"}
    _update(conn, "session", 1, {"state": state[event.kind], "rev": event.seq})


@_rule("BudgetChanged")
def _budget_changed(conn: sqlite3.Connection, event: Event) -> None:
    (config,) = conn.execute("SELECT config FROM session").fetchone()
    merged = {**json.loads(config), **event.payload["caps"]}
    _update(conn, "session", 1, {"config": _dump(merged), "rev": event.seq})


# -- targets ---------------------------------------------------------------------------------------


@_rule("TargetAdded")
def _target_added(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    _insert(
        conn,
        "targets",
        {"id": event.target, "name": p["name"], "device": str(p["spec"].get("device", "")),
         "spec": _dump(p["spec"]), "task": _dump(p["task"]), "state": "open", "confirmed": 0,
         "rev": event.seq},
    )  # fmt: skip


@_rule("TargetRefused")
def _target_refused(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    conn.execute("DELETE FROM targets WHERE id = ?", [event.target])
    _insert(
        conn,
        "targets",
        {"id": event.target, "name": p["name"], "state": "refused", "reason": p["message"],
         "cure": p["cure"], "code": p["code"], "confirmed": 0, "rev": event.seq},
    )  # fmt: skip


@_rule("TargetMeasured")
def _target_measured(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    row = {"eager_ns": p["eager_ns"], "sol_ns": p["sol_ns"], "floor_ns": p["floor_ns"],
           "baselines": _dump(p["baselines"]), "detail": _dump(p["detail"])}  # fmt: skip
    _update(conn, "targets", event.target, {**row, "rev": event.seq})


@_rule("TargetClosed")
def _target_closed(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    row = {"state": "closed", "reason": p["reason"], "code": p["code"], "rev": event.seq}
    _update(conn, "targets", event.target, row)


# -- nodes -----------------------------------------------------------------------------------------


@_rule("NodeCreated")
def _node_created(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    _insert(
        conn,
        "nodes",
        {"id": event.node, "target": event.target, "parent": p["parent"],
         "second_parent": p["second_parent"], "action": p["action"], "writer": p["writer"],
         "model": p["model"], "title": "", "state": "live", "stage": "writing", "visits": 0,
         "pruned": 0, "confirmed": 0, "attempts": 1, "micro_dollars": 0,
         "created_us": event.at_us, "stage_us": event.at_us, "rev": event.seq},
    )  # fmt: skip


@_rule("NodeStage")
def _node_stage(conn: sqlite3.Connection, event: Event) -> None:
    row = {"stage": event.payload["stage"], "stage_us": event.at_us, "rev": event.seq}
    _update(conn, "nodes", event.node, row)


@_rule("NodeRequeued")
def _node_requeued(conn: sqlite3.Connection, event: Event) -> None:
    conn.execute(
        "UPDATE nodes SET state = 'live', stage = 'queued', attempts = attempts + ?, "
        "stage_us = ?, rev = ? WHERE id = ?",
        [int(event.payload["died"]), event.at_us, event.seq, event.node],
    )


@_rule("ProgramWritten")
def _program_written(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    schedule = None if p["schedule"] is None else _dump(p["schedule"])
    row = {"program": p["program"], "title": p["title"], "schedule": schedule, "rev": event.seq}
    _update(conn, "nodes", event.node, row)


@_rule("NodeScored")
def _node_scored(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    row = {
        name: p[name]
        for name in (
            "variant",
            "outcome",
            "time_ns",
            "ratio",
            "low",
            "high",
            "sol_fraction",
            "reward",
        )
    }
    row |= {"state": "scored", "stage": "", "seconds": _dump(p["seconds"]), "visits": 1,
            "value": p["reward"], "finished_us": event.at_us, "rev": event.seq}  # fmt: skip
    _update(conn, "nodes", event.node, row)
    _back_up(conn, event, visit=True)


@_rule("NodeFailed")
def _node_failed(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    row = {"state": "failed", "stage": "", "rung": p["rung"], "code": p["code"],
           "reason": p["reason"], "seconds": _dump(p["seconds"]), "visits": 1,
           "finished_us": event.at_us, "rev": event.seq}  # fmt: skip
    _update(conn, "nodes", event.node, row)
    _back_up(conn, event, visit=True)


@_rule("NodeDropped")
def _node_dropped(conn: sqlite3.Connection, event: Event) -> None:
    row = {"state": "dropped", "stage": "", "reason": event.payload["reason"],
           "finished_us": event.at_us, "rev": event.seq}  # fmt: skip
    _update(conn, "nodes", event.node, row)


@_rule("BranchPruned", "BranchUnpruned")
def _branch_pruned(conn: sqlite3.Connection, event: Event) -> None:
    pruned = int(event.kind == "BranchPruned")
    _update(conn, "nodes", event.node, {"pruned": pruned, "rev": event.seq})
    _back_up(conn, event, visit=False)


def _back_up(conn: sqlite3.Connection, event: Event, *, visit: bool) -> None:
    """Carry a node's news to its ancestors along primary parents.

    An ancestor's value is the best reward in its branch, pruned branches left out (max-biased
    backup); a visit is counted once for every node that came to an end below it.
    """
    node = event.node
    while True:
        (parent,) = conn.execute("SELECT parent FROM nodes WHERE id = ?", [node]).fetchone()
        if parent is None:
            return
        conn.execute(
            "UPDATE nodes SET visits = visits + :visit, rev = :rev, value = (SELECT max(v) FROM ("
            "SELECT reward AS v FROM nodes WHERE id = :id UNION ALL "
            "SELECT value FROM nodes WHERE parent = :id AND pruned = 0)) WHERE id = :id",
            {"visit": int(visit), "rev": event.seq, "id": parent},
        )
        node = parent


# -- variants and verdicts -------------------------------------------------------------------------


def _variant(conn: sqlite3.Connection, event: Event, row: dict[str, Any]) -> None:
    """Insert or update the variant that the event names."""
    variant = event.payload["variant"]
    row = {**row, "rev": event.seq}
    if conn.execute("SELECT 1 FROM variants WHERE id = ?", [variant]).fetchone():
        _update(conn, "variants", variant, row)
        return
    (program,) = conn.execute("SELECT program FROM nodes WHERE id = ?", [event.node]).fetchone()
    _insert(conn, "variants", {"id": variant, "node": event.node, "program": program, **row})


@_rule("VariantBuilt")
def _variant_built(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    _variant(conn, event, {"tuned": _dump(p["values"]), "state": "built", "build_s": p["seconds"],
                           "evidence": _dump(p["detail"])})  # fmt: skip


@_rule("VariantFailed")
def _variant_failed(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    _variant(conn, event, {"tuned": _dump(p["values"]), "state": "failed", "rung": p["rung"],
                           "code": p["code"], "reason": p["reason"],
                           "evidence": _dump(p["evidence"])})  # fmt: skip


@_rule("VariantScreened")
def _variant_screened(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    _variant(conn, event, {"state": "screened", "screened_ns": p["time_ns"],
                           "screened_ratio": p["ratio"]})  # fmt: skip


@_rule("VariantJudged")
def _variant_judged(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    row = {name: p[name] for name in ("variant", "key", "outcome", "time_ns", "eager_ns", "ratio",
                                      "low", "high", "timing")}  # fmt: skip
    row |= {"id": p["verdict"], "node": event.node, "confirm": int(p["confirm"]),
            "evidence": _dump(p["evidence"]), "at_us": event.at_us, "rev": event.seq}  # fmt: skip
    _insert(conn, "verdicts", row)
    if not p["confirm"]:
        _variant(conn, event, {"state": "judged", "verdict": p["verdict"]})


@_rule("NodeConfirmed")
def _node_confirmed(conn: sqlite3.Connection, event: Event) -> None:
    unsure = event.payload["outcome"] == "UNSURE"
    confirmed = 1 if event.payload["ok"] else 0 if unsure else -1
    row = {"confirmed": confirmed, "stage": "", "rev": event.seq}
    _update(conn, "nodes", event.node, row)
    conn.execute(
        "UPDATE targets SET confirmed = ?, rev = ? WHERE id = ? AND best_node = ?",
        [confirmed, event.seq, event.target, event.node],
    )


@_rule("BestImproved")
def _best_improved(conn: sqlite3.Connection, event: Event) -> None:
    row = {"best_node": event.node, "best_ratio": event.payload["ratio"], "rev": event.seq}
    (confirmed,) = conn.execute("SELECT confirmed FROM nodes WHERE id = ?", [event.node]).fetchone()
    _update(conn, "targets", event.target, {**row, "confirmed": confirmed})


@_rule("BestWithdrawn")
def _best_withdrawn(conn: sqlite3.Connection, event: Event) -> None:
    row = {"best_node": None, "best_ratio": None, "confirmed": 0, "rev": event.seq}
    _update(conn, "targets", event.target, row)


# -- money -----------------------------------------------------------------------------------------


@_rule("CallReserved")
def _call_reserved(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    _insert(
        conn,
        "model_calls",
        {"id": p["call"], "target": event.target, "node": event.node, "model": p["model"],
         "state": "reserved", "reserved": p["micro_dollars"], "at_us": event.at_us,
         "rev": event.seq},
    )  # fmt: skip


@_rule("CallSettled")
def _call_settled(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    row = {name: p[name] for name in ("state", "micro_dollars", "tokens_in", "tokens_out")}
    _update(conn, "model_calls", p["call"], {**row, "rev": event.seq})
    conn.execute(
        "UPDATE nodes SET micro_dollars = micro_dollars + ?, rev = ? WHERE id = ?",
        [p["micro_dollars"], event.seq, event.node],
    )
