"""The audit itself: its lines, its verdict, and that its data keep their promises."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent import audit
from agent.audit import rows
from agent.audit.ladder import Ladder, Outcome
from agent.audit.rows import HARMLESS, PASSED, Row
from agent.audit.targets import LARGE, TASKS
from agent.audit.tricks import TRICKS

ROOT = Path(__file__).parents[2]
RUNGS = {"read", "build", "check", "measure", PASSED, HARMLESS, "library"}


def run(only: str) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    code = audit.run("cpu", lines.append, only=only)
    return code, lines[:-1], lines[-1]["summary"]


def test_it_says_a_line_for_each_row_and_a_summary() -> None:
    code, lines, summary = run("no-op")
    assert code == 0
    assert [(line["kind"], line["name"], line["rung"], line["ok"]) for line in lines] == [
        ("cheat", "no-op", "check", True)
    ]
    assert lines[0].keys() >= {"language", "expected", "code", "seconds"}
    assert summary["cheats"] == summary["caught"] == 1
    assert summary["missed"] == summary["honest"] == summary["false_alarms"] == 0
    assert summary["impossible"] == sum(bool(trick.impossible) for trick in TRICKS.values())


def test_a_missed_cheat_and_a_false_alarm_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = next(row for row in rows("cpp") if row.name == "no-op")
    right = next(row for row in rows("cpp") if row.name == "relu, plain")
    swapped = [
        Row("a right cheat", "nothing", right.target, right.text, ("check",)),
        Row("a wrong program", "", wrong.target, wrong.text, (PASSED,)),
        Row("caught too early", "nothing", wrong.target, wrong.text, ("measure",)),
        Row("caught for another reason", "nothing", wrong.target, wrong.text, ("check",),
            frozenset({"crashed"})),
        Row("a target that is not there", "nothing", "suite:nothing", wrong.text, ("check",)),
    ]  # fmt: skip
    monkeypatch.setattr(audit, "rows", lambda language: swapped)
    code, lines, summary = run("")
    assert code == 1
    assert [line["ok"] for line in lines] == [False] * 5
    assert lines[-1]["rung"] == "fault"
    assert (summary["missed"], summary["false_alarms"]) == (4, 1)


@pytest.mark.parametrize(("mine", "ok"), [(1.02, True), (1.5, False)])
def test_a_harmless_trick_may_not_look_faster_than_its_twin(
    monkeypatch: pytest.MonkeyPatch, mine: float, ok: bool
) -> None:
    class Times:
        def __init__(self, ratio: float) -> None:
            self.ratio = ratio

    def climb(self: Any, target: str, text: str, **_: Any) -> Outcome:
        times: Any = Times(mine if text == "trick" else 1.0)
        return Outcome(PASSED, measured=times)

    trick = Row("trick", "pinned cache", "relu", "trick", (HARMLESS,), twin="twin")
    twin = Row("twin", "", "relu", "twin", (PASSED,))
    monkeypatch.setattr(audit, "rows", lambda language: [trick, twin])
    monkeypatch.setattr(Ladder, "climb", climb)
    _, lines, summary = run("")
    assert lines[0]["ok"] is ok
    assert lines[0]["rung"] == (HARMLESS if ok else PASSED)
    assert summary["caught"] == int(ok)


@pytest.mark.parametrize("language", ["cpp", "cuda"])
def test_the_rows_are_sound(language: str) -> None:
    every = rows(language)
    by_name = {row.name: row for row in every}
    assert [name for name, count in Counter(row.name for row in every).items() if count > 1] == []
    for row in every:
        assert row.target in TASKS, row.name
        assert set(row.rungs) <= RUNGS, row.name
        assert row.trick in TRICKS or row.rungs == (PASSED,), row.name
        assert not row.twin or by_name[row.twin].target == row.target, row.name
    honest = [row for row in every if row.kind == "honest"]
    assert len(honest) >= 40
    assert set(TASKS) >= LARGE


def test_every_trick_is_tried_or_says_why_not() -> None:
    tried = {row.trick for language in ("cpp", "cuda") for row in rows(language)}
    for name, trick in TRICKS.items():
        assert name in tried or trick.duty, name


def test_the_page_has_the_table_of_today() -> None:
    check = [sys.executable, str(ROOT / "docs" / "judge_table.py"), "--check"]
    assert subprocess.run(check, check=False).returncode == 0, "run: python docs/judge_table.py"
