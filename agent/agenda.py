"""What a search does next: the order of its steps, and why a target gets no more.

The agenda decides and changes nothing; a step that it hands out is a coroutine for the engine to
run. What other writers are asked for meanwhile is the desk's (``agent.desk``).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from agent.errors import ForgeError, MachineError
from agent.nodes import DRAFTER, PERSON
from agent.restore import Unfinished, stored_program
from agent.search.budget import closing, hopeless, next_target
from agent.yardstick import calibrate, measure_baseline
from store.reading import SessionReader

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from agent.context import Context
    from agent.desk import Desk
    from agent.nodes import Nodes
    from agent.search.budget import Caps
    from agent.search.target import Target

    Step = Callable[[], Coroutine[Any, Any, None]]

NO_WRITER = "no writer for CUDA is configured"


class Agenda:
    """Chooses the next step of a search.

    Args:
        context: The session.
        targets: Targets by id.
        unfinished: Nodes that were in work when an earlier engine ended.
        nodes: Makes and ends nodes.
        desk: Asks the writers other than the drafter.
        caps: The session's.
        baselines: What to measure besides eager.
    """

    def __init__(
        self,
        context: Context,
        targets: dict[int, Target],
        unfinished: list[Unfinished],
        nodes: Nodes,
        desk: Desk,
        caps: Caps,
        baselines: tuple[str, ...],
    ) -> None:
        self._context = context
        self._place = context.place
        self._targets = targets
        self._unfinished = unfinished
        self._nodes = nodes
        self._desk = desk
        self._caps = caps
        self._baselines = baselines

    # -- the order ---------------------------------------------------------------------------------

    def next_step(self) -> Step | None:
        """What the search does next by itself; None when that is nothing, for now or for good."""
        if step := self._old_work(_is_ours):
            return step
        if step := self._judge_ready():
            return step
        steps = {id_: step for id_, target in self._targets.items() if target.open
                 and (step := self._step_for(target)) is not None}  # fmt: skip
        chosen = self._first_of(steps)
        return None if chosen is None else steps[chosen]

    def judge_next(self) -> Step | None:
        """What is left to do when nothing new is begun: the judging of what was written."""
        return self._old_work(_is_written) or self._judge_ready()

    def _old_work(self, wanted: Callable[[Unfinished], bool]) -> Step | None:
        """What an earlier engine left: figures of another machine, and nodes in work."""
        self._drop_closed()
        for target in self._targets.values():
            if (target.stale or target.judge_again) and (step := self._before_judging(target)):
                return step
        lost = next((lost for lost in self._unfinished if wanted(lost)), None)
        if lost is None:
            return None
        self._unfinished.remove(lost)
        return partial(self._nodes.take_up, self._targets[lost.target], lost)

    def _drop_closed(self) -> None:
        """Give up unfinished nodes of branches that were closed meanwhile."""
        for lost in list(self._unfinished):
            if self._targets[lost.target].tree.closed(lost.node):
                self._drop(lost, "its branch was closed")

    def _drop(self, lost: Unfinished, reason: str) -> None:
        self._unfinished.remove(lost)
        self._nodes.drop(self._targets[lost.target], lost.node, reason)
        self._desk.withdraw(lost.node)

    def _judge_ready(self) -> Step | None:
        """The judging of what was written first, if its target is ready for that."""
        if not self._desk.ready:
            return None
        item = self._desk.ready[0]
        if step := self._before_judging(item.target):
            return step
        self._desk.ready.popleft()
        return partial(self._nodes.judge_written, item.target, item.node, item.program)

    def _first_of(self, targets: Iterable[int]) -> int | None:
        """Which of some targets comes first: what people wrote for one goes before all else."""
        there = {id_: self._targets[id_] for id_ in targets}
        handed = [id_ for id_, target in there.items() if target.handed_in]
        progress = {id_: target.progress for id_, target in there.items()}
        return handed[0] if handed else next_target(progress, self._nodes.policy.first_drafts)

    def _step_for(self, target: Target) -> Step | None:
        """What an open target needs of the engine itself; None while others are at work for it."""
        if step := self._before_judging(target):
            return step
        if target.handed_in:
            return partial(self._nodes.hand_in, target)
        if target.progress.sol_in_doubt and not target.looked_again:
            return None if self._desk.of(target) else partial(self._look_again, target)
        if why := self._why_close(target):
            return None if self._is_pending(target) else partial(self._end_of, target, why)
        if not self._desk.writes:
            return partial(self._extend, target)
        choice = self._nodes.policy.choose(target.tree)
        if choice is None:
            why = "exhausted", "every branch is closed or spent"
            return None if self._is_pending(target) else partial(self._end_of, target, why)
        if self._desk.wants(target, choice.action) or self._desk.of(target):
            return None
        return partial(self._extend, target)

    def _is_pending(self, target: Target) -> bool:
        """Whether nodes of a target are with writers, or wait for one to be asked (again)."""
        waits = any(lost.target == target.id for lost in self._unfinished)
        return waits or self._desk.of(target) or self._desk.trouble is not None

    def take_up(self, *, over: bool) -> None:
        """Take up what earlier engines asked for: replies that came, and, if not over, the rest."""
        self._drop_closed()
        for lost in [lost for lost in self._unfinished if _asked(lost)]:
            target = self._targets[lost.target]
            may = lost.reply is not None or (not over and self._desk.has_place)
            if may and self._before_judging(target) is None:
                self._unfinished.remove(lost)
                self._desk.take_up(target, lost)

    def top_up(self) -> None:
        """Ask writers for as much as may be asked at once."""
        while self._desk.has_place:
            choices = {}
            for id_, target in self._targets.items():
                if not target.open or self._before_judging(target) or target.handed_in:
                    continue
                choice = None if self._why_close(target) else self._nodes.policy.choose(target.tree)
                if choice is not None and self._desk.wants(target, choice.action):
                    choices[id_] = choice
            chosen = self._first_of(choices)
            if chosen is None:
                return
            self._desk.start(self._targets[chosen], choices[chosen])

    def give_up_unfinished(self, reason: str) -> None:
        """Give up what an earlier engine asked for and nobody can be asked for any more."""
        for lost in list(self._unfinished):
            self._drop(lost, reason)

    def _before_judging(self, target: Target) -> Step | None:
        """What must be done before new programs of a target can be judged; None when nothing."""
        if not target.measured:
            return partial(self._calibrate, target)
        # Writers in words are told what there is to beat.
        early = self._place.device == "cuda" or self._desk.writes
        if early and (step := self.next_baseline(target)):
            return step
        target.judge_again = [node for node in target.judge_again if not target.tree.closed(node)]
        if target.judge_again:
            return partial(self._judge_again, target, target.judge_again[0])
        return None

    def next_baseline(self, target: Target) -> Step | None:
        for name in self._baselines:
            if name not in target.baselines:
                return partial(measure_baseline, self._context, target, name)
        return None

    # -- steps -------------------------------------------------------------------------------------

    def _why_close(self, target: Target) -> tuple[str, str] | None:
        """Why a target gets no more nodes: a code and words."""
        if ended := self._desk.ended.get(target.id):
            return "exhausted", ended
        why = None if target.measured_busy else hopeless(target.progress)
        if why is None and not self._desk.writes:
            if self._place.language == "cuda":
                why = "exhausted", NO_WRITER
            elif target.refusal:
                why = "exhausted", f"it cannot be drafted: {target.refusal}"
        return why or closing(target.progress, self._caps)

    async def _end_of(self, target: Target, why: tuple[str, str]) -> None:
        """Close a target, or look again at a speed of light that others may have slowed."""
        if why[0] == "sol" and target.measured_busy and not target.looked_again:
            await self._look_again(target)
            return
        self._close(target, *why)

    async def _look_again(self, target: Target) -> None:
        """Measure eager and its limits once more, for others used the machine the first time."""
        target.looked_again = True
        await self._calibrate(target)

    async def _extend(self, target: Target) -> None:
        """One more node of the drafter's, or the target closed when nothing can be added."""
        why = await self._nodes.grow(target)
        if not why:
            return
        if self._desk.writes:
            target.refusal = why[1]  # from now on the others write its drafts too
            return
        self._close(target, *why)

    async def _calibrate(self, target: Target) -> None:
        target.stale = False
        try:
            await calibrate(self._context, target)
        except MachineError:
            raise
        except ForgeError as error:
            target.judge_again = []
            self._close(target, error.code, error.message)

    def _close(self, target: Target, code: str, reason: str) -> None:
        target.open = False
        self._context.say("TargetClosed", target=target.id, code=code, reason=reason)

    async def _judge_again(self, target: Target, node: int) -> None:
        reader = SessionReader(self._context.session.path, self._context.session.conn)
        row = reader.node(node)
        program = stored_program(reader, row.program) if row else None
        if program is None:
            target.judge_again.remove(node)
            text = f"the program of node {node} is missing: it cannot be judged here"
            self._context.note("warning", text, target=target.id)
            return
        await self._nodes.judge_again(target, node, program)


def _asked(lost: Unfinished) -> bool:
    """Whether the node's program is for another writer than the drafter, and not there yet."""
    return lost.program is None and lost.writer not in (PERSON, DRAFTER)


def _is_ours(lost: Unfinished) -> bool:
    """Whether the engine goes on with the node by itself."""
    return not _asked(lost)


def _is_written(lost: Unfinished) -> bool:
    """Whether nobody has to be asked for the node's program any more."""
    return not _asked(lost) and (lost.program is not None or lost.reply is not None)
