"""Commands that steer a search: a row that its engine answers, or an engine started anew."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from forge_tui.launch import launch
from forge_tui.options import SESSION, Refused, a_hint, session_id
from forge_tui.text import one_line
from store import sessions
from store.lock import engine_alive

if TYPE_CHECKING:
    from pathlib import Path

ANSWER_S = 10.0


def _ask(path: Path, verb: str, **args: int | str) -> None:
    """Send a command and print the engine's answer."""
    from store import commands

    number = commands.send(path, verb, **args)
    answer = commands.answer_to(path, number, ANSWER_S)
    if answer is None:
        raise Refused(
            f"{session_id(path)} has not answered within {ANSWER_S:.0f} s",
            "the command stays written; see `forge-tui status`",
        )
    ok, text = answer
    if not ok:
        raise Refused(text)
    click.echo(text or f"{verb}: done")


def _has_more_to_do(path: Path) -> bool:
    """Whether somebody asked for something that no engine has answered, or a best program is still
    to be confirmed, for the machine was too busy to tell."""
    from store.reading import SessionReader

    with SessionReader(path) as reader:
        open_bests = [t.best_node for t in reader.targets() if t.best_node and not t.confirmed]
        bests = [reader.node(node) for node in open_bests]
        return any(node and (node.low or 0.0) > 1.0 for node in bests) or bool(
            reader.pending_commands()
        )


def _need_engine(path: Path) -> None:
    if not engine_alive(path):
        state = sessions.inspect(path).state
        goes_on = state in {"stopped", "crashed", "failed", "new"}
        raise Refused(
            f"nothing runs: {session_id(path)} is {state}",
            f"take it up: forge-tui resume {session_id(path)}" if goes_on else "",
        )


@click.command(short_help="Pause a search; `resume` goes on.")
@SESSION
def pause(session: str | None) -> None:
    """Pause a search: work in hand finishes, nothing new starts, the clock stands still."""
    path = sessions.find(session)
    _need_engine(path)
    _ask(path, "pause")


@click.command(short_help="Go on with a paused, stopped or crashed search.")
@SESSION
def resume(session: str | None) -> None:
    """Go on with a paused search, or start an engine for a stopped or crashed one."""
    path = sessions.find(session)
    info = sessions.inspect(path)
    if engine_alive(path):
        if info.state not in {"paused", "pausing"}:
            click.echo(f"{session_id(path)} is {info.state} already")
            return
        _ask(path, "resume")
        return
    if info.state == "finished" and not _has_more_to_do(path):
        raise Refused(
            f"{session_id(path)} is finished: there is nothing left to resume",
            f"search longer in a new session: forge-tui run {info.task} --minutes 30 --nodes 50",
        )
    launch(path, lambda stage: click.echo(f"{stage} ...", err=True))
    click.echo(f"{session_id(path)} runs; watch it: forge-tui attach {session_id(path)}")


@click.command(short_help="Stop a search with everything saved.")
@SESSION
def stop(session: str | None) -> None:
    """Stop a search with everything saved; `resume` takes it up again."""
    path = sessions.find(session)
    _need_engine(path)
    _ask(path, "stop")


def _branch(session: str, node: int, verb: str) -> None:
    from store import commands
    from store.reading import SessionReader

    path = sessions.find(session)
    with SessionReader(path) as reader:
        if reader.node(node) is None:
            raise Refused(
                f"{session_id(path)} has no node {node}",
                f"see the numbers: forge-tui attach {session_id(path)}",
            )
    if engine_alive(path):
        _ask(path, verb, node=node)
        return
    commands.send(path, verb, node=node)
    click.echo(f"{verb} #{node} is written; it applies when the search is resumed")


@click.command()
@click.argument("session")
@click.argument("node", type=int)
def prune(session: str, node: int) -> None:
    """Close the branch below a node; `unprune` opens it again."""
    _branch(session, node, "prune")


@click.command()
@click.argument("session")
@click.argument("node", type=int)
def unprune(session: str, node: int) -> None:
    """Open a closed branch again."""
    _branch(session, node, "unprune")


@click.command(short_help="Tell the writers of a branch or a target something.")
@click.argument("session")
@click.argument("where", metavar="NODE|TARGET")
@click.argument("text", nargs=-1, required=True)
def hint(session: str, where: str, text: tuple[str, ...]) -> None:
    """Tell the writers something: it goes into every later prompt below NODE, or of TARGET.

    A new hint takes the place of the one before.
    """
    from store import commands

    said = a_hint(" ".join(text))
    path = sessions.find(session)
    about = _place(path, where)
    if engine_alive(path):
        _ask(path, "hint", **about, text=said)
        return
    commands.send(path, "hint", **about, text=said)
    click.echo("the hint is written; it applies when the search is resumed")


def _place(path: Path, where: str) -> dict[str, int]:
    """The node, or the target by its name, that a hint is for."""
    from store.reading import SessionReader

    number = where.removeprefix("#")
    with SessionReader(path) as reader:
        if number.isdecimal() and reader.node(int(number)) is not None:
            return {"node": int(number)}
        named = {target.name: target.id for target in reader.targets()}
    if where in named:
        return {"target": named[where]}
    known = ", ".join(one_line(name, 40) for name in named)
    raise Refused(
        f"{session_id(path)} has no node or target {one_line(where, 60)}",
        f"its targets: {known}" if known else "it has no target yet",
    )


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="SESSION...")
@click.option("--yes", is_flag=True, help="Do not ask.")
def rm(names: tuple[str, ...], yes: bool) -> None:
    """Delete sessions for good, each with its log."""
    paths = [sessions.find(name) for name in names]
    for path in paths:
        info = sessions.inspect(path)
        if engine_alive(path):
            raise Refused(
                f"{session_id(path)} is at work",
                f"stop it first: forge-tui stop {session_id(path)}",
            )
        if not yes:
            if not sys.stdin.isatty():
                raise click.UsageError("there is nobody to ask: say --yes to delete")
            question = (
                f"Delete {session_id(path)}, {sum(info.counts.values())} nodes, {info.state}?"
            )
            if not click.confirm(question, err=True):
                continue
        sessions.remove(path)
        click.echo(f"deleted {session_id(path)}")


COMMANDS = (pause, resume, stop, prune, unprune, hint, rm)
