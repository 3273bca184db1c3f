"""A pane of ready lines (summary, code, log), and bars of one or few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forge_tui.text import width
from forge_tui.view import fill
from forge_tui.widgets.canvas import Canvas, Pane, Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from forge_tui.glyphs import Glyphs
    from forge_tui.view import Line

    Maker = Callable[[int, int, Glyphs], list[Line]]


class LinesPane(Pane):
    """Shows lines made by a function of the width, made once per width and content."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._make: Callable[[int], list[Line]] = lambda cells: []
        self._lines: list[Line] = []
        self._made_for = -1
        self._about: object = None

    def show(self, about: object, make: Callable[[int], list[Line]], *, tail: bool = False) -> None:
        """Show other lines; the place is kept while ``about`` stays the same.

        With ``tail`` the end is shown, until it is scrolled away from.
        """
        new = about != self._about
        at_end = tail and (new or self.top >= len(self._lines) - self.size.height)
        if new:
            self.top = 0
            self._about = about
        self._make = make
        self._made_for = -1
        if at_end and self.size.height:
            self.top = max(0, self.count() - self.size.height)
        self.sync()

    def _made(self) -> list[Line]:
        cells = self.size.width - 3  # the scroll bar with its blank, and a blank before
        if cells != self._made_for:
            self._lines = self._make(cells)
            self._made_for = cells
        return self._lines

    def count(self) -> int:
        return len(self._made())

    def row_at(self, index: int, cells: int) -> Row:
        line = self._lines[index]
        if sum(width(text) for text, _ in line) >= cells:
            line = (*fill(line, cells - 2), (self.glyphs.ellipsis, "faint"))
        return "", ((" ", "text"), *line)

    def move(self, how: str) -> None:
        page = max(1, self.size.height - 1)
        steps = {"down": 1, "up": -1, "page_down": page, "page_up": -page}
        if how in steps:
            self.scroll(steps[how])
        elif how in {"top", "bottom"}:
            self.scroll(self.count() if how == "bottom" else -self.count())


class Bar(Canvas):
    """A fixed number of lines made by a function of (cells, height, glyphs)."""

    def __init__(self, make: Maker, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._make = make

    def compose_rows(self, cells: int, height: int) -> list[Row]:
        return [("", line) for line in self._make(cells, height, self.glyphs)]
