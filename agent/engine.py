"""The engine: one session's search from its first event to its last.

It owns the session's file, chooses what to try (``agent.search``), has the workers do it
(``agent.workers.workshop``), and answers what people ask (``agent.asks``). It imports no PyTorch.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.asks import ASKS
from agent.clock import ActiveClock
from agent.confirm import confirm_best
from agent.devices.facts import load_sample, machine
from agent.errors import ForgeError, MachineError, TaskError
from agent.restore import Unfinished, restore
from agent.search.budget import Caps, Progress, closing, hopeless, next_target
from agent.search.policy import Choice, Policy
from agent.search.target import Scored, Target
from agent.task import TargetSpec, open_task
from agent.work import Failed, NodeWork
from agent.workers.workshop import Exhausted, Proposal
from store import VERSION
from store.sessions import ACTIVE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from agent.program import Program
    from agent.workers.workshop import Workshop
    from store.lease import DeviceLease
    from store.rows import SessionRow
    from store.writing import SessionWriter

TICK_S = 0.25
MAX_ATTEMPTS = 3
BUSY = 0.25


class Engine:
    """Runs one session.

    Args:
        session: The session, locked for this engine.
        row: Its row: task and config.
        workshop: The workers.
        facts: Device facts that plans may use.
        lease: The right to load the device, shared with other sessions; None needs none.

    Attributes:
        targets: Targets by id.
        going: False while paused or pausing.
        working_on: The node in work, 0 for none.
    """

    def __init__(
        self,
        session: SessionWriter,
        row: SessionRow,
        workshop: Workshop,
        facts: dict[str, int],
        lease: DeviceLease | None = None,
    ) -> None:
        self._session = session
        self._row = row
        self._workshop = workshop
        self._facts = facts
        self._lease = lease
        self._policy = Policy()
        self._caps = Caps.of(row.config)
        self._clock = ActiveClock(session.active_us)
        self._stopping = ""
        self._work: asyncio.Task[None] | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._doing: dict[str, Any] = {"stage": "starting"}
        self._unfinished: list[Unfinished] = []
        self._died = row.state in ACTIVE
        self.targets: dict[int, Target] = {}
        self.going = True
        self.working_on = 0

    def say(self, kind: str, *, target: int = 0, node: int = 0, **payload: Any) -> None:
        """Append an event."""
        self._session.active_us = self._clock.us()
        self._session.emit(kind, target=target, node=node, **payload)

    # -- before the search -------------------------------------------------------------------------

    async def prepare(self, on_stage: Callable[[str], None]) -> None:
        """Take the session up: earlier work restored, each task loaded.

        Raises:
            ForgeError: A task cannot be used; the session says so and has ended.
        """
        self.say("EngineStarted", pid=os.getpid(), host=socket.gethostname(), version=VERSION,
                 machine=machine())  # fmt: skip
        self.targets, self._unfinished = restore(self._session)
        try:
            if self.targets:
                for target in self.targets.values():
                    if target.open or not target.confirmed:
                        on_stage(f"loading {target.name}")
                        await self._workshop.load(target.id, target.task)
            else:
                await self._load_tasks(on_stage)
        except ForgeError as error:
            self.say("EngineStopped", state="failed", reason=error.message)
            raise

    async def _load_tasks(self, on_stage: Callable[[str], None]) -> None:
        for number, spec in enumerate(self._row.config["tasks"], start=1):
            on_stage(f"loading {spec}")
            try:
                task = open_task(spec, self._row.config.get("device", "cpu"))
                answer = await self._workshop.load(number, task)
                if answer.get("refusal"):
                    raise TaskError(
                        f"{task.name} cannot be drafted: {answer['refusal']}",
                        "choose another task; the drafter is the only writer so far",
                        code="cannot-draft",
                    )
            except ForgeError as error:
                self.say("TargetRefused", target=number, name=spec[:200], code=error.code,
                         message=error.message, cure=error.cure)  # fmt: skip
                raise
            target = Target(
                number, task.name, task, TargetSpec.from_json(answer["spec"]), Progress(0, None)
            )
            self.targets[number] = target
            self.say("TargetAdded", target=number, name=task.name, spec=answer["spec"],
                     task=task.to_json())  # fmt: skip

    # -- the search --------------------------------------------------------------------------------

    async def run(self) -> str:
        """Search until there is a reason to stop; returns the session's last state."""
        self._clock.go()
        self._answer()  # what was asked while no engine was at work comes before the first choice
        self._ticker = ticker = asyncio.create_task(self._tick())
        try:
            state, reason = await self._search()
        except MachineError as error:
            state, reason = "failed", f"{error.message}; {error.cure}"
        finally:
            ticker.cancel()
            self._clock.halt()
        self.say("EngineStopped", state=state, reason=reason[:500])
        return state

    async def _search(self) -> tuple[str, str]:
        while not self._stopping:
            if not self.going:
                await self._hold()
                continue
            step = self._next_step()
            if step is None:
                return await self._finish("every target is closed")
            if self._caps.minutes_left(self._clock.us()) <= 0:
                spent, cap = self._clock.us() / 60e6, float(self._caps.minutes)
                self.say("BudgetReached", which="minutes", spent=spent, cap=cap)
                return await self._finish(f"the time is up: {cap:g} minutes")
            await self._guarded(step())
        return "stopped", self._stopping

    def _next_step(self) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """What the search does next; None when every target is closed."""
        if self._unfinished:
            return self._take_up
        target_id = next_target(
            {id_: target.progress for id_, target in self.targets.items() if target.open},
            self._policy.first_drafts,
        )
        if target_id is None:
            return None
        target = self.targets[target_id]
        return partial(self._extend if target.measured else self._calibrate, target)

    async def _guarded(self, step: Coroutine[Any, Any, None]) -> None:
        """Run one step as a task, so that a stop or a prune can end it."""
        self._work = asyncio.create_task(step)
        try:
            if self._ticker is not None:
                await asyncio.wait({self._work, self._ticker}, return_when="FIRST_COMPLETED")
                if self._ticker.done() and not self._work.done():
                    self._work.cancel()
                    await asyncio.wait({self._work})
                    self._ticker.result()
            await self._work
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
        finally:
            self._work, self.working_on = None, 0

    async def _hold(self) -> None:
        counting = self._clock.running
        self._clock.halt()
        self._doing = {"stage": "paused"}
        self.say("SearchPaused")
        while not self.going and not self._stopping:
            self._wake.clear()
            waiting = asyncio.create_task(self._wake.wait())
            ticker = self._ticker or waiting
            await asyncio.wait({waiting, ticker}, return_when="FIRST_COMPLETED")
            waiting.cancel()
            if ticker is not waiting and ticker.done():
                ticker.result()
        if counting:
            self._clock.go()

    async def _calibrate(self, target: Target) -> None:
        self._doing = {"stage": "measuring eager", "target": target.id}
        try:
            async with self._leased():
                found = await self._workshop.calibrate(target.id)
        except MachineError:
            raise
        except ForgeError as error:
            target.open = False
            self.say("TargetClosed", target=target.id, code=error.code, reason=error.message)
            return
        target.measured = True
        target.progress.eager_ns, target.progress.sol_ns = found["eager_ns"], found["sol_ns"]
        self.say(
            "TargetMeasured", target=target.id, eager_ns=found["eager_ns"], sol_ns=found["sol_ns"],
            floor_ns=found["floor_ns"], baselines={"eager": found["eager_ns"]},
            detail=dict(found.get("detail") or {}),
        )  # fmt: skip
        others = float((found.get("detail") or {}).get("others", 0.0))
        target.measured_busy = others >= BUSY
        if target.measured_busy:
            text = f"other programs use {others:.0%} of the machine: times are uncertain"
            self.say("Noted", target=target.id, level="warning", text=text)
        elif why := hopeless(target.progress):
            self._close(target, *why)

    def _close(self, target: Target, code: str, reason: str) -> None:
        target.open = False
        self.say("TargetClosed", target=target.id, code=code, reason=reason)

    async def _extend(self, target: Target) -> None:
        """One more node for a target, or the target closed when nothing can be added."""
        if why := closing(target.progress, self._caps):
            if why[0] == "sol" and target.measured_busy:
                # The speed of light was measured while others used the machine: look again.
                await self._calibrate(target)
                target.measured_busy = False
                return
            self._close(target, *why)
            return
        while (choice := self._policy.choose(target.tree)) is not None:
            try:
                proposal = await self._workshop.propose(target.id, self._ask(target, choice))
            except MachineError:
                raise
            except ForgeError as error:
                self._close(target, error.code, f"nothing more can be drafted: {error.message}")
                return
            if isinstance(proposal, Proposal):
                await self._new_node(target, choice, proposal)
                return
            self._spend(target, choice, proposal)
        self._close(target, "exhausted", "the drafter has no more schedules to try")

    def _ask(self, target: Target, choice: Choice) -> dict[str, Any]:
        parent = choice.parent
        return {
            "action": choice.action,
            "parent_schedule": target.schedules.get(parent) if parent else None,
            "failure": target.failures.get(parent) if parent else None,
            "tried": target.tried,
        }

    @staticmethod
    def _spend(target: Target, choice: Choice, why: Exhausted) -> None:
        target.tree[choice.parent or 0].spent.add(choice.action)

    async def _new_node(self, target: Target, choice: Choice, proposal: Proposal) -> None:
        node = self._session.next_id("nodes")
        self.say(
            "NodeCreated", target=target.id, node=node, parent=choice.parent, second_parent=None,
            action=choice.action, writer="drafter", model=None,
        )  # fmt: skip
        target.tree.add(node, choice.parent, choice.action)
        target.progress.nodes += 1
        self._remember(target, node, proposal.schedule)
        await self._do(target, node, None, proposal)

    @staticmethod
    def _remember(target: Target, node: int, schedule: dict[str, Any] | None) -> None:
        if schedule is not None:
            target.schedules[node] = schedule
            target.tried.add(str(schedule["key"]))

    async def _take_up(self) -> None:
        """Work on a node again that was in work when an earlier engine ended."""
        lost = self._unfinished.pop(0)
        target = self.targets[lost.target]
        if self._died and lost.attempts >= MAX_ATTEMPTS:
            reason = f"the engine died {lost.attempts} times while at work on it"
            self._ended(target, lost.node, Failed("build", "lost", reason, {}), {})
            return
        reason = "its engine died" if self._died else "its engine was stopped"
        self.say("NodeRequeued", target=target.id, node=lost.node, reason=reason, died=self._died)
        proposal = None
        if lost.program is None:
            ask = self._ask(target, Choice(lost.action, lost.parent))
            try:
                found = await self._workshop.propose(target.id, ask)
            except MachineError:
                raise
            except ForgeError as error:
                self._ended(target, lost.node, Failed("read", error.code, error.message, {}), {})
                return
            if isinstance(found, Exhausted):
                self._drop(target, lost.node, found.why)
                return
            proposal = found
            self._remember(target, lost.node, found.schedule)
        await self._do(target, lost.node, lost.program, proposal)

    async def _do(
        self, target: Target, node: int, program: Program | None, proposal: Proposal | None
    ) -> None:
        def on_stage(stage: str) -> None:
            self._session.active_us = self._clock.us()
            self._doing = {"stage": stage, "node": node, "target": target.id}

        self.working_on = node
        work = NodeWork(
            self._session, self._workshop, target, node, self._facts, self._leased, on_stage
        )
        outcome = await work.run(program, proposal)
        self._ended(target, node, outcome, work.seconds)

    def _ended(
        self, target: Target, node: int, outcome: Scored | Failed, seconds: dict[str, float]
    ) -> None:
        with self._session.together():
            if isinstance(outcome, Failed):
                target.tree.fail(node, outcome.rung)
                target.failures[node] = {"rung": outcome.rung, "code": outcome.code,
                                         "message": outcome.reason, **outcome.evidence}  # fmt: skip
                target.progress.ended_with(None, None)
                self.say("NodeFailed", target=target.id, node=node, rung=outcome.rung,
                         code=outcome.code, reason=outcome.reason, seconds=seconds)  # fmt: skip
                return
            reward = target.reward_of(outcome.low)
            target.scored[node] = outcome
            target.tree.score(node, reward)
            target.progress.ended_with(outcome.low, outcome.ratio)
            self.say(
                "NodeScored", target=target.id, node=node, variant=outcome.variant,
                outcome=outcome.outcome, time_ns=outcome.time_ns, ratio=outcome.ratio,
                low=outcome.low, high=outcome.high,
                sol_fraction=target.progress.sol_fraction(outcome.ratio), reward=reward,
                seconds=seconds,
            )  # fmt: skip
            if target.may_lead(outcome):
                self.settle_best(target)

    def settle_best(self, target: Target) -> None:
        """Say so when another node leads than before."""
        leader = target.leader()
        if leader == target.best:
            return
        target.best = leader
        if leader is None:
            self.say("BestWithdrawn", target=target.id, reason="no program stands")
            return
        scored = target.scored[leader]
        self.say("BestImproved", target=target.id, node=leader, variant=scored.variant,
                 ratio=scored.ratio, time_ns=scored.time_ns,
                 of_nodes=target.progress.ended)  # fmt: skip

    # -- the end -----------------------------------------------------------------------------------

    def _unconfirmed(self) -> Target | None:
        """A target whose best claims to be faster and has not been confirmed."""
        for target in self.targets.values():
            best = target.best
            if best is None or best in target.confirmed or best in target.unsure:
                continue
            if target.scored[best].claims_win:
                return target
        return None

    async def _confirm(self, target: Target) -> None:
        best = target.best or 0
        self.working_on = best
        self._doing = {"stage": "confirming", "node": best, "target": target.id}
        outcome = await confirm_best(
            self._session, self._workshop, target, self._facts, self._leased
        )
        kept = {"FASTER": target.confirmed, "UNSURE": target.unsure}
        kept.get(outcome, target.refused).add(best)
        self.settle_best(target)

    async def _finish(self, reason: str) -> tuple[str, str]:
        """Confirm what claims to be a win, then end; this is no search, so it is not counted."""
        self._clock.halt()
        while not self._stopping and (target := self._unconfirmed()) is not None:
            if not self.going:
                await self._hold()
                continue
            await self._guarded(self._confirm(target))
        return ("stopped", self._stopping) if self._stopping else ("finished", reason)

    # -- what people and the clock do --------------------------------------------------------------

    def go_on(self) -> None:
        self.going = True
        self.say("SearchResumed")
        self._wake.set()

    def stop(self, reason: str) -> None:
        """End in order: the node in work stays unfinished and is taken up at the next start."""
        self._stopping = reason
        self._wake.set()
        if self._work is not None:
            self._work.cancel()

    def drop_work(self, reason: str) -> None:
        """Give up the node in work, for good."""
        node = self.working_on
        for target in self.targets.values():
            if node in target.tree and target.tree[node].state == "live":
                self._drop(target, node, reason)
        if self._work is not None:
            self._work.cancel()

    def _drop(self, target: Target, node: int, reason: str) -> None:
        target.tree.drop(node)
        self.say("NodeDropped", target=target.id, node=node, reason=reason)

    @asynccontextmanager
    async def _leased(self) -> AsyncIterator[None]:
        """The right to load the device; waits while another session measures."""
        if self._lease is None:
            yield
            return
        doing = self._doing
        while not self._lease.try_take(self._row.session):
            self._doing = {**doing, "stage": f"waiting for {self._lease.holder()}"}
            await asyncio.sleep(0.1)
        self._doing = doing
        try:
            yield
        finally:
            self._lease.give_back()

    def _answer(self) -> None:
        for command, verb, args in self._session.new_commands():
            ask = ASKS.get(verb)
            ok, answer = ask(self, args) if ask else (False, f"unknown command {verb}"[:100])
            self._session.active_us = self._clock.us()
            self._session.answer(command, verb, ok, answer, self.working_on)

    async def _tick(self) -> None:
        """Answer commands each quarter of a second; beat each second."""
        turn = 0
        while True:
            self._answer()
            if turn % 4 == 0:
                self._session.active_us = self._clock.us()
                self._session.beat(os.getpid(), self._doing, load_sample())
            turn += 1
            await asyncio.sleep(TICK_S)
