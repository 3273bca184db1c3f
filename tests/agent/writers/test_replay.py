"""Recorded replies: each once, in order, for the target and action that asks."""

from __future__ import annotations

from typing import Any

from agent.writers.replay import Replay


def recorded(*items: tuple[str, str, str]) -> list[dict[str, Any]]:
    return [
        {"target": target, "action": action, "model": "m", "text": text}
        for target, action, text in items
    ]


RECORDING = recorded(
    ("a", "draft", "1"), ("b", "draft", "2"), ("a", "improve", "3"), ("a", "draft", "4"),
    ("a", "combine", "5"), ("a", "improve", "6"), ("a", "repair", "7"),
)  # fmt: skip


def test_the_kth_ask_gets_the_kth_reply_of_its_target_and_action() -> None:
    replay = Replay(RECORDING)
    asks = [("a", "improve"), ("a", "draft"), ("b", "draft"), ("a", "draft"), ("a", "improve")]
    assert [replay.answer(*ask) for ask in asks] == ["3", "1", "2", "4", "6"]


def test_what_stands_in_for_what() -> None:
    """An improvement and a combination for each other first; then whatever the target has."""
    replay = Replay(RECORDING)
    assert [replay.answer("a", "improve") for _ in range(4)] == ["3", "6", "5", "1"]
    assert replay.answer("a", "repair") == "7"
    assert replay.answer("a", "combine") == "4"
    assert replay.answer("a", "combine") is None
    replay = Replay(RECORDING)
    assert [replay.answer("a", "combine") for _ in range(3)] == ["5", "3", "6"]
    assert replay.left("a") == {"draft": 2, "repair": 1}


def test_a_recording_ends() -> None:
    replay = Replay(RECORDING)
    assert replay.answer("b", "draft") == "2"
    assert replay.answer("b", "draft") is None
    assert replay.answer("b", "improve") is None
    assert replay.answer("unknown", "draft") is None
    assert replay.left("b") == {}
    assert Replay([]).answer("a", "draft") is None


def test_the_same_asks_bring_a_new_engine_to_the_same_place() -> None:
    asks = [("a", "draft"), ("a", "combine"), ("a", "combine"), ("a", "improve")]
    first, again = Replay(RECORDING), Replay(RECORDING)
    assert [first.answer(*ask) for ask in asks] == [again.answer(*ask) for ask in asks]
    assert first.left("a") == again.left("a") == {"draft": 1, "repair": 1}


def test_an_item_that_lacks_something_does_no_harm() -> None:
    replay = Replay([{}, {"target": None, "action": "draft", "text": 3}, *RECORDING])
    assert replay.answer("a", "draft") == "1"
    assert replay.left("a") == {"draft": 1, "improve": 2, "combine": 1, "repair": 1}
