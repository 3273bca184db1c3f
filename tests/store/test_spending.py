"""The ledger: calls and nodes by target, action and writer; unknown, free and lost kept apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from store.reading import SessionReader
from store.spending import Entry, ledger, merged, total
from tests.store import story

if TYPE_CHECKING:
    from pathlib import Path

    from store.writing import SessionWriter

pytestmark = pytest.mark.usefixtures("home")


def written(writer: SessionWriter, model: str | None, action: str, *, win: bool = False) -> int:
    """A scored node by a model (or the drafter), confirmed or not."""
    number = story.node(writer, None, ratio=2.0, action=action,
                        writer_name="model" if model else "drafter", model=model)  # fmt: skip
    if win:
        writer.emit("NodeConfirmed", target=1, node=number, variant=number, ok=True,
                    outcome="FASTER", ratio=2.0, low=1.9, high=2.1, reason="")  # fmt: skip
    return number


def read(path: Path) -> list[Entry]:
    with SessionReader(path) as reader:
        return ledger(reader)


def test_lines_by_target_action_and_model_with_what_was_had_for_it() -> None:
    path, writer = story.begin()
    written(writer, None, "draft", win=True)
    first = written(writer, "a/one", "draft", win=True)
    second = written(writer, "a/one", "draft")
    third = written(writer, "b/two", "improve")
    story.asked(writer, first, model="a/one", action="draft", cost=300)
    story.asked(writer, second, model="a/one", action="draft", cost=500, state="failed")
    story.asked(writer, second, model="a/one", action="draft", cost=100, attempt=2)
    story.asked(writer, third, model="b/two", cost=None)
    free, one, two = read(path)
    assert (free.action, free.writer, free.model, free.calls, free.nodes, free.wins) == (
        "draft", "drafter", "", 0, 1, 1,
    )  # fmt: skip
    assert (free.micro_dollars_per_win, free.tokens_per_win) == (0, 0)
    assert (one.model, one.calls, one.failed, one.micro_dollars) == ("a/one", 3, 1, 900)
    assert (one.nodes, one.wins, one.tokens, one.tokens_cached) == (2, 1, 3_600, 300)
    assert (one.micro_dollars_per_node, one.micro_dollars_per_win) == (450, 900)
    assert (one.tokens_per_node, one.tokens_per_win) == (1_800, 3_600)
    # A price that nobody knows makes what depends on it unknown, and nothing won is not free.
    assert (two.model, two.micro_dollars, two.unpriced) == ("b/two", 0, 1)
    assert two.micro_dollars_per_node is two.micro_dollars_per_win is None
    assert (two.tokens_per_node, two.tokens_per_win) == (1_200, None)
    whole = total([free, one, two])
    assert (whole.target, whole.action, whole.writer, whole.model) == (1, "", "", "")
    assert (whole.calls, whole.nodes, whole.wins, whole.unpriced) == (4, 4, 2, 1)
    with SessionReader(path) as reader:
        told = reader.spending()
    assert (told.micro_dollars, told.tokens_in + told.tokens_out) == (
        whole.micro_dollars, whole.tokens,
    )  # fmt: skip
    writer.close()


def test_lost_calls_and_those_in_flight_are_told_apart() -> None:
    path, writer = story.begin()
    number = written(writer, "some/model", "improve")
    story.asked(writer, number, state="lost", cost=5_000, reply=None)
    story.asked(writer, number, state="reserved")
    story.asked(writer, number, estimated=True)
    (line,) = read(path)
    assert (line.calls, line.lost, line.in_flight, line.estimated) == (3, 1, 1, 1)
    assert (line.micro_dollars, line.reserved) == (5_900, 5_000)
    writer.close()


def test_answers_by_hand_cost_nothing_and_are_booked_with_their_nodes() -> None:
    path, writer = story.begin()
    number = story.node(writer, None, ratio=2.0, writer_name="inbox")
    story.asked(writer, number, state="answered", cost=None, by="inbox", model="by hand",
                tokens=(0, 0))  # fmt: skip
    (line,) = read(path)
    assert (line.writer, line.model, line.calls, line.nodes) == ("inbox", "", 1, 1)
    assert (line.unpriced, line.micro_dollars_per_node) == (0, 0)
    writer.close()


def test_lines_add_up_by_any_key() -> None:
    parts = [Entry(1, "draft", "model", "a", calls=1), Entry(2, "draft", "model", "b", calls=2),
             Entry(1, "improve", "model", "a", calls=4)]  # fmt: skip
    by_model = merged(parts, lambda part: (part.model,))
    assert [(line.model, line.target, line.action, line.calls) for line in by_model] == [
        ("a", 1, "", 5), ("b", 2, "draft", 2),
    ]  # fmt: skip
    assert total([]) == Entry()
