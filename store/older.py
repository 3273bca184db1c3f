"""What stands for what sessions of older schemas lack, so that they read as if written today."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.rows import CallRow, NodeRow, TargetRow, VerdictRow

if TYPE_CHECKING:
    from store.rows import Row

SCHEMA_OF_CALLS = 3
"""The first schema with what was asked and answered."""

# By the schema that brought them: what stands for a row's columns in the ones before.
_GROWN: dict[int, dict[type[Row], dict[str, str]]] = {
    2: {
        NodeRow: {"call_ns": "NULL", "gain": "ratio", "library": "0", "foreign": "0",
                  "advice": "NULL", "against": "NULL", "sanitizer": "NULL"},
        VerdictRow: {"call_ns": "NULL", "eager_call_ns": "NULL"},
    },
    SCHEMA_OF_CALLS: {
        TargetRow: {"hint": "NULL"},
        NodeRow: {"step": "NULL", "hint": "NULL", "calls": "0", "tokens_in": "0",
                  "tokens_out": "0", "unpriced": "0", "lost": "0"},
        CallRow: dict.fromkeys(
            ("action", "purpose", "writer", "reserved_tokens", "prompt", "attempt",
             "tokens_cached", "tokens_reasoning", "estimated", "error", "finish", "seconds",
             "settled_us"), "NULL",
        ),
    },
}  # fmt: skip


def stand_ins(kind: type[Row], schema: int) -> dict[str, str]:
    """For a session of that schema: what to select for each column of ``kind`` that it lacks."""
    lacking: dict[str, str] = {}
    for since, grown in _GROWN.items():
        if schema < since:
            lacking |= grown.get(kind, {})
    return lacking


def _spending(ours: str, tokens: str, cached: str, reasoning: str, estimated: str) -> str:
    """One row in the order of ``store.rows.Spending``; ``ours`` are the calls of models."""
    over = "state <> 'reserved'"
    return (
        f"SELECT sum({ours}), sum(CASE WHEN {over} THEN micro_dollars END), "
        f"sum({ours} AND NOT {over}), sum(CASE WHEN NOT {over} THEN reserved END), "
        f"sum(CASE WHEN NOT {over} THEN {tokens} END), "
        f"sum({over} AND state <> 'answered' AND micro_dollars IS NULL), sum(state = 'lost'), "
        f"sum(tokens_in), sum(tokens_out), {cached}, {reasoning}, {estimated} FROM model_calls"
    )


SPENDING = {
    True: _spending("coalesce(writer, 'model') = 'model'", "reserved_tokens", "sum(tokens_cached)",
                    "sum(tokens_reasoning)", "sum(estimated)"),
    False: _spending("1", "NULL", "0", "0", "0"),
}  # fmt: skip
"""What the calls come to, with or without the third schema's columns."""
