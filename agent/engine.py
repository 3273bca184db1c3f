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

from agent.asks import ASKS
from agent.confirm import confirm_best
from agent.context import Context, Place
from agent.devices.facts import load_sample, machine
from agent.errors import ForgeError, MachineError, TaskError
from agent.nodes import Nodes
from agent.restore import Unfinished, handed_in, restore, stored_program
from agent.search.budget import Caps, Progress, closing, hopeless, next_target
from agent.search.target import Target
from agent.task import TargetSpec, open_task
from agent.yardstick import calibrate, measure_baseline, set_apart, wanted_baselines
from store import VERSION
from store.reading import SessionReader
from store.sessions import ACTIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from agent.workers.workshop import Workshop
    from store.lease import DeviceLease
    from store.rows import SessionRow
    from store.writing import SessionWriter

    Step = Callable[[], Coroutine[Any, Any, None]]

TICK_S = 0.25
NO_WRITER = "no writer for CUDA is configured"


class Engine:
    """Runs one session.

    Args:
        session: The session, locked for this engine.
        row: Its row: task and config.
        workshop: The workers.
        place: Where programs run.
        lease: The right to load the device, shared with other sessions; None needs none.

    Attributes:
        targets: Targets by id.
        nodes: Makes and ends their nodes.
        going: False while paused or pausing.
    """

    def __init__(
        self,
        session: SessionWriter,
        row: SessionRow,
        workshop: Workshop,
        place: Place,
        lease: DeviceLease | None = None,
    ) -> None:
        self._session = session
        self._config = row.config
        self._workshop = workshop
        self._place = place
        self._context = Context(session, workshop, place, row.session, lease)
        self.nodes = Nodes(self._context, died=row.state in ACTIVE)
        self._caps = Caps.of(row.config)
        self._baselines = wanted_baselines(row.config, place.device)
        self._clock = self._context.clock
        self._stopping = ""
        self._work: asyncio.Task[None] | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._unfinished: list[Unfinished] = []
        self._loaded: set[int] = set()
        self.targets: dict[int, Target] = {}
        self.going = True

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
        self.targets, self._unfinished = restore(self._session, self._config)
        try:
            self._require_a_writer()
            for target in self.targets.values():
                set_apart(self._context, target)
                if target.open or target.stale or target.judge_again:
                    on_stage(f"loading {target.name}")
                    await self._load(target)
            for number, spec in enumerate(self._config["tasks"], start=1):
                if number not in self.targets:
                    on_stage(f"loading {spec}")
                    await self._load_task(number, spec)
        except MachineError as error:
            self.say("EngineStopped", state="failed", reason=_with_cure(error))
            raise
        except ForgeError as error:
            self.say("EngineStopped", state="failed", reason=error.message)
            raise

    def _require_a_writer(self) -> None:
        if self._place.language == "cuda" and not self._config.get("programs"):
            raise ForgeError(
                NO_WRITER, "hand a program of your own in: --program FILE", code="no-writer"
            )

    async def _load(self, target: Target) -> None:
        answer = await self._workshop.load(target.id, target.task)
        target.refusal = str(answer.get("refusal") or "")
        self._loaded.add(target.id)

    async def _load_task(self, number: int, spec: str) -> None:
        programs = handed_in(self._config, number)
        try:
            task = open_task(spec, self._place.device)
            answer = await self._workshop.load(number, task)
            refusal = str(answer.get("refusal") or "")
            if refusal and self._place.language == "cpp" and not programs:
                raise TaskError(
                    f"{task.name} cannot be drafted: {refusal}",
                    "choose another task, or hand a program of your own in: --program FILE",
                    code="cannot-draft",
                )
        except MachineError:
            raise
        except ForgeError as error:
            self.say("TargetRefused", target=number, name=spec[:200], code=error.code,
                     message=error.message, cure=error.cure)  # fmt: skip
            raise
        self._loaded.add(number)
        self.targets[number] = Target(
            number, task.name, task, TargetSpec.from_json(answer["spec"]), Progress(0, None),
            refusal=refusal, handed_in=programs,
        )  # fmt: skip
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
            state, reason = "failed", _with_cure(error)
        finally:
            ticker.cancel()
            await asyncio.gather(ticker, return_exceptions=True)
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

    def _next_step(self) -> Step | None:
        """What the search does next; None when every target is closed."""
        for target in self.targets.values():
            if (target.stale or target.judge_again) and (step := self._before_judging(target)):
                return step
        if self._unfinished:
            lost = self._unfinished.pop(0)
            return partial(self.nodes.take_up, self.targets[lost.target], lost)
        chosen = self._next_target()
        if chosen is None:
            return None
        return self._before_judging(chosen) or partial(self._extend, chosen)

    def _next_target(self) -> Target | None:
        """Which open target gets the next node: what people wrote for one goes before all else."""
        there = {id_: target for id_, target in self.targets.items() if target.open}
        handed = [id_ for id_, target in there.items() if target.handed_in]
        progress = {id_: target.progress for id_, target in there.items()}
        chosen = handed[0] if handed else next_target(progress, self.nodes.policy.first_drafts)
        return None if chosen is None else there[chosen]

    def _before_judging(self, target: Target) -> Step | None:
        """What must be done before new programs of a target can be judged; None when nothing."""
        if not target.measured:
            return partial(self._calibrate, target)
        if self._place.device == "cuda" and (step := self._next_baseline(target)):
            return step
        target.judge_again = [node for node in target.judge_again if not target.tree.closed(node)]
        if target.judge_again:
            return partial(self._judge_again, target, target.judge_again[0])
        return None

    def _next_baseline(self, target: Target) -> Step | None:
        for name in self._baselines:
            if name not in target.baselines:
                return partial(measure_baseline, self._context, target, name)
        return None

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
        counting = self._clock.running
        self._clock.halt()
        self._context.does("paused")
        self.say("SearchPaused")
        while not self.going and not self._stopping:
            self._wake.clear()
            waiting = asyncio.create_task(self._wake.wait())
            ticker = self._ticker or waiting
            try:
                await asyncio.wait({waiting, ticker}, return_when="FIRST_COMPLETED")
            finally:
                waiting.cancel()
            if ticker is not waiting and ticker.done():
                ticker.result()
        if counting:
            self._clock.go()

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
        self.say("TargetClosed", target=target.id, code=code, reason=reason)

    async def _judge_again(self, target: Target, node: int) -> None:
        reader = SessionReader(self._session.path, self._session.conn)
        row = reader.node(node)
        program = stored_program(reader, row.program) if row else None
        if program is None:
            target.judge_again.remove(node)
            text = f"the program of node {node} is missing: it cannot be judged here"
            self._context.note("warning", text, target=target.id)
            return
        await self.nodes.judge_again(target, node, program)

    async def _extend(self, target: Target) -> None:
        """One more node for a target, or the target closed when nothing can be added."""
        if target.handed_in:
            await self.nodes.hand_in(target)
            return
        why = None if target.measured_busy else hopeless(target.progress)
        if why is None and self._place.language == "cuda":
            why = "exhausted", NO_WRITER
        elif why is None and target.refusal:
            why = "exhausted", f"it cannot be drafted: {target.refusal}"
        why = why or closing(target.progress, self._caps)
        if why and why[0] == "sol" and target.measured_busy and not target.looked_again:
            # The speed of light was measured while others used the machine: look again.
            target.looked_again = True
            await self._calibrate(target)
            return
        why = why or await self.nodes.grow(target)
        if why:
            self._close(target, *why)

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
        return self._next_baseline(target) or partial(self._confirm, target)

    async def _finish(self, reason: str) -> tuple[str, str]:
        """Confirm what claims to be a win, then end; this is no search, so it is not counted."""
        self._clock.halt()
        while not self._stopping and (target := self._unconfirmed()) is not None:
            if not self.going:
                await self._hold()
                continue
            await self._guarded(self._before_the_end(target)())
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
                self._session.beat(os.getpid(), self._context.doing, load_sample())
            turn += 1
            await asyncio.sleep(TICK_S)


def _with_cure(error: MachineError) -> str:
    return f"{error.message}; {error.cure}" if error.cure else error.message
