"""Commands that judge: one program, the judge itself, this machine. Each has an exit code."""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

import click

from forge_tui import settings
from forge_tui.launch import spoken
from forge_tui.options import AS_JSON, DEVICE, task_path
from forge_tui.programs import read_program
from forge_tui.text import one_line

LINES = click.option("--json", "as_json", is_flag=True, help="Print the judge's JSON lines.")
ASCII = click.option("--ascii", "ascii_only", is_flag=True, help="Print ASCII characters alone.")


def _end_with_us() -> None:
    """Let a TERM end us in order, so that the job that we started ends too."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def _say(line: dict[str, Any], told: list[str], as_json: bool) -> None:
    """Print a line as it came, or what it was made into; what is only going on goes to stderr."""
    if as_json:
        click.echo(json.dumps(line))
    elif "stage" in line:
        click.echo(f"{one_line(line['stage'], 200)} ...", err=True)
    else:
        for text in told:
            click.echo(text)


@click.command(short_help="Judge one program, rung by rung.")
@click.argument("task")
@click.argument("file")
@DEVICE
@LINES
@ASCII
def verify(task: str, file: str, device: str, as_json: bool, ascii_only: bool) -> None:
    """Judge the program in FILE for TASK, as a search would, and show every rung.

    FILE holds a program as a writer hands it in: one block of source and one of TOML. The exit
    code is 0 if it passed every rung, however fast it is, and 1 if not.
    """
    from forge_tui.verify import Ladder

    read_program(file)
    _end_with_us()
    asked = ["verify", task_path(task), task_path(file), "--device", device]
    ladder = Ladder(settings.glyphs(ascii_only), settings.cells())
    for line in spoken(asked):
        _say(line, ladder.hear(line), as_json)
    ladder.require_end()
    sys.exit(0 if ladder.passed else 1)


@click.command(short_help="Judge the judge by cheats and honest programs.")
@DEVICE
@LINES
def audit(device: str, as_json: bool) -> None:
    """Judge a catalogue of cheats, each of which must be caught, and of honest programs.

    The exit code is 0 if no cheat was missed and no honest program turned down.
    """
    from forge_tui.audit import Audit

    kept = Audit(settings.cells())
    _end_with_us()
    for line in spoken(["audit", "--device", device]):
        _say(line, kept.hear(line), as_json)
    for text in kept.end():
        if not as_json:
            click.echo(text)
    sys.exit(0 if kept.sound else 1)


@click.command(short_help="Check this machine: what it can do, and what is missing.")
@AS_JSON
def doctor(as_json: bool) -> None:
    """Check this machine: GPU, driver, compilers, sandbox, clocks, disk, terminal."""
    from forge_tui.doctor import examine, lines

    checks = examine()
    if as_json:
        click.echo(json.dumps(checks, indent=2, ensure_ascii=False))
    else:
        for line in lines(checks, settings.cells()):
            click.echo(line)
    if any(check["ok"] is False for check in checks):
        sys.exit(1)


COMMANDS = (verify, audit, doctor)
