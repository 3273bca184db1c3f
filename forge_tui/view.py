"""The view model: rows, status line and budget as styled text, made to measure, without textual.

A line is a tuple of (text, role) pieces; the theme gives roles their colours. Every line is exactly
as wide as it was asked to be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from forge_tui import figures, tree, words
from forge_tui.baselines import baselines
from forge_tui.model import STALE_S
from forge_tui.text import clip, fit, one_line, width

if TYPE_CHECKING:
    from forge_tui.glyphs import Glyphs
    from forge_tui.model import Model
    from forge_tui.tree import Tree
    from store.rows import NodeRow

Piece = tuple[str, str]
Line = tuple[Piece, ...]

STATE, SPEEDUP, GAIN, TIME, ONE_TIME, SOL = 10, 7, 6, 8, 9, 4


@dataclass(frozen=True, slots=True)
class Columns:
    """Widths of the tree's columns for one width; 0 for a column that has no room.

    Attributes:
        device: Device time, on a GPU.
        call: Call time: beside device time on a GPU, the only time on a CPU.
    """

    title: int
    state: int
    speedup: int
    gain: int
    device: int
    call: int
    sol: int

    @staticmethod
    def of(cells: int, *, gpu: bool = False, gain: bool = False) -> Columns:
        wide, wider = cells >= 58, cells >= 72
        device = TIME if gpu and wide else 0
        call = (TIME if wider else 0) if gpu else ONE_TIME if wide else 0
        sol = SOL if cells >= 66 else 0
        over = GAIN if gain and cells >= 84 else 0
        taken = sum(size + 1 for size in (STATE, SPEEDUP, over, device, call, sol) if size)
        return Columns(max(cells - taken - 1, 8), STATE, SPEEDUP, over, device, call, sol)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the figures, from left to right."""
        return (self.speedup, self.gain, self.device, self.call, self.sol)

    @property
    def figures(self) -> int:
        """Cells from the speedup to the right edge."""
        return sum(size + 1 for size in self.sizes if size) - 1


def header(columns: Columns) -> Line:
    """The names of the columns."""
    text = fit(" target / idea", columns.title + 1) + " " + fit("state", columns.state)
    call = "call" if columns.device else "call time"
    for name, size in zip(("speedup", "gain", "device", call, "SOL"), columns.sizes, strict=True):
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
    if target.state == "refused" or (target.state == "closed" and best is None):
        reason = fit(one_line(target.reason or "", 200), columns.figures, mark=glyphs.ellipsis)
        return (*title, state, (" " + reason, "bad" if target.state == "refused" else "muted"))
    if best is not None:
        how = "faint" if best.foreign else "strong"
        return (*title, state, *_figures(columns, _node_values(best, columns, how, how)))
    eager = baselines(target)[0]
    times = _times(columns, eager.ns, eager.call_ns, "muted")
    values = (("", "muted"), ("", "muted"), *times, ("", "muted"))
    return (*title, state, *_figures(columns, values))


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
    name = one_line(node.title, 160) or f"({one_line(node.action, 20)})"
    title = _title(
        _guides(shown, key, columns, glyphs), (sign, "best" if best and not node.foreign else role),
        (name, "muted" if quiet else "text"), _folded(shown, key, glyphs), columns, glyphs,
        f"{key} ",
    )  # fmt: skip
    state = (fit(word, columns.state), role)
    if node.state == "failed" and not pruned:
        why = one_line(f"{node.rung}: {node.reason}" if node.rung else node.reason or "", 200)
        return (*title, state, (" " + fit(why, columns.figures, mark=glyphs.ellipsis), "muted"))
    if node.state == "live":
        age = (now_us - node.stage_us) / 1e6
        text = figures.span(age) if age >= 1.5 and model.working else ""
        age_text = fit(text, columns.figures - (columns.sol and columns.sol + 1), right=True)
        rest = " " * (columns.sol and columns.sol + 1)
        return (*title, state, (" " + age_text + rest, "muted"))
    quiet = pruned or bool(node.foreign)
    role = "faint" if quiet else "best" if best else "text"
    values = _node_values(node, columns, role, "faint" if quiet else "text")
    return (*title, state, *_figures(columns, values))


def _node_values(node: NodeRow, columns: Columns, role: str, time_role: str) -> tuple[Piece, ...]:
    """A scored node's figures, one for each column."""
    sol = figures.percent(node.sol_fraction) if node.sol_fraction else ""
    return (
        (figures.speedup(node.ratio) if node.ratio else "", role),
        (figures.speedup(node.gain) if node.gain else "", time_role),
        *_times(columns, node.time_ns, node.call_ns, time_role),
        (sol, "muted" if time_role == "text" else time_role),
    )


# -- the status line -------------------------------------------------------------------------------


def status(model: Model, cells: int, glyphs: Glyphs, now_us: int, notes: str = "") -> Line:
    """The first line: state, task, counts, best, time; what does not fit is left out from the end.

    ``notes`` are the view's own states, such as ``frozen``.
    """
    sign, role = words.session_state("starting" if model.starting else model.state, glyphs)
    pieces: list[Piece] = [(f" {sign} ", role), (state_text(model, now_us), role)]
    counts = model.counts
    facts: list[Piece] = [(task_text(model, max(12, cells // 4)), "strong")]
    if notes:
        facts.append((notes, "warn"))
    if model.total or model.session is not None:
        cap = model.cap("nodes")
        whole = f"/{int(cap) * max(1, len(model.targets))}" if cap else ""
        facts.append((f"{model.done}{whole} nodes", "text"))
    best = model.best()
    if best is not None:
        facts.append((f"best {figures.speedup(best[0])} #{best[1]}", "best"))
    cap = model.cap("minutes")
    whole = f"/{figures.clock(cap * 60)}" if cap else ""
    facts.append((f"{figures.clock(model.active_s)}{whole}", "text"))
    if counts["failed"]:
        facts.append((f"{counts['failed']} failed", "muted"))
    if counts["live"]:
        word, role = ("live", "live") if model.working else ("unfinished", "muted")
        facts.append((f"{counts['live']} {word}", role))
    if model.micro_dollars:
        facts.append((figures.dollars(model.micro_dollars), "text"))
    used = sum(width(text) for text, _ in pieces)
    for text, fact_role in facts:
        if used + 3 + width(text) > cells:
            continue
        pieces += [("   ", "text"), (text, fact_role)]
        used += 3 + width(text)
    return fill(tuple(pieces), cells)


def state_text(model: Model, now_us: int) -> str:
    """The session's state in words, with what a person can do about it."""
    if model.problem:
        return clip(one_line(model.problem), 60)
    if model.starting:
        return f"starting: {clip(one_line(model.starting), 40)}"
    if model.waiting in {"pause", "resume", "stop"}:
        return {"pause": "pausing...", "resume": "resuming...", "stop": "stopping..."}[
            model.waiting
        ]
    if model.state == "pausing":
        return "pausing..."
    if model.state in {"crashed", "failed"}:
        return f"{model.state} - press r to resume"
    age = model.beat_age_s(now_us)
    if age is not None and age > STALE_S:
        return f"no heartbeat {figures.span(age)}"
    doing = model.doing()
    if model.state == "running" and doing.startswith("waiting"):
        return f"running, {clip(one_line(doing), 40)}"
    if model.state == "running" and doing == "confirming":
        return "confirming"
    return model.state


def task_text(model: Model, cells: int) -> str:
    """The task, short: the first target and how many more."""
    if model.session is None:
        return ""
    tasks = model.session.config.get("tasks")
    if not isinstance(tasks, list) or not tasks:
        tasks = model.session.task.split()
    names = [str(name).removeprefix("suite:") for name in tasks]
    if not names:
        return one_line(model.session.name, cells)
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    name = one_line(names[0].rsplit("/", 1)[-1], 200)
    return clip(name, cells - len(more)) + more


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


# -- the budget ------------------------------------------------------------------------------------

_STAGES = ("writing", "building", "checking", "tuning", "timing", "confirming")


def budget(model: Model, cells: int, glyphs: Glyphs) -> list[Line]:
    """What was spent of what, one line each, and where the seconds went."""
    nodes_cap = model.cap("nodes")
    whole = int(nodes_cap) * max(1, len(model.targets)) if nodes_cap else None
    minutes = model.cap("minutes")
    spent_s = model.active_s
    rows = [
        ("nodes", model.done / whole if whole else None,
         f"{model.done}" + (f" of {whole}" if whole else "")),
        ("time", spent_s / (minutes * 60) if minutes else None,
         figures.clock(spent_s) + (f" of {figures.clock(minutes * 60)}" if minutes else "")),
    ]  # fmt: skip
    dollars = model.cap("dollars")
    if dollars or model.micro_dollars:
        part = model.micro_dollars / 1e6 / dollars if dollars else None
        text = figures.dollars(model.micro_dollars) + (f" of ${dollars:,.2f}" if dollars else "")
        rows.append(("cost", part, text))
    lines = [_gauge(name, part, text, cells, glyphs) for name, part, text in rows]
    if not dollars and not model.micro_dollars:
        lines.append(fill(((" cost   ", "head"), ("nothing: no model is asked", "muted")), cells))
    return [*lines, *_stage_lines(model, cells)]


def _gauge(name: str, part: float | None, text: str, cells: int, glyphs: Glyphs) -> Line:
    pieces: list[Piece] = [(f" {name:<6} ", "head")]
    room = cells - 9 - 15
    if part is not None and room >= 6:
        size = min(room, 24)
        full = min(size, round(part * size))
        role = "warn" if part >= 0.8 else "live"
        pieces += [(glyphs.bar_full * full, role), (glyphs.bar_empty * (size - full), "faint"),
                   (" ", "text")]  # fmt: skip
    pieces.append((text, "text"))
    return fill(tuple(pieces), cells)


def _stage_lines(model: Model, cells: int) -> list[Line]:
    known = [name for name in _STAGES if model.stages.get(name, 0.0) >= 0.05]
    known += sorted(name for name in model.stages if name not in _STAGES)
    if not known:
        return []
    lines: list[Line] = []
    pieces: list[Piece] = [(" spent  ", "head")]
    used = 8
    for name in known:
        text = f"{one_line(name, 14)} {figures.seconds_of(model.stages[name])}"
        if used + len(text) + 2 > cells and used > 8:
            lines.append(fill(tuple(pieces), cells))
            pieces, used = [("        ", "head")], 8
        pieces.append((text + "  ", "muted"))
        used += len(text) + 2
    return [*lines, fill(tuple(pieces), cells)]
