"""The command line. Results go to stdout; errors are one line and a cure on stderr."""

from __future__ import annotations

import sqlite3
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forge_tui.launch import LaunchError, launch
from forge_tui.settings import DEFAULTS, DEMO, why_plain
from store import VERSION, sessions
from store.errors import StoreError
from store.lock import engine_alive

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER_S = 10.0


class Refused(click.ClickException):
    """An error as people see it: what happened, and what to do."""

    def __init__(self, message: str, cure: str = "") -> None:
        super().__init__(message)
        self.cure = cure

    def show(self, file: Any = None) -> None:
        click.echo(f"error: {self.message}", err=True)
        if self.cure:
            click.echo(self.cure, err=True)


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


SESSION = click.argument("session", required=False)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def screen_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every command that may open the screen."""
    function = click.option(
        "--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters alone."
    )(function)
    return click.option(
        "--no-mouse", is_flag=True, help="Leave the mouse to the terminal."
    )(function)  # fmt: skip


def start_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every command that starts a search."""
    function = click.option(
        "--headless", is_flag=True, help="Print progress lines instead of opening the screen."
    )(function)
    function = click.option(
        "--stop-on-exit", is_flag=True, help="Stop the search when the screen is left."
    )(function)
    function = click.option("--name", default="", help="A name for the session.")(function)
    return screen_options(function)


@main.command()
@start_options
def demo(headless: bool, **options: Any) -> None:
    """Search three operators of the suite, in about a minute and a half.

    Without a terminal it prints progress and a final table, and exits with 0 only if every
    operator was searched.
    """
    _search(dict(DEMO), headless, **options)


@main.command()
@click.argument("tasks", nargs=-1, required=True, metavar="TASK...")
@click.option(
    "--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True,
    help="What the programs run on.",
)  # fmt: skip
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
@start_options
def run(tasks: tuple[str, ...], headless: bool, device: str, **options: Any) -> None:
    """Search for faster programs for TASKs.

    A TASK is a Python file (a `reference` function with `inputs`, or a KernelBench `Model`), or
    suite:NAME for an operator of the suite.
    """
    if device == "cuda":
        raise Refused("cuda is not available in this version", "leave --device out, or say cpu")
    names = ("nodes", "minutes", "patience", "seed")
    caps = {name: options.pop(name) for name in names}
    given = [task if task.startswith("suite:") else str(Path(task).absolute()) for task in tasks]
    _search({**DEFAULTS, **caps, "tasks": given, "device": device}, headless, **options)


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
        from forge_tui.plain import follow

        click.echo(f"session {_id(path)}", err=True)
        sys.exit(follow(path, stop_on_signal=True, every_target_judged=config["demo"]))
    _watch(path, follow=True, no_mouse=no_mouse, ascii_only=ascii_only, stop_on_exit=stop_on_exit)


def _leave_no_litter(path: Path) -> None:
    """Remove a session whose engine never worked."""
    from store.reading import SessionReader

    with SessionReader(path) as reader:
        empty = not reader.node_counts()
    if empty and not engine_alive(path):
        sessions.remove(path)


def _id(path: Path) -> str:
    from store.paths import SUFFIX

    return path.name.removesuffix(SUFFIX)


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

    path = sessions.find(session)
    if node is None:
        best = best_nodes(path)
        if not best:
            raise Refused(f"{_id(path)} has no best program yet", "name a node")
        if len(best) > 1:
            named = ", ".join(f"{target} {number}" for target, number in best)
            raise Refused(f"{_id(path)} has several targets: name a node", f"the best: {named}")
        node = best[0][1]
    text = program_text(path, node)
    if text is None:
        raise Refused(
            f"{_id(path)} has no program of node {node}", f"see them: forge-tui attach {_id(path)}"
        )
    click.echo(text)


@main.command()
def suite() -> None:
    """List the operators that suite:NAME can name."""
    from forge_tui.plain import suite_lines

    for line in suite_lines():
        click.echo(line)


# -- steering --------------------------------------------------------------------------------------


def _ask(path: Path, verb: str, **args: int) -> None:
    """Send a command and print the engine's answer."""
    from store import commands

    number = commands.send(path, verb, **args)
    answer = commands.answer_to(path, number, ANSWER_S)
    if answer is None:
        raise Refused(
            f"{_id(path)} has not answered within {ANSWER_S:.0f} s",
            "the command stays written; see `forge-tui status`",
        )
    ok, text = answer
    if not ok:
        raise Refused(text)
    click.echo(text or f"{verb}: done")


def _has_pending(path: Path) -> bool:
    """Whether somebody asked for something that no engine has answered."""
    from store.reading import SessionReader

    with SessionReader(path) as reader:
        return bool(reader.pending_commands())


def _need_engine(path: Path) -> None:
    if not engine_alive(path):
        state = sessions.inspect(path).state
        goes_on = state in {"stopped", "crashed", "failed", "new"}
        raise Refused(
            f"nothing runs: {_id(path)} is {state}",
            f"take it up: forge-tui resume {_id(path)}" if goes_on else "",
        )


@main.command(short_help="Pause a search; `resume` goes on.")
@SESSION
def pause(session: str | None) -> None:
    """Pause a search: work in hand finishes, nothing new starts, the clock stands still."""
    path = sessions.find(session)
    _need_engine(path)
    _ask(path, "pause")


@main.command(short_help="Go on with a paused, stopped or crashed search.")
@SESSION
def resume(session: str | None) -> None:
    """Go on with a paused search, or start an engine for a stopped or crashed one."""
    path = sessions.find(session)
    info = sessions.inspect(path)
    if engine_alive(path):
        if info.state not in {"paused", "pausing"}:
            click.echo(f"{_id(path)} is {info.state} already")
            return
        _ask(path, "resume")
        return
    if info.state == "finished" and not _has_pending(path):
        raise Refused(
            f"{_id(path)} is finished: there is nothing left to resume",
            f"search longer in a new session: forge-tui run {info.task} --minutes 30 --nodes 50",
        )
    launch(path, lambda stage: click.echo(f"{stage} ...", err=True))
    click.echo(f"{_id(path)} runs; watch it: forge-tui attach {_id(path)}")


@main.command(short_help="Stop a search with everything saved.")
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
                f"{_id(path)} has no node {node}", f"see the numbers: forge-tui attach {_id(path)}"
            )
    if engine_alive(path):
        _ask(path, verb, node=node)
        return
    commands.send(path, verb, node=node)
    click.echo(f"{verb} #{node} is written; it applies when the search is resumed")


@main.command()
@click.argument("session")
@click.argument("node", type=int)
def prune(session: str, node: int) -> None:
    """Close the branch below a node; `unprune` opens it again."""
    _branch(session, node, "prune")


@main.command()
@click.argument("session")
@click.argument("node", type=int)
def unprune(session: str, node: int) -> None:
    """Open a closed branch again."""
    _branch(session, node, "unprune")


@main.command()
@click.argument("names", nargs=-1, required=True, metavar="SESSION...")
@click.option("--yes", is_flag=True, help="Do not ask.")
def rm(names: tuple[str, ...], yes: bool) -> None:
    """Delete sessions for good, each with its log."""
    paths = [sessions.find(name) for name in names]
    for path in paths:
        info = sessions.inspect(path)
        if engine_alive(path):
            raise Refused(f"{_id(path)} is at work", f"stop it first: forge-tui stop {_id(path)}")
        if not yes:
            if not sys.stdin.isatty():
                raise click.UsageError("there is nobody to ask: say --yes to delete")
            question = f"Delete {_id(path)}, {sum(info.counts.values())} nodes, {info.state}?"
            if not click.confirm(question, err=True):
                continue
        sessions.remove(path)
        click.echo(f"deleted {_id(path)}")


@main.command()
@AS_JSON
def doctor(as_json: bool) -> None:
    """Check this machine: compiler, threads, sandbox, clocks, disk."""
    from forge_tui.doctor import examine, lines

    checks = examine()
    if as_json:
        from forge_tui.plain import as_json as dump

        click.echo(dump(checks))
    else:
        for line in lines(checks):
            click.echo(line)
    if any(check["ok"] is False for check in checks):
        sys.exit(1)
