"""The Checks tab: each set of inputs with both errors, kernels, how times were taken, sanitizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_tui import evidence as told
from forge_tui import figures
from forge_tui.detail import TITLES, built_detail, checked_families, verdict_of
from forge_tui.text import one_line

if TYPE_CHECKING:
    from forge_tui.glyphs import Glyphs
    from forge_tui.model import Detail
    from forge_tui.view import Line
    from store.rows import VerdictRow


def checks(detail: Detail, cells: int, glyphs: Glyphs) -> list[Line]:
    """A node's proof, section by section; what is not known yet is left out."""
    sections = [
        ("answers", _answers(detail, cells, glyphs)),
        ("kernels", told.kernels(built_detail(detail), cells)),
        ("time", _measured(verdict_of(detail, confirm=False), cells)),
        ("confirmation", _measured(verdict_of(detail, confirm=True), cells)),
        ("sanitizer", told.sanitizer(detail.node.sanitizer, cells, glyphs)),
        ("failures", _failures(detail, cells, glyphs)),
    ]
    out: list[Line] = []
    for title, lines in sections:
        if lines:
            out += [*([()] if out else []), ((title, "head"),), *lines]
    return out or [(("nothing was checked yet", "muted"),)]


def _answers(detail: Detail, cells: int, glyphs: Glyphs) -> list[Line]:
    table = told.families(checked_families(detail), cells, glyphs)
    if not table:
        return []
    text = "largest errors against float64; more than 100% of the allowed fails"
    return [*told.wrapped(text, "muted", cells, 2), *table]


def _measured(verdict: VerdictRow | None, cells: int) -> list[Line]:
    """What one verdict's times rest on."""
    if verdict is None:
        return []
    spread = figures.interval(verdict.low, verdict.high)
    text = (
        f"{figures.speedup(verdict.ratio)} vs eager {spread}, {one_line(verdict.timing, 16)} time"
    )
    out = told.wrapped(text, "text", cells, 2)
    both = figures.number(verdict.evidence.get("call_ratio"))
    if both is not None and verdict.timing != "call":
        out += told.wrapped(f"{figures.speedup(both)} vs eager in call time", "muted", cells, 2)
    facts = [
        f"{one_line(verdict.evidence[key], 40)}{after}"
        for key, after in (("inner", " calls a sample"), ("allocator", ""))
        if verdict.evidence.get(key)
    ]
    if facts:
        out += told.wrapped(", ".join(facts), "muted", cells, 2)
    out += told.conditions(verdict.evidence, cells)
    if machine := one_line(verdict.evidence.get("machine") or "", 200):
        out += told.wrapped(f"on {machine}", "faint", cells, 2)
    return out


def _failures(detail: Detail, cells: int, glyphs: Glyphs) -> list[Line]:
    """Each failed variant's rung and reason with what the judge kept of it."""
    out: list[Line] = []
    for variant in [v for v in detail.variants if v.state == "failed"][:8]:
        rung = TITLES.get(variant.rung or "", one_line(variant.rung or "?", 12))
        reason = one_line(variant.reason or "", 400)
        out += told.wrapped(f"{glyphs.failed} {rung}: {reason}", "bad", cells, 0)
        out += told.failure(variant.evidence, cells)
    return out
