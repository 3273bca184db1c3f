"""Commands about spending and what was learned from it: ``costs`` and ``rules``."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from forge_tui import figures
from forge_tui.options import AS_JSON, SESSION, Refused
from forge_tui.text import one_line
from store import sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from store.machine import LearnedRule, MachineStore

# -- costs -----------------------------------------------------------------------------------------


@click.command(short_help="Say what the model calls of a session cost.")
@SESSION
@click.option(
    "--by", type=click.Choice(["target", "action", "model", "node", "call"]), default="model",
    show_default=True, help="What a line is about.",
)  # fmt: skip
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, money in micro-dollars.")
@AS_JSON
def costs(session: str | None, by: str, as_csv: bool, as_json: bool) -> None:
    """Say what the model calls of a session cost, per node and per confirmed win too.

    A call whose price nobody knows counts as unknown and never as nothing. Of a call that was in
    flight when its engine died, what had been set aside counts.
    """
    from forge_tui import ledger as shown
    from forge_tui.plain import as_json as to_json
    from store.reading import SessionReader, sound
    from store.spending import ledger, total

    if as_csv and as_json:
        raise click.UsageError("--csv and --json: choose one")
    path = sessions.find(session)
    with SessionReader(path) as reader, sound(path):
        lines, whole = shown.lines_of(reader, by), total(ledger(reader))
        if as_csv:
            told = shown.csv_of(lines)
        elif as_json:
            told = to_json({"session": reader.session().session, "by": by, "lines": lines,
                            "total": shown.figures_of(whole)})  # fmt: skip
        else:
            told = "\n".join([*shown.table_of(by, lines), "", shown.summary(whole)])
    click.echo(told, nl=not as_csv)


# -- rules -----------------------------------------------------------------------------------------


def _words(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> str:
    """A key may hold spaces; nobody should have to quote it."""
    return " ".join(value)


KEY = click.argument("key", nargs=-1, required=True, callback=_words, metavar="KEY")


@contextmanager
def _machine_store() -> Iterator[MachineStore | None]:
    """What this data folder knows of its machines; None where there is nothing yet."""
    from store.machine import MachineStore
    from store.paths import machine_path

    path = machine_path()
    if not path.is_file():
        yield None
        return
    store = MachineStore(path)
    try:
        yield store
    finally:
        store.close()


@click.group(invoke_without_command=True, short_help="Show and curate what failures taught.")
@AS_JSON
@click.pass_context
def rules(ctx: click.Context, as_json: bool) -> None:
    """Show what failed programs taught about this machine, which every prompt repeats.

    A KEY may be the beginning of one, if it is the only one that begins so.
    """
    if ctx.invoked_subcommand:
        return
    from forge_tui.plain import as_json as to_json

    with _machine_store() as store:
        found = store.rules(muted=True) if store else []
    if as_json:
        click.echo(to_json([_rule_json(rule) for rule in found]))
    elif found:
        for text in _rule_lines(found, time.time()):
            click.echo(text)
    else:
        click.echo("nothing was learned yet", err=True)


def _rule_json(rule: LearnedRule) -> dict[str, Any]:
    from forge_tui.plain import stamp

    return {
        "key": rule.key, "machine": rule.machine, "language": rule.language, "text": rule.text,
        "count": rule.count, "first": stamp(rule.first_us), "last": stamp(rule.last_us),
        "muted": bool(rule.muted),
    }  # fmt: skip


def _rule_lines(found: list[LearnedRule], now_s: float) -> list[str]:
    """The rules machine by machine, the most frequent first."""
    from forge_tui.results import table

    out: list[str] = []
    for machine in dict.fromkeys(rule.machine for rule in found):
        rows = [["seen", "last", "key", "language", "rule"]]
        for rule in found:
            if rule.machine == machine:
                age = figures.span(now_s - rule.last_us / 1e6)
                text = ("(muted) " if rule.muted else "") + one_line(rule.text, 300)
                rows.append([str(rule.count), age, one_line(rule.key, 80), rule.language, text])
        out += ["", one_line(machine, 200), *table(rows, right=(0, 1))]
    return out[1:]


def _curate(key: str, done: str, change: Callable[[MachineStore, LearnedRule], object]) -> None:
    """Do something to the rules of a key, on every machine that this data folder knows."""
    with _machine_store() as store:
        there = store.rules(muted=True) if store else []
        meant = _meant(key, {rule.key for rule in there})
        for rule in there:
            if store and rule.key == meant:
                change(store, rule)
    click.echo(f"{done} {one_line(meant, 80)}")


def _meant(key: str, known: set[str]) -> str:
    """The known key that is ``key``, or the only one that begins with it."""
    fitting = {key} & known or {name for name in known if key and name.startswith(key)}
    shown = one_line(key, 80)
    if not fitting:
        raise Refused(f"there is no rule {shown!r}", "see them: forge-tui rules")
    if len(fitting) > 1:
        some = one_line(", ".join(sorted(fitting)[:4]), 300)
        raise Refused(f"several rules begin with {shown!r}: {some}", "give more letters")
    return fitting.pop()


@rules.command()
@KEY
def rm(key: str) -> None:
    """Forget a rule; it is learned anew when its mistake is seen again."""
    _curate(key, "forgot", lambda store, rule: store.forget(rule.key, rule.machine))


@rules.command()
@KEY
def mute(key: str) -> None:
    """Tell a rule to no writer any more."""
    _curate(key, "muted", lambda store, rule: store.mute(rule.key, rule.machine, True))


@rules.command()
@KEY
def unmute(key: str) -> None:
    """Tell a muted rule to the writers again."""
    _curate(key, "unmuted", lambda store, rule: store.mute(rule.key, rule.machine, False))


COMMANDS = (costs, rules)
