"""Taking a saved session up again: the trees as they were, and the nodes that were in work.

What a person handed in is in the config; how many of its programs are nodes already follows from
the nodes that a person wrote, for they are made in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.errors import ForgeError
from agent.nodes import DRAFTER, PERSON, keep_from_growing
from agent.program import Program, read_program
from agent.search.budget import Progress
from agent.search.policy import Choice
from agent.search.target import JUDGE_AGAIN, Scored, Target
from agent.task import TargetSpec, TaskSource
from store.errors import SessionDamaged
from store.reading import SessionReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from store.rows import NodeRow, TargetRow
    from store.writing import SessionWriter


ANSWERED = frozenset({"paid", "answered"})


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A node that was in work when its engine ended.

    Attributes:
        choice: What it was to be.
        program: What was written for it, if it came so far.
        reply: What came for it and was not read yet: a person's program, or a writer's answer.
        put_right: Whether that answer was the second one, asked for to put the first one right.
        lost_calls: Model calls for it that were in flight when their engines ended.
    """

    target: int
    node: int
    choice: Choice
    writer: str
    model: str
    attempts: int
    program: Program | None
    reply: str | None = None
    put_right: bool = False
    lost_calls: int = 0


def handed_in(config: Mapping[str, Any], target: int) -> list[str]:
    """The programs that a person handed in for a target, in order."""
    given = config.get("programs") or []
    return [str(item["text"]) for item in given if item.get("target", 1) == target]


def restore(
    session: SessionWriter, config: Mapping[str, Any], *, drafter_alone: bool
) -> tuple[dict[int, Target], list[Unfinished]]:
    """Targets with their trees, from the rows; and the nodes to take up again, oldest first.

    Args:
        session: The session.
        config: Its config: what a person handed in.
        drafter_alone: Whether no other writer is there to go on from what a person wrote.

    Raises:
        SessionDamaged: The rows do not fit together.
    """
    try:
        return _restore(SessionReader(session.path, session.conn), config, drafter_alone)
    except (KeyError, TypeError, ValueError, AttributeError, ForgeError) as error:
        shown = "".join(char if char.isprintable() else "?" for char in str(error))[:200]
        raise SessionDamaged(
            f"{session.path.name} cannot be taken up: {shown}",
            "it can still be watched; start a new search to go on",
        ) from None


def _restore(
    reader: SessionReader, config: Mapping[str, Any], drafter_alone: bool
) -> tuple[dict[int, Target], list[Unfinished]]:
    targets = {row.id: _target(row) for row in reader.targets() if row.state != "refused"}
    rows = [row for row in reader.nodes() if row.target in targets]
    for row in rows:
        _node(targets[row.target], row, drafter_alone)
    # What was gained when follows from the order in which nodes ended.
    ended = sorted((row for row in rows if row.finished_us), key=lambda row: row.finished_us or 0)
    for row in ended:
        progress = targets[row.target].progress
        if row.foreign:
            progress.ended += 1
        elif row.state in ("scored", "failed"):
            own = not row.library
            progress.ended_with(row.low if own else None, row.ratio if own else None)
    for row in rows:
        if row.pruned:
            targets[row.target].tree.prune(row.id, True)
    replies: dict[int, str] = {}
    for target in targets.values():
        given = handed_in(config, target.id)
        made = [row.id for row in rows if row.writer == PERSON and row.target == target.id]
        replies |= dict(zip(made, given, strict=False))
        target.handed_in = given[len(made) :]
        _foreign(reader, target)
    live = [row for row in rows if row.state == "live"]
    return targets, [_unfinished(reader, row, replies.get(row.id)) for row in live]


def _foreign(reader: SessionReader, target: Target) -> None:
    """Where the target was measured, and which foreign nodes are still to be judged again."""
    if target.measured and not target.machine:
        target.machine = reader.judged_on(target.id)
    if target.foreign:
        done = reader.judged_again(target.id)
        target.plan_to_judge_again(max(JUDGE_AGAIN - done, 0))


def _target(row: TargetRow) -> Target:
    progress = Progress(row.eager_ns or 0, row.sol_ns)
    target = Target(
        id=row.id,
        name=row.name,
        task=TaskSource.from_json(row.task or {}),
        spec=TargetSpec.from_json(row.spec or {}),
        progress=progress,
    )
    target.measured = row.eager_ns is not None
    target.machine = str((row.detail or {}).get("machine", ""))
    target.merge_baselines(row.baselines or {})
    target.open = row.state == "open"
    target.best = row.best_node
    return target


def _node(target: Target, row: NodeRow, drafter_alone: bool) -> None:
    tree = target.tree
    tree.add(row.id, row.parent, row.action, row.second_parent)
    target.progress.nodes += 1
    target.drafted += row.writer == DRAFTER and row.action == "draft"
    if row.writer == PERSON and drafter_alone:
        keep_from_growing(target, row.id)
    if row.schedule is not None:
        target.schedules[row.id] = row.schedule
        target.tried.add(str(row.schedule.get("key", "")))
    if row.program is not None and row.code != "duplicate":
        target.programs.setdefault(row.program, row.id)
    if row.state == "scored" and row.reward is not None:
        tree.score(row.id, row.reward)
        target.scored[row.id] = Scored(
            row.variant or 0, row.outcome or "", row.time_ns or 0, row.ratio or 0.0,
            row.low or 0.0, row.high or 0.0, bool(row.library),
        )  # fmt: skip
        if row.foreign:
            target.foreign.add(row.id)
    elif row.state == "failed":
        tree.fail(row.id, row.rung or "")
        target.failures[row.id] = {"rung": row.rung, "code": row.code, "message": row.reason}
    elif row.state == "dropped":
        tree.drop(row.id)
    if row.confirmed:
        (target.confirmed if row.confirmed > 0 else target.refused).add(row.id)


def stored_program(reader: SessionReader, key: str | None) -> Program | None:
    """A program that was written before.

    Raises:
        ProgramError: Its plan cannot be read any more.
    """
    stored = reader.program(key) if key else None
    if stored is None:
        return None
    return read_program(stored.language, stored.source, stored.plan, stored.title)


def _unfinished(reader: SessionReader, row: NodeRow, handed: str | None) -> Unfinished:
    program = stored_program(reader, row.program)
    choice = Choice(row.action, row.parent, row.second_parent, row.step or "")
    calls = reader.calls(node=row.id)
    last = next((call for call in reversed(calls) if call.state in ANSWERED), None)
    told = reader.reply(last.id) if last is not None else None
    reply = handed if handed is not None else told.text if told is not None else None
    return Unfinished(
        row.target, row.id, choice, row.writer, row.model or "", row.attempts, program,
        reply if program is None else None,
        put_right=last is not None and last.purpose == "format",
        lost_calls=sum(call.error == "lost" for call in calls),
    )  # fmt: skip
