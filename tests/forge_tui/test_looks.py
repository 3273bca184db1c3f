"""How the watch screen looks: empty, damaged, hostile, too small, ASCII, without colour, idle."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from forge_tui.glyphs import ASCII, UNICODE
from store.sessions import create
from store.writing import SessionWriter
from tests.forge_tui.pilot import watched
from tests.forge_tui.test_text import HOSTILE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.forge_tui.saga import Saga


async def test_an_empty_session_says_what_it_waits_for(home: Path) -> None:
    path = create("suite:softmax", {"nodes": 5})
    async with watched(path, rows=0) as one:
        await one.until(lambda: "no target yet" in one.text())
        for key in ("j", "space", "enter", "x", "b", "full_stop", "3", "4", "1", "l", "h", "G"):
            await one.press(key)
        writer = SessionWriter(path)
        writer.emit("EngineStarted", pid=1, host="h", version="0", machine={})
        writer.emit("TargetAdded", target=1, name="softmax", spec={}, task={})
        await one.until(lambda: "waiting" in one.text())
        writer.beat(1, {"stage": "measuring eager", "target": 1}, {})
        await one.until(lambda: "measuring" in one.text())
        writer.close()


async def test_a_damaged_file_is_a_message(tmp_path: Path) -> None:
    path = tmp_path / "x.forge.db"
    path.write_bytes(b"\0" * 8192)
    async with watched(path, rows=0) as one:
        await one.until(lambda: "cannot be read" in one.text())
        await one.press("j", "p", "x", "q")


@pytest.mark.parametrize(("size", "glyphs"), [((80, 24), ASCII), ((160, 50), UNICODE)])
async def test_hostile_text_cannot_touch_the_screen(
    saga: Saga, size: tuple[int, int], glyphs: Any
) -> None:
    for text in HOSTILE:
        if "\ud800" in text:
            continue  # SQLite stores no lone surrogates
        number = saga.start_node(1, None, text)
        at = {"target": 1, "node": number}
        saga.writer.stream(number, "compiler", text)
        variant = saga.writer.next_id("variants")
        saga.emit("VariantFailed", **at, variant=variant, values={}, rung="build", code="c",
                  reason=text, evidence={"log": text})  # fmt: skip
        saga.emit("NodeFailed", **at, rung=text, code="c", reason=text, seconds={})
        if len(text) < 200:
            saga.emit("Noted", level="warning", text=text)
    async with watched(saga.path, size, glyphs=glyphs) as one:
        for number in range(41, 41 + len(HOSTILE) - 1):
            one.screen.tree_view.go(number)
            await one.until(lambda: one.screen.looked_at == number)  # noqa: B023 - used at once
            for tab in (2, 3, 4, 5):
                one.screen.action_pane(tab)
                text = one.text()
                assert "\x1b" not in text
                assert len(text.split("\n")) == size[1]
        assert "[/x] [bold red]not markup[/]" in str(one.screen.model.nodes[41].title)


@pytest.mark.parametrize("size", [(59, 24), (80, 14), (20, 5)])
async def test_a_terminal_that_is_too_small_says_so(saga: Saga, size: tuple[int, int]) -> None:
    async with watched(saga.path, size) as one:
        assert "too small" in one.text() or size[0] < 40
        assert "target / idea" not in one.text()
        await one.pilot.resize_terminal(80, 24)
        await one.until(lambda: "target / idea" in one.text())
        await one.until(lambda: "softmax" in one.text())


@pytest.mark.parametrize("size", [(60, 15), (80, 20), (100, 30), (110, 24), (120, 40), (200, 60)])
async def test_every_size_shows_the_tree_and_the_node(saga: Saga, size: tuple[int, int]) -> None:
    async with watched(saga.path, size) as one:
        await one.press("b")
        await one.until(lambda: "#37" in one.text())
        assert "2 summary" in one.text()
        assert all(len(line) == size[0] for line in one.text().split("\n"))


async def test_ascii_glyphs_draw_nothing_else(saga: Saga) -> None:
    async with watched(saga.path, (160, 50), glyphs=ASCII) as one:
        await one.press("b")
        await one.until(lambda: "#37" in one.text())
        assert one.text().isascii()
        await one.press("question_mark")
        assert one.text().isascii()
        await one.press("escape", "x")
        assert one.text().isascii()


async def test_no_color_draws_no_colour(saga: Saga, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with watched(saga.path) as one:
        assert one.app.theme == "forge-16"
        assert one.app.native_ansi_color


async def test_an_idle_screen_repaints_nothing(saga: Saga) -> None:
    saga.close()
    async with watched(saga.path, (120, 40)) as one:
        await one.until(lambda: "crashed" in one.text())
        await asyncio.sleep(0.2)
        asked: list[object] = []
        for widget in one.screen.query("Bar, TreeView, LinesPane"):
            original = widget.refresh

            def spy(*args: object, original: Any = original, **kwargs: Any) -> Any:
                asked.append(args)
                return original(*args, **kwargs)

            widget.refresh = spy  # type: ignore[method-assign]
        await asyncio.sleep(1.3)
        assert asked == []
