"""A search's nodes: how they come to be, are taken up again, and end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.errors import ForgeError, MachineError
from agent.failures import failure_of
from agent.lessons import lesson
from agent.search.policy import Choice, Policy
from agent.work import Failed, NodeWork, Reply
from agent.workers.workshop import Exhausted, Proposal

if TYPE_CHECKING:
    from agent.context import Context
    from agent.program import Program
    from agent.restore import Unfinished
    from agent.search.target import Scored, Target

MAX_ATTEMPTS = 3
PERSON, DRAFTER = "person", "drafter"


class Nodes:
    """Makes nodes, has them worked on, and records how they end.

    Args:
        context: What they are worked on with.
        died: Whether the last engine of this session did not end in order.
        drafter_alone: Whether no other writer is there to go on from what a person wrote.
    """

    def __init__(self, context: Context, *, died: bool, drafter_alone: bool) -> None:
        self.policy = Policy()
        self.drafter_alone = drafter_alone
        self._context = context
        self._died = died

    # -- new ones ----------------------------------------------------------------------------------

    async def hand_in(self, target: Target) -> None:
        """A person's next program becomes a draft."""
        node = self.create(target, Choice("draft", None), PERSON)
        reply = Reply(target.handed_in.pop(0))
        await self._do(target, node, None, reply)

    async def grow(self, target: Target) -> tuple[str, str] | None:
        """One more node by the search's own choice; or why there is none: a code and words."""
        while (choice := self.policy.choose(target.tree)) is not None:
            try:
                proposal = await self._context.workshop.propose(target.id, _ask(target, choice))
            except MachineError:
                raise
            except ForgeError as error:
                return error.code, f"nothing more can be drafted: {error.message}"
            if isinstance(proposal, Proposal):
                node = self.create(target, choice, DRAFTER)
                target.drafted += choice.action == "draft"
                _remember(target, node, proposal.schedule)
                await self._do(target, node, None, proposal)
                return None
            if not self.drafter_alone:
                return "exhausted", proposal.why  # the others go on from here
            target.tree[choice.parent or 0].spent.add(choice.action)
        return "exhausted", "the drafter has no more schedules to try"

    def create(
        self,
        target: Target,
        choice: Choice,
        writer: str,
        *,
        model: str | None = None,
        node: int | None = None,
    ) -> int:
        """A new node in work, with the next number unless one was taken for it."""
        node = node or self._context.session.next_id("nodes")
        self._context.say(
            "NodeCreated", target=target.id, node=node, parent=choice.parent,
            second_parent=choice.second, action=choice.action, writer=writer, model=model or None,
            step=choice.step or None,
        )  # fmt: skip
        target.tree.add(node, choice.parent, choice.action, choice.second)
        if writer == PERSON and self.drafter_alone:
            keep_from_growing(target, node)
        target.progress.nodes += 1
        return node

    # -- earlier ones ------------------------------------------------------------------------------

    async def take_up(self, target: Target, lost: Unfinished) -> None:
        """Work on a node again that was in work when an earlier engine ended."""
        if self.worn_out(target, lost):
            return
        self.requeue(target, lost)
        source: Proposal | Reply | None = None
        if lost.reply is not None:
            source = Reply(lost.reply)
        elif lost.program is None:
            ask = _ask(target, lost.choice)
            try:
                found = await self._context.workshop.propose(target.id, ask)
            except MachineError:
                raise
            except ForgeError as error:
                self.ended(target, lost.node, Failed("read", error.code, error.message, {}), {})
                return
            if isinstance(found, Exhausted):
                self.drop(target, lost.node, found.why)
                return
            _remember(target, lost.node, found.schedule)
            source = found
        await self._do(target, lost.node, lost.program, source)

    def worn_out(self, target: Target, lost: Unfinished) -> bool:
        """Whether a node is given up, for engine after engine died at work on it."""
        if not (self._died and lost.attempts >= MAX_ATTEMPTS):
            return False
        reason = f"the engine died {lost.attempts} times while at work on it"
        self.ended(target, lost.node, Failed("build", "lost", reason, {}), {})
        return True

    def requeue(self, target: Target, lost: Unfinished) -> None:
        """Say that a node of an earlier engine is in work again."""
        reason = "its engine died" if self._died else "its engine was stopped"
        self._context.say("NodeRequeued", target=target.id, node=lost.node, reason=reason,
                          died=self._died)  # fmt: skip

    async def judge_written(self, target: Target, node: int, program: Program) -> None:
        """Judge what a writer wrote for a node."""
        await self._do(target, node, program, None)

    async def judge_again(self, target: Target, node: int, program: Program) -> None:
        """Judge a node here whose verdict is from another machine."""
        await self._do(target, node, program, None)
        target.judge_again.remove(node)

    # -- their work and their end ------------------------------------------------------------------

    async def _do(
        self, target: Target, node: int, program: Program | None, source: Proposal | Reply | None
    ) -> None:
        self._context.working_on = node
        work = NodeWork(self._context, target, node)
        outcome = await work.run(program, source)
        self.ended(target, node, outcome, work.seconds)

    def ended(
        self, target: Target, node: int, outcome: Scored | Failed, seconds: dict[str, float]
    ) -> None:
        """Record how a node ended, and what that makes of the target."""
        at: dict[str, Any] = {"target": target.id, "node": node}
        if target.tree[node].state == "live":
            target.progress.ended_with(None, None)
        target.foreign.discard(node)
        with self._context.session.together():
            if isinstance(outcome, Failed):
                target.tree.fail(node, outcome.rung)
                target.scored.pop(node, None)
                target.failures[node] = {"rung": outcome.rung, "code": outcome.code,
                                         "message": outcome.reason, **outcome.evidence}  # fmt: skip
                self._context.say("NodeFailed", **at, rung=outcome.rung, code=outcome.code,
                                  reason=outcome.reason, seconds=seconds)  # fmt: skip
            else:
                self._scored(target, node, outcome, seconds)
        # Apart: the machine's file may be busy, and the session's must not be held meanwhile.
        if isinstance(outcome, Failed) and node not in target.schedules:
            self._learn(outcome)

    def _scored(
        self, target: Target, node: int, outcome: Scored, seconds: dict[str, float]
    ) -> None:
        reward = target.reward_of(outcome.low)
        target.scored[node] = outcome
        target.tree.score(node, reward)
        if not outcome.library:
            target.progress.found(outcome.low, outcome.ratio)
        self._context.say(
            "NodeScored", target=target.id, node=node, variant=outcome.variant,
            outcome=outcome.outcome, time_ns=outcome.time_ns, ratio=outcome.ratio, low=outcome.low,
            high=outcome.high, sol_fraction=target.progress.sol_fraction(outcome.ratio),
            reward=reward, seconds=seconds,
        )  # fmt: skip
        if target.may_lead(outcome):
            self.settle_best(target)

    def _learn(self, failed: Failed) -> None:
        """Keep what a failure teaches every later writer on this machine."""
        told = failure_of(failed.rung, failed.code, failed.reason, failed.evidence, "")
        found = lesson(told, self._context.place.language)
        if found is not None:
            self._context.knowledge.learn(*found)

    def settle_best(self, target: Target) -> None:
        """Say so when another node leads than before."""
        leader = target.leader()
        if leader == target.best:
            return
        target.best = leader
        if leader is None:
            self._context.say("BestWithdrawn", target=target.id, reason="no program stands")
            return
        scored = target.scored[leader]
        self._context.say("BestImproved", target=target.id, node=leader, variant=scored.variant,
                          ratio=scored.ratio, time_ns=scored.time_ns,
                          of_nodes=target.progress.ended)  # fmt: skip

    def drop(self, target: Target, node: int, reason: str) -> None:
        """Give a node up for good; it counts for nothing."""
        target.tree.drop(node)
        self._context.say("NodeDropped", target=target.id, node=node, reason=reason)


def keep_from_growing(target: Target, node: int) -> None:
    """The drafter can go on only from what it wrote itself."""
    target.tree[node].spent |= {"improve", "repair"}


def _ask(target: Target, choice: Choice) -> dict[str, Any]:
    parent = choice.parent
    return {
        "action": choice.action,
        "parent_schedule": target.schedules.get(parent) if parent else None,
        "failure": target.failures.get(parent) if parent else None,
        "tried": target.tried,
    }


def _remember(target: Target, node: int, schedule: dict[str, Any] | None) -> None:
    if schedule is not None:
        target.schedules[node] = schedule
        target.tried.add(str(schedule["key"]))
