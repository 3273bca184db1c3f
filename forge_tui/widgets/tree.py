"""The tree: aligned columns on the right, cursor and folds by node, any depth, any number."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from textual.message import Message

from forge_tui import tree, view
from forge_tui.widgets.canvas import Pane, Row

if TYPE_CHECKING:
    from textual import events

    from forge_tui.model import Model


class TreeView(Pane):
    """Shows a ``Tree`` of a ``Model``; the cursor is a row's key, not its place."""

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, key: int) -> None:
            super().__init__()
            self.key = key

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, TreeView.Moved)

    def __init__(self, model: Model, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.model = model
        self.shown = tree.Tree()
        self.cursor: int | None = None
        self._line = 0

    # -- data --------------------------------------------------------------------------------------

    def take(self, nodes: list[int], *, follow: bool) -> None:
        """Show these new or changed nodes, keeping the cursor on its row and the row in place."""
        rows = [self.model.nodes[node] for node in nodes]
        moved = self.shown.update(self.model.targets, rows)
        if self.cursor is None and self.shown.rows:
            self.go(self.shown.rows[0])
        if moved and self.cursor is not None:
            self._keep(follow)
        if follow and (newest := self.model.newest_live()) is not None:
            self.go(newest)
        self.sync()

    def _keep(self, follow: bool) -> None:
        """After rows moved: find the cursor's row again, or the nearest one above it."""
        assert self.cursor is not None
        above = self.shown.parent(self.cursor) if self.cursor in self.shown.nodes else None
        gone = self.cursor not in self.shown.depth
        if gone and not follow and above is not None and tree.is_group(above):
            self.shown.set_folded(above, False)  # what is looked at does not vanish into a count
        key = self.shown.visible(self.cursor)
        before = self._line
        if key is None:
            key = self.shown.rows[min(self._line, len(self.shown.rows) - 1)]
        self._line = self.shown.rows.index(key)
        self.top += self._line - before
        if key != self.cursor:
            self.cursor = key
            self.post_message(self.Moved(key))
        self._show()

    # -- moving ------------------------------------------------------------------------------------

    def go(self, key: int) -> bool:
        """Put the cursor on a row, opening what hides it; False if there is no such row."""
        if not self.shown.reveal(key):
            return False
        self._to(self.shown.rows.index(key))
        return True

    def _to(self, line: int) -> None:
        if not self.shown.rows:
            return
        self._line = max(0, min(line, len(self.shown.rows) - 1))
        key = self.shown.rows[self._line]
        if key != self.cursor:
            self.cursor = key
            self.post_message(self.Moved(key))
        self._show()
        self.sync()

    def _show(self) -> None:
        height = max(1, self.size.height)
        self.top = max(min(self.top, self._line), self._line - height + 1, 0)

    def move(self, how: str) -> None:
        page = max(1, self.size.height - 1)
        steps = {"down": 1, "up": -1, "page_down": page, "page_up": -page}
        if how in steps:
            self._to(self._line + steps[how])
        elif how == "top":
            self._to(0)
        elif how == "bottom":
            self._to(len(self.shown.rows) - 1)
        elif self.cursor is not None:
            self._sideways(self.cursor, how)

    def _sideways(self, key: int, how: str) -> None:
        below = self.shown.children(key)
        folded = self.shown.is_folded(key)
        if how == "right":
            if below and folded:
                self.fold(key, False)
            elif below:
                self._to(self._line + 1)
        elif below and not folded:
            self.fold(key, True)
        else:
            parent = self.shown.parent(key)
            if parent is not None:
                self.go(parent)

    def fold(self, key: int, folded: bool | None = None) -> None:
        """Fold or unfold a row; without ``folded`` the other way round."""
        if self.shown.children(key):
            self.shown.set_folded(key, not self.shown.is_folded(key) if folded is None else folded)
            self._line = self.shown.rows.index(key)
            self._show()
            self.sync()

    def fold_all(self, folded: bool) -> None:
        self.shown.fold_all(folded)
        if self.cursor is not None:
            self._keep(False)
        self.sync()

    def on_click(self, event: events.Click) -> None:
        line = self.top + event.y
        if line < len(self.shown.rows):
            again = line == self._line
            self._to(line)
            if again and self.cursor is not None:
                self.fold(self.cursor)

    # -- drawing -----------------------------------------------------------------------------------

    def count(self) -> int:
        return len(self.shown.rows)

    def compose_rows(self, cells: int, height: int) -> list[Row]:
        self._now_us = time.time_ns() // 1000
        if not self.shown.rows:
            text = self.model.problem or "reading the session" if self.model.session is None else (
                "no target yet: the engine is loading the tasks"
            )  # fmt: skip
            return [("", ((f" {text}", "muted"),))]
        return super().compose_rows(cells, height)

    def row_at(self, index: int, cells: int) -> Row:
        key = self.shown.rows[index]
        model = self.model
        columns = view.Columns.of(cells, gpu=model.on_gpu, gain=model.compared, cost=model.asks)
        line = view.row(model, self.shown, key, columns, self.glyphs, self._now_us)
        if key != self.cursor:
            return "", line
        return "cursor" if self.has_focus else "cursor-away", line
