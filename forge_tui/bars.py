"""The lines around the panes: status, headings, tabs, curve, budget, events, keys."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from forge_tui import budget as spending
from forge_tui import curve as plot
from forge_tui import figures, view, words
from forge_tui import status as standing
from forge_tui.keys import key_line
from forge_tui.series import Series
from forge_tui.text import clip, one_line, width, wrap

if TYPE_CHECKING:
    from forge_tui.glyphs import Glyphs
    from forge_tui.screens.watch import WatchScreen
    from forge_tui.view import Line, Piece

TABS = ("summary", "checks", "code", "log", "prompt")


def status(screen: WatchScreen, cells: int, glyphs: Glyphs) -> Line:
    notes = [
        word
        for word, on in (
            ("frozen", screen.frozen),
            ("following", screen.following and bool(screen.model.live)),
            ("read-only", screen.app.read_only),
        )
        if on
    ]
    now_us = time.time_ns() // 1000
    return standing.status(screen.model, cells, glyphs, now_us, ", ".join(notes))


def heading(text: str, after: str, cells: int, glyphs: Glyphs, *, on: bool = False) -> Line:
    """A pane's heading: a name, a rule to the right edge, and a remark at its end."""
    after = clip(after, max(0, cells - width(text) - 6), glyphs.ellipsis)
    size = cells - width(text) - width(after) - (4 if after else 3)
    rule = glyphs.bar_empty if not glyphs.bar_empty.isascii() else "-"
    return (
        (f" {text} ", "tab-on" if on else "head"),
        (rule * max(0, size), "faint"),
        (f" {after} " if after else " ", "muted"),
    )


def tree_head(screen: WatchScreen, cells: int, glyphs: Glyphs) -> Line:
    model = screen.model
    return view.header(
        view.Columns.of(cells - 2, gpu=model.on_gpu, gain=model.compared, cost=model.asks)
    )


def curve_head(screen: WatchScreen, cells: int, glyphs: Glyphs) -> Line:
    target = screen.model.targets.get(screen.target or 0)
    if target is None:
        return heading("best so far", "", cells, glyphs)
    series = screen.model.series.get(target.id)
    ended = figures.count_of(series.count if series else 0, "node")
    remark = f"{one_line(target.name, 40)}, {ended}, log scale"
    return heading("best so far", remark, cells, glyphs)


def curve(screen: WatchScreen, cells: int, height: int, glyphs: Glyphs) -> list[Line]:
    model = screen.model
    target = model.targets.get(screen.target or 0)
    if target is None:
        return []
    sol = target.eager_ns / target.sol_ns if target.eager_ns and target.sol_ns else None
    cap = int(model.cap("nodes") or 0)
    series = model.series.get(target.id) or Series()
    best = model.best_node(target.id)
    return plot.curve(series, sol, cells - 1, height, glyphs, cap, best.ratio if best else None)


def tabs(screen: WatchScreen, cells: int, glyphs: Glyphs) -> Line:
    pieces: list[Piece] = [(" ", "text")]
    focused = screen.node_pane.has_focus
    for number, name in enumerate(TABS, 2):
        on = name == screen.tab
        sign = "key" if on and focused else "faint"
        pieces += [(f"{number} ", sign), (name, "tab-on" if on else "tab"), ("   ", "text")]
    used = sum(width(text) for text, _ in pieces)
    rule = glyphs.bar_empty if not glyphs.bar_empty.isascii() else "-"
    return (*pieces, (rule * max(0, cells - used - 1), "faint"), (" ", "text"))


def budget(screen: WatchScreen, cells: int, height: int, glyphs: Glyphs) -> list[Line]:
    lines = spending.budget(screen.model, cells - 2, glyphs)
    return [heading("budget", "", cells, glyphs), *lines]


def newest(screen: WatchScreen, cells: int, height: int, glyphs: Glyphs) -> list[Line]:
    """The newest events, newest last, with the search's clock."""
    lines: list[Line] = []
    for event in reversed(screen.model.events):
        # What a command did is an event of its own; only a refusal needs its answer told.
        quiet = event.kind in {"NodeStage", "CallReserved"}
        if quiet or (event.kind == "CommandAnswered" and event.payload["ok"]):
            continue
        said = words.event_line(event, screen.model.targets)
        if said is None:
            continue
        clock = f" {figures.clock(event.active_us / 1e6):>7}  "
        text = clip(said[0], cells - len(clock) - 1, glyphs.ellipsis)
        lines.append(((clock, "faint"), (text, said[1])))
        if len(lines) >= height - 1:
            break
    return [heading("events", "", cells, glyphs), *reversed(lines)]


def event(screen: WatchScreen, cells: int, glyphs: Glyphs) -> Line:
    """The newest event in words, or what this viewer has to say."""
    if screen.noted is not None:
        text, role = screen.noted
        return ((" " + clip(one_line(text, 600), cells - 2, glyphs.ellipsis), role),)
    for last in reversed(screen.model.events):
        said = words.event_line(last, screen.model.targets)
        if said is not None:
            return ((" " + clip(said[0], cells - 2, glyphs.ellipsis), said[1]),)
    return ()


def why(screen: WatchScreen, cells: int, glyphs: Glyphs) -> list[Line]:
    """What ended the search and what to do about it, whole."""
    lines = wrap(one_line(screen.model.why, 600), cells - 4, 8)
    return [((f" {glyphs.failed if at == 0 else ' '} ", "bad"), (line, "bad"))
            for at, line in enumerate(lines)]  # fmt: skip


def keys(screen: WatchScreen, cells: int, glyphs: Glyphs) -> Line:
    pieces: list[Piece] = [(" ", "text")]
    used = 1
    offered = key_line(screen.model.state, screen.app.read_only)
    last = offered[-1]
    room = cells - len(last[0]) - len(last[1]) - 4
    for name, label in [*offered[:-1], last]:
        size = len(name) + len(label) + 4
        if (name, label) != last and used + size > room:
            continue
        pieces += [(name, "key"), (f" {label}   ", "muted")]
        used += size
    return view.fill(tuple(pieces), cells)


def too_small(cells: int, height: int, glyphs: Glyphs) -> list[Line]:
    text = f"{cells} x {height} is too small: 60 x 15 at least"
    middle = max(0, (height - 1) // 2)
    pad = " " * max(0, (cells - len(text)) // 2)
    return [*[()] * middle, ((pad + clip(text, cells, glyphs.ellipsis), "warn"),)]
