"""What a judge wrote down, as lines that the screen and ``verify`` share.

Any field may be missing or of another type, and is then left out. All of it is foreign text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forge_tui import figures
from forge_tui.figures import number
from forge_tui.text import clip, fit, lines, one_line, width, wrap

if TYPE_CHECKING:
    from forge_tui.glyphs import Glyphs
    from forge_tui.view import Line

QUIET = 0.1
MOST_FAMILIES = 96


def record(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def wrapped(text: str, role: str, cells: int, indent: int = 0, most: int = 12) -> list[Line]:
    """The text in lines, all of them indented."""
    room = max(8, cells - indent)
    return [((" " * indent + line, role),) for line in wrap(text, room, most)]


def flowing(items: list[str], role: str, cells: int) -> list[Line]:
    """Short texts one after the other, broken between them alone."""
    out, current = [], ""
    for item in items:
        if current and width(current) + 2 + width(item) > cells:
            out.append(current)
            current = ""
        current += f"  {item}" if current else item
    return [((clip(text, cells), role),) for text in [*out, current] if text]


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


# -- answers ---------------------------------------------------------------------------------------


def family_rows(evidence: Any) -> list[dict[str, Any]]:
    """The checked sets of inputs that an evidence holds."""
    families = record(evidence).get("families")
    return [one for one in families if isinstance(one, dict)] if isinstance(families, list) else []


def family_head(cells: int) -> Line:
    """The names of the columns of ``family_line``."""
    text = f"    {fit('inputs', _name_room(cells))} {'error':>9} {'eager':>9} {'of allowed':>11}"
    return ((clip(text, cells), "faint"),)


def family_lines(family: dict[str, Any], cells: int, glyphs: Glyphs) -> list[Line]:
    """One set of inputs: the program's error, eager's, and which part of the allowed was used."""
    ok = family.get("ok") is not False
    room = _name_room(cells)
    name = fit(one_line(family.get("family", "?"), 60), room, mark=glyphs.ellipsis)
    if family.get("skipped"):
        why = wrapped(f"skipped: {one_line(family['skipped'], 200)}", "faint", cells, room + 5)
        return [((f"    {name} ", "faint"), (why[0][0][0].lstrip(), "faint")), *why[1:]]
    error = one_line(figures.error_of(family.get("max_error")), 9)
    eager = one_line(figures.error_of(family.get("eager_error")), 9)
    line: Line = (
        (f"  {' ' if ok else glyphs.failed} ", "bad"),
        (f"{name} {error:>9}", "muted" if ok else "bad"),
        (f" {eager:>9} {figures.percent(_share(family)):>11}", "muted"),
    )
    return [cut(line, cells)]


def families(rows: list[dict[str, Any]], cells: int, glyphs: Glyphs) -> list[Line]:
    """The table of checked sets of inputs; neighbouring sizes are sets of their own."""
    if not rows:
        return []
    out = [family_head(cells)]
    for family in rows[:MOST_FAMILIES]:
        out += family_lines(family, cells, glyphs)
    if len(rows) > MOST_FAMILIES:
        out.append(((f"    ({len(rows) - MOST_FAMILIES} more)", "faint"),))
    return out


def _name_room(cells: int) -> int:
    return max(10, min(30, cells - 37))


def _share(family: dict[str, Any]) -> float | None:
    """Which part of the allowed error was used up: 1.0 is just allowed."""
    worst = number(family.get("worst"))
    error, allowed = number(family.get("max_error")), number(family.get("allowed"))
    if worst is not None:
        return worst
    return error / allowed if error is not None and allowed else None


def failure(evidence: Any, cells: int) -> list[Line]:
    """What is known of a failed rung: the log first, then each fact by its name."""
    facts = record(evidence)
    out: list[Line] = []
    if facts.get("log"):
        out += [(("  " + clip(line, cells - 2), "warn"),) for line in lines(facts["log"], 12)]
    for name, value in list(facts.items())[:24]:
        if name in {"log", "rung", "families"} or value is None or value in ("", [], {}):
            continue
        label = one_line(name, 16).replace("_", " ")
        out.append(cut(((f"  {label:<13} ", "faint"), (one_line(value, 200), "warn")), cells))
    return out


# -- what was built --------------------------------------------------------------------------------


def kernels(detail: Any, cells: int) -> list[Line]:
    """Registers, spills, shared memory and occupancy of each kernel, and how it reads memory."""
    known = {one_line(name, 60): record(one) for name, one in _kernels(detail).items()}
    if not known:
        return []
    room = max(8, min(max(map(width, known)), cells - 52))
    head = f"  {fit('kernel', room)} {'registers':>9} {'spills':>9} {'shared':>8}  occupancy"
    out: list[Line] = [((clip(head, cells), "faint"),)]
    for name, one in known.items():
        spills = _spills(one)
        shared = figures.size_of(number(one.get("shared")))
        line: Line = (
            (f"  {fit(name, room)} {_count(one.get('registers')):>9} ", "muted"),
            (f"{spills:>9}", "warn" if spills[:1].isdigit() else "muted"),
            (f" {shared:>8}  {_occupancy(detail, name, one)}", "muted"),
        )
        out.append(cut(line, cells))
        if access := _access(detail, name):
            out += wrapped(access, "faint", cells, 4)
    return out


def kernels_short(detail: Any) -> str:
    """The costliest kernel in few words: ``40 registers, no spills, occupancy 75%``."""
    known = [record(one) for one in _kernels(detail).values()]
    registers = [count for one in known if (count := number(one.get("registers"))) is not None]
    if not registers:
        return ""
    parts = [f"{max(registers):.0f} registers"]
    spills = {_spills(one) for one in known}
    if spilled := sorted(text for text in spills if text[:1].isdigit()):
        parts.append(f"spills {spilled[-1]}")
    elif spills == {"none"}:
        parts.append("no spills")
    shares = [
        share
        for name, one in _kernels(detail).items()
        if (share := number(_occupied(detail, str(name), record(one)).get("share"))) is not None
    ]
    if shares:
        parts.append(f"occupancy {figures.percent(min(shares))}")
    return ", ".join(parts)


def _kernels(detail: Any) -> dict[str, Any]:
    return dict(list(record(record(detail).get("kernels")).items())[:32])


def _count(value: Any) -> str:
    found = number(value)
    return figures.NO_VALUE if found is None else f"{found:.0f}"


def _spills(kernel: dict[str, Any]) -> str:
    """Spilled bytes, stores and loads together; ``none``, or a dash where nothing is known."""
    found = [number(kernel.get(name)) for name in ("spill_stores", "spill_loads")]
    if all(value is None for value in found):
        return figures.NO_VALUE
    total = sum(value or 0 for value in found)
    return figures.size_of(total) if total else "none"


def _occupied(detail: Any, name: str, kernel: dict[str, Any]) -> dict[str, Any]:
    of_all = record(record(detail).get("occupancy"))
    return record(kernel.get("occupancy")) or record(of_all.get(name))


def _occupancy(detail: Any, name: str, kernel: dict[str, Any]) -> str:
    found = _occupied(detail, name, kernel)
    share = number(found.get("share"))
    if share is None:
        return figures.NO_VALUE
    limiter = one_line(found.get("limiter", ""), 12)
    return figures.percent(share) + (f" by {limiter}" if limiter else "")


def _access(detail: Any, name: str) -> str:
    found = record(record(record(detail).get("access")).get(name))
    parts = []
    for key, what in (("load_bytes", "loads"), ("store_bytes", "stores")):
        if widest := number(found.get(key)):
            parts.append(f"{what} of up to {widest:.0f} bytes")
    if atomics := number(found.get("atomics")):
        parts.append(figures.count_of(int(atomics), "atomic operation"))
    return ", ".join(parts)


# -- how it was measured ---------------------------------------------------------------------------


def conditions(evidence: Any, cells: int) -> list[Line]:
    """Clocks, heat, throttling and other users while the times were taken."""
    found = record(record(evidence).get("conditions"))
    after = record(found.get("after")) or record(found.get("before")) or found
    out: list[Line] = []
    parts = [
        template.format(value)
        for key, template in (
            ("sm_mhz", "{:.0f} MHz"), ("mem_mhz", "memory {:.0f} MHz"),
            ("temperature", "{:.0f} C"), ("power_w", "{:.0f} W"),
        )
        if (value := number(after.get(key))) is not None
    ]  # fmt: skip
    if parts:
        out += wrapped("clocks " + ", ".join(parts), "muted", cells, 2)
    reasons = [name for name in _names(after.get("throttle")) if name != "idle"]
    if reasons:
        out += wrapped(f"clocks held down by: {', '.join(reasons)}", "warn", cells, 2)
    if others := _processes(found.get("others")):
        out += wrapped(f"other processes on the GPU: {', '.join(others)}", "warn", cells, 2)
    told = one_line(found.get("disturbed") or "", 300)
    if told:
        out += wrapped(f"disturbed: {told}", "warn", cells, 2)
    share = number(record(evidence).get("others"))
    if share is not None and share >= QUIET and not told:
        text = f"other programs used {figures.percent(share)} of the machine meanwhile"
        out += wrapped(text, "warn", cells, 2)
    return out


def _names(value: Any) -> list[str]:
    items = value if isinstance(value, list | tuple) else []
    return [one_line(item, 40) for item in items[:12] if isinstance(item, str) and item]


def _processes(value: Any) -> list[str]:
    """Processes by name and number: records, numbers, or names."""
    out = []
    for item in value[:12] if isinstance(value, list | tuple) else []:
        one = record(item)
        name = one_line(one.get("name") or "", 40) if one else one_line(item, 40)
        pid = number(one.get("pid"))
        memory = number(one.get("memory"))
        parts = [name or "process", f"{pid:.0f}" if pid else ""]
        parts.append(f"({figures.size_of(memory)})" if memory else "")
        out.append(" ".join(part for part in parts if part))
    return out


def complaints(found: Any) -> list[str]:
    """The tools that found something."""
    return [
        one_line(tool, 20)
        for tool, said in list(record(found).items())[:8]
        if not str(said).startswith(("clean", "skipped"))
    ]


def sanitizer(found: Any, cells: int, glyphs: Glyphs) -> list[Line]:
    """What each tool of compute-sanitizer said."""
    out: list[Line] = []
    for tool, said in list(record(found).items())[:8]:
        text = one_line(said, 300)
        clean = text.startswith("clean")
        skipped = text.startswith("skipped")
        role = "good" if clean else "faint" if skipped else "bad"
        sign = glyphs.done if clean else glyphs.queued if skipped else glyphs.failed
        head = f"  {sign} {fit(one_line(tool, 20), 10)} "
        told = wrapped(text, "muted" if clean or skipped else "bad", cells, len(head))
        out += [((head, role), (told[0][0][0].lstrip(), told[0][0][1])), *told[1:]]
    return out


def advice(items: Any, cells: int, glyphs: Glyphs) -> list[Line]:
    """What could be better: each finding, what shows it, and what to try."""
    out: list[Line] = []
    for item in items[:12] if isinstance(items, list) else []:
        one = item if isinstance(item, dict) else {"finding": item}
        finding = one_line(one.get("finding") or "", 400)
        if not finding:
            continue
        told = wrapped(finding, "text", cells, 2)
        out += [((f"{glyphs.dot} ", "head"), (told[0][0][0][2:], "text")), *told[1:]]
        if evidence := one_line(one.get("evidence") or "", 400):
            out += wrapped(evidence, "muted", cells, 4)
        if suggestion := one_line(one.get("suggestion") or "", 400):
            out += wrapped(f"try: {suggestion}", "live", cells, 4)
    return out
