"""Rows made by hand, for tests that need no session."""

from __future__ import annotations

from typing import Any

from store.rows import NodeRow, SessionRow, TargetRow


def node(number: int, parent: int | None = None, state: str = "scored", **more: Any) -> NodeRow:
    scored = state == "scored"
    values: dict[str, Any] = {
        "id": number, "target": 1, "parent": parent, "second_parent": None,
        "action": "improve" if parent else "draft", "writer": "drafter", "model": None,
        "program": None, "title": f"idea {number}", "schedule": None, "state": state,
        "stage": "building" if state == "live" else "",
        "rung": "build" if state == "failed" else None, "code": None,
        "reason": "expected ';'" if state == "failed" else None,
        "outcome": "FASTER" if scored else None, "variant": 1 if scored else None,
        "time_ns": 2_000_000 if scored else None, "ratio": 2.0 if scored else None,
        "low": 1.9 if scored else None, "high": 2.1 if scored else None,
        "sol_fraction": 0.5 if scored else None, "reward": 0.2 if scored else None, "visits": 1,
        "value": None, "pruned": 0, "confirmed": 0, "attempts": 1, "micro_dollars": 0,
        "seconds": {"building": 0.5}, "created_us": number, "finished_us": number + 10,
        "stage_us": number, "rev": number,
    }  # fmt: skip
    return NodeRow(**(values | more))


def target(number: int = 1, **more: Any) -> TargetRow:
    values: dict[str, Any] = {
        "id": number, "name": "softmax", "device": "cpu", "spec": {}, "task": {}, "state": "open",
        "reason": None, "cure": None, "code": None, "eager_ns": 4_000_000, "sol_ns": 1_000_000,
        "floor_ns": 1, "baselines": {}, "detail": {}, "best_node": None, "best_ratio": None,
        "confirmed": 0, "rev": 1,
    }  # fmt: skip
    return TargetRow(**(values | more))


def session(**more: Any) -> SessionRow:
    values: dict[str, Any] = {
        "session": "softmax-ab12", "name": "softmax", "task": "suite:softmax",
        "config": {"tasks": ["suite:softmax"], "nodes": 24, "minutes": 10.0}, "state": "running",
        "created_us": 1, "started_us": 1, "stopped_us": None, "host": "box", "machine": {},
        "stop_reason": "", "rev": 1,
    }  # fmt: skip
    return SessionRow(**(values | more))
