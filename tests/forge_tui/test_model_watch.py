"""The watch screen of searches in which models, an inbox or a recording write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual.widgets import Input

from forge_tui.glyphs import ASCII
from forge_tui.screens.dialogs import Words
from tests.forge_tui import model_saga
from tests.forge_tui.pilot import both_sizes, watched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.forge_tui.saga import Saga


@pytest.fixture
def told(home: Path) -> Iterator[model_saga.ModelSaga]:
    saga = model_saga.told()
    yield saga
    saga.close()


@both_sizes
async def test_costs_and_stages_are_seen(told: model_saga.ModelSaga, size: tuple[int, int]) -> None:
    async with watched(told.path, size) as one:
        await one.until(lambda: "running" in one.line(0))
        assert "$0.0566/$2.00 + 1 unknown" in one.line(0)
        text = one.text()
        head, *rows = text.split("\n")[1:10]
        assert "cost" in head
        assert "$0.0566?" in rows[0]
        costs = [row[: head.index("cost") + 4].split()[-1] for row in rows]
        assert (costs[2], costs[3], costs[4]) == ("$0.0135", "unknown", "$0.0431")
        assert "asking" in rows[5]
        assert "writing" in rows[6]
        assert "(improve) rate limit: 4" in rows[7]
        assert " s " in rows[7].split("waiting")[1]
        assert all(len(line) == size[0] for line in text.split("\n"))
        if size[0] == 160:
            assert "cost unknown (1 win)" in text
            assert "3 calls in flight, at most $0.0930" in text
            assert "a call was lost with its engine: $0.0310 counts as spent" in text


@both_sizes
async def test_the_prompt_tab_shows_what_was_sent_and_folds_it(
    told: model_saga.ModelSaga, size: tuple[int, int]
) -> None:
    async with watched(told.path, size) as one:
        await one.press("b", "6", "z")
        await one.until(lambda: "call 1 of 2" in one.text())
        assert one.screen.tab == "prompt"
        assert "space shows them" in one.text()
        assert "Rule 3." not in one.text()
        await one.press("space")
        assert "Rule 3." in one.text()
        await one.press("space", "G")
        assert "Rule 3." not in one.text()
        await one.until(lambda: 'kernel = "softmax"' in one.text())
        await one.press("h")
        assert one.screen.tab == "log"


async def test_the_log_follows_what_a_model_writes_until_one_scrolls_away(
    told: model_saga.ModelSaga,
) -> None:
    async with watched(told.path) as one:
        one.screen.tree_view.go(6)
        await one.press("5")
        await one.until(lambda: "Tiles of 64" in one.text())
        told.writer.stream(6, "model", "columns\n" * 100 + "and the")
        told.writer.stream(6, "model", " last line")
        await one.until(lambda: "and the last line" in one.text())
        await one.press("k", "k", "k")
        assert "and the last line" not in one.text()
        told.writer.stream(6, "model", "\none more")
        await one.until(lambda: one.screen._detail.stream[-1].text == "\none more")
        await one.pilot.pause()
        assert "one more" not in one.text()
        await one.press("G")
        assert "one more" in one.text()


async def test_a_view_that_is_held_still_can_turn_to_the_prompt(
    told: model_saga.ModelSaga,
) -> None:
    async with watched(told.path) as one:
        await one.press("b")
        await one.until(lambda: one.screen.looked_at == 2)
        await one.press("f", "6", "z")
        await one.until(lambda: "call 1 of 2" in one.text())
        assert "frozen" in one.line(0)


async def test_a_countdown_is_seen_with_its_reason(told: model_saga.ModelSaga) -> None:
    async with watched(told.path, (160, 50)) as one:
        one.screen.tree_view.go(7)
        await one.until(lambda: "s: rate limit: 429 too many requests" in one.text())


@both_sizes
async def test_an_inbox_says_which_files_it_waits_for(home: Path, size: tuple[int, int]) -> None:
    saga, folder = model_saga.posted()
    async with watched(saga.path, size, rows=3) as one:
        await one.until(lambda: "waiting for 2 replies" in one.line(0))
        assert "0001-draft-softmax.reply.md" in one.text()
        await one.press("G")
        await one.until(lambda: "waiting for a reply: 0002-draft-softmax.reply.md" in one.text())
        assert f"inbox/{folder.name}, beside the session" in " ".join(
            one.text().replace("│", "").split()
        )
        assert "cost" not in one.line(1)
        assert ("replies come from the inbox" in one.text()) == (size[0] == 160)
    saga.close()


@both_sizes
async def test_a_replay_is_marked_all_the_time(home: Path, size: tuple[int, int]) -> None:
    saga = model_saga.begun(models=[], replay={"from": "softmax-ab12", "replies": []})
    async with watched(saga.path, size, rows=1) as one:
        await one.until(lambda: "REPLAY of softmax-ab12" in one.line(0))
        await one.press("f", "2", "z")
        assert "REPLAY of softmax-ab12" in one.line(0)
        saga.emit("EngineStopped", state="finished", reason="every target is closed")
        saga.close()
        await one.until(lambda: "finished" in one.line(0))
        assert "REPLAY of softmax-ab12" in one.line(0)


async def test_a_hint_is_written_for_a_node_and_for_a_target(told: model_saga.ModelSaga) -> None:
    async with watched(told.path) as one:
        await one.press("b", "H")
        assert isinstance(one.app.screen, Words)
        assert one.app.screen.query_one(Input).value == "try 32 lanes and no division"
        await one.press("escape")
        assert told.writer.new_commands() == []
        await one.press("g", "H", "n", "o", "space", "q", "H", "enter")
        await one.until(told.writer.new_commands)
        ((number, verb, args),) = told.writer.new_commands()
        assert (verb, args) == ("hint", {"target": 1, "text": "no qH"})
        told.writer.answer(number, verb, True, "every prompt for softmax will say so")
        await one.until(lambda: "hint: every prompt for softmax" in one.text())
        await one.press("b", "H", "4", "enter")
        await one.until(told.writer.new_commands)
        ((_, _, args),) = told.writer.new_commands()
        assert args == {"node": 2, "text": "4"}


async def test_an_empty_hint_is_none(saga: Saga) -> None:
    async with watched(saga.path) as one:
        await one.press("b", "H", "space", "enter")
        assert not isinstance(one.app.screen, Words)
        await one.press("j")
        assert saga.writer.new_commands() == []


async def test_a_read_only_viewer_gives_no_hints(told: model_saga.ModelSaga) -> None:
    async with watched(told.path, read_only=True) as one:
        await one.press("b", "H")
        assert "read-only" in one.text()
        assert not isinstance(one.app.screen, Words)


async def test_a_hint_without_an_engine_is_written_for_the_next(
    told: model_saga.ModelSaga,
) -> None:
    told.close()
    async with watched(told.path) as one:
        await one.until(lambda: "crashed" in one.line(0))
        await one.press("b", "H", "x", "enter")
        assert "it applies when the search is resumed" in one.text()


async def test_ascii_draws_nothing_else(told: model_saga.ModelSaga) -> None:
    async with watched(told.path, (160, 50), glyphs=ASCII) as one:
        await one.press("b", "6")
        await one.until(lambda: "call 1 of 2" in one.text())
        assert one.text().isascii()
        await one.press("H")
        assert one.text().isascii()
