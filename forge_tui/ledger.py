"""The ledger of a session's calls as JSON, CSV and a table.

What nobody knows is null in JSON and ``unknown`` elsewhere, never 0.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from forge_tui import figures
from forge_tui.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from store.reading import SessionReader
    from store.rows import CallRow, NodeRow
    from store.spending import Entry

UNKNOWN = "unknown"
_RISKY = ("=", "+", "-", "@")
"""What makes a spreadsheet take a text for a formula."""

Line = dict[str, Any]


def lines_of(reader: SessionReader, by: str) -> list[Line]:
    """The ledger by ``by``, for JSON: micro-dollars, and null for what nobody knows."""
    from store.spending import ledger, merged, of_call, of_node, total

    names = {target.id: one_line(target.name, 60) for target in reader.targets()}
    if by in {"target", "action", "model"}:
        keys: dict[str, Callable[[Entry], tuple[int | str, ...]]] = {
            "target": lambda part: (part.target,),
            "action": lambda part: (part.action,),
            "model": lambda part: (part.writer, part.model),
        }
        parts = merged(ledger(reader), keys[by])
        return [{**_about(by, part, names), **figures_of(part)} for part in parts]
    nodes = {node.id: node for node in reader.nodes()}
    calls = reader.calls()
    if by == "call":
        return [_call(call, nodes.get(call.node), names) for call in calls]
    parts_of: dict[int, list[Entry]] = {number: [of_node(node)] for number, node in nodes.items()}
    for call in calls:
        parts_of.setdefault(call.node, []).append(of_call(call, nodes.get(call.node)))
    return [
        {**_node(number, nodes.get(number), names), **figures_of(total(parts))}
        for number, parts in sorted(parts_of.items())
    ]


def _about(by: str, part: Entry, names: dict[int, str]) -> Line:
    if by == "target":
        return {"target": names.get(part.target, "")}
    if by == "action":
        return {"action": part.action}
    return {"writer": part.writer, "model": one_line(part.model, 80)}


def _node(number: int, node: NodeRow | None, names: dict[int, str]) -> Line:
    if node is None:
        return {"node": number, "target": "", "action": "", "writer": "", "model": "",
                "state": "", "speedup": None, "title": ""}  # fmt: skip
    return {
        "node": number, "target": names.get(node.target, ""), "action": node.action,
        "writer": node.writer, "model": one_line(node.model or "", 80),
        "state": "confirmed" if node.confirmed == 1 else node.state, "speedup": node.ratio,
        "title": one_line(node.title, 120),
    }  # fmt: skip


def _call(call: CallRow, node: NodeRow | None, names: dict[int, str]) -> Line:
    return {
        "call": call.id, "node": call.node, "target": names.get(call.target, ""),
        "action": call.action or (node.action if node else ""), "writer": call.writer or "model",
        "model": one_line(call.model, 80), "purpose": call.purpose or "write",
        "attempt": call.attempt or 1, "state": call.state,
        "micro_dollars": call.micro_dollars, "reserved": call.reserved,
        "unpriced": int(call.unpriced), "tokens_in": call.tokens_in,
        "tokens_cached": call.tokens_cached, "tokens_out": call.tokens_out,
        "tokens_reasoning": call.tokens_reasoning, "estimated": bool(call.estimated),
        "seconds": call.seconds, "finish": one_line(call.finish or "", 40),
        "error": one_line(call.error or "", 40),
    }  # fmt: skip


def figures_of(part: Entry) -> Line:
    """What a part of the ledger comes to, for JSON."""
    known = part.micro_dollars or not part.unpriced
    return {
        "calls": part.calls, "in_flight": part.in_flight, "failed": part.failed,
        "lost": part.lost, "estimated": part.estimated, "unpriced": part.unpriced,
        "micro_dollars": part.micro_dollars if known else None, "reserved": part.reserved,
        "tokens_in": part.tokens_in, "tokens_cached": part.tokens_cached,
        "tokens_out": part.tokens_out, "tokens_reasoning": part.tokens_reasoning,
        "nodes": part.nodes, "wins": part.wins,
        "micro_dollars_per_node": part.micro_dollars_per_node,
        "micro_dollars_per_win": part.micro_dollars_per_win,
        "tokens_per_node": part.tokens_per_node, "tokens_per_win": part.tokens_per_win,
    }  # fmt: skip


# -- as a table ------------------------------------------------------------------------------------


def _cost(line: Line) -> str:
    """What a line cost, what is not known of it in words; a call not over, at most."""
    if line.get("state") == "reserved":
        return (
            f"up to {figures.dollars(line['reserved'])}"
            if line["reserved"] is not None
            else UNKNOWN
        )
    if line.get("writer") == "inbox" and not line["micro_dollars"]:
        return "-"  # whoever answered, what it cost is not known here
    if line["micro_dollars"] is None:
        return UNKNOWN if line["unpriced"] else "-"
    more = f" + {line['unpriced']} {UNKNOWN}" if line["unpriced"] else ""
    return figures.dollars(line["micro_dollars"]) + more


def _per(line: Line, what: str) -> str:
    value = line[f"micro_dollars_per_{what}"]
    if value is None:
        return UNKNOWN if line["unpriced"] and line[f"{what}s"] else "-"
    return "-" if line.get("writer") == "inbox" and not value else figures.dollars(value)


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


_TOKENS = {"in": "tokens_in", "cached": "tokens_cached", "out": "tokens_out"}


def table_of(by: str, lines: list[Line]) -> list[str]:
    """The lines for people, under a heading."""
    from forge_tui.results import table

    cells = {"node": _node_cells, "call": _call_cells}.get(by, _group_cells)
    rows = [cells(line) for line in lines]
    if not rows:
        return ["nobody was asked for a program"]
    texts = {"writer", "model", "action", "target", "purpose", "state", "error", "title"}
    right = [at for at, name in enumerate(rows[0]) if name not in texts]
    return table([list(rows[0]), *(list(row.values()) for row in rows)], right=right)


def _group_cells(line: Line) -> dict[str, str]:
    names = [name for name in ("target", "action", "writer", "model") if name in line]
    return {
        **{name: str(line[name]) for name in names},
        **{name: str(line[name]) for name in ("calls", "failed")},
        **{name: _number(line[key]) for name, key in _TOKENS.items()},
        "cost": _cost(line),
        **{name: str(line[name]) for name in ("nodes", "wins")},
        "per node": _per(line, "node"),
        "per win": _per(line, "win"),
    }


def _node_cells(line: Line) -> dict[str, str]:
    return {
        **{name: str(line[name]) for name in ("node", "target", "action")},
        "writer": line["model"] or line["writer"],
        **{name: str(line[name]) for name in ("calls", "failed")},
        **{name: _number(line[key]) for name, key in _TOKENS.items()},
        "cost": _cost(line),
        "speedup": figures.speedup(line["speedup"]),
        "state": line["state"],
        "title": one_line(line["title"], 40),
    }


def _call_cells(line: Line) -> dict[str, str]:
    return {
        **{name: str(line[name]) for name in ("call", "node", "action")},
        "writer": line["model"] or line["writer"],
        **{name: str(line[name]) for name in ("purpose", "attempt", "state")},
        **{name: _number(line[key]) for name, key in _TOKENS.items()},
        "thought": _number(line["tokens_reasoning"]),
        "cost": _cost(line),
        "time": "-" if line["seconds"] is None else figures.seconds_of(line["seconds"]),
        "error": line["error"],
    }


def summary(whole: Entry) -> str:
    """The sum, and what its figures do not say."""
    known = whole.micro_dollars or not whole.unpriced
    said = [f"known cost {figures.dollars(whole.micro_dollars)}" if known else f"cost {UNKNOWN}"]
    count = figures.count_of
    if whole.unpriced:
        said.append(f"{count(whole.unpriced, 'call')} of unknown price")
    if whole.lost:
        said.append(f"{count(whole.lost, 'call')} lost with an engine, at what was set aside")
    if whole.estimated:
        said.append(f"tokens of {count(whole.estimated, 'call')} estimated")
    if whole.in_flight:
        aside = figures.dollars(whole.reserved) if whole.reserved else UNKNOWN
        said.append(f"{count(whole.in_flight, 'call')} in flight, set aside: {aside}")
    return "; ".join(said)


def csv_of(lines: Iterable[Line]) -> str:
    """The lines as CSV with a heading; no text in it is taken for a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for at, line in enumerate(lines):
        if at == 0:
            writer.writerow(line)
        unknown = {"micro_dollars"} if line["unpriced"] else set()
        unknown |= {f"micro_dollars_per_{what}" for what in ("node", "win")
                    if line["unpriced"] and line.get(f"{what}s")}  # fmt: skip
        writer.writerow([_field(name, value, unknown) for name, value in line.items()])
    return out.getvalue()


def _field(name: str, value: Any, unknown: set[str]) -> Any:
    if value is None:
        return UNKNOWN if name in unknown else ""
    return f"'{value}" if isinstance(value, str) and value.startswith(_RISKY) else value
