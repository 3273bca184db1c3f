"""What programs are compared with: the baselines of a target, the fastest of them, and their table.

*Speedup* is against eager, *gain* against the fastest baseline; every figure says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forge_tui import figures
from forge_tui.evidence import cut, record
from forge_tui.figures import number
from forge_tui.text import fit, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forge_tui.view import Line
    from store.rows import NodeRow, TargetRow


@dataclass(frozen=True, slots=True)
class Timed:
    """One row of a table of times.

    Attributes:
        ratio, low, high: Speedup against eager, with its 95 % interval where there is one.
        ns, call_ns: The time that the ratio is about (device time on a GPU), and call time.
        problem: Why there are no figures.
    """

    name: str
    ratio: float | None
    low: float | None = None
    high: float | None = None
    ns: float | None = None
    call_ns: float | None = None
    problem: str = ""
    role: str = "text"


def baselines(target: TargetRow) -> list[Timed]:
    """A target's baselines, eager first."""
    known = target.baselines or {}
    eager = record(known.get("eager"))
    found = [Timed("eager", 1.0, ns=target.eager_ns, call_ns=number(eager.get("call_ns")))]
    for name, value in list(known.items())[:8]:
        one, ratio = record(value), number(record(value).get("ratio"))
        if name == "eager":
            continue
        if ratio is None or ratio <= 0:
            why = one_line(one.get("error") or "not measured", 300)
            found.append(Timed(one_line(name, 14), None, problem=why))
            continue
        found.append(
            Timed(one_line(name, 14), ratio, number(one.get("low")), number(one.get("high")),
                  number(one.get("ns")), number(one.get("call_ns")))
        )  # fmt: skip
    return found


def fastest(target: TargetRow | None) -> Timed | None:
    """The fastest of several baselines; None while eager is the only one."""
    known = [one for one in baselines(target) if one.ratio] if target else []
    return max(known, key=lambda one: one.ratio or 0.0) if len(known) > 1 else None


def gain(node: NodeRow, target: TargetRow | None) -> str:
    """A node's gain with the name of what it is against: ``1.21x vs compile-max``, or nothing."""
    rival = fastest(target)
    if rival is None:
        return ""  # eager alone was measured
    against = record(node.against) if node.confirmed == 1 else {}
    if name := against.get("name"):
        spread = figures.interval(number(against.get("low")), number(against.get("high")))
        ratio = figures.speedup(number(against.get("ratio")))
        return f"{ratio} vs {one_line(name, 14)} {spread}".rstrip()
    if not node.gain:
        return ""
    return f"{figures.speedup(node.gain)} vs {rival.name}"


def on_gpu(device: Any) -> bool:
    """Whether times on this device are device times, with call times beside them."""
    return str(device or "").startswith("cuda")


def best_row(node: NodeRow) -> Timed:
    """A target's best node as a row of its table."""
    return Timed(f"best #{node.id}", node.ratio, node.low, node.high, node.time_ns, node.call_ns,
                 role="faint" if node.foreign else "strong")  # fmt: skip


def time_table(rows: Sequence[Timed], cells: int, *, gpu: bool) -> list[Line]:
    """Rows as a table: speedup with its interval, then device and call time, or call time alone."""
    names = "device time  call time" if gpu else "call time"
    spread = any(row.low is not None for row in rows)
    between = f"{'95 % interval':<14}  " if spread else ""
    out: list[Line] = [((f"{'':<15} {'vs eager':>8}  {between}{names}", "faint"),)]
    for row in rows:
        if row.problem:
            out.append(cut(((f"{fit(row.name, 15)} {row.problem}", "warn"),), cells))
            continue
        interval = f"{figures.interval(row.low, row.high):<14}  " if spread else ""
        times = f"{figures.time_of(row.ns):>{11 if gpu else 9}}"
        if gpu:
            times += f"  {figures.time_of(row.call_ns):>9}"
        text = f"{fit(row.name, 15)} {figures.speedup(row.ratio):>8}  {interval}{times}"
        out.append(cut(((text, row.role),), cells))
    return out
