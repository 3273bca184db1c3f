"""The Summary tab: what was tried, how fast it is, the ladder rung by rung, advice, variants."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from forge_tui import evidence as told
from forge_tui import figures, words
from forge_tui.baselines import Timed, gain, on_gpu, time_table
from forge_tui.evidence import cut, wrapped
from forge_tui.text import clip, fit, one_line, width, wrap

if TYPE_CHECKING:
    from forge_tui.glyphs import Glyphs
    from forge_tui.model import Detail, Model
    from forge_tui.view import Line
    from store.rows import NodeRow, TargetRow, VariantRow, VerdictRow

RUNGS = ("read", "build", "check", "measure", "confirm")
TITLES = {"read": "read", "build": "build", "check": "check", "measure": "time",
          "confirm": "confirm"}  # fmt: skip


def summary(detail: Detail, model: Model, cells: int, glyphs: Glyphs) -> list[Line]:
    """A node's page."""
    node = detail.node
    target = model.targets.get(node.target)
    out = _heading(node, model, cells)
    out += _result(detail, target, cells, model)
    out.append(())
    out += _ladder(detail, cells, glyphs, model.working)
    if hints := told.advice(node.advice, cells, glyphs):
        out += [(), (("advice", "head"),), *hints]
    if len(detail.variants) > 1 or any(v.tuned for v in detail.variants):
        out += [(), (("variants", "head"),), *_variants(detail, cells, glyphs)]
    if node.seconds:
        spent = [
            f"{one_line(name, 16)} {figures.seconds_of(float(value))}"
            for name, value in node.seconds.items()
            if isinstance(value, int | float)
        ]
        out += [(), (("spent", "head"),), *told.flowing(spent, "muted", cells)]
    return out


def _heading(node: NodeRow, model: Model, cells: int) -> list[Line]:
    origin = f"{node.action} of #{node.parent}" if node.parent else one_line(node.action, 20)
    if node.second_parent:
        origin += f" with #{node.second_parent}"
    if node.step:
        origin = f"{one_line(node.step, 10)} {origin}"
    by = one_line(node.model or node.writer, 40)
    facts = [origin, f"by {by}"]
    if node.library:
        facts.append("library calls alone")
    if cost := words.node_cost(node):
        facts.append(f"cost {cost}" if node.unpriced else cost)
    if node.attempts > 1:
        facts.append(f"attempt {node.attempts}")
    closed = model.pruned_by(node.id)
    if closed is not None:
        facts.append("pruned" if closed == node.id else f"pruned with #{closed}")
    title = wrap(one_line(node.title, 300) or "(nothing is written yet)", cells, 3)
    return [
        *(((line, "strong"),) for line in title),
        ((f"#{node.id}  ", "muted"), (clip("  ".join(facts), cells - 8), "muted")),
        *hinted(node.hint, cells),
    ]


def hinted(hint: str | None, cells: int) -> list[Line]:
    """What a person told the writers, if anything."""
    return wrapped(f"hint: {one_line(hint, 600)}", "live", cells) if hint else []


# -- the result ------------------------------------------------------------------------------------


def _result(detail: Detail, target: TargetRow | None, cells: int, model: Model) -> list[Line]:
    node = detail.node
    word, role = words.node_word(node)
    if node.state == "failed":
        why = one_line(node.reason or "no reason is stored", 600)
        rung = one_line(node.rung or "?", 20)
        return [(), ((f"failed at {rung}", role),), *wrapped(why, "text", cells)]
    if node.state == "dropped":
        return [(), (("dropped: ", role), (one_line(node.reason or "", cells), "text"))]
    if node.state != "scored":
        if not model.working:
            return [(), ((f"unfinished: the engine ended at {word}", "warn"),)]
        now_us = time.time_ns() // 1000
        how, what = words.waits_for(node, model.waited_for(node.id), now_us)
        if how or what:
            waits = ": ".join(part for part in (how, what) if part)
            where = f" in {model.inbox}" if node.writer == "inbox" and model.inbox else ""
            return [(), *wrapped(f"{word} {waits}{where}", "warn", cells)]
        return [(), ((f"{word} now", role),)]
    first: Line = (
        (f"{figures.speedup(node.ratio)} vs eager ", "best" if role == "good" else "strong"),
        (figures.interval(node.low, node.high) + " 95 %   ", "muted"),
        ("not confirmed: " if node.confirmed == -1 else "", role),
        (f"{word}", role),
    )
    out: list[Line] = [(), cut(first, cells)]
    if against := gain(node, target):
        out.append(cut(((against, "strong"), (", the fastest baseline", "muted")), cells))
    out += _times(detail, target, cells)
    out += _caveats(detail, cells)
    return out


def _times(detail: Detail, target: TargetRow | None, cells: int) -> list[Line]:
    """What it takes and what eager took beside it: device and call time are two columns."""
    node = detail.node
    last = verdict_of(detail, confirm=node.confirmed == 1)
    eager = last.eager_ns if last else target.eager_ns if target else None
    sol = figures.percent(node.sol_fraction) if node.sol_fraction else ""
    limit = f"{sol} of speed of light" if sol else ""
    if on_gpu(target.device if target else ""):
        rows = [
            Timed("this program", node.ratio, ns=node.time_ns, call_ns=node.call_ns),
            Timed("eager", 1.0, ns=eager, call_ns=last.eager_call_ns if last else None),
        ]
        table = time_table(rows, cells, gpu=True)
        return [(), *table, *([((clip(limit, cells), "muted"),)] if limit else [])]
    parts = [f"call time {figures.time_of(node.time_ns)}"]
    if eager:
        parts.append(f"eager {figures.time_of(eager)}")
    if limit:
        parts.append(limit)
    return [((clip("   ".join(parts), cells), "text"),)]


def _caveats(detail: Detail, cells: int) -> list[Line]:
    """Why figures that look good may not count."""
    out: list[Line] = []
    if detail.node.foreign:
        last = verdict_of(detail, confirm=False)
        where = one_line(last.evidence.get("machine") or "", 120) if last else ""
        text = "foreign: measured on another machine" + (f" ({where})" if where else "")
        out += wrapped(
            f"{text}; it counts for nothing here until it is judged again", "warn", cells
        )
    if detail.node.outcome == "LIBRARY":
        text = "faster by library calls alone: nothing was generated, so it is no win"
        out += wrapped(text, "warn", cells)
    return out


# -- the ladder ------------------------------------------------------------------------------------


def _ladder(detail: Detail, cells: int, glyphs: Glyphs, working: bool) -> list[Line]:
    reached = _reached(detail, working)
    out: list[Line] = []
    for rung in RUNGS:
        state = reached.get(rung, "")
        sign, role = {
            "ok": (glyphs.done, "good"),
            "bad": (glyphs.failed, "bad"),
            "now": (glyphs.live, "live"),
        }.get(state, (glyphs.queued, "faint"))
        text = _RUNG_TEXT[rung](detail, state)
        head: Line = ((f"{sign} ", role), (f"{TITLES[rung]:<8}", "text" if state else "faint"))
        said = wrapped(text, "muted", cells, 10) or [()]
        out += [(*head, (said[0][0][0].lstrip(), "muted")) if text else head, *said[1:]]
        if state == "bad":
            out += _evidence(detail, rung, cells)
    return out


def _reached(detail: Detail, working: bool) -> dict[str, str]:
    """How each rung stands: ok, bad, now (while an engine is at work), or missing."""
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
        elif node.stage == "confirming" and working:
            states["confirm"] = "now"
        return states
    now = {"building": 1, "checking": 2, "tuning": 3, "timing": 3, "confirming": 4}.get(node.stage)
    if now is None:
        return {"read": "ok"} if node.program and node.state == "live" else {}
    states = dict.fromkeys(order[:now], "ok")
    if node.state == "live" and working:
        states[order[now]] = "now"
    return states


def _read_text(detail: Detail, state: str) -> str:
    program = detail.program
    if program is None:
        return ""
    launches, calls = program.plan.count("[[launch]]"), program.plan.count("[[call]]")
    parts = [
        one_line(program.language, 12),
        figures.count_of(program.source.count("\n") + 1, "line"),
        figures.count_of(launches, "launch", "launches"),
    ]
    if calls:
        parts.append(figures.count_of(calls, "library call"))
    return ", ".join(parts)


def _build_text(detail: Detail, state: str) -> str:
    built = [v for v in detail.variants if v.build_s is not None]
    if not built:
        return ""
    total = sum(v.build_s or 0.0 for v in built)
    text = f"{figures.count_of(len(built), 'variant')} in {figures.seconds_of(total)}"
    used = told.kernels_short(built_detail(detail))
    return f"{text}, {used}" if used else text


def _check_text(detail: Detail, state: str) -> str:
    families = checked_families(detail)
    if not families:
        return ""
    passed = sum(1 for family in families if family.get("ok") is not False)
    return f"{passed} of {figures.count_of(len(families), 'set')} of inputs pass"


def _measure_text(detail: Detail, state: str) -> str:
    verdict = verdict_of(detail, confirm=False)
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


def _confirm_text(detail: Detail, state: str) -> str:
    verdict = verdict_of(detail, confirm=True)
    if verdict is None:
        return "in a fresh process, with new seeds" if state else ""
    spread = figures.interval(verdict.low, verdict.high)
    text = f"{figures.speedup(verdict.ratio)} {spread} in a fresh process"
    tools = told.record(detail.node.sanitizer)
    bad = told.complaints(tools)
    clean = [one_line(tool, 20) for tool, said in tools.items() if str(said) == "clean"]
    if bad:
        return f"{text}, but {', '.join(bad)} found errors"
    return f"{text}, {', '.join(clean)} clean" if clean else text


_RUNG_TEXT = {
    "read": _read_text,
    "build": _build_text,
    "check": _check_text,
    "measure": _measure_text,
    "confirm": _confirm_text,
}


def verdict_of(detail: Detail, *, confirm: bool) -> VerdictRow | None:
    """The newest verdict of the best variant."""
    found = [v for v in detail.verdicts if bool(v.confirm) == confirm]
    best = [v for v in found if v.variant == detail.node.variant]
    chosen = best or found
    return chosen[-1] if chosen else None


def built_detail(detail: Detail) -> dict[str, Any]:
    """What is known of the best variant's kernels, or of the first that was built.

    Occupancy hangs on the launch, which the builder does not know: the verdict may tell it.
    """
    built = [v for v in detail.variants if v.build_s is not None and v.state != "failed"]
    best = [v for v in built if v.id == detail.node.variant]
    found = next((v.evidence for v in [*best, *built] if v.evidence), {})
    verdict = verdict_of(detail, confirm=False)
    occupancy = verdict.evidence.get("occupancy") if verdict else None
    return {**found, "occupancy": occupancy} if occupancy else found


def checked_families(detail: Detail) -> list[dict[str, Any]]:
    """The sets of inputs that the node, or its first failed variant, was checked on."""
    verdict = verdict_of(detail, confirm=False)
    sources = [verdict.evidence] if verdict else []
    sources += [v.evidence for v in detail.variants if v.evidence and v.state == "failed"]
    return next((rows for source in sources if (rows := told.family_rows(source))), [])


def _evidence(detail: Detail, rung: str, cells: int) -> list[Line]:
    """What the judge kept of a failed rung, for the node's first failed variant there."""
    for variant in detail.variants:
        if variant.state == "failed" and variant.rung == rung and variant.evidence:
            return told.failure(variant.evidence, cells)
    return []


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
