"""The Textual app: one session, one screen, and what to say on leaving."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette

from forge_tui.glyphs import UNICODE, Glyphs
from forge_tui.keys import KEYS
from forge_tui.launch import launch
from forge_tui.screens.watch import WatchScreen
from forge_tui.theme import CALM, NAMED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from textual.screen import Screen

    Launcher = Callable[[Path, Callable[[str], None]], int]


class ForgeApp(App[str]):
    """Watches a session.

    Args:
        session: The session file.
        read_only: Disable everything that asks something of the engine.
        follow: Keep the cursor on the newest live node until a key moves it.
        named_colours: Use the terminal's own 16 colours.
        launcher: Starts the engine for ``r`` (another one in tests).
        interval_s: How often the session is read.
    """

    CSS_PATH = "forge.tcss"
    TITLE = "forge-tui"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave", "leave", show=False, priority=True),
        Binding("ctrl+c", "how_to_leave", "leave", show=False, system=True),
    ]

    def __init__(
        self,
        session: Path,
        *,
        glyphs: Glyphs = UNICODE,
        read_only: bool = False,
        follow: bool = False,
        named_colours: bool = False,
        launcher: Launcher = launch,
        interval_s: float = 0.5,
    ) -> None:
        named_colours = named_colours or "NO_COLOR" in os.environ
        super().__init__(ansi_color=True if named_colours else None)
        self.HORIZONTAL_BREAKPOINTS = [(0, "-slim"), (60, "-narrow"), (110, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-low"), (15, "-short"), (24, "-normal"), (36, "-tall")]
        self.session = session
        self.glyphs = glyphs
        self.read_only = read_only
        self.launcher = launcher
        self.register_theme(CALM)
        self.register_theme(NAMED)
        self.theme = NAMED.name if named_colours else CALM.name
        self.animation_level = "none"
        self._watch_screen = WatchScreen(session, follow=follow, interval_s=interval_s)

    def on_mount(self) -> None:
        self.set_class(self.glyphs.guide_bar.isascii(), "-ascii")
        self.push_screen(self._watch_screen)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action of the table of keys by name, and a picture of the screen."""
        for key in KEYS:
            if key.group == "move" and key.action.startswith("move("):
                continue
            if key.action == "palette" or (key.writes and self.read_only):
                continue
            yield SystemCommand(
                f"{key.label} ({key.show.split()[0]})", key.what, self._runner(key.action)
            )
        yield SystemCommand(
            "screenshot", "save this screen as an SVG picture", lambda: self.deliver_screenshot()
        )

    def _runner(self, action: str) -> Callable[[], None]:
        def start() -> None:
            self._watch_screen.call_later(self._watch_screen.run_action, action)

        return start

    def action_command_palette(self) -> None:
        if not CommandPalette.is_open(self):  # type: ignore[arg-type]
            self.push_screen(CommandPalette(placeholder="Name of an action"))

    def action_leave(self) -> None:
        self.exit("left")

    def action_how_to_leave(self) -> None:
        self._watch_screen.note("q leaves this view, the search goes on; Q stops the search")
