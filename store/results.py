"""From events to rows: what was measured, what it is worth, and where it came from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from store.rows import eager_as_record
from store.rules import dump, dump_or_null, insert, rule, update

if TYPE_CHECKING:
    import sqlite3

    from store.events import Event

_FIGURES = ("variant", "outcome", "time_ns", "ratio", "low", "high")

# -- targets ---------------------------------------------------------------------------------------


@rule("TargetMeasured")
def _target_measured(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    row = {"eager_ns": p["eager_ns"], "sol_ns": p["sol_ns"], "floor_ns": p["floor_ns"],
           "detail": dump(p["detail"])}  # fmt: skip
    update(conn, "targets", event.target, row)
    _merge_baselines(conn, event, eager_as_record(p["baselines"]))


@rule("BaselineMeasured")
def _baseline_measured(conn: sqlite3.Connection, event: Event) -> None:
    _merge_baselines(conn, event, {event.payload["name"]: event.payload["value"]})
    best = _best_baseline(conn, event.target)
    conn.execute(
        'UPDATE nodes SET gain = ratio / ?, rev = ? WHERE target = ? AND "foreign" = 0 '
        "AND ratio IS NOT NULL",
        [best, event.seq, event.target],
    )


def _merge_baselines(conn: sqlite3.Connection, event: Event, fresh: dict[str, Any]) -> None:
    merged = {**_baselines(conn, event.target), **fresh}
    update(conn, "targets", event.target, {"baselines": dump(merged), "rev": event.seq})


def _baselines(conn: sqlite3.Connection, target: int) -> dict[str, Any]:
    found = conn.execute("SELECT baselines FROM targets WHERE id = ?", [target]).fetchone()
    return json.loads(found[0]) if found and found[0] else {}


def _best_baseline(conn: sqlite3.Connection, target: int) -> float:
    """The speedup of the fastest baseline over eager; 1 where eager is the fastest known."""
    known = [value.get("ratio") for value in _baselines(conn, target).values()]
    return max([1.0, *(float(ratio) for ratio in known if ratio is not None)])


@rule("VerdictsForeign")
def _verdicts_foreign(conn: sqlite3.Connection, event: Event) -> None:
    conn.execute(
        'UPDATE nodes SET "foreign" = 1, confirmed = min(confirmed, 0), against = NULL, rev = ? '
        "WHERE target = ? AND state = 'scored'",
        [event.seq, event.target],
    )
    row = {"baselines": None, "confirmed": 0, "rev": event.seq}
    update(conn, "targets", event.target, row)


# -- variants and verdicts -------------------------------------------------------------------------


def _variant(conn: sqlite3.Connection, event: Event, row: dict[str, Any]) -> None:
    """Insert or update the variant that the event names."""
    variant = event.payload["variant"]
    row = {**row, "rev": event.seq}
    if conn.execute("SELECT 1 FROM variants WHERE id = ?", [variant]).fetchone():
        update(conn, "variants", variant, row)
        return
    (program,) = conn.execute("SELECT program FROM nodes WHERE id = ?", [event.node]).fetchone()
    insert(conn, "variants", {"id": variant, "node": event.node, "program": program, **row})


@rule("VariantBuilt")
def _variant_built(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    _variant(conn, event, {"tuned": dump(p["values"]), "state": "built", "build_s": p["seconds"],
                           "evidence": dump(p["detail"])})  # fmt: skip


@rule("VariantFailed")
def _variant_failed(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    _variant(conn, event, {"tuned": dump(p["values"]), "state": "failed", "rung": p["rung"],
                           "code": p["code"], "reason": p["reason"],
                           "evidence": dump(p["evidence"])})  # fmt: skip


@rule("VariantScreened")
def _variant_screened(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    _variant(conn, event, {"state": "screened", "screened_ns": p["time_ns"],
                           "screened_ratio": p["ratio"]})  # fmt: skip


@rule("VariantJudged")
def _variant_judged(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    row = {name: p[name] for name in ("variant", "key", "outcome", "time_ns", "eager_ns", "ratio",
                                      "low", "high", "timing", "call_ns",
                                      "eager_call_ns")}  # fmt: skip
    row |= {"id": p["verdict"], "node": event.node, "confirm": int(p["confirm"]),
            "evidence": dump(p["evidence"]), "at_us": event.at_us, "rev": event.seq}  # fmt: skip
    insert(conn, "verdicts", row)
    if p["confirm"]:
        return
    _variant(conn, event, {"state": "judged", "verdict": p["verdict"]})
    node = {"foreign": 0, "call_ns": p["call_ns"], "advice": dump_or_null(p["advice"]),
            "rev": event.seq}  # fmt: skip
    if _state(conn, event.node) == "scored":
        # Judged again, for its figures were foreign: the new ones must come with the mark's end.
        node |= _figures(conn, event)
    update(conn, "nodes", event.node, node)


# -- nodes -----------------------------------------------------------------------------------------


def _state(conn: sqlite3.Connection, node: int) -> str:
    (state,) = conn.execute("SELECT state FROM nodes WHERE id = ?", [node]).fetchone()
    return str(state)


def _figures(conn: sqlite3.Connection, event: Event) -> dict[str, Any]:
    figures = {name: event.payload[name] for name in _FIGURES}
    return {**figures, "gain": figures["ratio"] / _best_baseline(conn, event.target)}


@rule("NodeScored")
def _node_scored(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    row = {**_figures(conn, event), "sol_fraction": p["sol_fraction"], "reward": p["reward"],
           "state": "scored", "foreign": 0}  # fmt: skip
    _end(conn, event, row)


@rule("NodeFailed")
def _node_failed(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    none = dict.fromkeys((*_FIGURES, "call_ns", "gain", "sol_fraction", "reward", "advice"))
    row = {**none, "state": "failed", "rung": p["rung"], "code": p["code"], "reason": p["reason"],
           "foreign": 0}  # fmt: skip
    _end(conn, event, row)


def _end(conn: sqlite3.Connection, event: Event, row: dict[str, Any]) -> None:
    """A node came to an end; to another one than before, if it was judged again."""
    first = _state(conn, event.node) == "live"
    row |= {"stage": "", "seconds": dump(event.payload["seconds"]), "rev": event.seq}
    if first:
        row["finished_us"] = event.at_us
    update(conn, "nodes", event.node, row)
    back_up(conn, event, visit=first)


def back_up(conn: sqlite3.Connection, event: Event, *, visit: bool) -> None:
    """Carry a node's news up along primary parents, beginning with the node itself.

    A node's value is the best reward in its branch, pruned branches left out (max-biased
    backup); a visit is counted once for every node that came to an end in it.
    """
    node: int | None = event.node
    while node is not None:
        conn.execute(
            "UPDATE nodes SET visits = visits + :visit, rev = :rev, value = (SELECT max(v) FROM ("
            "SELECT reward AS v FROM nodes WHERE id = :id UNION ALL "
            "SELECT value FROM nodes WHERE parent = :id AND pruned = 0)) WHERE id = :id",
            {"visit": int(visit), "rev": event.seq, "id": node},
        )
        (node,) = conn.execute("SELECT parent FROM nodes WHERE id = ?", [node]).fetchone()


@rule("NodeConfirmed")
def _node_confirmed(conn: sqlite3.Connection, event: Event) -> None:
    p = event.payload
    confirmed = 1 if p["ok"] else 0 if p["outcome"] == "UNSURE" else -1
    row = {"confirmed": confirmed, "stage": "", "against": dump_or_null(p["against"]),
           "sanitizer": dump_or_null(p["sanitizer"]), "rev": event.seq}  # fmt: skip
    update(conn, "nodes", event.node, row)
    conn.execute(
        "UPDATE targets SET confirmed = ?, rev = ? WHERE id = ? AND best_node = ?",
        [confirmed, event.seq, event.target, event.node],
    )


@rule("BestImproved")
def _best_improved(conn: sqlite3.Connection, event: Event) -> None:
    row = {"best_node": event.node, "best_ratio": event.payload["ratio"], "rev": event.seq}
    (confirmed,) = conn.execute("SELECT confirmed FROM nodes WHERE id = ?", [event.node]).fetchone()
    update(conn, "targets", event.target, {**row, "confirmed": confirmed})


@rule("BestWithdrawn")
def _best_withdrawn(conn: sqlite3.Connection, event: Event) -> None:
    row = {"best_node": None, "best_ratio": None, "confirmed": 0, "rev": event.seq}
    update(conn, "targets", event.target, row)
