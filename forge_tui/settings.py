"""What the commands start from: defaults of a search, the demo, and what this terminal can do."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

from forge_tui.glyphs import ASCII, UNICODE, Glyphs

DOLLARS = 2.0
"""The cap on what calls of models cost, where nobody gives one."""

INBOX = "inbox"
"""In a config: a folder of the session's own, beside it, so that both can be moved together."""

DEFAULTS: dict[str, Any] = {
    "tasks": [],
    "device": "cpu",
    "nodes": 24,
    "minutes": 10.0,
    "patience": 10,
    "sol_stop": 0.95,
    "seed": 0,
    "baselines": None,
    "programs": [],
    "models": [],
    "parallel": 4,
    "dollars": None,
    "tokens": None,
    "calls": None,
    "max_tokens": 16_000,
    "prompt_tokens": 12_000,
    "drafts": 2,
    "inbox": None,
    "exit_when_waiting": False,
    "replay": None,
    "demo": False,
}
DEMO: dict[str, Any] = {
    **DEFAULTS,
    "tasks": ["suite:softmax", "suite:rmsnorm", "suite:silu_mul"],
    "nodes": 5,
    "minutes": 0.9,
    "patience": 6,
    "baselines": ["eager"],
    "demo": True,
}


_KNOWN_TERMS = (
    "xterm", "screen", "tmux", "linux", "rxvt", "vt1", "vt2", "alacritty", "kitty", "foot",
    "wezterm", "ghostty", "konsole", "gnome", "st-", "eterm", "iterm", "ansi", "contour", "putty",
    "cygwin", "mintty", "rio", "sun-color",
)  # fmt: skip


def why_plain() -> str:
    """Why the screen cannot be shown on this terminal; empty when it can."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "no terminal"
    term = os.environ.get("TERM", "")
    if term in {"", "dumb", "unknown"} or not (term == "st" or _known(term)):
        return f"TERM={term or '(not set)'} cannot show a screen"
    return ""


def _known(term: str) -> bool:
    if term.lower().startswith(_KNOWN_TERMS):
        return True
    try:
        import curses

        curses.setupterm(term, 1)
    except (ImportError, curses.error):
        return False
    return True


def utf8_locale() -> bool:
    """Whether the locale of the environment is UTF-8 (an unset one is what Python made of it)."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if value := os.environ.get(name):
            return "utf8" in value.lower().replace("-", "")
    return True


def glyphs(ascii_only: bool) -> Glyphs:
    """The alphabet for this terminal; the Linux console's font lacks most signs."""
    plain = ascii_only or not utf8_locale() or os.environ.get("TERM", "") == "linux"
    return ASCII if plain else UNICODE


def sixteen_colours() -> bool:
    """Whether the terminal has only its 16 named colours."""
    if os.environ.get("COLORTERM", "").strip().lower() in {"truecolor", "24bit"}:
        return False
    term = os.environ.get("TERM", "")
    return "256" not in term and "kitty" not in term


def cells() -> int:
    """How wide plain text may be: as the terminal, 80 at least and 100 at most."""
    return max(80, min(100, shutil.get_terminal_size().columns))
