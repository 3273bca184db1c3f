"""Small screens over the watch screen: a question with No as its default, a line to write, help."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from forge_tui.keys import GROUPS, KEYS, shown
from forge_tui.options import MAX_HINT
from forge_tui.text import fit, wrap
from forge_tui.widgets.lines import Bar, LinesPane

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from forge_tui.glyphs import Glyphs
    from forge_tui.view import Line


class Question(ModalScreen[bool]):
    """Asks before something that is hard to take back; only ``y`` means yes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,enter,q", "answer(False)", "no"),
    ]

    def __init__(self, title: str, effect: str) -> None:
        super().__init__()
        self._title, self._effect = title, effect

    def compose(self) -> ComposeResult:
        with Vertical(id="question"):
            yield Bar(self._lines, id="question-text")

    def _lines(self, cells: int, height: int, glyphs: Glyphs) -> list[Line]:
        effect = wrap(self._effect, cells, 3)
        return [
            ((self._title, "strong"),),
            *(((line, "text"),) for line in effect),
            (),
            (("y", "key"), (" yes    ", "text"), ("n", "key"), (" no (default)", "text")),
        ]

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


class Words(ModalScreen[str]):
    """Asks for one line of words; empty when there are none."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "back")]

    def __init__(self, title: str, effect: str, before: str = "") -> None:
        super().__init__()
        self._title, self._effect, self._before = title, effect, before

    def compose(self) -> ComposeResult:
        with Vertical(id="words"):
            yield Bar(self._lines, id="words-text")
            yield Input(self._before, max_length=MAX_HINT)
            yield Bar(lambda cells, height, glyphs: [_ENTER], id="words-keys")

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def _lines(self, cells: int, height: int, glyphs: Glyphs) -> list[Line]:
        effect = wrap(self._effect, cells, 2)
        return [((self._title, "strong"),), *(((line, "muted"),) for line in effect)]

    def on_input_submitted(self, message: Input.Submitted) -> None:
        self.dismiss(" ".join(message.value.split()))

    def action_leave(self) -> None:
        self.dismiss("")


_ENTER = (("enter", "key"), (" send    ", "text"), ("esc", "key"), (" leave it", "text"))


class Help(ModalScreen[None]):
    """Every key, from the table of keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "leave", "back"),
        Binding("j,down", "move('down')"),
        Binding("k,up", "move('up')"),
        Binding("pagedown,space", "move('page_down')"),
        Binding("pageup", "move('page_up')"),
        Binding("g,home", "move('top')"),
        Binding("G,end", "move('bottom')"),
    ]

    def __init__(self, ascii_only: bool, read_only: bool) -> None:
        super().__init__()
        self._ascii, self._read_only = ascii_only, read_only

    def compose(self) -> ComposeResult:
        with Vertical(id="help"):
            pane = LinesPane(id="help-text")
            yield pane
        pane.show("help", lambda cells: help_lines(cells, self._ascii, self._read_only))

    def action_move(self, how: str) -> None:
        self.query_one(LinesPane).move(how)

    def action_leave(self) -> None:
        self.dismiss(None)


def help_lines(cells: int, ascii_only: bool, read_only: bool) -> list[Line]:
    """The help page; two columns where they fit."""
    blocks = []
    for group, title in GROUPS.items():
        block: list[Line] = [((title, "head"),)]
        for key in KEYS:
            if key.group != group:
                continue
            off = read_only and key.writes
            what = f"{key.what} (off: read-only)" if off else key.what
            block.append(
                ((fit(shown(key, ascii_only), 8), "faint" if off else "key"),
                 (what, "faint" if off else "text"))
            )  # fmt: skip
        blocks.append(block)
    if cells < 92:
        lines: list[Line] = []
        for block in blocks:
            lines += [*block, ()]
        return [*lines, *_notes(cells)]
    left = [*blocks[0], (), *blocks[2]]
    right = [*blocks[1], (), *blocks[3]]
    half = cells // 2
    out: list[Line] = []
    for index in range(max(len(left), len(right))):
        first = left[index] if index < len(left) else ()
        second = right[index] if index < len(right) else ()
        used = sum(len(text) for text, _ in first)
        out.append((*first, (" " * max(1, half - used), "text"), *second))
    return [*out, (), *_notes(cells)]


def _notes(cells: int) -> list[Line]:
    text = (
        "The search runs in a process of its own: leaving, or losing this terminal, does not touch "
        "it. Speedup is against eager PyTorch, gain against the fastest of eager and "
        "torch.compile. Device time is what a GPU works, call time what a caller waits. SOL is the "
        "speed of light, what moving the same bytes takes at best. A question mark behind a cost "
        "says that the price of a part of it is unknown. To select text with the mouse "
        "hold shift."
    )
    return [((line, "muted"),) for line in wrap(text, cells)]
