"""The base of every widget: lines of (text, role) pieces, of which only changed ones are repainted.

Textual repaints whole regions, so a widget that refreshes itself costs its whole area in bytes on
the wire. A canvas composes its visible lines, compares them with those on the screen, and asks for
the lines that differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from forge_tui.glyphs import UNICODE, Glyphs
from forge_tui.theme import roles
from forge_tui.view import fill

if TYPE_CHECKING:
    from textual import events

    from forge_tui.view import Line

Row = tuple[str, "Line"]


class Canvas(Widget, inherit_bindings=False):
    """A widget that composes rows: (role of the whole row, line)."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._rows: list[Row] = []
        self._styles: dict[str, Style] = {}
        self.glyphs: Glyphs = getattr(self.app, "glyphs", UNICODE)

    def compose_rows(self, cells: int, height: int) -> list[Row]:
        """The visible rows; missing ones are blank."""
        raise NotImplementedError

    def sync(self) -> None:
        """Compose again and repaint what differs."""
        cells, height = self.size
        if not self.is_mounted or cells <= 0 or height <= 0 or not self.display:
            return
        rows = self.compose_rows(cells, height)[:height]
        rows += [("", ())] * (height - len(rows))
        if len(self._rows) != height:
            self._rows = rows
            self.refresh()
            return
        changed = [y for y, row in enumerate(rows) if row != self._rows[y]]
        self._rows = rows
        if changed:
            self.refresh(*(Region(0, y, cells, 1) for y in changed))

    def on_resize(self, event: events.Resize) -> None:
        self._rows = []
        self.sync()

    def render_line(self, y: int) -> Strip:
        cells = self.size.width
        if y >= len(self._rows):
            return Strip.blank(cells, self.rich_style)
        if not self._styles:
            self._styles = roles(self.app.native_ansi_color)
        row_role, line = self._rows[y]
        whole = self._styles.get(row_role, Style())
        base = self.rich_style + whole
        # On a reversed row every piece's colour would become a patch of background.
        plain = {role: Style(bold=style.bold) for role, style in self._styles.items()}
        styles = plain if whole.reverse else self._styles
        segments = [
            Segment(text, base + styles.get(role, Style()))
            for text, role in fill(line, cells)
            if text
        ]
        return Strip(segments, cells)


class Pane(Canvas, can_focus=True):
    """A canvas over more rows than fit: keeps the first visible one, and draws a scroll bar."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.top = 0

    def count(self) -> int:
        """How many rows there are."""
        raise NotImplementedError

    def row_at(self, index: int, cells: int) -> Row:
        raise NotImplementedError

    def compose_rows(self, cells: int, height: int) -> list[Row]:
        count = self.count()
        self.top = max(0, min(self.top, count - height))
        long = count > height
        room = cells - 2
        out: list[Row] = []
        first, last = self._thumb(count, height) if long else (0, -1)
        for y in range(min(height, count - self.top)):
            role, line = self.row_at(self.top + y, room)
            mark = (" " + (self.glyphs.axis if first <= y <= last else " "), "faint")
            out.append((role, (*fill(line, room), mark)))
        return out

    def _thumb(self, count: int, height: int) -> tuple[int, int]:
        size = max(1, height * height // count)
        first = round(self.top / max(1, count - height) * (height - size))
        return first, first + size - 1

    def scroll(self, rows: int) -> None:
        self.top = max(0, min(self.top + rows, self.count() - self.size.height))
        self.sync()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll(-3)

    def on_focus(self) -> None:
        self.sync()

    def on_blur(self) -> None:
        self.sync()
