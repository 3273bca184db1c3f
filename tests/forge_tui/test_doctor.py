"""The doctor: groups, cures, the terminal, and a machine that is not ready."""

from __future__ import annotations

import sys

import pytest

from forge_tui.doctor import examine, lines, terminal_checks
from forge_tui.launch import LaunchError
from tests.forge_tui.conftest import engine


def test_checks_are_grouped_and_aligned() -> None:
    text = lines(examine(engine("sick")))
    titles = [line for line in text if line and not line.startswith(" ")]
    assert titles == ["this machine", "candidates", "this terminal", "not ready: memory"]
    found = {line.split()[1]: line for line in text if line.startswith("  ok") or "FAIL" in line}
    assert found["compiler"].index("g++ 13.2") == found["memory"].index("1 GB free")
    assert any(line.strip() == "allow them" for line in text)


def test_unknown_checks_are_shown_and_long_ones_wrapped() -> None:
    checks = [
        {"check": "gpu", "ok": True, "what": "NVIDIA H200 " * 20, "cure": ""},
        {"check": "new thing", "ok": None, "what": "\x1b[31mred", "cure": "calm down"},
    ]
    text = lines(checks, 80)
    assert all(len(line) <= 80 for line in text)
    assert text[0] == "the GPU"
    assert "also" in text
    assert any(line.split() == ["note", "new", "thing", "red"] for line in text)
    assert text[-1] == "ready"


def test_the_terminal_is_a_note_never_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    terminal, locale = terminal_checks()
    assert terminal["ok"] is None
    assert "plain lines instead of the screen" in terminal["what"]
    assert "ASCII" in locale["what"]
    assert locale["cure"]


def test_a_doctor_that_fails_says_why() -> None:
    with pytest.raises(LaunchError, match="ValueError: boom"):
        examine((sys.executable, "-c", "raise ValueError('boom')"))
