"""Asks the engine's side what this machine can do, and lines up the answers."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from forge_tui.launch import ENGINE, LaunchError
from forge_tui.text import fit, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE_S = 120.0


def examine(engine: Sequence[str] = ENGINE) -> list[dict[str, Any]]:
    """The checks, each ``{"check", "ok": true | false | None, "what", "cure"}``.

    Raises:
        LaunchError: The examination itself failed.
    """
    try:
        done = subprocess.run(
            [*engine, "doctor"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise LaunchError(f"the examination took more than {PATIENCE_S:.0f} s") from None
    checks: list[dict[str, Any]] = []
    for line in done.stdout.splitlines():
        try:
            check = json.loads(line)
        except ValueError:
            continue
        if isinstance(check, dict) and "check" in check:
            checks.append(check)
    if not checks:
        said = [one_line(line, 300) for line in done.stderr.splitlines() if line.strip()]
        why = said[-1] if said else f"exit code {done.returncode}"
        raise LaunchError(f"the examination failed: {why}")
    return checks


def lines(checks: Sequence[dict[str, Any]]) -> list[str]:
    """The checks as aligned lines, each cure below its check."""
    size = max(len(one_line(check["check"], 40)) for check in checks)
    out = []
    for check in checks:
        ok = check.get("ok")
        word = "ok" if ok is True else "FAIL" if ok is False else "note"
        name = fit(one_line(check["check"], 40), size)
        out.append(f"{word:<5} {name}  {one_line(check.get('what', ''), 400)}".rstrip())
        if ok is not True and check.get("cure"):
            out.append(f"{'':<5} {'':<{size}}  {one_line(check['cure'], 400)}")
    return out
