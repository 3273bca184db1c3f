"""A short search told as events: what several store and screen tests read."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from store.events import EVENTS
from store.sessions import create
from store.writing import SessionWriter

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = {"writing": 0.01, "building": 0.5, "checking": 0.8, "timing": 1.1}


def begin(config: dict[str, Any] | None = None) -> tuple[Path, SessionWriter]:
    """A session with one measured target, its engine (this process) at work."""
    path = create("suite:softmax", config or {"nodes": 20, "minutes": 5.0})
    writer = SessionWriter(path)
    writer.emit("EngineStarted", pid=1, host="box", version="0.1.0", machine={"cpu": "x"})
    writer.emit(
        "TargetAdded", target=1, name="softmax", spec={"device": "cpu"}, task={"kind": "suite"}
    )
    writer.emit(
        "TargetMeasured", target=1, eager_ns=4_000_000, sol_ns=1_000_000, floor_ns=400_000,
        baselines={"eager": {"ns": 4_000_000, "call_ns": 4_000_000}}, detail={},
    )  # fmt: skip
    return path, writer


def node(
    writer: SessionWriter,
    parent: int | None,
    *,
    ratio: float | None,
    action: str = "improve",
    title: str = "one pass",
    writer_name: str = "drafter",
    model: str | None = None,
) -> int:
    """A node from creation to its end: scored with a speedup, or failed to build with None."""
    number = writer.next_id("nodes")
    variant = writer.next_id("variants")
    at = {"target": 1, "node": number}
    writer.emit("NodeCreated", **at, parent=parent, second_parent=None, action=action,
                writer=writer_name, model=model)  # fmt: skip
    key = f"hash{number}"
    writer.store_program(key, "cpp", "void f() {}\n", "[[launch]]\n", title)
    writer.emit("ProgramWritten", **at, program=key, language="cpp", title=title, schedule={})
    writer.emit("NodeStage", **at, stage="building")
    if ratio is None:
        writer.emit(
            "VariantFailed", **at, variant=variant, values={}, rung="build", code="compiler",
            reason="expected ';'", evidence={"log": "1:2: error"},
        )  # fmt: skip
        writer.emit(
            "NodeFailed", **at, rung="build", code="compiler", reason="expected ';'",
            seconds=SECONDS,
        )  # fmt: skip
        return number
    writer.emit("VariantBuilt", **at, variant=variant, values={"UNROLL": 4}, seconds=0.5,
                cached=False, detail={})  # fmt: skip
    verdict = writer.next_id("verdicts")
    time_ns = int(4_000_000 / ratio)
    outcome = "FASTER" if ratio > 1.05 else "SLOWER" if ratio < 0.95 else "SAME"
    interval = {"ratio": ratio, "low": ratio * 0.97, "high": ratio * 1.03}
    writer.emit("VariantJudged", **at, variant=variant, verdict=verdict, key="k", outcome=outcome,
                time_ns=time_ns, eager_ns=4_000_000, timing="call", confirm=False,
                evidence={}, **interval)  # fmt: skip
    writer.store_samples(verdict, [[4_000_000, time_ns], [4_100_000, time_ns + 5]])
    writer.emit("NodeScored", **at, variant=variant, outcome=outcome, time_ns=time_ns,
                sol_fraction=1_000_000 / time_ns, reward=0.1 * ratio, seconds=SECONDS,
                **interval)  # fmt: skip
    return number


def asked(
    writer: SessionWriter,
    number: int,
    *,
    state: str = "paid",
    cost: int | None = 900,
    tokens: tuple[int, int] = (1_000, 200),
    reply: str | None = "here it is",
    by: str = "model",
    **more: Any,
) -> int:
    """A call for a node: reserved, and settled unless ``state`` is reserved."""
    call = writer.next_id("model_calls")
    at = {"target": 1, "node": number}
    with writer.together():
        prompt = writer.store_prompt("You write kernels.", f"Improve node {number}.")
        writer.emit(
            "CallReserved", **at, call=call, micro_dollars=None if cost is None else 5_000,
            model=more.pop("model", "some/model"), action=more.pop("action", "improve"),
            purpose="write", writer=by, tokens=20_000, prompt=prompt,
            attempt=more.pop("attempt", 1),
        )  # fmt: skip
    if state == "reserved":
        return call
    with writer.together():
        if reply is not None:
            writer.store_reply(call, number, reply, "let me think")
        writer.emit("CallSettled", **at, call=call, state=state, micro_dollars=cost,
                    tokens_in=tokens[0], tokens_out=tokens[1],
                    **{"tokens_cached": 100, "finish": "stop", "seconds": 2.5, **more})  # fmt: skip
    return call


_GROWN = {
    2: {
        "nodes": ("call_ns", "gain", "advice", "against", "sanitizer", "library", "foreign"),
        "verdicts": ("call_ns", "eager_call_ns"),
    },
    3: {
        "targets": ("hint",),
        "nodes": ("step", "hint", "calls", "tokens_in", "tokens_out", "unpriced", "lost"),
        "model_calls": (
            "action", "purpose", "writer", "reserved_tokens", "prompt", "attempt",
            "tokens_cached", "tokens_reasoning", "estimated", "error", "finish", "seconds",
            "settled_us",
        ),
    },
}  # fmt: skip
_NEW_FIELDS = {
    2: {"call_ns", "eager_call_ns", "advice", "against", "sanitizer", "library"},
    3: {"step", "action", "purpose", "writer", "tokens", "prompt", "attempt", "tokens_cached",
        "tokens_reasoning", "estimated", "error", "finish", "seconds"},
}  # fmt: skip


def _drop(conn: sqlite3.Connection, schema: int) -> None:
    """Take out of the tables and the events what a schema brought."""
    for table, names in _GROWN[schema].items():
        for name in names:
            conn.execute(f'ALTER TABLE {table} DROP COLUMN "{name}"')
    for seq, kind, text in conn.execute("SELECT seq, kind, payload FROM events").fetchall():
        absent = {name for name, wanted in EVENTS[kind].fields.items() if wanted.endswith("?")}
        payload = json.loads(text)
        for name in _NEW_FIELDS[schema] & absent:
            payload.pop(name, None)
        text = json.dumps(payload, separators=(",", ":"))
        conn.execute("UPDATE events SET payload = ? WHERE seq = ?", [text, seq])
    conn.execute(f"DELETE FROM _sqlite_migrations WHERE name LIKE 'm00{schema}%'")
    conn.execute(f"PRAGMA user_version = {schema - 1}")


def as_second_schema(path: Path) -> None:
    """Turn a closed session into what the version before model calls would have written."""
    conn = sqlite3.connect(path, isolation_level=None)
    for name in ("idx_model_calls_node", "idx_model_calls_rev", "idx_commands_unanswered"):
        conn.execute(f"DROP INDEX {name}")
    for name in ("prompts", "replies"):
        conn.execute(f"DROP TABLE {name}")
    _drop(conn, 3)
    conn.close()


def as_first_schema(path: Path) -> None:
    """Turn a closed session into what the first version would have written."""
    as_second_schema(path)
    conn = sqlite3.connect(path, isolation_level=None)
    _drop(conn, 2)
    conn.execute("UPDATE events SET version = 1")
    for seq, text in conn.execute(
        "SELECT seq, payload FROM events WHERE kind = 'TargetMeasured'"
    ).fetchall():
        payload = json.loads(text)
        payload["baselines"] = {"eager": payload["eager_ns"]}
        text = json.dumps(payload, separators=(",", ":"))
        conn.execute("UPDATE events SET payload = ? WHERE seq = ?", [text, seq])
    conn.execute("UPDATE targets SET baselines = json_object('eager', eager_ns)")
    conn.close()
