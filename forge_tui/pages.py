"""The Summary tab of rows that are no node: a target, and several dead branches together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forge_tui import figures, words
from forge_tui.baselines import Timed, baselines, best_row, gain, on_gpu, time_table
from forge_tui.detail import hinted
from forge_tui.evidence import cut, wrapped
from forge_tui.text import clip, fit, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forge_tui.glyphs import Glyphs
    from forge_tui.model import Model
    from forge_tui.view import Line
    from store.rows import NodeRow, TargetRow


def target_summary(target: TargetRow, model: Model, cells: int, glyphs: Glyphs) -> list[Line]:
    """A target's page: its arguments, baselines and limits."""
    word, role = words.target_word(target, model.target_stage(target.id))
    name = clip(one_line(target.name, 80), max(8, cells - 16))
    out: list[Line] = [((name + "  ", "strong"), (word, role))]
    if target.reason:
        out += wrapped(one_line(target.reason, 600), "text", cells)
    if target.cure:
        out += wrapped(one_line(target.cure, 600), "muted", cells)
    out += hinted(target.hint, cells)
    best = model.best_node(target.id)
    if best is not None and (against := gain(best, target)):
        out.append(cut(((against, "best"), (", the fastest baseline", "muted")), cells))
    if target.eager_ns:
        out += _limits(target, best, cells)
    if best is not None:
        out += [
            (),
            cut(((f"best #{best.id} ", "muted"), (one_line(best.title, 200), "text")), cells),
        ]
    spec = target.spec or {}
    args = spec.get("args")
    if isinstance(args, list | tuple) and args:
        out += [(), (("arguments", "head"),)]
        out += [((clip(f"  {_tensor(arg)}", cells), "muted"),) for arg in args[:24]]
    outputs = spec.get("outputs")
    if isinstance(outputs, list | tuple) and outputs:
        out += [(("returns", "head"),)]
        out += [((clip(f"  {_tensor(one)}", cells), "muted"),) for one in outputs[:8]]
    moved = [spec.get(name) for name in ("read_bytes", "write_bytes")]
    if all(isinstance(value, int) for value in moved):
        text = f"reads {figures.size_of(moved[0])}, writes {figures.size_of(moved[1])} at the least"
        out += [(), ((clip(text, cells), "muted"),)]
    return out


def _limits(target: TargetRow, best: NodeRow | None, cells: int) -> list[Line]:
    """Baselines, best and speed of light, slowest first; speedups are the measured ratios."""
    rows = baselines(target)
    if target.sol_ns:
        ratio = (target.eager_ns or 0) / target.sol_ns
        rows.append(Timed("speed of light", ratio, ns=target.sol_ns))
    if best is not None and best.time_ns and best.ratio:
        rows.append(best_row(best))
    rows.sort(key=lambda row: row.ratio or 0.0)
    return time_table(rows, cells, gpu=on_gpu(target.device))


def _tensor(arg: Any) -> str:
    if not isinstance(arg, dict):
        return one_line(arg, 100)
    shape = arg.get("shape")
    sizes = " x ".join(str(size) for size in shape) if isinstance(shape, list | tuple) else "?"
    return f"{one_line(arg.get('name', '?'), 24):<10} {one_line(arg.get('dtype', ''), 12)} {sizes}"


def group_summary(rows: Sequence[NodeRow], cells: int, glyphs: Glyphs) -> list[Line]:
    """The page of a row that stands for several dead nodes."""
    out: list[Line] = [((f"{figures.count_of(len(rows), 'branch', 'branches')} without use",
                         "strong"),), (("space shows them in the tree", "muted"),), ()]  # fmt: skip
    for node in rows[:100]:
        word, role = words.node_word(node, bool(node.pruned))
        why = one_line(f"{node.rung}: {node.reason}" if node.reason else node.title, 200)
        line: Line = ((f"#{node.id:<5}", "muted"), (fit(word, 9), role), (why, "muted"))
        out.append(cut(line, cells))
    return out
