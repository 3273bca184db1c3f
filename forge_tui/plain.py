"""A search as plain lines, for pipes, logs and terminals that can show no screen."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
import tomllib
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forge_tui import figures, settings, words
from forge_tui.feed import tidy
from forge_tui.results import result_table, shortfall, table, target_json
from forge_tui.text import clean, one_line
from store import commands
from store.errors import StoreError
from store.lock import engine_alive
from store.paths import SUFFIX
from store.reading import SessionReader
from store.sessions import liveness

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from store.rows import Spending
    from store.sessions import SessionInfo

POLL_S = 0.2
WAITS = 3
"""The exit code of a search that ended to wait for replies."""

SUITE = Path(__file__).parent.parent / "agent" / "suite"
_QUIET = frozenset({"NodeStage", "CommandAnswered", "EngineStarted", "CallReserved"})


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _name(path: Path) -> str:
    return path.name.removesuffix(SUFFIX)


def stamp(us: int | None) -> str | None:
    """A UTC time of day as ISO 8601."""
    return None if not us else datetime.fromtimestamp(us / 1e6, UTC).isoformat(timespec="seconds")


# -- ls and status ---------------------------------------------------------------------------------


def session_lines(infos: Sequence[SessionInfo], now_s: float) -> list[str]:
    """``forge-tui ls`` for people."""
    rows = [["session", "state", "nodes", "failed", "best", "cost", "age", "task"]]
    for info in infos:
        total = sum(info.counts.values())
        best = f"{figures.speedup(info.best[0])} {one_line(info.best[1], 24)}" if info.best else "-"
        age = figures.span(now_s - info.created_us / 1e6) if info.created_us else "-"
        task = one_line(info.problem, 120) or one_line(info.task.replace("suite:", ""), 60)
        rows.append(
            [one_line(info.session, 40), info.state, str(total), str(info.counts.get("failed", 0)),
             best, words.paid(info.micro_dollars, info.unpriced), age, task]
        )  # fmt: skip
    return table(rows, right=(2, 3, 5, 6))


def session_json(info: SessionInfo) -> dict[str, Any]:
    best = {"speedup": info.best[0], "target": info.best[1]} if info.best else None
    return {
        "session": info.session, "name": info.name, "task": info.task, "state": info.state,
        "created": stamp(info.created_us), "nodes": info.counts, "best": best,
        "micro_dollars": info.micro_dollars, "unpriced": info.unpriced,
        "problem": info.problem, "path": str(info.path),
    }  # fmt: skip


def status_json(path: Path) -> dict[str, Any]:
    """``forge-tui status --json``."""
    with SessionReader(path) as reader:
        session, beat = reader.session(), reader.heartbeat()
        nodes = {node.id: reader.standing(node) for node in reader.nodes()}
        targets = [target_json(target, nodes) for target in reader.targets()]
        alive = engine_alive(path)
        age = time.time() - beat.at_us / 1e6 if beat else None
        return {
            "session": session.session, "name": session.name, "task": session.task,
            "state": liveness(session, path), "created": stamp(session.created_us),
            "stop_reason": session.stop_reason or "", "config": _shown(session.config),
            "replay_of": words.recorded_from(session.config) or None,
            "inbox": str(folder) if (folder := inbox_folder(path, session.config)) else None,
            "engine": {"alive": alive, "pid": beat.pid if beat and alive else None,
                       "heartbeat_age_s": round(age, 1) if age is not None and alive else None},
            "active_s": round(_active_s(reader), 1), "nodes": reader.node_counts(),
            "spending": asdict(reader.spending()), "targets": targets, "path": str(path),
        }  # fmt: skip


def _shown(config: dict[str, Any]) -> dict[str, Any]:
    """A config for people: the number of a recording's replies in place of them."""
    replay = config.get("replay")
    if not isinstance(replay, dict):
        return config
    return {**config, "replay": {**replay, "replies": len(replay.get("replies") or [])}}


def inbox_folder(path: Path, config: dict[str, Any]) -> Path | None:
    """Where a session's prompts wait for replies: a folder of its own beside it, or one named."""
    inbox = config.get("inbox")
    if not inbox:
        return None
    return path.parent / (
        f"{settings.INBOX}/{_name(path)}" if inbox == settings.INBOX else str(inbox)
    )


def _active_s(reader: SessionReader) -> float:
    beat, last = reader.heartbeat(), reader.last_events(1)
    return max(beat.active_us if beat else 0, last[0].active_us if last else 0) / 1e6


def status_lines(path: Path) -> list[str]:
    """``forge-tui status`` for people."""
    with SessionReader(path) as reader:
        session, beat = reader.session(), reader.heartbeat()
        state = liveness(session, path)
        counts = reader.node_counts()
        doing = [f"{count} {name}" for name, count in sorted(counts.items()) if count]
        minutes = session.config.get("minutes")
        cap = f" of {figures.clock(minutes * 60)}" if isinstance(minutes, int | float) else ""
        facts = [
            ("session", session.session),
            ("task", one_line(session.task, 200)),
            ("state", _state_words(state, session.stop_reason, beat.at_us if beat else 0)),
            ("nodes", f"{sum(counts.values())}" + (f" ({', '.join(doing)})" if doing else "")),
            ("time", figures.clock(_active_s(reader)) + cap),
            *_cost_facts(reader.spending(), session.config),
        ]
        lines = [*writer_lines(path), *(f"{name:<9}{text}" for name, text in facts)]
        begun = bool(reader.targets())
    return [*lines, "", *result_table(path)] if begun else lines


def writer_lines(path: Path) -> list[str]:
    """Who writes in a session, where that is not the drafter alone."""
    with SessionReader(path) as reader:
        config = reader.session().config
    lines = []
    if name := words.recorded_from(config):
        lines.append(f"REPLAY of {name}: its programs are judged again, nothing new is written")
    models = config.get("models")
    if isinstance(models, list) and models:
        names = [one_line(m.get("name", "?") if isinstance(m, dict) else "?", 60) for m in models]
        lines.append(f"models   {', '.join(names)}")
    if folder := inbox_folder(path, config):
        lines.append(f"inbox    {one_line(folder, 400)}")
    return lines


def _cost_facts(spent: Spending, config: dict[str, Any]) -> list[tuple[str, str]]:
    """What models cost, with what is unknown, estimated, lost or in flight told apart."""
    if not spent.calls:
        return [("cost", "nothing: no model was asked")]
    cap = figures.number(config.get("dollars")) or settings.DOLLARS
    parts = [words.spent(spent, f" of {figures.dollars(cap * 1e6)}")]
    if spent.reserved:
        parts.append(f"{figures.dollars(spent.reserved)} set aside for calls in flight")
    calls = [figures.count_of(spent.calls, "call")]
    for count, word in (
        (spent.in_flight, "in flight"), (spent.unpriced, f"of {words.UNKNOWN} price"),
        (spent.lost, "lost with an engine"), (spent.estimated, "with tokens estimated by us"),
    ):  # fmt: skip
        calls += [f"{count} {word}"] if count else []
    of_in = f" ({spent.tokens_cached:,} cached)" if spent.tokens_cached else ""
    of_out = f" ({spent.tokens_reasoning:,} of them thinking)" if spent.tokens_reasoning else ""
    return [
        ("cost", ", ".join(parts)),
        ("tokens", f"{spent.tokens_in:,} in{of_in}, {spent.tokens_out:,} out{of_out}"),
        ("calls", ", ".join(calls)),
    ]


def _state_words(state: str, reason: str | None, beat_us: int) -> str:
    if state == "crashed":
        return "crashed: its engine is gone; take it up with `forge-tui resume`"
    if state in {"running", "pausing", "paused"}:
        age = time.time() - beat_us / 1e6
        return f"{state}, no heartbeat for {figures.span(age)}" if age > 5 else state
    again = "; take it up again with `forge-tui resume`" if state == "failed" else ""
    return f"{state}: {one_line(reason, 600)}{again}" if reason else state


# -- programs and the suite ------------------------------------------------------------------------


def best_nodes(path: Path) -> list[tuple[str, int]]:
    """Each target's name and best node, of targets that have one."""
    with SessionReader(path) as reader:
        return [(one_line(t.name, 40), t.best_node) for t in reader.targets() if t.best_node]


def program_text(path: Path, number: int) -> str | None:
    """A node's program as a writer hands it in; None where there is none."""
    with SessionReader(path) as reader:
        node = reader.node(number)
        program = reader.program(node.program) if node and node.program else None
    if program is None:
        return None
    title, source, plan = (clean(t).rstrip() for t in (program.title, program.source, program.plan))
    return f"{title}\n```{one_line(program.language, 12)}\n{source}\n```\n```toml\n{plan}\n```"


def suite_lines() -> list[str]:
    """The operators of the suite, from its index: it is data, and no code of the engine runs."""
    index = tomllib.loads((SUITE / "index.toml").read_text(encoding="utf-8"))
    rows = [[f"suite:{one['name']}", one["title"], one["cpu"]] for one in index["operator"]]
    return table([["task", "operator", "first input"], *rows])


# -- following -------------------------------------------------------------------------------------


class Interrupted(Exception):
    """Ctrl-C, SIGTERM or a hang-up arrived while following."""


def follow(path: Path, *, stop_on_signal: bool, every_target_judged: bool = False) -> int:
    """Print progress until the engine ends, then the final table; return the exit code.

    With ``stop_on_signal``, Ctrl-C or SIGTERM asks the engine to stop in order, waits for it, and
    the code is 130; without it they only end the following. It is ``WAITS`` for a search that
    ended to wait for replies.
    """
    restore = _signals_raise()
    try:
        try:
            _print_until_end(path, 0)
        except Interrupted:
            restore()
            if stop_on_signal:
                _stop_in_order(path)
            else:
                click.echo("the search goes on; watch it with `forge-tui attach`", err=True)
            return 130
    finally:
        restore()
        tidy(path)
    click.echo("")
    for line in result_table(path):
        click.echo(line)
    with SessionReader(path) as reader:
        reason = shortfall(reader, every_target_judged)
        if liveness(reader.session(), path) == "crashed":
            reason = "the engine is gone before the search was done"
        row, waits = reader.session(), _waits_for_replies(reader)
    if waits:
        folder = inbox_folder(path, row.config)
        click.echo(f"replies are waited for in {folder}", err=True)
        click.echo(f"once they are there: forge-tui resume {_name(path)}", err=True)
        return WAITS
    if reason:
        click.echo(f"error: {reason}", err=True)
        if row.state == "failed" or "engine is gone" in reason:
            click.echo(f"take it up again: forge-tui resume {_name(path)}", err=True)
    return 1 if reason else 0


def _waits_for_replies(reader: SessionReader) -> bool:
    """Whether the search ended only because it was to end while replies are waited for."""
    session = reader.session()
    asked_to = session.state == "stopped" and session.config.get("exit_when_waiting")
    return bool(asked_to) and any(
        node.state == "live" and node.writer == "inbox" for node in reader.nodes()
    )


def _signals_raise() -> Callable[[], None]:
    """Let SIGINT and SIGTERM raise ``Interrupted``; returns what puts the old handlers back."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, interrupt) for number in numbers]

    def restore() -> None:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)

    return restore


def _print_until_end(path: Path, seq: int) -> int:
    """Print events past ``seq`` until no engine is alive; return the last one's number."""
    said_waiting: set[str] = set()
    with SessionReader(path) as reader:
        while True:
            alive = engine_alive(path)
            targets = {target.id: target for target in reader.targets()}
            for event in reader.events(seq):
                seq = event.seq
                said = None if event.kind in _QUIET else words.event_line(event, targets)
                if said is not None:
                    click.echo(f"{figures.clock(event.active_us / 1e6):>7}  {said[0]}")
            for waiting in _waiting(reader) if alive else ():
                if waiting not in said_waiting:
                    click.echo(waiting, err=True)
                    said_waiting.add(waiting)
            if not alive:
                return seq
            time.sleep(POLL_S)


def _waiting(reader: SessionReader) -> list[str]:
    """What the engine waits for: another session that measures, replies from the inbox."""
    beat = reader.heartbeat()
    doing = (beat.doing or {}) if beat else {}
    stage, calls = one_line(doing.get("stage", ""), 100), doing.get("calls")
    out = [stage] if stage.startswith("waiting") and not calls else []
    folder = inbox_folder(reader.path, reader.session().config)
    for call in calls if isinstance(calls, list) and folder else ():
        if isinstance(call, dict) and call.get("stage") == "waiting" and call.get("reason"):
            name = one_line(call["reason"], 120)
            out.append(f"#{call.get('node')} waits for a reply: {one_line(folder, 400)}/{name}")
    return out


def _stop_in_order(path: Path, patience_s: float = 60.0) -> None:
    """Ask the engine to stop and wait for its end; a second signal gives up waiting."""
    click.echo("stopping: work in hand is dropped, everything is saved", err=True)
    try:
        commands.send(path, "stop")
    except (StoreError, sqlite3.Error) as error:
        click.echo(f"error: {getattr(error, 'message', error)}", err=True)
        return
    end = time.monotonic() + patience_s
    while engine_alive(path) and time.monotonic() < end:
        time.sleep(POLL_S)
    if engine_alive(path):
        click.echo("the engine has not stopped yet; see `forge-tui status`", err=True)
    else:
        click.echo(f"take it up again: forge-tui resume {_name(path)}", err=True)
