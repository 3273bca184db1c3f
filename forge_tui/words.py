"""States and events in words: each with a role that the theme gives a colour, and a glyph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forge_tui import figures
from forge_tui.text import one_line

if TYPE_CHECKING:
    from forge_tui.glyphs import Glyphs
    from store.events import Event
    from store.rows import NodeRow, Spending, TargetRow

OUTCOMES = {"FASTER": "faster", "SAME": "same", "SLOWER": "slower", "UNSURE": "unsure",
            "LIBRARY": "library"}  # fmt: skip
UNKNOWN = "unknown"
ENDED = frozenset({"stopped", "finished", "failed"})


def node_word(node: NodeRow, pruned: bool = False) -> tuple[str, str]:
    """A node's state: (word, role)."""
    if pruned and node.state != "live":
        return "pruned", "faint"
    if node.state == "live":
        return one_line(node.stage or "queued", 12), "live"
    if node.state == "scored":
        if node.foreign:
            return "foreign", "warn"
        if node.confirmed:
            return ("confirmed", "good") if node.confirmed == 1 else ("not held", "bad")
        word = OUTCOMES.get(node.outcome or "", "scored")
        roles = {"faster": "good", "slower": "muted", "same": "text", "library": "text"}
        return word, roles.get(word, "warn")
    if node.state == "dropped":
        return "dropped", "faint"
    return "failed", "bad"


def node_glyph(node: NodeRow, glyphs: Glyphs, *, pruned: bool, best: bool) -> str:
    if pruned and node.state != "live":
        return glyphs.pruned
    if node.state == "live":
        return glyphs.queued if node.stage == "queued" else glyphs.live
    if node.state != "scored":
        return glyphs.failed
    if node.foreign:
        return glyphs.foreign
    if best:
        return glyphs.best
    if node.confirmed == -1:
        return glyphs.failed
    return {
        "FASTER": glyphs.faster,
        "SAME": glyphs.same,
        "SLOWER": glyphs.slower,
        "LIBRARY": glyphs.library,
    }.get(node.outcome or "", glyphs.unsure)


def node_cost(node: NodeRow) -> str:
    """What a node's calls cost, in at most 8 cells."""
    return cost_text(node.micro_dollars, node.unpriced)


def cost_text(micro: int, unknown: int) -> str:
    """An amount in at most 8 cells; a part that nobody knows is a word or a question mark."""
    if not unknown:
        return _short(micro) if micro else ""
    return f"{_short(micro)}?" if micro else UNKNOWN


def _short(micro: int) -> str:
    """An amount in at most 7 cells."""
    return figures.dollars(micro) if micro >= 100 else "<$.0001"


def spent(spending: Spending, cap: str) -> str:
    """What a session's calls cost, with the cap behind it and what is not known in words."""
    return paid(spending.micro_dollars, spending.unpriced, cap)


def paid(micro: int, unknown: int, cap: str = "") -> str:
    """An amount with a cap behind it, and in how many calls a price was unknown."""
    if unknown and not micro:
        return f"{UNKNOWN} in {figures.count_of(unknown, 'call')}"
    return figures.dollars(micro) + cap + (f" + {unknown} {UNKNOWN}" if unknown else "")


def waits_for(node: NodeRow, told: dict[str, Any], now_us: int) -> tuple[str, str]:
    """What a node's writer is waited for: how long, and why or what; empty if it is not.

    Args:
        told: The engine's own words (``Model.waited_for``).
    """
    if node.stage != "waiting":
        return "", ""
    reason = one_line(told.get("reason") or "", 120)
    if node.writer == "inbox":
        return "for a reply", reason
    until = figures.number(told.get("until_us"))
    return f"{max(0.0, (until - now_us) / 1e6):.0f} s" if until else "", reason


def recorded_from(config: dict[str, Any]) -> str:
    """The session that a search replays, by its config; "" for one that searches itself."""
    replay = config.get("replay")
    return one_line(replay.get("from") or "?", 40) if isinstance(replay, dict) else ""


def target_word(target: TargetRow, stage: str = "") -> tuple[str, str]:
    """A target's state: (word, role); ``stage`` as ``Model.target_stage`` says it."""
    if target.state == "refused":
        return "refused", "bad"
    if target.confirmed == 1:
        return "confirmed", "good"
    if target.confirmed == -1:
        return "not held", "bad"
    if target.state == "closed":
        return "closed", "muted"
    if stage == "ended":
        return ("ended" if target.eager_ns else "not begun"), "muted"
    if target.eager_ns:
        return "open", "live"
    return ("measuring", "live") if stage == "measuring" else ("waiting", "muted")


def target_glyph(word: str, glyphs: Glyphs) -> str:
    return {
        "waiting": glyphs.queued,
        "refused": glyphs.failed,
        "not held": glyphs.failed,
        "confirmed": glyphs.done,
        "closed": glyphs.stopped,
        "ended": glyphs.stopped,
        "not begun": glyphs.queued,
    }.get(word, glyphs.live)


def session_state(state: str, glyphs: Glyphs) -> tuple[str, str]:
    """A session's state: (glyph, role)."""
    return {
        "running": (glyphs.live, "good"),
        "starting": (glyphs.queued, "live"),
        "opening": (glyphs.queued, "muted"),
        "new": (glyphs.queued, "muted"),
        "pausing": (glyphs.paused, "warn"),
        "paused": (glyphs.paused, "warn"),
        "stopped": (glyphs.stopped, "muted"),
        "finished": (glyphs.done, "good"),
        "failed": (glyphs.failed, "bad"),
        "crashed": (glyphs.failed, "bad"),
        "damaged": (glyphs.failed, "bad"),
    }.get(state, (glyphs.unsure, "warn"))


def target_verdict(target: TargetRow, best: NodeRow | None) -> str:
    """A target's result for the final table."""
    if target.state == "refused":
        return f"refused: {one_line(target.reason or '', 120)}"
    if best is None:
        if target.state == "closed" and target.reason:
            return f"closed: {one_line(target.reason, 120)}"
        return "no program stands" if target.eager_ns else "not measured"
    outcome = best.outcome or "UNSURE"
    if best.foreign:
        return f"{outcome} on another machine"
    how = {1: " confirmed", -1: ", not confirmed when judged again"}.get(best.confirmed, "")
    return outcome + (how or (", not confirmed yet" if outcome == "FASTER" else ""))


def event_line(event: Event, targets: dict[int, TargetRow]) -> tuple[str, str] | None:
    """An event as one line: (text, role); None for kinds that are not worth one."""
    make = _SENTENCES.get(event.kind)
    if make is None:
        return None
    text, role = make(event.payload)
    if not text:
        return None
    row = targets.get(event.target)
    where = one_line(row.name, 40) if row else ""
    if event.kind == "CommandAnswered":
        where = ""  # its node is what the engine was at work on meanwhile
    elif event.node:
        where = f"{where} #{event.node}".strip()
    elif event.kind in {"TargetAdded", "TargetRefused"}:
        where = ""  # the sentence begins with the name
    return one_line(f"{where}: {text}" if where else text, 400), role


def _told(role: str, template: str, *names: str) -> Any:
    """A sentence from fields of the payload, each made one line."""

    def make(payload: dict[str, Any]) -> tuple[str, str]:
        return template.format(*(one_line(payload.get(name, ""), 200) for name in names)), role

    return make


def _judged(payload: dict[str, Any]) -> tuple[str, str]:
    outcome = str(payload.get("outcome", ""))
    ratio = figures.speedup(payload.get("ratio"))
    spread = figures.interval(payload.get("low"), payload.get("high"))
    role = {"FASTER": "good", "SLOWER": "muted"}.get(outcome, "text")
    word = "library calls alone" if outcome == "LIBRARY" else OUTCOMES.get(outcome, "judged")
    return f"{word}, {ratio} {spread}".rstrip(), role


def _improved(payload: dict[str, Any]) -> tuple[str, str]:
    ratio, time_ns = payload.get("ratio"), payload.get("time_ns")
    return f"new best, {figures.speedup(ratio)} in {figures.time_of(time_ns)}", "best"


def _confirmed(payload: dict[str, Any]) -> tuple[str, str]:
    if payload.get("ok"):
        spread = figures.interval(payload.get("low"), payload.get("high"))
        text = f"confirmed, {figures.speedup(payload.get('ratio'))} {spread}"
        against = payload.get("against") or {}
        if isinstance(against, dict) and against.get("name", "eager") != "eager":
            name, ratio = one_line(against["name"], 14), figures.number(against.get("ratio"))
            text += f", {figures.speedup(ratio)} vs {name}"
        return text, "good"
    return f"did not hold when judged again: {one_line(payload.get('reason', ''), 200)}", "bad"


def _measured(payload: dict[str, Any]) -> tuple[str, str]:
    eager, sol = payload.get("eager_ns"), payload.get("sol_ns")
    limit = f", speed of light {figures.time_of(sol)}" if sol else ""
    known = (payload.get("baselines") or {}).get("eager")
    call = figures.number(known.get("call_ns")) if isinstance(known, dict) else None
    called = f" on the device, {figures.time_of(call)} a call" if call and call != eager else ""
    return f"eager takes {figures.time_of(eager)}{called}{limit}", "text"


def _baseline(payload: dict[str, Any]) -> tuple[str, str]:
    name, value = one_line(payload.get("name", ""), 20), payload.get("value") or {}
    ratio = figures.number(value.get("ratio"))
    if ratio is None:
        return "", "warn"  # the engine notes why it cannot be had
    spread = figures.interval(figures.number(value.get("low")), figures.number(value.get("high")))
    return f"{name} is {figures.speedup(ratio)} {spread} of eager".replace("  ", " "), "text"


def _asked(payload: dict[str, Any]) -> tuple[str, str]:
    who = one_line(payload.get("model") or payload.get("writer") or "a writer", 40)
    again = " to put its reply right" if payload.get("purpose") == "format" else ""
    most = figures.number(payload.get("micro_dollars"))
    held = f", at most {figures.dollars(most)}" if most else ""
    return f"{who} is asked{again}{held}", "muted"


def _replied(payload: dict[str, Any]) -> tuple[str, str]:
    state, micro = str(payload.get("state")), figures.number(payload.get("micro_dollars"))
    if state == "answered":
        return "a reply came in", "text"
    cost = f"price {UNKNOWN}" if micro is None else figures.dollars(micro)
    if state == "lost":
        return f"a call was lost with its engine: {cost} counts as spent", "warn"
    if state == "failed":
        return f"the call failed: {one_line(payload.get('error') or '?', 40)}, {cost}", "warn"
    out, seconds = figures.number(payload.get("tokens_out")), figures.number(payload.get("seconds"))
    took = f" in {figures.seconds_of(seconds)}" if seconds else ""
    guess = ", estimated" if payload.get("estimated") else ""
    return f"replied, {figures.tokens(int(out or 0))} tokens{took}, {cost}{guess}", "text"


def _waiting(payload: dict[str, Any]) -> tuple[str, str]:
    who, why = one_line(payload.get("model") or "", 40), one_line(payload.get("reason") or "", 200)
    seconds = figures.number(payload.get("seconds")) or 0.0
    return f"asks {who} again in {figures.seconds_of(seconds)}: {why}", "warn"


def _pruned(payload: dict[str, Any]) -> tuple[str, str]:
    return f"branch closed, {figures.count_of(int(payload.get('nodes', 0)), 'node')}", "muted"


def _unpruned(payload: dict[str, Any]) -> tuple[str, str]:
    return f"branch open again, {figures.count_of(int(payload.get('nodes', 0)), 'node')}", "muted"


def _answered(payload: dict[str, Any]) -> tuple[str, str]:
    verb, ok = one_line(payload.get("verb", ""), 20), bool(payload.get("ok"))
    answer = one_line(payload.get("answer", ""), 300)
    return f"{verb}: {answer}" if ok else f"{verb} was refused: {answer}", "text" if ok else "bad"


def _noted(payload: dict[str, Any]) -> tuple[str, str]:
    role = {"warning": "warn", "error": "bad"}.get(str(payload.get("level")), "text")
    return one_line(payload.get("text", ""), 300), role


_SENTENCES: dict[str, Any] = {
    "EngineStarted": _told("muted", "engine {0} started on {1}", "version", "host"),
    "EngineStopped": _told("muted", "engine stopped, {0}: {1}", "state", "reason"),
    "SearchPausing": _told("warn", "pausing: work in hand finishes"),
    "SearchPaused": _told("warn", "paused: the clock stands still"),
    "SearchResumed": _told("text", "the search goes on"),
    "BudgetChanged": _told("text", "a cap was changed"),
    "BudgetReached": _told("warn", "the cap on {0} is reached", "which"),
    "TargetAdded": _told("text", "{0} is accepted", "name"),
    "TargetRefused": _told("bad", "{0} is refused: {1}", "name", "message"),
    "TargetMeasured": _measured,
    "BaselineMeasured": _baseline,
    "TargetClosed": _told("muted", "closed: {0}", "reason"),
    "NodeRequeued": _told("muted", "taken up again: {0}", "reason"),
    "NodeStage": _told("muted", "{0}", "stage"),
    "NodeScored": _judged,
    "NodeFailed": _told("bad", "failed at {0}: {1}", "rung", "reason"),
    "NodeDropped": _told("muted", "dropped: {0}", "reason"),
    "NodeConfirmed": _confirmed,
    "BestImproved": _improved,
    "BestWithdrawn": _told("warn", "best withdrawn: {0}", "reason"),
    "BranchPruned": _pruned,
    "BranchUnpruned": _unpruned,
    "CallReserved": _asked,
    "CallSettled": _replied,
    "CallWaiting": _waiting,
    "HintGiven": _told("text", "hint: {0}", "text"),
    "CommandAnswered": _answered,
    "Noted": _noted,
}
