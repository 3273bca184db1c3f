"""The watch screen: takes news from the feed, gives it to the panes, turns keys into actions.

Handlers never wait: reading, commands and engine starts happen in threads, and their results come
back as messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.message import Message

from forge_tui import asked, bars, checks, code, detail, evidence, pages, tree
from forge_tui.feed import Feed
from forge_tui.keys import KEYS
from forge_tui.screens.dialogs import Help
from forge_tui.screens.steer import SteerScreen
from forge_tui.widgets.lines import Bar, LinesPane
from forge_tui.widgets.tree import TreeView

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from textual.app import ComposeResult

    from forge_tui.model import Detail
    from forge_tui.view import Line


class WatchScreen(SteerScreen):
    """A session, live."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(key.keys), key.action, key.label, show=False, priority=key.show == "tab")
        for key in KEYS
    ]

    class News(Message):
        """The feed has something."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, WatchScreen.News)

    class Looked(Message):
        """A node's detail was read."""

        def __init__(self, detail: Detail, code: list[Line] | None) -> None:
            super().__init__()
            self.detail, self.code = detail, code

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, WatchScreen.Looked)

    def __init__(self, session: Path, *, follow: bool, interval_s: float) -> None:
        super().__init__(session)
        self.following = follow
        self.frozen = False
        self.tab = "summary"
        self.whole_prompt = False
        self._held: set[int] = set()
        self._detail: Detail | None = None
        self._code: list[Line] | None = None
        self.feed = Feed(
            session,
            on_news=lambda: self.tell(self.News()),
            on_detail=lambda found, lines: self.tell(self.Looked(found, lines)),
            on_sent=lambda verb, number, why: self.tell(self.Sent(verb, number, why)),
            interval_s=interval_s,
        )

    def compose(self) -> ComposeResult:
        with Vertical(id="watch"):
            yield Bar(lambda c, h, g: [bars.status(self, c, g)], id="status")
            yield Bar(lambda c, h, g: bars.why(self, c, g), id="why")
            with Container(id="body"):
                with Vertical(id="left"):
                    yield Bar(lambda c, h, g: [bars.tree_head(self, c, g)], id="tree-head")
                    yield TreeView(self.model, id="tree")
                with Vertical(id="right"):
                    yield Bar(lambda c, h, g: [bars.curve_head(self, c, g)], id="curve-head")
                    yield Bar(lambda c, h, g: bars.curve(self, c, h, g), id="curve")
                    yield Bar(lambda c, h, g: [bars.tabs(self, c, g)], id="tabs")
                    yield LinesPane(id="node")
            with Container(id="foot"):
                yield Bar(lambda c, h, g: bars.budget(self, c, h, g), id="budget")
                yield Bar(lambda c, h, g: bars.newest(self, c, h, g), id="events")
            yield Bar(lambda c, h, g: [bars.event(self, c, g)], id="event")
            yield Bar(lambda c, h, g: [bars.keys(self, c, g)], id="keys")
        yield Bar(bars.too_small, id="small")

    def on_mount(self) -> None:
        self.tree_view.focus()
        self.set_interval(1.0, self._tick)
        # The first paint comes before any data is read.
        self.call_after_refresh(self.feed.start)

    def on_unmount(self) -> None:
        self.feed.stop()

    @property
    def tree_view(self) -> TreeView:
        return self.query_one("#tree", TreeView)

    @property
    def cursor(self) -> int | None:
        return self.tree_view.cursor

    @property
    def node_pane(self) -> LinesPane:
        return self.query_one("#node", LinesPane)

    # -- news --------------------------------------------------------------------------------------

    def on_watch_screen_news(self) -> None:
        update = self.feed.take()
        self.model.apply(update)
        self.hear(update.events)
        self._held.update(node.id for node in update.nodes)
        if not self.frozen:
            self._show_news()
        self._show_why()
        self.set_class(self.model.asks, "-paid")
        self._sync("#status", "#event", "#events", "#budget", "#keys")

    def _show_why(self) -> None:
        """A failed search says why above the tree, for as long as it stays failed."""
        bar = self.query_one("#why", Bar)
        lines = len(bars.why(self, self.size.width, self.app.glyphs)) if self.model.why else 0
        bar.display = bool(lines)
        bar.styles.height = lines
        bar.sync()

    def _show_news(self) -> None:
        held, self._held = sorted(self._held), set()
        self.tree_view.take(held, follow=self.following)
        self._sync("#tree-head", "#curve-head", "#curve")
        key = self.cursor
        if key is not None and (key < 0 or tree.is_group(key)):
            self._show_page()

    def _tick(self) -> None:
        """Once a second: what changes by itself (ages, the clock, an expired note)."""
        if self.forget_note():
            self._sync("#event")
        if self.model.working:
            self._sync("#status")
            if self.model.live and not self.frozen:
                self.tree_view.sync()
                if self.tab == "summary" and self._detail and self._detail.node.state == "live":
                    self._show_page()

    def _sync(self, *selectors: str) -> None:
        for selector in selectors:
            self.query_one(selector, Bar).sync()

    def show_status(self) -> None:
        self._sync("#status", "#event")

    # -- the node pane -----------------------------------------------------------------------------

    @property
    def looked_at(self) -> int:
        """The node whose detail was read last, 0 for none."""
        return self._detail.node.id if self._detail else 0

    def on_tree_view_moved(self, message: TreeView.Moved) -> None:
        self._look()
        self._sync("#curve-head", "#curve")

    def _look(self) -> None:
        """Ask for the detail of the row under the cursor and show what is known already."""
        key = self.cursor or 0
        node = key if key > 0 and not tree.is_group(key) else 0
        self.feed.watch(node, self.tab)
        if not node or (self._detail is not None and self._detail.node.id == node):
            self._show_page()

    def on_watch_screen_looked(self, message: Looked) -> None:
        seen = self._detail
        lacks = (self.tab == "prompt" and seen is not None and seen.prompts is None) or (
            self.tab == "code" and self._code is None
        )
        if self.frozen and seen and seen.node.id == message.detail.node.id and not lacks:
            return
        self._detail = message.detail
        if message.code is not None:
            self._code = message.code
        self._show_page()

    def _show_page(self) -> None:
        self._sync("#tabs")
        key = self.cursor
        if key is None or not self.node_pane.display:
            return
        found = self._detail
        if key > 0 and not tree.is_group(key):
            if found is None or found.node.id != key:
                return
            tail = self.tab == "log" and found.node.state == "live"
            self.node_pane.show((key, self.tab), self._maker(found), tail=tail)
        elif self.tab != "summary":
            text = "several nodes in one row: space shows them"
            if not tree.is_group(key):
                best = self.model.best_node(-key)
                text = "a target has programs, none of its own: "
                text += f"b goes to the best, #{best.id}" if best else "it has none yet"
            self.node_pane.show(
                (key, self.tab), lambda cells: evidence.wrapped(text, "muted", cells)
            )
        elif tree.is_group(key):
            rows = [self.tree_view.shown.nodes[n] for n in self.tree_view.shown.members(key)]
            make = lambda cells: pages.group_summary(rows, cells, self.app.glyphs)  # noqa: E731
            self.node_pane.show(key, make)
        else:
            target, glyphs = self.model.targets[-key], self.app.glyphs
            self.node_pane.show(
                key, lambda cells: pages.target_summary(target, self.model, cells, glyphs)
            )

    def _maker(self, found: Detail) -> Callable[[int], list[Line]]:
        if self.tab == "code":
            lines = self._code or [(("reading", "muted"),)]
            return lambda cells: code.folded(lines, cells)
        if self.tab == "log":
            return lambda cells: code.folded(code.log(found), cells)
        if self.tab == "prompt":
            sent = asked.asked(found, self.app.glyphs, whole=self.whole_prompt)
            return lambda cells: code.folded(sent, cells)
        if self.tab == "checks":
            return lambda cells: checks.checks(found, cells, self.app.glyphs)
        return lambda cells: detail.summary(found, self.model, cells, self.app.glyphs)

    # -- actions: look -----------------------------------------------------------------------------

    def action_move(self, how: str) -> None:
        if self.node_pane.has_focus:
            if how in {"left", "right"}:
                self._turn(1 if how == "right" else -1)
            else:
                self.node_pane.move(how)
            return
        self.following = False
        self.tree_view.move(how)
        self._sync("#status")

    def _turn(self, step: int) -> None:
        at = bars.TABS.index(self.tab) + step
        if 0 <= at < len(bars.TABS):
            self.action_pane(at + 2)

    def action_fold(self) -> None:
        if self.node_pane.has_focus and self.tab == "prompt":
            self.whole_prompt = not self.whole_prompt
            self._show_page()
        elif self.cursor is not None:
            self.tree_view.fold(self.cursor)

    def action_fold_all(self, folded: bool) -> None:
        self.tree_view.fold_all(folded)

    def action_best(self) -> None:
        key = self.cursor
        target = self._target_of(key) if key is not None else None
        best = self.model.best_node(target) if target else None
        top = self.model.best()
        if best is None and top is not None:
            best = self.model.nodes[top[1]]
        if best is None:
            self.note("there is no best node yet")
            return
        self.following = False
        self.tree_view.go(best.id)
        self._sync("#status")

    def action_follow(self) -> None:
        self.following = not self.following
        self.note("following the newest live node" if self.following else "not following any more")
        if self.following and (newest := self.model.newest_live()) is not None:
            self.tree_view.go(newest)
        self._sync("#status")

    def action_detail(self) -> None:
        self.following = False
        self.action_pane(2 if self.tab == "summary" else bars.TABS.index(self.tab) + 2)
        if self.has_class("-narrow"):
            self._zoom("node")

    def action_pane(self, number: int) -> None:
        if number == 1:
            if self.has_class("-zoom-node"):
                self._zoom("")
            self.tree_view.focus()
        else:
            if self.has_class("-zoom-tree"):
                self._zoom("")
            self.tab = bars.TABS[number - 2]
            self.node_pane.focus()
            self._look()
        self._sync("#tabs")

    def action_next_pane(self) -> None:
        if not self.node_pane.has_focus:
            self.action_pane(bars.TABS.index(self.tab) + 2)
        else:
            self.action_pane(1)

    def action_zoom(self) -> None:
        zoomed = self.has_class("-zoom-node") or self.has_class("-zoom-tree")
        self._zoom("" if zoomed else "node" if self.node_pane.has_focus else "tree")

    def _zoom(self, what: str) -> None:
        self.set_class(what == "tree", "-zoom-tree")
        self.set_class(what == "node", "-zoom-node")

    def action_back(self) -> None:
        if self.has_class("-zoom-node") or self.has_class("-zoom-tree"):
            self._zoom("")
        self.action_pane(1)

    def action_freeze(self) -> None:
        self.frozen = not self.frozen
        if not self.frozen:
            self._show_news()
            self._look()
        self._sync("#status")

    def action_help(self) -> None:
        self.app.push_screen(Help(self.app.has_class("-ascii"), self.app.read_only))

    def action_palette(self) -> None:
        self.app.action_command_palette()

    def action_leave(self) -> None:
        self.app.exit("left")

    def _target_of(self, key: int) -> int | None:
        if key < 0:
            return -key
        if tree.is_group(key):
            return self._target_of(key - tree.GROUP)
        node = self.model.nodes.get(key)
        return node.target if node else None

    @property
    def target(self) -> int | None:
        """The target of the row under the cursor."""
        key = self.cursor
        found = self._target_of(key) if key is not None else None
        return found if found in self.model.targets else next(iter(self.model.targets), None)
