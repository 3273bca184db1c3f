"""Asks the engine's side what this machine can do, adds the terminal, and lines up the answers."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from forge_tui.launch import ENGINE, spoken
from forge_tui.settings import utf8_locale, why_plain
from forge_tui.text import one_line, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE_S = 300.0
GROUPS = {
    "this machine": ("python", "torch", "cpu", "memory", "compiler"),
    "the GPU": ("gpu", "driver", "nvrtc", "headers", "build", "gpu memory", "clocks",
                "compute mode", "other processes", "sanitizer", "counters"),
    "candidates": ("sandbox", "namespaces", "landlock", "seccomp", "spare worker"),
    "sessions": ("data folder", "file system"),
    "this terminal": ("terminal", "locale"),
}  # fmt: skip
REST = "also"


def examine(engine: Sequence[str] = ENGINE) -> list[dict[str, Any]]:
    """The checks, each ``{"check", "ok": true | false | None, "what", "cure"}``.

    Raises:
        LaunchError: The examination itself failed.
    """
    found = [line for line in spoken(["doctor"], engine, PATIENCE_S) if "check" in line]
    return [*found, *terminal_checks()]


def terminal_checks() -> list[dict[str, Any]]:
    """What the engine's side cannot see: where we are shown. Never a failure, plain lines do."""
    size = shutil.get_terminal_size()
    why = why_plain()
    if why:
        what, cure = f"{why}: plain lines instead of the screen", ""
    elif size.columns < 60 or size.lines < 15:
        what = f"{size.columns} x {size.lines} is too small for the screen"
        cure = "make it 80 x 24 or larger"
    else:
        what, cure = f"{os.environ.get('TERM', '')}, {size.columns} x {size.lines}", ""
    utf8 = utf8_locale()
    encoding = one_line(sys.stdout.encoding or "unknown", 20)
    return [
        {"check": "terminal", "ok": None if why or cure else True, "what": what, "cure": cure},
        {"check": "locale", "ok": True if utf8 else None,
         "what": encoding if utf8 else f"{encoding}: the screen is drawn in ASCII",
         "cure": "" if utf8 else "set LANG=C.UTF-8"},
    ]  # fmt: skip


def lines(checks: Sequence[dict[str, Any]], cells: int = 100) -> list[str]:
    """The checks in groups, aligned, each cure below its check; what went wrong is said again."""
    size = max(len(one_line(check["check"], 24)) for check in checks)
    out: list[str] = []
    known = {name for names in GROUPS.values() for name in names}
    for title, names in [*GROUPS.items(), (REST, ())]:
        mine = [
            check
            for check in checks
            if (check["check"] in names if names else check["check"] not in known)
        ]
        if mine:
            out += [*([""] if out else []), title]
            for check in mine:
                out += _check_lines(check, size, cells)
    bad = [one_line(check["check"], 24) for check in checks if check.get("ok") is False]
    return [*out, "", f"not ready: {', '.join(bad)}" if bad else "ready"]


def _check_lines(check: dict[str, Any], size: int, cells: int) -> list[str]:
    ok = check.get("ok")
    word = "ok" if ok is True else "FAIL" if ok is False else "note"
    before = f"  {word:<5} {one_line(check['check'], 24):<{size}}  "
    told = wrap(one_line(check.get("what", ""), 600), max(20, cells - len(before)), 8)
    if ok is not True and check.get("cure"):
        told += wrap(one_line(check["cure"], 600), max(20, cells - len(before)), 8)
    indent = " " * len(before)
    return [(before if at == 0 else indent) + line for at, line in enumerate(told)]
