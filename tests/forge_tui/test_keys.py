"""The table of keys: complete, unambiguous, safe on every terminal."""

from __future__ import annotations

from collections import Counter

from forge_tui.keys import GROUPS, KEYS, key_line, shown
from forge_tui.screens.dialogs import help_lines
from forge_tui.screens.watch import WatchScreen

SAFE = {"space", "enter", "escape", "tab", "up", "down", "left", "right", "pageup", "pagedown",
        "home", "end", "minus", "equals_sign", "full_stop", "question_mark", "colon"}  # fmt: skip


def test_every_key_is_safe_and_used_once() -> None:
    names = [name for key in KEYS for name in key.keys]
    assert all(len(name) == 1 or name in SAFE for name in names)
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_every_action_exists() -> None:
    for key in KEYS:
        assert hasattr(WatchScreen, "action_" + key.action.split("(")[0]), key.action


def test_h_and_k_only_move() -> None:
    for key in KEYS:
        if {"h", "j", "k", "l"} & set(key.keys):
            assert key.group == "move"


def test_help_names_every_key() -> None:
    for cells in (60, 120):
        text = "\n".join("".join(p for p, _ in line) for line in help_lines(cells, False, False))
        for key in KEYS:
            assert key.what in text
        assert all(title in text for title in GROUPS.values())
        assert all(len(line) <= cells for line in text.split("\n"))


def test_read_only_help_says_what_is_off() -> None:
    lines = help_lines(120, True, True)
    text = "\n".join("".join(p for p, _ in line) for line in lines)
    assert "pause the search, or go on (off: read-only)" in text
    assert text.isascii()


def test_the_line_of_keys_follows_the_state() -> None:
    assert ("p", "pause") in key_line("running", False)
    assert ("p", "go on") in key_line("paused", False)
    assert ("r", "resume") in key_line("crashed", False)
    assert not [key for key, _ in key_line("crashed", False) if key == "p"]
    assert not [key for key, _ in key_line("running", True) if key in "px"]


def test_keys_are_named_without_arrows_in_ascii() -> None:
    assert all(shown(key, True).isascii() and shown(key, True) for key in KEYS)
