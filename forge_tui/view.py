"""The view model: the tree's rows as styled text, made to measure, without textual.

A line is a tuple of (text, role) pieces; the theme gives roles their colours. Every line is exactly
as wide as it was asked to be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from forge_tui import figures, tree, words
from forge_tui.baselines import baselines
from forge_tui.text import clip, fit, one_line, width

if TYPE_CHECKING:
    from forge_tui.glyphs import Glyphs
    from forge_tui.model import Model
    from forge_tui.tree import Tree
    from store.rows import NodeRow

Piece = tuple[str, str]
Line = tuple[Piece, ...]

STATE, SPEEDUP, GAIN, TIME, ONE_TIME, SOL, COST = 10, 7, 6, 8, 9, 4, 8


@dataclass(frozen=True, slots=True)
class Columns:
    """Widths of the tree's columns for one width; 0 for a column that has no room.

    Attributes:
        device: Device time, on a GPU.
        call: Call time: beside device time on a GPU, the only time on a CPU.
        cost: Of the model calls, where there are any.
    """

    title: int
    state: int
    speedup: int
    gain: int
    device: int
    call: int
    sol: int
    cost: int = 0

    @staticmethod
    def of(cells: int, *, gpu: bool = False, gain: bool = False, cost: bool = False) -> Columns:
        wide, wider = cells >= 58, cells >= 72
        device = TIME if gpu and wide else 0
        call = (TIME if wider else 0) if gpu else ONE_TIME if wide else 0
        sol = SOL if cells >= 66 else 0
        over = GAIN if gain and cells >= 84 else 0
        paid = COST if cost and wider else 0
        taken = sum(size + 1 for size in (STATE, SPEEDUP, over, device, call, sol, paid) if size)
        return Columns(max(cells - taken - 1, 8), STATE, SPEEDUP, over, device, call, sol, paid)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the figures, from left to right."""
        return (self.speedup, self.gain, self.device, self.call, self.sol, self.cost)

    @property
    def figures(self) -> int:
        """Cells from the speedup to the right edge."""
        return sum(size + 1 for size in self.sizes if size) - 1

    @property
    def words(self) -> int:
        """Cells that a sentence may take in their place: all but the cost."""
        return self.figures - (self.cost and self.cost + 1)


def header(columns: Columns) -> Line:
    """The names of the columns."""
    text = fit(" target / idea", columns.title + 1) + " " + fit("state", columns.state)
    call = "call" if columns.device else "call time"
    names = ("speedup", "gain", "device", call, "SOL", "cost")
    for name, size in zip(names, columns.sizes, strict=True):
        if size:
            text += " " + fit(name, size, right=True)
    return ((text, "head"),)


def row(model: Model, shown: Tree, key: int, columns: Columns, glyphs: Glyphs, now_us: int) -> Line:
    """One row of the tree."""
    if tree.is_target(key):
        return _target_row(model, shown, key, columns, glyphs)
    if tree.is_group(key):
        return _group_row(shown, key, columns, glyphs)
    return _node_row(model, shown, key, columns, glyphs, now_us)


def _folded(shown: Tree, key: int, glyphs: Glyphs) -> str:
    below = shown.below(key) if shown.is_folded(key) else 0
    return f" {glyphs.folded}{below}" if below else ""


def _guides(shown: Tree, key: int, columns: Columns, glyphs: Glyphs) -> str:
    """The lines of the tree left of a row; deep ones are cut and say how deep they are."""
    depth = shown.depth.get(key, 0)
    most = max(3, columns.title // 6)
    kept = min(depth, most)
    flags = shown.lasts(key, kept)
    parts = ["  " if last else glyphs.guide_bar for last in flags[:-1]]
    parts += [glyphs.guide_end if last else glyphs.guide_tee for last in flags[-1:]]
    if depth > most:
        parts[0:2] = [fit(str(depth), 4)]
    return "".join(parts)


def _title(
    before: str,
    glyph: Piece,
    text: Piece,
    after: str,
    columns: Columns,
    g: Glyphs,
    number: str = "",
) -> Line:
    """The first column: guides, glyph, number, title, and how many rows are folded away."""
    room = columns.title - width(before) - 2 - len(number) - width(after)
    name = clip(text[0], max(room, 4), g.ellipsis)
    pad = " " * max(room - width(name), 0)
    return (
        (" " + before, "faint"), (glyph[0] + " ", glyph[1]), (number, "muted"), (name, text[1]),
        (after, "muted"), (pad + " ", "text"),
    )  # fmt: skip


def _figures(columns: Columns, values: tuple[Piece, ...]) -> list[Piece]:
    return [
        (" " + fit(text, size, right=True), role)
        for (text, role), size in zip(values, columns.sizes, strict=True)
        if size
    ]


def _times(
    columns: Columns, time_ns: float | None, call_ns: float | None, role: str
) -> tuple[Piece, Piece]:
    """Device and call time; where only call time is shown, it is the time that counts."""
    call = call_ns if columns.device else time_ns
    return (
        (figures.time_of(time_ns) if time_ns else "", role),
        (figures.time_of(call) if call else "", role),
    )


def _target_row(model: Model, shown: Tree, key: int, columns: Columns, glyphs: Glyphs) -> Line:
    target = model.targets[-key]
    word, role = words.target_word(target, model.target_stage(target.id))
    glyph = (words.target_glyph(word, glyphs), role)
    after = _folded(shown, key, glyphs)
    title = _title("", glyph, (one_line(target.name, 80), "strong"), after, columns, glyphs)
    state = (fit(word, columns.state), role)
    best = model.best_node(target.id)
    paid = model.cost_of(target.id) if columns.cost else ""
    if target.state == "refused" or (target.state == "closed" and best is None):
        role = "bad" if target.state == "refused" else "muted"
        return (*title, state, *_sentence(target.reason or "", role, paid, columns, glyphs))
    if best is not None:
        how = "faint" if best.foreign else "strong"
        return (*title, state, *_figures(columns, _node_values(best, columns, how, how, paid)))
    eager = baselines(target)[0]
    times = _times(columns, eager.ns, eager.call_ns, "muted")
    values = (("", "muted"), ("", "muted"), *times, ("", "muted"), (paid, "muted"))
    return (*title, state, *_figures(columns, values))


def _sentence(text: str, role: str, cost: str, columns: Columns, glyphs: Glyphs) -> list[Piece]:
    """A sentence in place of the figures, with the cost after it."""
    pieces = [(" " + fit(one_line(text, 200), columns.words, mark=glyphs.ellipsis), role)]
    if columns.cost:
        pieces.append((" " + fit(cost, columns.cost, right=True), "muted"))
    return pieces


def _group_row(shown: Tree, key: int, columns: Columns, glyphs: Glyphs) -> Line:
    rows = [shown.nodes[member] for member in shown.members(key)]
    pruned = sum(1 for row in rows if row.pruned)
    dropped = sum(1 for row in rows if row.state == "dropped" and not row.pruned)
    failed = len(rows) - pruned - dropped
    counts = ((failed, "failed"), (pruned, "pruned"), (dropped, "dropped"))
    text = ", ".join(f"{count} {word}" for count, word in counts if count)
    sign = glyphs.failed if failed else glyphs.pruned
    after = f" {glyphs.folded}" if shown.is_folded(key) else ""
    guides = _guides(shown, key, columns, glyphs)
    title = _title(guides, (sign, "faint"), (text, "muted"), after, columns, glyphs)
    return (*title, (" " * (columns.state + 1 + columns.figures), "text"))


def _node_row(
    model: Model, shown: Tree, key: int, columns: Columns, glyphs: Glyphs, now_us: int
) -> Line:
    node = shown.nodes[key]
    pruned = model.pruned_by(key) is not None
    target = model.targets.get(node.target)
    best = target is not None and target.best_node == key
    word, role = words.node_word(node, pruned)
    if node.state == "scored" and model.doing(node=key) == "confirming":
        word, role = "confirming", "live"
    sign = words.node_glyph(node, glyphs, pruned=pruned, best=best)
    if node.state == "live" and not model.working:
        word, role, sign = "unfinished", "muted", glyphs.queued
    quiet = pruned or node.state in {"failed", "dropped"}
    how, what = words.waits_for(node, model.waited_for(key), now_us)
    name = one_line(node.title, 160) or f"({one_line(node.action, 20)}) {what}".rstrip()
    title = _title(
        _guides(shown, key, columns, glyphs), (sign, "best" if best and not node.foreign else role),
        (name, "muted" if quiet else "text"), _folded(shown, key, glyphs), columns, glyphs,
        f"{key} ",
    )  # fmt: skip
    state = (fit(word, columns.state), role)
    paid = words.node_cost(node) if columns.cost else ""
    if node.state == "failed" and not pruned:
        why = f"{node.rung}: {node.reason}" if node.rung else node.reason or ""
        return (*title, state, *_sentence(why, "muted", paid, columns, glyphs))
    if node.state == "live":
        if how and model.working:
            return (*title, state, *_sentence(how, "warn", paid, columns, glyphs))
        age = (now_us - node.stage_us) / 1e6
        text = figures.span(age) if age >= 1.5 and model.working else ""
        room = columns.words - (columns.sol and columns.sol + 1)
        return (*title, state, *_sentence(fit(text, room, right=True), "muted", paid, columns,
                                          glyphs))  # fmt: skip
    quiet = pruned or bool(node.foreign)
    role = "faint" if quiet else "best" if best else "text"
    values = _node_values(node, columns, role, "faint" if quiet else "text", paid)
    return (*title, state, *_figures(columns, values))


def _node_values(
    node: NodeRow, columns: Columns, role: str, time_role: str, cost: str
) -> tuple[Piece, ...]:
    """A scored node's figures, one for each column."""
    sol = figures.percent(node.sol_fraction) if node.sol_fraction else ""
    return (
        (figures.speedup(node.ratio) if node.ratio else "", role),
        (figures.speedup(node.gain) if node.gain else "", time_role),
        *_times(columns, node.time_ns, node.call_ns, time_role),
        (sol, "muted" if time_role == "text" else time_role),
        (cost, "muted"),
    )


# -- lines -----------------------------------------------------------------------------------------


def fill(line: Line, cells: int) -> Line:
    """The line with blanks up to its width, or cut to it."""
    used = sum(width(text) for text, _ in line)
    if used <= cells:
        return (*line, (" " * (cells - used), "text"))
    out: list[Piece] = []
    left = cells
    for text, role in line:
        if left <= 0:
            break
        cut = clip(text, left, "")
        out.append((cut, role))
        left -= width(cut)
    return (*out, (" " * left, "text")) if left > 0 else tuple(out)
