"""What a search has found, for people and as JSON: a row per target, and why it is not done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forge_tui import figures, words
from forge_tui.baselines import baselines, fastest, gain, on_gpu
from forge_tui.text import one_line, width
from store.reading import SessionReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from store.rows import NodeRow, TargetRow


def table(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Rows as aligned lines, two blanks between columns; the first row is the heading."""
    sizes = [max(width(row[at]) for row in rows) for at in range(len(rows[0]))]
    to_right = set(right)
    out = []
    for row in rows:
        cells = []
        for at, (text, size) in enumerate(zip(row, sizes, strict=True)):
            space = " " * (size - width(text))
            cells.append(space + text if at in to_right else text + space)
        out.append("  ".join(cells).rstrip())
    return out


def result_table(path: Path) -> list[str]:
    """The final table as lines; below it, where there is more than eager, what was compared."""
    with SessionReader(path) as reader:
        targets = reader.targets()
        nodes = {node.id: reader.standing(node) for node in reader.nodes()}
        gpu = on_gpu(reader.session().config.get("device"))
    rows = result_rows(targets, nodes, gpu=gpu)
    lines = table(rows, right=range(1, len(rows[0]) - 1))
    against = _baseline_rows(targets, nodes)
    return [*lines, "", *table(against, right=(1,))] if len(against) > 1 else lines


def result_rows(
    targets: Sequence[TargetRow], nodes: dict[int, NodeRow], *, gpu: bool
) -> list[list[str]]:
    """One row per target, with a heading. On a GPU device and call time are two columns."""
    times = ["device", "call"] if gpu else ["call time"]
    counts = ["nodes"] if gpu else ["nodes", "failed"]
    rows = [["target", *counts, "speedup", "95 % interval", *times, "SOL", "verdict"]]
    for target in targets:
        mine = [node for node in nodes.values() if node.target == target.id]
        best = nodes.get(target.best_node or 0)
        failed = sum(1 for node in mine if node.state == "failed")
        row = [one_line(target.name, 40), str(len(mine)), *([] if gpu else [str(failed)])]
        verdict = words.target_verdict(target, best)
        rows.append([*row, *_figures(best, gpu=gpu), verdict])
    return rows


def _figures(best: NodeRow | None, *, gpu: bool) -> list[str]:
    """Speedup, interval, times and % of SOL of a target's best, as last judged."""
    if best is None:
        return ["-"] * (5 if gpu else 4)
    times = [figures.time_of(best.time_ns), *([figures.time_of(best.call_ns)] if gpu else [])]
    return [
        figures.speedup(best.ratio), figures.interval(best.low, best.high) or "-", *times,
        figures.percent(best.sol_fraction),
    ]  # fmt: skip


def _baseline_rows(targets: Sequence[TargetRow], nodes: dict[int, NodeRow]) -> list[list[str]]:
    """What each target was compared with, and the gain over the fastest; a heading alone if not."""
    rows = [["target", "gain", "against", "baselines (speedup over eager)"]]
    for target in targets:
        rival = fastest(target)
        if rival is None:
            continue
        best = nodes.get(target.best_node or 0)
        over = gain(best, target) if best else ""
        ratio, _, rest = over.partition(" vs ")
        others = ", ".join(
            f"{one.name} {figures.speedup(one.ratio) if one.ratio else one.problem[:60]}"
            for one in baselines(target)
            if one.name != "eager"
        )
        rows.append([one_line(target.name, 40), ratio or "-", rest or rival.name, others])
    return rows


def target_json(target: TargetRow, nodes: dict[int, NodeRow]) -> dict[str, Any]:
    """A target as ``status --json`` shows it. Times in nanoseconds."""
    best = nodes.get(target.best_node or 0)
    mine = [node for node in nodes.values() if node.target == target.id]
    rival = fastest(target)
    return {
        "name": target.name, "state": target.state, "reason": target.reason or "",
        "device": target.device, "eager_ns": target.eager_ns, "sol_ns": target.sol_ns,
        "baselines": target.baselines or {}, "fastest_baseline": rival.name if rival else "eager",
        "nodes": len(mine), "failed": sum(1 for node in mine if node.state == "failed"),
        "best": None if best is None else {
            "node": best.id, "title": best.title, "speedup": best.ratio, "low": best.low,
            "high": best.high, "gain": best.gain, "time_ns": best.time_ns,
            "timing": "device" if on_gpu(target.device) else "call", "call_ns": best.call_ns,
            "sol_fraction": best.sol_fraction, "outcome": best.outcome,
            "confirmed": best.confirmed, "against": best.against, "sanitizer": best.sanitizer,
            "library": bool(best.library), "foreign": bool(best.foreign),
        },
    }  # fmt: skip


def shortfall(reader: SessionReader, every_target_judged: bool) -> str:
    """Why the job was not done; empty when it was."""
    session, targets = reader.session(), reader.targets()
    if session.state != "finished":
        reason = f": {one_line(session.stop_reason, 600)}" if session.stop_reason else ""
        return f"the search did not finish, it is {session.state}{reason}"
    refused = [target for target in targets if target.state == "refused"]
    if refused:
        first = refused[0]
        return f"{one_line(first.name, 60)} was refused: {one_line(first.reason or '', 300)}"
    broken = [target for target in targets if target.state == "closed" and not target.eager_ns]
    if broken:
        first = broken[0]
        return f"{one_line(first.name, 60)} was closed: {one_line(first.reason or '', 300)}"
    wanted = len(session.config.get("tasks") or [])
    if len(targets) < wanted:
        return f"only {len(targets)} of {wanted} targets were taken up"
    judged = {node.target for node in reader.nodes() if node.state == "scored"}
    # A target that eager already runs at the speed of light is done without a program.
    missing = [t.name for t in targets if t.id not in judged and t.code != "near-sol"]
    if every_target_judged and (missing or not targets):
        return f"no program was judged for {', '.join(one_line(name, 40) for name in missing)}"
    return ""


def node_line(path: Path, number: int) -> str:
    """How a node's program was judged, in one line; empty where it has no verdict."""
    with SessionReader(path) as reader:
        row = reader.node(number)
        node = reader.standing(row) if row else None
        target = next((t for t in reader.targets() if node and t.id == node.target), None)
    if node is None or node.state != "scored" or target is None:
        return ""
    gpu = on_gpu(target.device)
    parts = [
        f"#{node.id}: {words.node_word(node)[0]}",
        f"{figures.speedup(node.ratio)} vs eager {figures.interval(node.low, node.high)}",
        gain(node, target),
        f"{'device' if gpu else 'call'} time {figures.time_of(node.time_ns)}",
        f"call time {figures.time_of(node.call_ns)}" if gpu and node.call_ns else "",
    ]
    return ", ".join(part for part in parts if part)
