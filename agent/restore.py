"""Taking a saved session up again: the trees as they were, and the nodes that were in work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.errors import ForgeError
from agent.program import Program, read_program
from agent.search.budget import Progress
from agent.search.target import Scored, Target
from agent.task import TargetSpec, TaskSource
from store.errors import SessionDamaged
from store.reading import SessionReader

if TYPE_CHECKING:
    from store.rows import NodeRow, TargetRow
    from store.writing import SessionWriter


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A node that was in work when its engine ended, with its program if one was written."""

    target: int
    node: int
    action: str
    parent: int | None
    attempts: int
    program: Program | None


def restore(session: SessionWriter) -> tuple[dict[int, Target], list[Unfinished]]:
    """Targets with their trees, from the rows; and the nodes to take up again, oldest first.

    Raises:
        SessionDamaged: The rows do not fit together.
    """
    try:
        return _restore(SessionReader(session.path, session.conn))
    except (KeyError, TypeError, ValueError, AttributeError, ForgeError) as error:
        shown = "".join(char if char.isprintable() else "?" for char in str(error))[:200]
        raise SessionDamaged(
            f"{session.path.name} cannot be taken up: {shown}",
            "it can still be watched; start a new search to go on",
        ) from None


def _restore(reader: SessionReader) -> tuple[dict[int, Target], list[Unfinished]]:
    targets = {row.id: _target(row) for row in reader.targets() if row.state != "refused"}
    rows = [row for row in reader.nodes() if row.target in targets]
    for row in rows:
        _node(targets[row.target], row)
    # What was gained when follows from the order in which nodes ended.
    ended = sorted((row for row in rows if row.finished_us), key=lambda row: row.finished_us or 0)
    for row in ended:
        if row.state in ("scored", "failed"):
            targets[row.target].progress.ended_with(row.low, row.ratio)
    for row in rows:
        if row.pruned:
            targets[row.target].tree.prune(row.id, True)
    live = [row for row in rows if row.state == "live"]
    return targets, [_unfinished(reader, row) for row in live]


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
    target.open = row.state == "open"
    target.best = row.best_node
    return target


def _node(target: Target, row: NodeRow) -> None:
    tree = target.tree
    tree.add(row.id, row.parent, row.action, row.second_parent)
    target.progress.nodes += 1
    if row.schedule is not None:
        target.schedules[row.id] = row.schedule
        target.tried.add(str(row.schedule.get("key", "")))
    if row.program is not None and row.code != "duplicate":
        target.programs.setdefault(row.program, row.id)
    if row.state == "scored" and row.reward is not None:
        tree.score(row.id, row.reward)
        target.scored[row.id] = Scored(
            row.variant or 0, row.outcome or "", row.time_ns or 0, row.ratio or 0.0,
            row.low or 0.0, row.high or 0.0,
        )  # fmt: skip
    elif row.state == "failed":
        tree.fail(row.id, row.rung or "")
        target.failures[row.id] = {"rung": row.rung, "code": row.code, "message": row.reason}
    elif row.state == "dropped":
        tree.drop(row.id)
    if row.confirmed:
        (target.confirmed if row.confirmed > 0 else target.refused).add(row.id)


def _unfinished(reader: SessionReader, row: NodeRow) -> Unfinished:
    stored = reader.program(row.program) if row.program else None
    program = (
        read_program(stored.language, stored.source, stored.plan, stored.title) if stored else None
    )
    return Unfinished(row.target, row.id, row.action, row.parent, row.attempts, program)
