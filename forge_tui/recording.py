"""A saved session as a recording: what ``run --replay`` takes its replies and settings from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forge_tui.options import Refused, session_id
from forge_tui.text import one_line
from store.reading import SessionReader

if TYPE_CHECKING:
    from pathlib import Path

    from store.rows import CallRow, NodeRow, Program, TargetRow

MAX_BYTES = 8 * 1024 * 1024
_SETTINGS = ("tasks", "device", "nodes", "minutes", "patience", "seed", "baselines")


def settings(path: Path) -> dict[str, Any]:
    """What a saved session was asked for: its tasks, device and limits."""
    with SessionReader(path) as reader:
        config = reader.session().config
    return {name: config[name] for name in _SETTINGS if config.get(name) is not None}


def recording(path: Path) -> dict[str, Any]:
    """A saved session's replies, as a session's config holds them.

    Each node has one: the reply that its program was read from, or the last that came; where no
    call is known, as of the drafter's, the program as a writer hands it in.

    Raises:
        Refused: There is nothing to replay, or it is too much.
    """
    with SessionReader(path) as reader:
        targets = {target.id: target for target in reader.targets()}
        calls: dict[int, list[CallRow]] = {}
        for call in reader.calls():
            calls.setdefault(call.node, []).append(call)
        replies = [
            _line(targets[node.target], node, text)
            for node in reader.nodes()
            if node.target in targets and (text := _text(reader, node, calls.get(node.id, [])))
        ]
    name = session_id(path)
    if not replies:
        raise Refused(f"{name} holds no reply and no program", "see what there is: forge-tui ls")
    if sum(len(reply["text"]) for reply in replies) > MAX_BYTES:
        raise Refused(f"the replies of {name} are larger than {MAX_BYTES >> 20} MiB")
    return {"from": name, "replies": replies}


def _line(target: TargetRow, node: NodeRow, text: str) -> dict[str, Any]:
    # A program that a person handed in is asked for as what it was: a first draft.
    action = "draft" if node.action == "import" else node.action
    return {"target": target.name, "action": action, "model": node.model or None, "text": text}


def _text(reader: SessionReader, node: NodeRow, calls: list[CallRow]) -> str:
    """A node's reply; "" where nothing came."""
    for call in reversed(calls):
        reply = reader.reply(call.id) if call.state in {"paid", "answered"} else None
        if reply is not None and reply.text.strip():
            return reply.text
    program = reader.program(node.program) if node.program else None
    return as_reply(program) if program else ""


def as_reply(program: Program) -> str:
    """A program as a writer hands it in: one block of source and one of TOML."""
    title = one_line(program.title, 200)
    source, plan = program.source.rstrip(), program.plan.rstrip()
    fence = _fence(source + plan)
    return f"{title}\n{fence}{program.language}\n{source}\n{fence}\n{fence}toml\n{plan}\n{fence}\n"


def _fence(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return fence
