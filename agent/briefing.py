"""Gathers what a prompt may tell: from the session's rows and the target as the search holds it.

A brief is made before every call, so it costs a few look-ups by id and no scan: which nodes are
worth telling of follows from the tree in memory, and only their rows are read.
"""

from __future__ import annotations

import heapq
from itertools import islice
from typing import TYPE_CHECKING, Any

from agent.failures import failure_of, in_one_line
from agent.search.tree import ROOT
from agent.writers.brief import Baseline, Brief, TargetBrief, Tried, Written
from store.reading import SessionReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agent.context import Context
    from agent.search.target import Target
    from store.rows import NodeRow, VariantRow

MOST_TRIED = 12
MOST_LINEAGE = 12
MOST_RULES = 12
MOST_VARIANTS = 10
_FAILED_TRIED = 5
_TITLE, _REASON, _HINT = 160, 200, 2000


def brief(
    context: Context,
    target: Target,
    action: str,
    step: str = "",
    parent: int | None = None,
    second: int | None = None,
) -> Brief:
    """All that a writer may be told for one more node of a target.

    Args:
        action: draft, improve, repair or combine.
        step: ``"small"`` or ``"large"`` for an improvement, else "".
        parent: The node that it starts from; None for a draft.
        second: What is combined with the parent.
    """
    reader = SessionReader(context.session.path, context.session.conn)
    path = [] if parent is None else _path(target, parent)
    rows = {node: row for node in path if (row := reader.node(node)) is not None}
    shown = [path[0], *path[1:][-(MOST_LINEAGE - 1) :]] if path else []
    own = rows.get(parent) if parent is not None else None
    other = reader.node(second) if second is not None else None
    return Brief(
        target=_target(context, target),
        action=action,
        step=step,
        parent=None if own is None else _written(reader, target, own),
        second=None if other is None else _written(reader, target, other),
        lineage=tuple(_tried(rows[node]) for node in shown if node in rows),
        tried=tuple(_tried(row) for row in _others(reader, target, parent, second)),
        hint=_hints(reader, target, [*rows.values(), *([other] if other else [])]),
        rules=tuple(context.rules[:MOST_RULES]),
    )


# -- the target ------------------------------------------------------------------------------------


def _target(context: Context, target: Target) -> TargetBrief:
    place = context.place
    return TargetBrief(
        name=target.name,
        language=place.language,
        reference=target.task.text,
        graph=target.graph,
        spec=target.spec,
        share=None,
        baselines=tuple(_baselines(target.baselines)),
        sol_ns=target.progress.sol_ns or None,
        machine=_machine(place.device, place.key),
        facts=place.facts,
        rates=dict(context.rates),
    )


def _baselines(measured: Mapping[str, Mapping[str, Any]]) -> list[Baseline]:
    """Eager, then the compiled forms that could be had, the fastest first."""
    found = [
        Baseline(name, value.get("ns"), value.get("call_ns"), float(value.get("ratio") or 1.0))
        for name, value in measured.items()
        if name == "eager" or value.get("ratio") is not None
    ]
    return sorted(found, key=lambda item: (item.name != "eager", -item.ratio))


def _machine(device: str, key: str) -> str:
    """The device's name out of its key, which for a GPU begins with its UUID."""
    parts = key.split(" | ")
    return parts[1] if device == "cuda" and len(parts) > 2 else parts[0]


# -- earlier programs ------------------------------------------------------------------------------


def _path(target: Target, node: int) -> list[int]:
    """From the branch's draft down to the node."""
    return [above for above in reversed(target.tree.path(node)) if above != ROOT]


def _written(reader: SessionReader, target: Target, row: NodeRow) -> Written:
    program = reader.program(row.program) if row.program else None
    variants = reader.variants(row.id)
    variant = _variant(variants, row)
    source = program.source if program else ""
    failure = None
    if row.state == "failed":
        evidence = (variant.evidence if variant else None) or target.failures.get(row.id, {})
        failure = failure_of(row.rung or "", row.code or "", row.reason or "", evidence, source)
    judged = [] if row.state != "scored" else reader.verdicts(row.id)
    told = judged[-1].evidence if judged else {}
    standing = reader.standing(row)
    return Written(
        node=row.id,
        title=in_one_line(row.title, _TITLE),
        source=source,
        plan=program.plan if program else "",
        tuned=variant.tuned if variant else {},
        outcome=standing.outcome or ("FAILED" if row.state == "failed" else ""),
        ratio=standing.ratio,
        low=standing.low,
        high=standing.high,
        gain=standing.gain,
        time_ns=standing.time_ns,
        call_ns=standing.call_ns,
        sol_share=standing.sol_fraction,
        steps=tuple((str(name), round(float(ns))) for name, ns in told.get("steps") or ()),
        kernels=_kernels(variant, told),
        advice=(*_complaints(row), *(row.advice or ())),
        failure=failure,
        variants=tuple(_timed(variants)) if len(variants) > 1 else (),
    )


def _timed(variants: list[VariantRow]) -> Iterable[tuple[Mapping[str, int], int]]:
    """What other values of the tunables took, the fastest first."""
    timed = [item for item in variants if item.screened_ns]
    timed.sort(key=lambda item: item.screened_ns or 0)
    return ((item.tuned, item.screened_ns or 0) for item in timed[:MOST_VARIANTS])


def _variant(variants: list[VariantRow], row: NodeRow) -> VariantRow | None:
    """The variant that the node's end is about."""
    if row.state == "failed":
        own = (row.rung, row.code, row.reason)
        found = [item for item in variants if (item.rung, item.code, item.reason) == own]
    else:
        found = [item for item in variants if item.id == row.variant]
    return found[0] if found else None


def _complaints(row: NodeRow) -> Iterable[dict[str, str]]:
    """What the sanitizer said of a program that therefore is no win."""
    for tool, said in (row.sanitizer or {}).items() if row.confirmed < 0 else ():
        if said != "clean" and not said.startswith("skipped"):
            yield {
                "name": "sanitizer",
                "finding": f"it is refused as a win: {tool} complains",
                "evidence": in_one_line(said, _REASON),
                "suggestion": "mend that before all else",
            }


def _kernels(variant: VariantRow | None, told: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What is known of each kernel: of its build, and how much of it fits on an SM."""
    built = ((variant.evidence if variant else None) or {}).get("kernels") or {}
    fits = told.get("occupancy") or {}
    return {name: {**built.get(name, {}), **fits.get(name, {})} for name in {**built, **fits}}


# -- ideas -----------------------------------------------------------------------------------------


def _others(
    reader: SessionReader, target: Target, parent: int | None, second: int | None
) -> list[NodeRow]:
    """The nodes whose ideas matter for a new one: what its parents led to, or other drafts."""
    tree = target.tree
    begun = [node for node in (parent, second) if node is not None] or [ROOT]
    near = [child for node in begun for child in tree[node].children if child != parent]
    chosen = dict.fromkeys(_most_useful(target, near))
    rows = [reader.node(node) for node in chosen]
    return [row for row in rows if row is not None and row.title]


def _most_useful(target: Target, nodes: list[int]) -> list[int]:
    """The fastest first, then what is in work, then the last ones that failed."""
    scored = [node for node in nodes if node in target.scored]
    failed = list(islice(_in(target, "failed", nodes), MOST_TRIED))
    live = list(islice(_in(target, "live", nodes), MOST_TRIED))
    room = MOST_TRIED - min(len(failed), _FAILED_TRIED)
    best = heapq.nlargest(room, scored, key=lambda node: target.scored[node].ratio)
    return [*best, *live[: room - len(best)], *failed][:MOST_TRIED]


def _in(target: Target, state: str, nodes: list[int]) -> Iterable[int]:
    """The nodes in a state, the newest first."""
    return (node for node in reversed(nodes) if target.tree[node].state == state)


def _tried(row: NodeRow) -> Tried:
    ratio, failed = row.ratio, ""
    if row.state == "failed":
        failed = in_one_line(f"{row.rung}: {row.reason}", _REASON)
    elif row.foreign:
        ratio, failed = None, "not judged on this machine yet"
    elif ratio is None:
        failed = "not judged yet"
    return Tried(row.id, in_one_line(row.title, _TITLE), row.action, ratio, failed)


def _hints(reader: SessionReader, target: Target, rows: list[NodeRow]) -> str:
    """A person's words: those for the target, then those for the nodes on the way, last first."""
    whole = next((row.hint for row in reader.targets() if row.id == target.id), None)
    near = [row.hint for row in reversed(rows) if row.hint]
    told = [text.strip() for text in [*near, *([whole] if whole else [])]]
    return "\n".join(dict.fromkeys(told))[:_HINT]
