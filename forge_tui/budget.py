"""The budget pane: what was spent of what, what a win has cost, and where the seconds went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_tui import figures, words
from forge_tui.text import one_line, width
from forge_tui.view import fill

if TYPE_CHECKING:
    from forge_tui.glyphs import Glyphs
    from forge_tui.model import Model
    from forge_tui.view import Line, Piece

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
    rows += _spent(model) if model.asks else [("cost", None, _free(model))]
    longest = max((width(text) for _, part, text in rows if part is not None), default=0)
    size = min(24, cells - 10 - longest)
    lines = [_gauge(*row, size, cells, glyphs) for row in rows]
    return [*lines, *_stage_lines(model, cells)]


def _free(model: Model) -> str:
    """Why nothing is paid."""
    if model.replays:
        return "nothing: replies come from a recording"
    if model.inbox:
        return "nothing here: replies come from the inbox"
    return "nothing: no model is asked"


def _spent(model: Model) -> list[tuple[str, float | None, str]]:
    """Dollars, tokens and calls of models, each with its cap, and what a win has cost."""
    spent = model.spending
    dollars, tokens, calls = (model.cap(name) for name in ("dollars", "tokens", "calls"))
    taken = spent.tokens_in + spent.tokens_out
    held = f", at most {figures.dollars(spent.reserved)}" if spent.reserved else ""
    rows = [
        ("cost", _part(spent.micro_dollars / 1e6, dollars),
         words.spent(spent, f" of {figures.dollars(dollars * 1e6)}" if dollars else "")),
        ("tokens", _part(taken, tokens),
         figures.tokens(taken) + (f" of {figures.tokens(int(tokens))}" if tokens else "")
         + f" ({figures.tokens(spent.tokens_out)} out)"),
        ("calls", _part(spent.calls, calls),
         f"{spent.calls:,}" + (f" of {int(calls):,}" if calls else "")
         + (f", {spent.lost} lost" if spent.lost else "")),
        ("win", None, _per_win(model)),
    ]  # fmt: skip
    if spent.in_flight:
        open_calls = figures.count_of(spent.in_flight, "call")
        rows.insert(3, ("now", None, f"{open_calls} in flight{held}"))
    return rows


def _part(spent: float, cap: float | None) -> float | None:
    return spent / cap if cap else None


def _per_win(model: Model) -> str:
    """What models have cost for each node that was confirmed."""
    wins, spent = model.wins, model.spending
    if not wins:
        return "none confirmed yet"
    if spent.unpriced:
        return f"cost unknown ({figures.count_of(wins, 'win')})"
    return f"{figures.dollars(spent.micro_dollars / wins)} each ({figures.count_of(wins, 'win')})"


def _gauge(name: str, part: float | None, text: str, size: int, cells: int, glyphs: Glyphs) -> Line:
    pieces: list[Piece] = [(f" {name:<6} ", "head")]
    if part is not None and size >= 6:
        full = min(size, round(part * size))
        role = "warn" if part >= 0.8 else "live"
        pieces += [(glyphs.bar_full * full, role), (glyphs.bar_empty * (size - full), "faint"),
                   (" ", "text")]  # fmt: skip
    pieces.append((text, "muted" if part is None else "text"))
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
