"""The desk: which writers were asked, and the programs that came back and are still to be judged.

Several writers may be at work at once while one program is judged. Whatever ends an engine, a reply
that came in is stored, and what was asked and not answered is taken up again by the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.briefing import brief
from agent.calls import Calls, CapReached, Order
from agent.errors import ModelError, ProgramError
from agent.replies import read_reply
from agent.search.steps import Steps
from agent.work import Failed, store_program
from agent.writers.prompts import render, repair_format
from store.reading import SessionReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.context import Context
    from agent.nodes import Nodes
    from agent.program import Program
    from agent.restore import Unfinished
    from agent.search.policy import Choice
    from agent.search.target import Target
    from agent.writers.ask import Prompt
    from agent.writers.offline import Offline

MAX_LOST = 2
MAX_GIVEN_UP = 3
PARALLEL = 4
PROMPT_TOKENS = 12_000
FIRST_DRAFTS = 2
CUT_OFF = "reply-cut"
REPLAY_END = "replay-end"
# The prompt may be what the provider breaks on: another may come through.
BROKEN_OFF = frozenset({"model-dropped", "model-timeout"})
NO_REPLY = frozenset({"model-refused", "model-context", "model-empty"})


@dataclass(frozen=True, slots=True)
class Ready:
    """A program that was written and is still to be judged."""

    target: Target
    node: int
    program: Program


class Desk:
    """Asks writers other than the drafter, and keeps what they wrote until it is judged.

    Args:
        context: The session.
        nodes: Makes and ends nodes.
        config: The session's: ``models``, ``inbox``, ``replay``, ``parallel``, ...
        offline: The writer without a model (inbox or recording), if there is one.

    Attributes:
        calls: The model calls and their caps.
        out: The nodes whose writer was asked and has not answered.
        ready: What came back, oldest first.
        trouble: Why no writer can be asked any more, if that is no cap.
        ended: Targets that nothing more is to be had for, and why.
        news: Set whenever something ended, a call or a node's asking.
    """

    def __init__(
        self, context: Context, nodes: Nodes, config: Mapping[str, Any], offline: Offline | None
    ) -> None:
        self.news = asyncio.Event()
        self.calls = Calls(context, config, self.news)
        self.out: dict[int, asyncio.Task[None]] = {}
        self.ready: deque[Ready] = deque()
        self.trouble: ModelError | None = None
        self.ended: dict[int, str] = {}
        self._fault: BaseException | None = None
        self._closing = ""
        self.offline = offline
        self._context = context
        self._nodes = nodes
        self._models = [str(model["name"]) for model in config.get("models") or []]
        self._asked = dict.fromkeys(self._models, 0)
        self._parallel = int(config.get("parallel") or PARALLEL)
        self._prompt_tokens = int(config.get("prompt_tokens") or PROMPT_TOKENS)
        self._drafts = int(FIRST_DRAFTS if config.get("drafts") is None else config["drafts"])
        self._seed = int(config.get("seed") or 0)
        self._given_up = 0  # nodes in a row for which no reply came
        self._waiting: set[int] = set()  # nodes that a person or another program answers
        self._steps = Steps()

    # -- what may be asked -------------------------------------------------------------------------

    @property
    def writes(self) -> bool:
        """Whether there is any writer here but the drafter."""
        return bool(self._models or self.offline)

    def wants(self, target: Target, action: str) -> bool:
        """Whether the desk has this written, and not the drafter: it has the first drafts."""
        if not self.writes:
            return False
        if self.offline is not None and self.offline.alone:
            return True
        free = action == "draft" and not target.refusal and target.drafted < self._drafts
        return not free

    @property
    def has_place(self) -> bool:
        """Whether one more may be asked now."""
        if self.trouble is not None or len(self.out) + len(self.ready) >= self._parallel:
            return False
        return self.offline is not None or self.calls.has_room(len(self.out)) is True

    @property
    def cap(self) -> str:
        """The cap that keeps anything more from being asked, with nothing in flight; or ""."""
        if self.offline is not None or self.calls.has_room(len(self.out)) is not False:
            return ""
        return self.calls.cap()

    def of(self, target: Target) -> bool:
        """Whether anything of a target is out or ready."""
        return any(item.target is target for item in self.ready) or any(
            node in target.tree for node in self.out
        )

    @property
    def only_waits(self) -> bool:
        """Whether all that is out waits for somebody whose time is not ours."""
        return bool(self.out) and self._waiting == set(self.out)

    # -- asking ------------------------------------------------------------------------------------

    def start(self, target: Target, choice: Choice) -> None:
        """Make a node and ask a writer for it."""
        node = self._context.session.next_id("nodes")
        choice = self._steps.refine(choice, target.tree, node, self._seed)
        writer, model = self._writer()
        self._nodes.create(target, choice, writer, model=model, node=node)
        self._begin(target, node, model, choice, None)

    def _writer(self) -> tuple[str, str]:
        """Who is asked next: its kind, and the model's name.

        Of the models for whose next call the caps have room the least asked goes first.
        """
        if self.offline is not None:
            return self.offline.kind, ""
        can = [name for name in self._models if not self.calls.lacks(name)] or self._models
        model = min(can, key=lambda name: self._asked[name])
        self._asked[model] += 1
        return "model", model

    def take_up(self, target: Target, lost: Unfinished) -> None:
        """Go on with a node whose writer was asked by an earlier engine."""
        self._nodes.requeue(target, lost)
        if lost.lost_calls >= MAX_LOST:
            reason = f"{lost.lost_calls} calls for it were lost with their engines"
            self._nodes.ended(target, lost.node, Failed("read", "lost", reason, {}), {})
            return
        if lost.reply is not None and self._nodes.worn_out(target, lost):
            return
        known = not lost.model or lost.model in self._models
        model = lost.model if known else self._writer()[1]
        if not (model or self.offline):
            self._nodes.drop(target, lost.node, "no writer is there for it any more")
            return
        self._begin(target, lost.node, model, lost.choice, lost)

    def _begin(
        self, target: Target, node: int, model: str, choice: Choice, lost: Unfinished | None
    ) -> None:
        work = self._work(target, node, model, choice, lost)
        self.out[node] = task = asyncio.create_task(work)
        task.add_done_callback(partial(self._came_back, node))

    def _came_back(self, node: int, task: asyncio.Task[None]) -> None:
        self._context.calls.pop(node, None)
        self._waiting.discard(node)
        self.out.pop(node, None)
        if not task.cancelled():
            self._fault = self._fault or task.exception()
        self.news.set()

    def check(self) -> None:
        """Raise what went wrong in a node's asking, if no writer is at fault: it is the engine's.

        Raises:
            Exception: Whatever it was.
        """
        if self._fault is not None:
            raise self._fault

    async def _work(
        self, target: Target, node: int, model: str, choice: Choice, lost: Unfinished | None
    ) -> None:
        """One node's asking, to a program on the desk, a failed or a dropped node."""
        try:
            order = Order(target.id, node, model, choice.action)
            program = await self._program(target, order, choice, lost)
        except ProgramError as error:
            if self._stands(target, node):
                failed = Failed("read", error.code, error.message, error.evidence)
                self._nodes.ended(target, node, failed, {})
        except CapReached as reached:
            if self._stands(target, node):
                self._nodes.drop(target, node, f"no call fits into the cap on {reached.which}")
        except ModelError as error:
            self._gave_up(target, node, model, error)
        else:
            if self._stands(target, node):
                self._given_up = 0
                self._context.say("NodeStage", target=target.id, node=node, stage="queued")
                self.ready.append(Ready(target, node, program))

    def _stands(self, target: Target, node: int) -> bool:
        """Whether the node is still wanted: its branch may have been closed meanwhile."""
        return target.tree[node].state == "live"

    def _gave_up(self, target: Target, node: int, model: str, error: ModelError) -> None:
        """A model gave no reply. A refusal is the node's end; all else is the model's."""
        if error.code in NO_REPLY:
            if self._stands(target, node):
                failed = Failed("read", error.code, error.message, {})
                self._nodes.ended(target, node, failed, {})
            return
        if error.code == REPLAY_END:
            self.ended[target.id] = error.message
            if self._stands(target, node):
                self._nodes.drop(target, node, error.message)
            return
        if not error.fatal and not self._stands(target, node):
            return  # it was not asked again, for nobody wants it
        if not error.fatal and self._closing:
            self._nodes.drop(target, node, self._closing)
            return
        if model and not error.fatal and (model not in self._models or len(self._models) > 1):
            if model in self._models:
                self._models.remove(model)
                self._context.note("warning", f"{model} is asked no more: {error.message}")
            self._nodes.drop(target, node, f"no reply: {error.message}"[:200])
            return
        self._given_up += 1
        if error.code in BROKEN_OFF and self._given_up < MAX_GIVEN_UP:
            self._nodes.drop(target, node, f"no reply: {error.message}"[:200])
            return
        # The node stays unfinished: the next engine asks for it again.
        self.trouble = self.trouble or error

    async def _program(
        self, target: Target, order: Order, choice: Choice, lost: Unfinished | None
    ) -> Program:
        """What the writer wrote, put right once if it could not be read.

        Raises:
            ProgramError: It cannot be read.
            ModelError, CapReached: Nothing was written.
        """
        language = self._context.place.language
        reply = lost.reply if lost is not None else None
        question = self._prompt(target, choice)
        if reply is None:
            reply = await self._reply(order, target, question)
        try:
            return self._read(target, order, reply)
        except ProgramError as error:
            if error.code == CUT_OFF and self.calls.was_cut(order.node):
                raise ProgramError(
                    f"the reply is cut off at its limit, {self.calls.was_cut(order.node):,} tokens",
                    "allow longer replies: --max-tokens, and caps that leave room for them",
                    code=CUT_OFF,
                ) from None
            once = lost is not None and lost.put_right
            wanted = self._stands(target, order.node) and not self._closing
            if once or error.code == CUT_OFF or not (wanted and self._may_put_right()):
                raise
            prompt = repair_format(language, reply, error.message, error.cure, question.user)
            order = replace(order, purpose="format")
            try:
                again = await self._reply(order, target, prompt)
            except CapReached:
                raise error from None
        return self._read(target, order, again)

    def _may_put_right(self) -> bool:
        return self.offline is None or not self.offline.alone

    def _prompt(self, target: Target, choice: Choice) -> Prompt:
        told = brief(self._context, target, choice.action, choice.step, choice.parent,
                     choice.second)  # fmt: skip
        return render(told, self._prompt_tokens)

    async def _reply(self, order: Order, target: Target, prompt: Prompt) -> str:
        if self.offline is not None:

            def on_wait() -> None:
                self._waiting.add(order.node)
                self.news.set()

            return await self.offline.reply(self._context, order, target.name, prompt, on_wait)
        return await self.calls.ask(order, prompt)

    def _read(self, target: Target, order: Order, reply: str) -> Program:
        program = read_reply(reply, self._context.place.language, target.spec)
        for note in program.notes:
            self._context.note("info", f"node {order.node}: {note}", target=target.id)
        if self._stands(target, order.node):
            store_program(self._context, target.id, order.node, program, program.title, None)
        return program

    # -- what people and the end do ----------------------------------------------------------------

    def finish(self, reason: str) -> list[int]:
        """Ask for nothing more; returns the nodes without a call in flight, to be given up."""
        self._closing = reason
        idle = [node for node in self.out if not self.calls.no_more(node)]
        return [] if self.offline is not None else idle

    def give_up(self, target: Target, nodes: list[int], reason: str) -> None:
        """Give nodes up, for good. A call in flight goes on: it is paid, and its reply is kept."""
        gone = set(nodes)
        for item in [item for item in self.ready if item.node in gone]:
            self.ready.remove(item)
            self._nodes.drop(target, item.node, reason)
        for node in gone & set(self.out):
            if self._stands(target, node):
                self._nodes.drop(target, node, reason)
            if not self.calls.no_more(node):
                self.out[node].cancel()
            self.withdraw(node)

    def withdraw(self, node: int) -> None:
        """Take back what was asked for a node, where that can be."""
        if self.offline is None:
            return
        self.offline.withdraw(node)
        reader = SessionReader(self._context.session.path, self._context.session.conn)
        for call in reader.calls(node=node):
            if call.state == "reserved":
                self._context.say(
                    "CallSettled", target=call.target, node=node, call=call.id, state="failed",
                    micro_dollars=0, tokens_in=0, tokens_out=0, error="withdrawn",
                )  # fmt: skip

    async def close(self) -> None:
        """End whatever still waits; calls in flight stay unsettled, for the next engine."""
        if self.offline is not None:
            self.offline.close()
        for task in list(self.out.values()):
            task.cancel()
        await asyncio.gather(*self.out.values(), return_exceptions=True)
