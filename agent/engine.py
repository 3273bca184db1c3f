"""The engine: one session's search from its first event to its last.

It owns the session's file, chooses what to try (``agent.search``), has the workers do it
(``agent.workers.workshop``), and answers what people ask (``agent.asks``). It imports no PyTorch.
"""

from __future__ import annotations

import asyncio
import os
import socket
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.admission import admit, load, require_a_writer
from agent.agenda import Agenda
from agent.asks import ASKS
from agent.confirm import confirm_best
from agent.context import Context, Place
from agent.desk import Desk
from agent.devices.facts import load_sample, machine
from agent.errors import ForgeError, MachineError
from agent.knowledge import Knowledge
from agent.nodes import Nodes
from agent.restore import restore
from agent.search.budget import Caps
from agent.yardstick import set_apart, wanted_baselines
from store import VERSION
from store.sessions import ACTIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from agent.search.target import Target
    from agent.workers.workshop import Workshop
    from agent.writers.offline import Offline
    from store.lease import DeviceLease
    from store.machine import MachineStore
    from store.rows import SessionRow
    from store.writing import SessionWriter

    Step = Callable[[], Coroutine[Any, Any, None]]

TICK_S = 0.25
ARRIVAL_S = 1.0


class Engine:
    """Runs one session.

    Args:
        session: The session, locked for this engine.
        row: Its row: task and config.
        workshop: The workers.
        place: Where programs run.
        lease: The right to load the device, shared with other sessions; None needs none.
        offline: A writer without a model, if there is one.
        records: What is known of this machine; None knows nothing.

    Attributes:
        context: What every step works with.
        targets: Targets by id.
        nodes: Makes and ends their nodes.
        desk: Asks writers other than the drafter; there from ``prepare`` on.
        going: False while paused or pausing.
    """

    def __init__(
        self,
        session: SessionWriter,
        row: SessionRow,
        workshop: Workshop,
        place: Place,
        lease: DeviceLease | None = None,
        offline: Offline | None = None,
        records: MachineStore | None = None,
    ) -> None:
        self._session = session
        self._config = row.config
        self._workshop = workshop
        self._place = place
        self._context = Context(
            session, workshop, place, row.session, lease,
            Knowledge(records, place, learns=not row.config.get("replay")),
        )  # fmt: skip
        self._offline = offline
        alone = not (self._config.get("models") or offline)
        died = row.state in ACTIVE
        self.nodes = Nodes(self._context, died=died, drafter_alone=alone)
        self._caps = Caps.of(row.config)
        self._clock = self._context.clock
        self._stopping = ""
        self._cut = False
        self._work: asyncio.Task[None] | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._loaded: set[int] = set()
        self._said_over = ""
        self.targets: dict[int, Target] = {}
        self.going = True

    @property
    def stopping(self) -> bool:
        """Whether it was asked to stop."""
        return bool(self._stopping)

    @property
    def working_on(self) -> int:
        """The node in work, 0 for none."""
        return self._context.working_on

    def say(self, kind: str, *, target: int = 0, node: int = 0, **payload: Any) -> None:
        """Append an event."""
        self._context.say(kind, target=target, node=node, **payload)

    # -- before the search -------------------------------------------------------------------------

    async def prepare(self, on_stage: Callable[[str], None]) -> None:
        """Take the session up: earlier work restored, each task loaded.

        Raises:
            ForgeError: A task cannot be used; the session says so and has ended.
        """
        self.say("EngineStarted", pid=os.getpid(), host=socket.gethostname(), version=VERSION,
                 machine={**machine(), "device": self._place.key})  # fmt: skip
        self.desk = Desk(self._context, self.nodes, self._config, self._offline)
        alone = self.nodes.drafter_alone
        self.targets, unfinished = restore(self._session, self._config, drafter_alone=alone)
        in_work = {lost.target for lost in unfinished}
        if self._offline is not None:
            self._offline.tidy({lost.node for lost in unfinished})
        self._agenda = Agenda(
            self._context, self.targets, unfinished, self.nodes, self.desk, self._caps,
            wanted_baselines(self._config, self._place.device),
        )  # fmt: skip
        try:
            require_a_writer(self._config, self._place, self.desk.writes)
            self.desk.calls.check()
            for target in self.targets.values():
                set_apart(self._context, target)
                if target.open or target.stale or target.judge_again or target.id in in_work:
                    on_stage(f"loading {target.name}")
                    await self._load(target)
            for number, spec in enumerate(self._config["tasks"], start=1):
                if number not in self.targets:
                    on_stage(f"loading {spec}")
                    target = await admit(
                        self._context, self._config, number, spec, drafted=not self.desk.writes
                    )
                    self.targets[number] = target
                    self._loaded.add(number)
        except MachineError as error:
            self.say("EngineStopped", state="failed", reason=_with_cure(error))
            raise
        except ForgeError as error:
            self.say("EngineStopped", state="failed", reason=_with_cure(error))
            raise

    async def _load(self, target: Target) -> None:
        await load(self._context, target)
        self._loaded.add(target.id)

    # -- the search --------------------------------------------------------------------------------

    async def run(self) -> str:
        """Search until there is a reason to stop; returns the session's last state."""
        self._clock.go()
        self._answer()  # what was asked while no engine was at work comes before the first choice
        self._ticker = ticker = asyncio.create_task(self._tick())
        try:
            try:
                state, reason = await self._search()
            except MachineError as error:
                state, reason = "failed", _with_cure(error)
            await self._settle()
        finally:
            await self.desk.close()
            ticker.cancel()
            await asyncio.gather(ticker, return_exceptions=True)
            self._clock.halt()
        self.say("EngineStopped", state=state, reason=reason[:500])
        return state

    async def _search(self) -> tuple[str, str]:
        while not self._stopping:
            self.desk.check()
            if not self.going:
                await self._hold()
                continue
            over = self._over()
            self._agenda.take_up(over=bool(over))
            if not over:
                self._agenda.top_up()
            step = self._agenda.judge_next() if over else self._agenda.next_step()
            if step is not None:
                await self._guarded(step())
            elif trouble := self.desk.trouble:
                return "failed", _with_cure(trouble)
            elif not self.desk.out:
                self._agenda.give_up_unfinished(over or "its target is closed")
                if self.desk.cap and not self._found_anything():
                    return "failed", f"{over}; raise it, or ask for shorter replies: --max-tokens"
                ended = next(iter(self.desk.ended.values()), "every target is closed")
                return await self._finish(over or ended)
            elif self._waits_in_vain():
                return "stopped", self._waits_for()
            elif over and self.desk.only_waits:
                self._withdraw(list(self.desk.out), over)
                await self._news()
            else:
                await self._news()
        return "stopped", self._stopping

    def _found_anything(self) -> bool:
        return any(target.scored or target.failures for target in self.targets.values())

    def _over(self) -> str:
        """Why nothing new is begun any more, said once as an event; "" while it is."""
        if self._said_over:
            return self._said_over
        which = self.desk.cap
        if self._caps.minutes_left(self._clock.us()) <= 0:
            which, spent, cap = "minutes", self._clock.us() / 60e6, float(self._caps.minutes)
            self._said_over = f"the time is up: {cap:g} minutes"
            self._withdraw(self.desk.finish(self._said_over), self._said_over)
        elif which:
            spent, cap = self.desk.calls.purse.said(which)
            told = f"${spent:.4f} of ${cap:.4g}" if which == "dollars" else f"{spent:g} of {cap:g}"
            self._said_over = f"the cap on {which} leaves no room for another call: {told}"
        else:
            return ""
        self.say("BudgetReached", which=which, spent=spent, cap=cap)
        return self._said_over

    def _waits_in_vain(self) -> bool:
        """Whether the session is to end rather than wait for what nobody has answered yet."""
        offline = self._offline
        return bool(
            self._config.get("exit_when_waiting")
            and self.desk.only_waits
            and not (offline and offline.arriving())
        )

    def _waits_for(self) -> str:
        count = len(self.desk.out)
        where = self._offline.where if self._offline is not None else ""
        return f"it waits for {count} {'reply' if count == 1 else 'replies'} in {where}"

    def _withdraw(self, nodes: list[int], reason: str) -> None:
        for target in self.targets.values():
            self.desk.give_up(target, [node for node in nodes if node in target.tree], reason)

    async def _settle(self) -> None:
        """Let model calls that are in flight finish, and be stored; a second stop cuts them off."""
        self.desk.calls.hold_on()
        while self.desk.calls.in_flight and not self._cut:
            self._context.does(f"waiting for {self.desk.calls.in_flight} model calls to finish")
            await self._news()
        if self._cut:
            self.desk.calls.cut_off()

    async def _guarded(self, step: Coroutine[Any, Any, None]) -> None:
        """Run one step as a task, so that a stop or a prune can end it."""
        self._work = work = asyncio.create_task(step)
        try:
            if self._ticker is not None:
                await asyncio.wait({work, self._ticker}, return_when="FIRST_COMPLETED")
                if self._ticker.done() and not work.done():
                    work.cancel()
                    await asyncio.wait({work})
                    self._ticker.result()
            await work
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
        finally:
            # Whatever ended this, the step must not go on alone with a session that closes.
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            self._work, self._context.working_on = None, 0

    async def _hold(self) -> None:
        while self.desk.calls.in_flight and not self._moves_on():
            await self._news()
        if self._moves_on():
            return
        counting = self._clock.running
        self._clock.halt()
        self._context.does("paused")
        self.say("SearchPaused")
        while not self._moves_on():
            await self._woken(self._wake)
        if counting:
            self._clock.go()

    def _moves_on(self) -> bool:
        return self.going or bool(self._stopping)

    async def _news(self) -> None:
        """Wait until a writer answers, or a person asks for something."""
        idle = self.desk.only_waits and self._clock.running
        if idle:
            self._clock.halt()  # somebody else's time is not the search's
        if self.going and not self._stopping:
            self._context.does("waiting for writers")
        # A file that seemed to be a reply may turn out to be none: look again now and then.
        await self._woken(self._wake, self.desk.news, timeout_s=ARRIVAL_S if idle else None)
        if idle:
            self._clock.go()
        self.desk.check()

    async def _woken(self, *events: asyncio.Event, timeout_s: float | None = None) -> None:
        """Wait for the first of some events; they are cleared. The heart's end is raised."""
        waiting = [asyncio.create_task(event.wait()) for event in events]
        tasks = [*waiting, self._ticker] if self._ticker is not None else waiting
        try:
            await asyncio.wait(tasks, return_when="FIRST_COMPLETED", timeout=timeout_s)
        finally:
            for task in waiting:
                task.cancel()
        for event in events:
            event.clear()
        if self._ticker is not None and self._ticker.done():
            self._ticker.result()

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
        self._context.working_on = best
        self._context.does("confirming", node=best, target=target.id)
        outcome = await confirm_best(self._context, target)
        kept = {"FASTER": target.confirmed, "UNSURE": target.unsure}
        kept.get(outcome, target.refused).add(best)
        self.nodes.settle_best(target)

    def _before_the_end(self, target: Target) -> Step:
        if target.id not in self._loaded:
            return partial(self._load, target)
        return self._agenda.next_baseline(target) or partial(self._confirm, target)

    async def _finish(self, reason: str) -> tuple[str, str]:
        """Confirm what claims to be a win, then end; this is no search, so it is not counted."""
        self._clock.halt()
        if self._config.get("models") and not self.desk.calls.purse.made:
            text = (
                "no model was asked: the drafter's programs were enough; --drafts 0 leaves it out"
            )
            self._context.note("info", text)
        while not self._stopping and (target := self._unconfirmed()) is not None:
            if not self.going:
                await self._hold()
                continue
            await self._guarded(self._before_the_end(target)())
        return ("stopped", self._stopping) if self._stopping else ("finished", reason)

    # -- what people and the clock do --------------------------------------------------------------

    def hold_on(self) -> None:
        """Begin nothing new: what is in hand finishes, calls in flight too."""
        self.going = False
        self.desk.calls.hold_on()
        self.say("SearchPausing")
        self._wake.set()

    def go_on(self) -> None:
        self.going = True
        self.desk.calls.go_on()
        self.say("SearchResumed")
        self._wake.set()

    def stop(self, reason: str) -> None:
        """End in order: the node in work stays unfinished and is taken up at the next start.

        Model calls in flight finish first, for they are paid; asked again, they are cut off.
        """
        self._cut = bool(self._stopping)
        self._stopping = reason
        self._wake.set()
        if self._work is not None:
            self._work.cancel()

    def drop_work(self, reason: str) -> None:
        """Give up the node in work, for good."""
        node = self.working_on
        for target in self.targets.values():
            if node in target.tree and target.tree[node].state == "live":
                self.nodes.drop(target, node, reason)
        if self._work is not None:
            self._work.cancel()

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
                self._session.beat(os.getpid(), self._context.sign_of_life(), load_sample())
            turn += 1
            await asyncio.sleep(TICK_S)


def _with_cure(error: ForgeError) -> str:
    return f"{error.message}; {error.cure}" if error.cure else error.message
