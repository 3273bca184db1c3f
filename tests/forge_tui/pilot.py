"""The app under a pilot, with waiting instead of sleeping."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from forge_tui.app import ForgeApp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from textual.pilot import Pilot

    from forge_tui.screens.watch import WatchScreen

SIZES = [(80, 24), (160, 50)]
both_sizes = pytest.mark.parametrize("size", SIZES, ids=["80x24", "160x50"])


class Watched:
    """An app under a pilot."""

    def __init__(self, app: ForgeApp, pilot: Pilot[str]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def screen(self) -> WatchScreen:
        return self.app._watch_screen

    @property
    def cursor(self) -> int | None:
        return self.screen.tree_view.cursor

    async def until(self, true: Callable[[], Any], seconds: float = 5.0) -> None:
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, f"not in time; the screen:\n{self.text()}"
            await asyncio.sleep(0.01)
            await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    def text(self) -> str:
        """What is on the terminal now."""
        strips = self.app.screen._compositor.render_strips(self.app.size)
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    def line(self, number: int) -> str:
        return self.text().split("\n")[number]


@asynccontextmanager
async def watched(
    path: Path, size: tuple[int, int] = (80, 24), rows: int = 4, **options: Any
) -> AsyncIterator[Watched]:
    app = ForgeApp(path, interval_s=0.02, **options)
    async with app.run_test(size=size) as pilot:
        one = Watched(app, pilot)
        await one.until(lambda: one.screen.query("#keys"))
        await one.until(lambda: len(one.screen.tree_view.shown.rows) >= rows)
        yield one
