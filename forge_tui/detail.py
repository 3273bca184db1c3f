"""The Summary tab: what was tried, the ladder rung by rung with its evidence, variants, cost.

Evidence is what a judge wrote down; any field may be missing or of another type, and is then left
out. All of it is foreign text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forge_tui import figures, words
from forge_tui.text import clip, fit, lines, one_line, width, wrap

if TYPE_CHECKING:
    from forge_tui.glyphs import Glyphs
    from forge_tui.model import Detail, Model
    from forge_tui.view import Line
    from store.rows import NodeRow, TargetRow, VariantRow, VerdictRow

QUIET = 0.1
RUNGS = ("read", "build", "check", "measure", "confirm")
_TITLES = {"read": "read", "build": "build", "check": "check", "measure": "time",
           "confirm": "confirm"}  # fmt: skip


def summary(detail: Detail, model: Model, cells: int, glyphs: Glyphs) -> list[Line]:
    """A node's page."""
    node = detail.node
    target = model.targets.get(node.target)
    out = _heading(node, model, cells)
    out += _result(detail, target, cells, model.working)
    out.append(())
    out += _ladder(detail, cells, glyphs)
    if len(detail.variants) > 1 or any(v.tuned for v in detail.variants):
        out += [(), (("variants", "head"),), *_variants(detail, cells, glyphs)]
    if node.seconds:
        spent = "  ".join(
            f"{one_line(name, 16)} {figures.seconds_of(float(value))}"
            for name, value in node.seconds.items()
            if isinstance(value, int | float)
        )
        out += [(), (("spent", "head"),), *wrapped(spent, "muted", cells)]
    return out


def _heading(node: NodeRow, model: Model, cells: int) -> list[Line]:
    origin = f"{node.action} of #{node.parent}" if node.parent else one_line(node.action, 20)
    if node.second_parent:
        origin += f" with #{node.second_parent}"
    by = one_line(node.model or node.writer, 40)
    facts = [origin, f"by {by}"]
    if node.micro_dollars:
        facts.append(figures.dollars(node.micro_dollars))
    if node.attempts > 1:
        facts.append(f"attempt {node.attempts}")
    closed = model.pruned_by(node.id)
    if closed is not None:
        facts.append("pruned" if closed == node.id else f"pruned with #{closed}")
    title = wrap(one_line(node.title, 300) or "(nothing is written yet)", cells, 3)
    return [
        *(((line, "strong"),) for line in title),
        ((f"#{node.id}  ", "muted"), (clip("  ".join(facts), cells - 8), "muted")),
    ]


def _result(detail: Detail, target: TargetRow | None, cells: int, working: bool) -> list[Line]:
    node = detail.node
    word, role = words.node_word(node)
    if node.state == "failed":
        why = one_line(node.reason or "no reason is stored", 600)
        rung = one_line(node.rung or "?", 20)
        return [(), ((f"failed at {rung}", role),), *wrapped(why, "text", cells)]
    if node.state == "dropped":
        return [(), (("dropped: ", role), (one_line(node.reason or "", cells), "text"))]
    if node.state != "scored":
        text = f"{word} now" if working else f"unfinished: the engine ended at {word}"
        return [(), ((text, role if working else "warn"),)]
    last = _verdict(detail, confirm=node.confirmed == 1)
    first: Line = (
        (f"{figures.speedup(node.ratio)} ", "best" if role == "good" else "strong"),
        (figures.interval(node.low, node.high) + " ", "muted"),
        ("against eager (95 %), ", "muted"),
        ("not confirmed: " if node.confirmed == -1 else "", role),
        (f"{word}", role),
    )
    eager = last.eager_ns if last else target.eager_ns if target else None
    parts = [f"{figures.time_of(node.time_ns)}"]
    if eager:
        parts.append(f"eager {figures.time_of(eager)}")
    if node.sol_fraction:
        parts.append(f"{figures.percent(node.sol_fraction)} of speed of light")
    return [(), cut(first, cells), ((clip("   ".join(parts), cells), "text"),)]


# -- the ladder ------------------------------------------------------------------------------------


def _ladder(detail: Detail, cells: int, glyphs: Glyphs) -> list[Line]:
    reached = _reached(detail)
    out: list[Line] = []
    for rung in RUNGS:
        state = reached.get(rung, "")
        sign, role = {
            "ok": (glyphs.done, "good"),
            "bad": (glyphs.failed, "bad"),
            "now": (glyphs.live, "live"),
        }.get(state, (glyphs.queued, "faint"))
        text = _RUNG_TEXT[rung](detail, state)
        head: Line = ((f"{sign} ", role), (f"{_TITLES[rung]:<8}", "text" if state else "faint"))
        out.append(cut((*head, (text, "muted")), cells))
        if rung == "check":
            out += _families(detail, cells, glyphs)
        if rung in {"measure", "confirm"} and state:
            out += _disturbed(_verdict(detail, confirm=rung == "confirm"), cells)
        if state == "bad":
            out += _evidence(detail, rung, cells)
    return out


def _reached(detail: Detail) -> dict[str, str]:
    """How each rung stands: ok, bad, now, or missing."""
    node = detail.node
    order = list(RUNGS)
    if node.state == "failed":
        at = node.rung if node.rung in order else "read"
        upto = order.index(at)
        return {**dict.fromkeys(order[:upto], "ok"), at: "bad"}
    if node.state == "scored":
        states = dict.fromkeys(order[:4], "ok")
        if node.confirmed:
            states["confirm"] = "ok" if node.confirmed == 1 else "bad"
        elif node.stage == "confirming":
            states["confirm"] = "now"
        return states
    now = {"building": 1, "checking": 2, "tuning": 3, "timing": 3, "confirming": 4}.get(node.stage)
    if now is None:
        return {"read": "ok"} if node.program and node.state == "live" else {}
    states = dict.fromkeys(order[:now], "ok")
    if node.state == "live":
        states[order[now]] = "now"
    return states


def _read_text(detail: Detail, state: str) -> str:
    program = detail.program
    if program is None:
        return ""
    launches = program.plan.count("[[launch]]")
    source_lines = program.source.count("\n") + 1
    return (
        f"{one_line(program.language, 12)}, {figures.count_of(source_lines, 'line')}, "
        f"{figures.count_of(launches, 'launch', 'launches')}"
    )


def _build_text(detail: Detail, state: str) -> str:
    built = [v for v in detail.variants if v.build_s is not None]
    if not built:
        return ""
    total = sum(v.build_s or 0.0 for v in built)
    return f"{figures.count_of(len(built), 'variant')} in {figures.seconds_of(total)}"


def _check_text(detail: Detail, state: str) -> str:
    families = _family_rows(detail)
    if not families:
        return ""
    passed = sum(1 for family in families if family.get("ok") is not False)
    return f"{passed} of {figures.count_of(len(families), 'set')} of inputs pass"


def _measure_text(detail: Detail, state: str) -> str:
    verdict = _verdict(detail, confirm=False)
    if verdict is None:
        return ""
    parts = [f"{figures.speedup(verdict.ratio)} {figures.interval(verdict.low, verdict.high)}"]
    pairs = detail.samples.get(verdict.id) or verdict.evidence.get("pairs")
    if isinstance(pairs, int) and pairs:
        parts.append(f"{pairs} pairs")
    if verdict.timing:
        parts.append(f"{one_line(verdict.timing, 16)} time")
    if verdict.evidence.get("allocator"):
        parts.append(one_line(verdict.evidence["allocator"], 40))
    return ", ".join(parts)


def _disturbed(verdict: VerdictRow | None, cells: int) -> list[Line]:
    """A line that says how far other programs may have spoilt the times."""
    others = verdict.evidence.get("others") if verdict else None
    if not isinstance(others, int | float) or others < QUIET:
        return []
    text = f"          other programs used {figures.percent(others)} of the machine meanwhile"
    return [((clip(text, cells), "warn"),)]


def _confirm_text(detail: Detail, state: str) -> str:
    verdict = _verdict(detail, confirm=True)
    if verdict is None:
        return "in a fresh process, with new seeds" if state else ""
    spread = figures.interval(verdict.low, verdict.high)
    return f"{figures.speedup(verdict.ratio)} {spread} in a fresh process"


_RUNG_TEXT = {
    "read": _read_text,
    "build": _build_text,
    "check": _check_text,
    "measure": _measure_text,
    "confirm": _confirm_text,
}


def _verdict(detail: Detail, *, confirm: bool) -> VerdictRow | None:
    """The newest verdict of the best variant."""
    found = [v for v in detail.verdicts if bool(v.confirm) == confirm]
    best = [v for v in found if v.variant == detail.node.variant]
    chosen = best or found
    return chosen[-1] if chosen else None


def _family_rows(detail: Detail) -> list[dict[str, Any]]:
    verdict = _verdict(detail, confirm=False)
    sources = [verdict.evidence] if verdict else []
    sources += [v.evidence for v in detail.variants if v.evidence and v.state == "failed"]
    for evidence in sources:
        families = evidence.get("families") if isinstance(evidence, dict) else None
        if isinstance(families, list) and families:
            return [family for family in families if isinstance(family, dict)][:40]
    return []


def _families(detail: Detail, cells: int, glyphs: Glyphs) -> list[Line]:
    rows = _family_rows(detail)
    if not rows:
        return []
    out: list[Line] = []
    names = max(10, min(18, cells - 35))
    heads = f"    {fit('inputs', names)} {'error':>9} {'eager':>9} {'of allowed':>12}"
    out.append(((clip(heads, cells), "faint"),))
    for family in rows:
        ok = family.get("ok") is not False
        name = fit(one_line(family.get("family", "?"), 40), names, mark=glyphs.ellipsis)
        error = one_line(figures.error_of(family.get("max_error")), 9)
        eager = one_line(figures.error_of(family.get("eager_error")), 9)
        line: Line = (
            (f"  {' ' if ok else glyphs.failed} ", "bad"),
            (f"{name} {error:>9}", "muted" if ok else "bad"),
            (f" {eager:>9} {figures.percent(_share(family)):>12}", "muted"),
        )
        if family.get("skipped"):
            line = (*line[:1], (f"{name} skipped: {one_line(family['skipped'], 80)}", "faint"))
        out.append(cut(line, cells))
    return out


def _share(family: dict[str, Any]) -> float | None:
    """Which part of the allowed error was used up: 1.0 is just allowed."""
    worst, error, allowed = (family.get(key) for key in ("worst", "max_error", "allowed"))
    if isinstance(worst, int | float):
        return float(worst)
    if isinstance(error, int | float) and isinstance(allowed, int | float) and allowed:
        return error / allowed
    return None


def _evidence(detail: Detail, rung: str, cells: int) -> list[Line]:
    """What the judge kept of a failed rung, for the node's first failed variant there."""
    for variant in detail.variants:
        if variant.state == "failed" and variant.rung == rung and variant.evidence:
            return evidence_lines(variant.evidence, cells)
    return []


def evidence_lines(evidence: dict[str, Any], cells: int) -> list[Line]:
    out: list[Line] = []
    log = evidence.get("log")
    if log:
        out += [(("  " + clip(line, cells - 2), "warn"),) for line in lines(log, 12)]
    for name, value in list(evidence.items())[:24]:
        if name in {"log", "rung", "families"} or value is None or value in ("", [], {}):
            continue
        label = one_line(name, 16).replace("_", " ")
        out.append(cut(((f"  {label:<13} ", "faint"), (one_line(value, 200), "warn")), cells))
    return out


# -- variants --------------------------------------------------------------------------------------


def _variants(detail: Detail, cells: int, glyphs: Glyphs) -> list[Line]:
    verdicts = {v.variant: v for v in detail.verdicts if not v.confirm}
    out: list[Line] = []
    shown = detail.variants[:64]
    names = [tuned_text(variant) or "defaults" for variant in shown]
    room = max(8, min(max(width(name) for name in names), 40, cells - 32))
    for variant, name in zip(shown, names, strict=True):
        best = variant.id == detail.node.variant
        sign = glyphs.best if best else glyphs.failed if variant.state == "failed" else " "
        role = "best" if best else "muted"
        head: Line = ((f"{sign} ", role if best else "bad"), (fit(name, room), role))
        out.append(cut((*head, (_variant_text(variant, verdicts.get(variant.id)), role)), cells))
    return out


def tuned_text(variant: VariantRow) -> str:
    """A variant's tunables as ``NAME=value`` pairs."""
    return " ".join(
        f"{one_line(name, 24)}={one_line(value, 12)}"
        for name, value in (variant.tuned or {}).items()
    )


def _variant_text(variant: VariantRow, verdict: VerdictRow | None) -> str:
    if verdict is not None:
        spread = figures.interval(verdict.low, verdict.high)
        ratio = figures.speedup(verdict.ratio)
        return f" {figures.time_of(verdict.time_ns):>8} {ratio:>6} {spread}"
    if variant.state == "failed":
        return f" {one_line(variant.rung or '', 10)}: {one_line(variant.reason or '', 200)}"
    if variant.screened_ns is not None:
        ratio = figures.speedup(variant.screened_ratio)
        return f" {figures.time_of(variant.screened_ns):>8} {ratio:>6} timed briefly"
    return " built"


def wrapped(text: str, role: str, cells: int) -> list[Line]:
    return [((line, role),) for line in wrap(text, cells, 12)]


def cut(line: Line, cells: int) -> Line:
    """The line without what goes past its right edge."""
    out, left = [], cells
    for text, role in line:
        if left <= 0:
            break
        cut = clip(text, left)
        out.append((cut, role))
        left -= width(cut)
    return tuple(out)
