"""One program's ladder as plain lines, rung by rung as the judge climbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forge_tui import evidence, figures
from forge_tui.baselines import Timed, on_gpu, time_table
from forge_tui.detail import TITLES
from forge_tui.evidence import record
from forge_tui.figures import number
from forge_tui.launch import LaunchError
from forge_tui.text import one_line, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forge_tui.glyphs import Glyphs
    from forge_tui.view import Line

INDENT = 12


class Ladder:
    """Hears the JSON lines of ``python -m agent verify`` and says them for people.

    Attributes:
        passed: Every rung was passed, and the last one was heard.
    """

    def __init__(self, glyphs: Glyphs, cells: int) -> None:
        self.passed = False
        self._glyphs = glyphs
        self._cells = cells
        self._fell = ""
        self._ended = False

    def require_end(self) -> None:
        """Raise LaunchError unless the judge came to an end."""
        if not self._ended:
            raise LaunchError("the judge ended without a verdict", "forge-tui doctor")

    def hear(self, line: dict[str, Any]) -> list[str]:
        """The text for one line: none for what is not worth one."""
        if "verdict" in line and "rung" not in line:
            return self._verdict(record(line["verdict"]))
        rung = str(line.get("rung"))
        if rung not in TITLES:
            return []
        if line.get("ok") is not True:
            return self._failed(rung, line)
        parts = {"read": _read, "build": self._build, "check": self._check,
                 "measure": self._measure, "confirm": self._confirm}  # fmt: skip
        told = parts[rung](line)
        return [*self._rung(self._glyphs.done, rung, told[0]), *told[1:]]

    # -- rungs -------------------------------------------------------------------------------------

    def _rung(self, sign: str, rung: str, text: str) -> list[str]:
        told = wrap(text, self._cells - INDENT, 8) or [""]
        head = f"{sign} {TITLES[rung]:<{INDENT - 2}}"
        return [(head + told[0]).rstrip(), *(" " * INDENT + more for more in told[1:])]

    def _failed(self, rung: str, line: dict[str, Any]) -> list[str]:
        self._ended, self._fell = True, rung
        reason = one_line(line.get("reason") or line.get("message") or "no reason was given", 600)
        facts = record(line.get("evidence"))
        told = self._rung(self._glyphs.failed, rung, reason)
        told += self._plain(self._table(facts))
        return told + self._plain(evidence.failure(facts, self._cells))

    def _build(self, line: dict[str, Any]) -> list[str]:
        detail = record(line.get("detail"))
        seconds = number(line.get("seconds"))
        parts = [figures.seconds_of(seconds)] if seconds is not None else []
        parts += ["from the cache"] if line.get("cached") else []
        parts += [one_line(detail["arch"], 20)] if detail.get("arch") else []
        values = " ".join(
            f"{one_line(name, 24)}={one_line(value, 12)}"
            for name, value in record(line.get("values")).items()
        )
        parts += [values] if values else []
        return [", ".join(parts), *self._plain(evidence.kernels(detail, self._cells))]

    def _check(self, line: dict[str, Any]) -> list[str]:
        rows = evidence.family_rows(line)
        passed = sum(1 for row in rows if row.get("ok") is not False)
        text = f"{passed} of {figures.count_of(len(rows), 'set')} of inputs pass"
        return [text, *self._plain(self._table(line))]

    def _measure(self, line: dict[str, Any]) -> list[str]:
        gpu = on_gpu(line.get("device")) or line.get("timing") == "device"
        spread = figures.interval(number(line.get("low")), number(line.get("high")))
        ratio = number(line.get("ratio"))
        outcome = one_line(line.get("verdict") or line.get("outcome") or "", 12)
        text = f"{outcome} {figures.speedup(ratio)} vs eager {spread} 95 %".strip()
        over = number(line.get("gain"))
        if over and line.get("against", "eager") != "eager":
            text += f", gain {figures.speedup(over)} vs {one_line(line['against'], 14)}"
        if sol := number(line.get("sol_fraction")):
            text += f", {figures.percent(sol)} of the speed of light"
        table = time_table(_times(line), self._cells - 2, gpu=gpu)
        out = [text, *self._plain([(("  ", "text"), *row) for row in table])]
        for name, one in list(record(line.get("occupancy")).items())[:8]:
            share, limiter = number(record(one).get("share")), record(one).get("limiter", "")
            by = f" by {one_line(limiter, 12)}" if limiter else ""
            out.append(f"  occupancy of {one_line(name, 40)}: {figures.percent(share)}{by}")
        out += self._plain(evidence.conditions(line, self._cells))
        hints = evidence.advice(line.get("advice"), self._cells - 2, self._glyphs)
        if hints:
            out += ["  advice", *self._plain([(("  ", "text"), *hint) for hint in hints])]
        return out

    def _confirm(self, line: dict[str, Any]) -> list[str]:
        spread = figures.interval(number(line.get("low")), number(line.get("high")))
        text = f"{figures.speedup(number(line.get('ratio')))} vs eager {spread}"
        against = record(line.get("against"))
        if against.get("name", "eager") != "eager":
            over = figures.interval(number(against.get("low")), number(against.get("high")))
            ratio = figures.speedup(number(against.get("ratio")))
            text += f", {ratio} vs {one_line(against['name'], 14)} {over}"
        tools = evidence.sanitizer(line.get("sanitizer"), self._cells, self._glyphs)
        return [f"{text}, in a fresh process", *self._plain(tools)]

    def _verdict(self, found: dict[str, Any]) -> list[str]:
        self._ended = True
        self.passed = found.get("ok") is True and not self._fell
        if not self.passed:
            where = f" at the rung: {TITLES[self._fell]}" if self._fell else ""
            return ["", f"turned down{where}"]
        outcome = one_line(found.get("outcome") or "passed", 40)
        more = ": library calls alone are no win" if outcome == "LIBRARY" else ""
        return ["", f"verdict: {outcome}{more}"]

    # -- text --------------------------------------------------------------------------------------

    def _table(self, line: dict[str, Any]) -> list[Line]:
        return evidence.families(evidence.family_rows(line), self._cells, self._glyphs)

    @staticmethod
    def _plain(lines: Iterable[Line]) -> list[str]:
        return ["".join(text for text, _ in line).rstrip() for line in lines]


def _read(line: dict[str, Any]) -> list[str]:
    parts = [one_line(line.get("language") or "", 12)]
    counts = (("lines", "line", ""), ("steps", "step", ""), ("variants", "variant", ""))
    parts += [
        figures.count_of(int(count), one, many)
        for name, one, many in counts
        if (count := number(line.get(name))) is not None
    ]
    calls = line.get("calls")
    if isinstance(calls, list) and calls:
        parts.append("calls " + ", ".join(one_line(call, 30) for call in calls[:6]))
    return [", ".join(part for part in parts if part)]


def _times(line: dict[str, Any]) -> list[Timed]:
    """The program, eager, and each other baseline, with both times."""
    rows = [
        Timed("this program", number(line.get("ratio")), number(line.get("low")),
              number(line.get("high")), number(line.get("ns")), number(line.get("call_ns"))),
        Timed("eager", 1.0, ns=number(line.get("eager_ns")),
              call_ns=number(line.get("eager_call_ns"))),
    ]  # fmt: skip
    for name, value in list(record(line.get("baselines")).items())[:8]:
        one = record(value)
        if name == "eager":
            continue
        ratio = number(one.get("ratio"))
        why = "" if ratio else one_line(one.get("error") or "not measured", 200)
        rows.append(
            Timed(one_line(name, 14), ratio, number(one.get("low")), number(one.get("high")),
                  number(one.get("ns")), number(one.get("call_ns")), why)
        )  # fmt: skip
    return rows
