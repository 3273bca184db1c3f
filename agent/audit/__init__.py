"""The audit: programs that cheat must fall and honest ones must pass, on this very machine.

``forge-tui audit`` runs it through ``python -P -m agent audit``; the tests run the same rows.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.audit.rows import Row
from agent.audit.tricks import TRICKS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Row", "rows", "run"]


def rows(language: str) -> list[Row]:
    """Every row of a language, cheats first."""
    if language == "cuda":
        from agent.audit import cuda

        return cuda.rows()
    from agent.audit import cpp

    return cpp.rows()


def run(device: str, say: Callable[[dict[str, Any]], None], *, only: str = "") -> int:
    """Send every row up the ladder of this machine's judge.

    Args:
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        say: Gets a JSON-able line for each row and a last one with the summary.
        only: Rows whose kind, trick or name has this text in it; "" for all.

    Returns:
        0 if every cheat fell where it must and no honest program was turned down, else 1.

    Raises:
        MachineError: The device or its compiler cannot be used.
    """
    from agent.audit.ladder import Ladder, judge_row

    started = time.monotonic()
    name, _, number = device.partition(":")
    if number:  # one device is all that this process and its children shall see
        os.environ["CUDA_VISIBLE_DEVICES"] = number
    with tempfile.TemporaryDirectory(prefix="forge-audit-") as folder:
        language = "cpp" if name == "cpu" else "cuda"
        every = rows(language)
        ladder = Ladder(name, Path(folder), every)
        try:
            chosen = [
                row for row in every
                if only in f"{row.kind}/{row.trick}/{row.name}" and row.needs <= ladder.level
            ]  # fmt: skip
            lines = []
            for row in chosen:
                lines.append(judge_row(ladder, row))
                say(lines[-1])
        finally:
            ladder.close()
    cheats = [line for line in lines if line["kind"] == "cheat"]
    honest = [line for line in lines if line["kind"] == "honest"]
    caught = sum(line["ok"] for line in cheats)
    alarms = sum(not line["ok"] for line in honest)
    say({
        "summary": {
            "cheats": len(cheats),
            "caught": caught,
            "missed": len(cheats) - caught,
            "honest": len(honest),
            "false_alarms": alarms,
            "impossible": sum(bool(trick.impossible) for trick in TRICKS.values()),
            "seconds": round(time.monotonic() - started, 1),
        }
    })  # fmt: skip
    return int(caught < len(cheats) or alarms > 0)
