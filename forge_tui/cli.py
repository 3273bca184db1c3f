"""The command line. Results go to stdout; errors are one line and a cure on stderr."""

from __future__ import annotations

import sqlite3
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from forge_tui import judging, providers, spending, steering
from forge_tui.launch import LaunchError, launch
from forge_tui.options import (
    AS_JSON,
    DEVICE,
    SESSION,
    Refused,
    screen_options,
    session_id,
    some_baselines,
    start_options,
    task_path,
)
from forge_tui.programs import assigned
from forge_tui.settings import DEFAULTS, DEMO, why_plain
from forge_tui.writers import writer_options, writers
from store import VERSION, sessions
from store.errors import StoreError
from store.lock import engine_alive

if TYPE_CHECKING:
    from collections.abc import Sequence

_LIMITS = ("nodes", "minutes", "patience", "seed", "device", "baselines")


class Commands(click.Group):
    """The group of commands: turns known faults into one line each."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except StoreError as error:
            raise Refused(error.message, error.cure) from None
        except LaunchError as error:
            kept = error.log is not None and error.log.exists()
            raise Refused(
                error.message, error.cure or (f"the whole log: {error.log}" if kept else "")
            ) from None
        except sqlite3.Error as error:
            raise Refused(f"a session cannot be read: {error}", "see `forge-tui ls`") from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, prog_name="forge-tui")
def main() -> None:
    """Search for faster kernels for PyTorch operators, prove each one, and watch the tree grow.

    The search runs in a process of its own: closing the screen or losing the terminal does not
    touch it. SESSION may be a session's name, the beginning of one, or its file; left out it is
    the newest.

    \b
    Try it:        forge-tui demo
    Your operator: forge-tui run my_operator.py
    Come back:     forge-tui attach
    """


@main.command()
@start_options
def demo(headless: bool, **options: Any) -> None:
    """Search three operators of the suite, in about a minute and a half.

    Without a terminal it prints progress and a final table, and exits with 0 only if every
    operator was searched.
    """
    _search(dict(DEMO), headless, **options)


@main.command()
@click.argument("tasks", nargs=-1, metavar="TASK...")
@DEVICE
@click.option(
    "--program",
    "programs",
    multiple=True,
    metavar="FILE",
    help="A program that a person wrote, tried first; TARGET=FILE when there are several tasks.",
)
@click.option(
    "--baselines",
    callback=some_baselines,
    metavar="NAME,...",
    help="What to compare with: eager, compile, compile-max. [default: all, on a CPU not the last]",
)
@click.option(
    "--nodes", type=click.IntRange(1, 100_000), default=DEFAULTS["nodes"], show_default=True,
    help="Programs tried per target, at most.",
)  # fmt: skip
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), default=DEFAULTS["minutes"],
    show_default=True,
    help="Minutes of search, at most; pauses and the confirmations at the end do not count.",
)  # fmt: skip
@click.option(
    "--patience", type=click.IntRange(1), default=DEFAULTS["patience"], show_default=True,
    help="Programs without gain after which a target is closed.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of inputs and choices.")
@writer_options
@start_options
@click.pass_context
def run(
    ctx: click.Context,
    /,
    tasks: tuple[str, ...],
    headless: bool,
    programs: Sequence[str],
    **options: Any,
) -> None:
    """Search for faster programs for TASKs.

    A TASK is a Python file (a `reference` function with `inputs`, or a KernelBench `Model`), or
    suite:NAME for an operator of the suite.

    On a CPU a drafter writes the programs, without a language model. With --model models write
    them, and the key of each provider comes from the environment, such as ANTHROPIC_API_KEY; with
    --inbox whoever answers the files.
    """  # fmt: skip
    asked = {name: options.pop(name) for name in _LIMITS}
    asked["tasks"] = [task_path(task) for task in tasks]
    config = {**DEFAULTS, **asked, **writers(options)}
    if config["replay"]:
        config |= _replayed(ctx, config["replay"])
    if not config["tasks"]:
        raise click.UsageError("name a TASK: a Python file, or suite:NAME")
    config["programs"] = assigned(programs, tasks or config["tasks"])
    _search(config, headless, **options)


def _replayed(ctx: click.Context, name: str) -> dict[str, Any]:
    """What a replay takes from the saved session: its replies, and all that was not given."""
    from forge_tui.recording import recording, settings

    path = sessions.find(name)
    given = {
        name for name in _LIMITS if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
    } | ({"tasks"} if ctx.params["tasks"] else set())  # fmt: skip
    kept = {name: value for name, value in settings(path).items() if name not in given}
    return {**kept, "replay": recording(path)}


def _search(
    config: dict[str, Any],
    headless: bool,
    *,
    name: str,
    stop_on_exit: bool,
    no_mouse: bool,
    ascii_only: bool,
) -> None:
    """Make a session, start its engine, and show it."""
    plain = headless or bool(why_plain())
    first = config["tasks"][0].removeprefix("suite:")
    name = name or ("demo" if config["demo"] else Path(first).stem)
    path = sessions.create(" ".join(config["tasks"]), config, name=name)
    try:
        launch(path, lambda stage: click.echo(f"{stage} ...", err=True))
    except LaunchError:
        _leave_no_litter(path)
        raise
    except KeyboardInterrupt:
        _leave_no_litter(path)
        raise
    if plain:
        from forge_tui.plain import follow, writer_lines

        click.echo(f"session {session_id(path)}", err=True)
        for line in writer_lines(path):
            click.echo(line, err=True)
        sys.exit(follow(path, stop_on_signal=True, every_target_judged=config["demo"]))
    _watch(path, follow=True, no_mouse=no_mouse, ascii_only=ascii_only, stop_on_exit=stop_on_exit)


def _leave_no_litter(path: Path) -> None:
    """Remove a session whose engine never worked."""
    from store.reading import SessionReader

    with SessionReader(path) as reader:
        empty = not reader.node_counts()
    if empty and not engine_alive(path):
        sessions.remove(path)


def _watch(
    path: Path,
    *,
    follow: bool,
    no_mouse: bool,
    ascii_only: bool,
    read_only: bool = False,
    stop_on_exit: bool = False,
) -> None:
    """Show the screen until it is left, then say how things stand."""
    from forge_tui.show import farewell, show

    code = show(path, follow=follow, mouse=not no_mouse, ascii_only=ascii_only, read_only=read_only)
    farewell(path, stop=stop_on_exit)
    if code:
        sys.exit(code)


@main.command()
@SESSION
@click.option("--read-only", is_flag=True, help="Watch only: no pause, prune, resume or stop.")
@screen_options
def attach(session: str | None, read_only: bool, no_mouse: bool, ascii_only: bool) -> None:
    """Watch a session, running or not."""
    path = sessions.find(session)
    _readable(path)
    why = why_plain()
    if why:
        _attach_plain(path, why)
        return
    _watch(path, follow=False, no_mouse=no_mouse, ascii_only=ascii_only, read_only=read_only)


def _readable(path: Path) -> None:
    """Raise StoreError for a file that no screen could show."""
    from store.reading import SessionReader

    SessionReader(path).close()


def _attach_plain(path: Path, why: str) -> None:
    from forge_tui.plain import follow, status_lines

    click.echo(f"{why}: plain lines instead of the screen", err=True)
    if engine_alive(path):
        sys.exit(follow(path, stop_on_signal=False))
    for line in status_lines(path):
        click.echo(line)


@main.command()
@AS_JSON
def ls(as_json: bool) -> None:
    """List the sessions, newest first."""
    from forge_tui import plain

    infos = sessions.list_sessions()
    if as_json:
        click.echo(plain.as_json([plain.session_json(info) for info in infos]))
    elif infos:
        for line in plain.session_lines(infos, time.time()):
            click.echo(line)
    else:
        click.echo("there is no session yet; start one: forge-tui demo", err=True)


@main.command()
@SESSION
@AS_JSON
def status(session: str | None, as_json: bool) -> None:
    """Say how a session stands."""
    from forge_tui import plain

    path = sessions.find(session)
    if as_json:
        click.echo(plain.as_json(plain.status_json(path)))
        return
    for line in plain.status_lines(path):
        click.echo(line)


@main.command(short_help="Print a program: its source and launch plan.")
@click.argument("session")
@click.argument("node", type=int, required=False)
def code(session: str, node: int | None) -> None:
    """Print a program: its source and launch plan, of NODE or of the best.

    It is printed as a writer hands it in: one block of source and one of TOML.
    """
    from forge_tui.plain import best_nodes, program_text
    from forge_tui.results import node_line

    path = sessions.find(session)
    if node is None:
        best = best_nodes(path)
        if not best:
            raise Refused(f"{session_id(path)} has no best program yet", "name a node")
        if len(best) > 1:
            named = ", ".join(f"{target} {number}" for target, number in best)
            raise Refused(
                f"{session_id(path)} has several targets: name a node", f"the best: {named}"
            )
        node = best[0][1]
    text = program_text(path, node)
    if text is None:
        raise Refused(
            f"{session_id(path)} has no program of node {node}",
            f"see them: forge-tui attach {session_id(path)}",
        )
    if said := node_line(path, node):
        click.echo(said, err=True)  # what is printed stays what a writer hands in
    click.echo(text)


@main.command()
def suite() -> None:
    """List the operators that suite:NAME can name."""
    from forge_tui.plain import suite_lines

    for line in suite_lines():
        click.echo(line)


for command in (*judging.COMMANDS, *providers.COMMANDS, *spending.COMMANDS, *steering.COMMANDS):
    main.add_command(command)
