"""Every key in one table: dispatch, the line of keys, help and the palette are made from it.

Letters, digits, space, enter, escape, tab and arrows only: nothing that tmux, a browser terminal or
an editor's terminal takes for itself.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """One action and its keys.

    Attributes:
        keys: As textual names them.
        show: The keys as a person reads them.
        action: What the watch screen does.
        label: One or two words, for the line of keys.
        what: One line, for help and the palette.
        group: Heading in help: move, look, search or leave.
        line: Place in the line of keys, from 1; 0 leaves it out.
        writes: It asks something of the engine, so a read-only viewer may not.
    """

    keys: tuple[str, ...]
    show: str
    action: str
    label: str
    what: str
    group: str
    line: int = 0
    writes: bool = False


KEYS: tuple[Key, ...] = (
    Key(("j", "down"), "j ↓", "move('down')", "down", "next row", "move"),
    Key(("k", "up"), "k ↑", "move('up')", "up", "row before", "move"),
    Key(("h", "left"), "h ←", "move('left')", "out", "fold, or to the parent", "move"),
    Key(("l", "right"), "l →", "move('right')", "in", "unfold, or to the first child", "move"),
    Key(("g", "home"), "g", "move('top')", "top", "first row", "move"),
    Key(("G", "end"), "G", "move('bottom')", "bottom", "last row", "move"),
    Key(("pagedown",), "pgdn", "move('page_down')", "page down", "a page down", "move"),
    Key(("pageup",), "pgup", "move('page_up')", "page up", "a page up", "move"),
    Key(
        ("space",), "space", "fold", "fold", "fold or unfold this branch, or the prompt", "move", 5
    ),
    Key(("minus",), "-", "fold_all(True)", "fold all", "fold every branch", "move"),
    Key(("equals_sign",), "=", "fold_all(False)", "unfold all", "unfold every branch", "move"),
    Key(("b",), "b", "best", "best", "jump to the best node", "move", 4),
    Key(("full_stop",), ".", "follow", "follow", "follow the newest live node", "move"),
    Key(("enter",), "enter", "detail", "detail", "look at this node", "look", 6),
    Key(("tab",), "tab", "next_pane", "next pane", "next pane", "look"),
    Key(("1",), "1", "pane(1)", "tree", "the tree", "look"),
    Key(("2",), "2", "pane(2)", "summary", "what was tried, and how fast it is", "look"),
    Key(("3",), "3", "pane(3)", "checks", "errors, kernels, clocks, sanitizer", "look"),
    Key(("4",), "4", "pane(4)", "code", "the program's source and plan", "look"),
    Key(("5",), "5", "pane(5)", "log", "compiler's and writer's words", "look"),
    Key(("6",), "6", "pane(6)", "prompt", "what a writer was asked, its reply and cost", "look"),
    Key(("z",), "z", "zoom", "zoom", "this pane alone, and back", "look", 7),
    Key(("f",), "f", "freeze", "freeze", "hold the view still; the search goes on", "look"),
    Key(("escape",), "esc", "back", "back", "leave zoom, or back to the tree", "look"),
    Key(("p",), "p", "pause", "pause", "pause the search, or go on", "search", 2, True),
    Key(("x",), "x", "prune", "prune", "close this branch; reversible", "search", 3, True),
    Key(("u",), "u", "unprune", "un-prune", "open a closed branch again", "search", 0, True),
    Key(
        ("H",), "H", "hint", "hint", "tell the writers of this branch something", "search", 0, True
    ),
    Key(("r",), "r", "resume", "resume", "resume a stopped or crashed search", "search", 0, True),
    Key(("Q",), "Q", "stop", "stop", "stop the search; everything is saved", "search", 0, True),
    Key(("q",), "q", "leave", "leave", "leave; the search goes on", "leave", 1),
    Key(("question_mark",), "?", "help", "help", "this page", "leave", 8),
    Key(("colon",), ":", "palette", "commands", "every action by name (also ctrl+p)", "leave"),
)
GROUPS = {"move": "Move", "look": "Look", "search": "The search", "leave": "This viewer"}


def shown(key: Key, ascii_only: bool) -> str:
    """The key's name for people, without arrows where the terminal may lack them."""
    return " ".join(p for p in key.show.split() if not ascii_only or p.isascii())


def key_line(state: str, read_only: bool) -> list[tuple[str, str]]:
    """What the bottom line offers in a state of the session: (key, label), most needed first."""
    offered = []
    for key in sorted((k for k in KEYS if k.line or k.action == "resume"), key=lambda k: k.line):
        label = key.label
        if key.action == "resume" and state not in {"crashed", "stopped", "failed", "new"}:
            continue
        if key.action == "pause":
            if state not in {"running", "pausing", "paused", "starting"}:
                continue
            label = "go on" if state in {"paused", "pausing"} else "pause"
        if key.writes and read_only:
            continue
        offered.append((key.show.split()[0], label))
    return offered
