"""A short search told as events: what several store and screen tests read."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

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
) -> int:
    """A node from creation to its end: scored with a speedup, or failed to build with None."""
    number = writer.next_id("nodes")
    variant = writer.next_id("variants")
    at = {"target": 1, "node": number}
    writer.emit("NodeCreated", **at, parent=parent, second_parent=None, action=action,
                writer="drafter", model=None)  # fmt: skip
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


_GROWN = {
    "nodes": ("call_ns", "gain", "advice", "against", "sanitizer", "library", "foreign"),
    "verdicts": ("call_ns", "eager_call_ns"),
}


def as_first_schema(path: Path) -> None:
    """Turn a closed session into what the first version would have written."""
    conn = sqlite3.connect(path, isolation_level=None)
    for table, names in _GROWN.items():
        for name in names:
            conn.execute(f'ALTER TABLE {table} DROP COLUMN "{name}"')
    for seq, kind, text in conn.execute("SELECT seq, kind, payload FROM events").fetchall():
        payload = json.loads(text)
        for name in ("call_ns", "eager_call_ns", "advice", "against", "sanitizer", "library"):
            payload.pop(name, None)
        if kind == "TargetMeasured":
            payload["baselines"] = {"eager": payload["eager_ns"]}
        text = json.dumps(payload, separators=(",", ":"))
        conn.execute("UPDATE events SET payload = ?, version = 1 WHERE seq = ?", [text, seq])
    conn.execute("UPDATE targets SET baselines = json_object('eager', eager_ns)")
    conn.execute("DELETE FROM _sqlite_migrations WHERE name = 'm002_baselines'")
    conn.execute("PRAGMA user_version = 1")
    conn.close()
