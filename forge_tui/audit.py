"""An audit as lines: each program as it is judged, then the count and all that went wrong."""

from __future__ import annotations

from typing import Any

from forge_tui import figures
from forge_tui.evidence import record
from forge_tui.launch import LaunchError
from forge_tui.text import clip, fit, one_line, wrap

NAME, WIDE = 48, 96


class Audit:
    """Hears the JSON lines of ``python -m agent audit`` and says them for people.

    Attributes:
        sound: No cheat was missed, and no honest program turned down. False before the end.
    """

    def __init__(self, cells: int) -> None:
        self.sound = False
        self._cells = cells
        self._wrong: list[dict[str, Any]] = []
        self._summary: dict[str, Any] = {}

    def hear(self, line: dict[str, Any]) -> list[str]:
        """One line's text: none for what is not worth one."""
        if "summary" in line:
            self._summary = record(line["summary"])
            return []
        if line.get("kind") not in {"cheat", "honest"}:
            return []
        if line.get("ok") is not True:
            self._wrong.append(line)
        seconds = figures.number(line.get("seconds"))
        spent = figures.seconds_of(seconds) if seconds is not None else ""
        name = fit(one_line(line.get("name", "?"), 80), NAME)
        # The code has no room on a small terminal; what went wrong is told whole at the end.
        end = _end(line) if self._cells >= WIDE else one_line(line.get("rung") or "", 8)
        text = f"{_word(line):<11} {name}  {end}"
        return [f"{clip(text, self._cells - 8):<{self._cells - 8}} {spent:>7}".rstrip()]

    def end(self) -> list[str]:
        """The count, and each thing that went wrong with what was expected.

        Raises:
            LaunchError: The audit ended without its summary.
        """
        found = {name: figures.number(value) or 0 for name, value in self._summary.items()}
        if not {"cheats", "missed", "false_alarms"} <= found.keys():
            raise LaunchError("the audit ended before it was done", "forge-tui doctor")
        missed, alarms = int(found["missed"]), int(found["false_alarms"])
        self.sound = not (missed or alarms or self._wrong)
        cheats = figures.count_of(int(found.get("cheats", 0)), "cheat")
        honest = figures.count_of(int(found.get("honest", 0)), "honest program")
        out = [
            "",
            f"{cheats}: {int(found.get('caught', 0))} caught, {missed} missed",
            f"{honest}: {figures.count_of(alarms, 'false alarm')}",
        ]
        if impossible := int(found.get("impossible", 0)):
            tricks = figures.count_of(impossible, "more trick")
            out.append(f"{tricks} cannot be written at all: a program has no host code")
        for line in self._wrong:
            out += self._told(line)
        seconds = figures.number(found.get("seconds"))
        spent = f" in {figures.span(seconds)}" if seconds else ""
        return [*out, "", f"the judge is {'sound' if self.sound else 'NOT SOUND'}{spent}"]

    def _told(self, line: dict[str, Any]) -> list[str]:
        """What went wrong: what was expected, where the judge ended, and what it said."""
        expected = one_line(line.get("expected") or "", 200).replace("|", " or ")
        parts = [f"expected {expected}" if expected else "", f"it ended at {_end(line)}"]
        parts.append(one_line(line.get("message") or "", 300))
        rest = "; ".join(part for part in parts if part)
        head = f"{_word(line)}: {one_line(line.get('name', '?'), 80)}"
        return ["", head, *(f"  {part}" for part in wrap(rest, self._cells - 2, 8))]


def _word(line: dict[str, Any]) -> str:
    """How one program turned out, as a word."""
    ok, cheat = line.get("ok") is True, line.get("kind") == "cheat"
    if not cheat:
        return "passed" if ok else "FALSE ALARM"
    if not ok:
        return "MISSED"
    return "harmless" if line.get("rung") in {"harmless", "passed"} else "caught"


def _end(line: dict[str, Any]) -> str:
    """Where the judge ended: the rung and the code, or the end."""
    rung, code = one_line(line.get("rung") or "", 12), one_line(line.get("code") or "", 40)
    rung = {"passed": "the end, passed", "harmless": "the end, no faster"}.get(rung, rung)
    return ": ".join(part for part in (rung, code) if part) or "?"
