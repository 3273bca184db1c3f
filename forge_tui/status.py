"""The first line of the screen: how the session stands, in words, as much as fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_tui import figures, words
from forge_tui.model import STALE_S
from forge_tui.text import clip, one_line, width
from forge_tui.view import fill

if TYPE_CHECKING:
    from forge_tui.glyphs import Glyphs
    from forge_tui.model import Model
    from forge_tui.view import Line, Piece


def status(model: Model, cells: int, glyphs: Glyphs, now_us: int, notes: str = "") -> Line:
    """The first line: state, task, counts, best, time; what does not fit is left out from the end.

    ``notes`` are the view's own states, such as ``frozen``.
    """
    sign, role = words.session_state("starting" if model.starting else model.state, glyphs)
    pieces: list[Piece] = [(f" {sign} ", role), (state_text(model, now_us), role)]
    if model.replays:  # never left out: nothing here was written now
        pieces += [
            ("   ", "text"),
            (f"REPLAY of {clip(model.replays, 24, glyphs.ellipsis)}", "warn"),
        ]
    used = sum(width(text) for text, _ in pieces)
    spent = spent_text(model)
    for whole, fact_role in _facts(model, cells, notes):
        text = whole
        if whole == spent and used + 3 + width(whole) > cells:
            text = words.paid(model.spending.micro_dollars, model.spending.unpriced)
        if used + 3 + width(text) > cells:
            continue
        pieces += [("   ", "text"), (text, fact_role)]
        used += 3 + width(text)
    return fill(tuple(pieces), cells)


def _facts(model: Model, cells: int, notes: str) -> list[Piece]:
    """What the line says after the state, what matters most first."""
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
    if model.asks:
        facts.append((spent_text(model), "text"))
    cap = model.cap("minutes")
    whole = f"/{figures.clock(cap * 60)}" if cap else ""
    facts.append((f"{figures.clock(model.active_s)}{whole}", "text"))
    if counts["failed"]:
        facts.append((f"{counts['failed']} failed", "muted"))
    if counts["live"]:
        word, role = ("live", "live") if model.working else ("unfinished", "muted")
        facts.append((f"{counts['live']} {word}", role))
    if model.asks:
        taken = model.spending.tokens_in + model.spending.tokens_out
        facts.append((f"{figures.tokens(taken)} tokens", "muted"))
    if model.spending.in_flight:
        facts.append((f"{figures.count_of(model.spending.in_flight, 'call')} in flight", "live"))
    return facts


def spent_text(model: Model) -> str:
    """What models have cost, of what: ``$0.42/$2.00 + 3 unknown``."""
    cap = model.cap("dollars")
    said = words.spent(model.spending, f"/{figures.dollars(cap * 1e6)}" if cap else "")
    return f"cost {said}" if said.startswith(words.UNKNOWN) else said


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
    if model.state == "running" and (replies := model.replies_awaited):
        return f"waiting for {figures.count_of(replies, 'reply', 'replies')}"
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
