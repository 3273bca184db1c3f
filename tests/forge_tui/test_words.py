"""States and events in words: each says what it is, and against what."""

from __future__ import annotations

from typing import Any

import pytest

from forge_tui import words
from forge_tui.glyphs import ASCII, UNICODE
from store.events import Event
from tests.forge_tui.rows import node, target

COMPILED = {"ratio": 1.62, "low": 1.6, "high": 1.64, "ns": 42_000}
HELD: dict[str, Any] = {"ok": True, "ratio": 2.03, "low": 2.01, "high": 2.05, "sanitizer": None}


@pytest.mark.parametrize(
    ("kind", "payload", "text"),
    [
        ("TargetMeasured", {"eager_ns": 68_000, "sol_ns": 29_000,
                            "baselines": {"eager": {"ns": 68_000, "call_ns": 74_000}}},
         "softmax: eager takes 68.0 us on the device, 74.0 us a call, speed of light 29.0 us"),
        ("TargetMeasured", {"eager_ns": 68_000, "sol_ns": None, "baselines": {"eager": 68_000}},
         "softmax: eager takes 68.0 us"),
        ("BaselineMeasured", {"name": "compile", "value": COMPILED},
         "softmax: compile is 1.62x [1.60, 1.64] of eager"),
        ("BaselineMeasured", {"name": "compile", "value": {"error": "no compiler"}}, None),
        ("NodeScored", {"outcome": "LIBRARY", "ratio": 1.3, "low": 1.27, "high": 1.33},
         "softmax #3: library calls alone, 1.30x [1.27, 1.33]"),
        ("NodeConfirmed", HELD | {"against": {"name": "compile", "ratio": 1.25}},
         "softmax #3: confirmed, 2.03x [2.01, 2.05], 1.25x vs compile"),
        ("NodeConfirmed", HELD | {"against": None}, "softmax #3: confirmed, 2.03x [2.01, 2.05]"),
        ("NodeConfirmed", {"ok": False, "reason": "memcheck: 1 error"},
         "softmax #3: did not hold when judged again: memcheck: 1 error"),
    ],
)  # fmt: skip
def test_events_say_what_figures_are_against(
    kind: str, payload: dict[str, Any], text: str | None
) -> None:
    number = 3 if kind.startswith("Node") else 0
    said = words.event_line(Event(1, 0, 0, kind, 1, 1, number, payload), {1: target()})
    assert (said[0] if said else None) == text


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_every_state_of_a_scored_node_has_a_word_and_a_sign_of_its_own(glyphs: Any) -> None:
    rows = [node(1, outcome=outcome) for outcome in words.OUTCOMES]
    rows += [node(1, confirmed=-1), node(1, foreign=1)]
    said = [words.node_word(row)[0] for row in rows]
    assert said == ["faster", "same", "slower", "unsure", "library", "not held", "foreign"]
    signs = [words.node_glyph(row, glyphs, pruned=False, best=False) for row in rows]
    assert len(set(signs)) == len(signs)
    assert all(len(sign) == 1 for sign in signs)


def test_foreign_figures_come_before_all_else() -> None:
    row = node(1, confirmed=1, foreign=1)
    assert words.node_word(row) == ("foreign", "warn")
    assert words.node_glyph(row, UNICODE, pruned=False, best=True) == "≠"
    assert words.target_verdict(target(), row) == "FASTER on another machine"
