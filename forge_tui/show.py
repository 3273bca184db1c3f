"""Opens the screen on a terminal, and says how things stand once it is left."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from forge_tui import figures, settings, words
from forge_tui.feed import tidy
from forge_tui.launch import launch
from forge_tui.results import result_table
from store import commands
from store.errors import StoreError
from store.lock import engine_alive
from store.sessions import inspect

if TYPE_CHECKING:
    from pathlib import Path


def show(path: Path, *, follow: bool, mouse: bool, ascii_only: bool, read_only: bool) -> int:
    """Run the app until it is left; returns 0, or 1 if the app broke."""
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    from forge_tui.app import ForgeApp
    from forge_tui.terminal import leave_with_terminal, tolerate_odd_input

    tolerate_odd_input()
    leave_with_terminal()
    app = ForgeApp(
        path,
        glyphs=settings.glyphs(ascii_only),
        read_only=read_only,
        follow=follow,
        named_colours=settings.sixteen_colours(),
        launcher=launch,
    )
    app.run(mouse=mouse)
    return app.return_code or 0


def farewell(path: Path, *, stop: bool = False) -> None:
    """Print whether the search goes on, what it has, and how to come back or end it."""
    tidy(path)
    info = inspect(path)
    alive = engine_alive(path)
    if stop and alive:
        try:
            commands.send(path, "stop")
        except StoreError as error:
            click.echo(f"error: {error.message}", err=True)
        else:
            click.echo(f"{info.session} is stopping; everything is saved.")
            return
    if not alive and info.state in {"finished", "stopped", "failed"}:
        for line in result_table(path):
            click.echo(line)
        click.echo("")
    nodes = figures.count_of(sum(info.counts.values()), "node")
    best = f", best {figures.speedup(info.best[0])} ({info.best[1]})" if info.best else ""
    asked = info.micro_dollars or info.unpriced
    cost = f", cost {words.paid(info.micro_dollars, info.unpriced)}" if asked else ""
    state = "still running" if alive and info.state == "running" else info.state
    click.echo(f"{info.session} is {state}: {nodes}{best}{cost}.")
    if alive:
        click.echo(f"  watch it again   forge-tui attach {info.session}")
        click.echo(f"  stop it          forge-tui stop {info.session}")
        return
    if info.best:
        click.echo(f"  see a program    forge-tui code {info.session} NODE")
    if info.state in {"crashed", "stopped", "failed"}:
        click.echo(f"  take it up       forge-tui resume {info.session}")
