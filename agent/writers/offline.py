"""Writers that no model provider is behind: an inbox that somebody answers, or a recording.

Their asks are in the ledger like model calls, without a price: a person's or another program's time
is not ours to count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from agent.errors import ModelError
from agent.writers.ask import Prompt
from store.reading import SessionReader

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from agent.calls import Order
    from agent.context import Context
    from agent.writers.inbox import Inbox
    from agent.writers.replay import Replay
    from store.writing import SessionWriter


class Offline(Protocol):
    """A writer without a model.

    Attributes:
        kind: As a node names it.
        alone: Whether nobody else writes in such a session.
        where: What people are told it waits for; "" if it never waits.
    """

    kind: str
    alone: bool
    where: str

    async def reply(
        self, context: Context, order: Order, target: str, prompt: Prompt,
        on_wait: Callable[[], None],
    ) -> str:  # fmt: skip
        """The writer's answer; ``on_wait`` is called when somebody else's time begins."""
        ...

    def withdraw(self, node: int) -> None:
        """The node's answer is not wanted any more."""
        ...

    def tidy(self, nodes: Collection[int]) -> None:
        """An engine begins: take back what was asked for other nodes than these."""
        ...

    def arriving(self) -> bool:
        """Whether an answer seems to be on its way."""
        ...

    def close(self) -> None:
        """The engine ends; what was asked stays asked."""


class Posted:
    """Prompts as files in a folder, and replies as files beside them."""

    kind = "inbox"
    alone = False

    def __init__(self, inbox: Inbox) -> None:
        self.where = str(inbox.folder)
        self._inbox = inbox
        self._names: dict[int, str] = {}

    async def reply(
        self, context: Context, order: Order, target: str, prompt: Prompt,
        on_wait: Callable[[], None],
    ) -> str:  # fmt: skip
        """Post the prompt, unless it is posted already, and wait for its answer."""
        call, prompt = _open_call(context, order, prompt)
        call = call or _reserve(context, order, self.kind, prompt)
        attempt = 1 if order.purpose == "write" else 2
        path = self._inbox.post(order.node, target, order.action, attempt, prompt)
        self._names[order.node] = path.stem
        context.awaits(order.target, order.node, "waiting", model=self.kind,
                       reason=self._inbox.reply_path(path.stem).name)  # fmt: skip
        on_wait()

        def say(trouble: str) -> None:
            context.note("warning", trouble, target=order.target)

        text = await self._inbox.wait(path.stem, say)
        _answered(context, order, call, text)
        self._inbox.answered(path.stem)
        del self._names[order.node]
        return text

    def withdraw(self, node: int) -> None:
        self._names.pop(node, "")
        self._inbox.withdraw_node(node)

    def tidy(self, nodes: Collection[int]) -> None:
        self._inbox.tidy(nodes)

    def arriving(self) -> bool:
        return any(self._inbox.arriving(name) for name in self._names.values())

    def close(self) -> None:
        self._inbox.close()


class Recorded:
    """Replies of a saved session. Whatever it writes is marked as replayed."""

    kind = "replay"
    alone = True
    where = ""

    def __init__(self, replay: Replay, session: SessionWriter) -> None:
        self._replay = replay
        reader = SessionReader(session.path, session.conn)
        names = {target.id: target.name for target in reader.targets()}
        for call in reader.calls():
            taken = call.writer == self.kind and call.state == "answered"
            if taken and call.target in names:  # by an earlier engine
                replay.answer(names[call.target], call.action or "")

    async def reply(
        self, context: Context, order: Order, target: str, prompt: Prompt,
        on_wait: Callable[[], None],
    ) -> str:  # fmt: skip
        """The next recorded reply.

        Raises:
            ModelError: ``replay-end``: there is none.
        """
        text = self._replay.answer(target, order.action)
        if text is None:
            raise ModelError("the recording has no more replies", code="replay-end")
        with context.session.together():  # or an engine that dies between would lose the reply
            call = _reserve(context, order, self.kind, prompt)
            _answered(context, order, call, text)
        return text

    def withdraw(self, node: int) -> None:
        """A recording is not waited for."""

    def tidy(self, nodes: Collection[int]) -> None:
        """Nothing lies about."""

    def arriving(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing waits."""


def _reserve(context: Context, order: Order, writer: str, prompt: Prompt) -> int:
    call = context.session.next_id("model_calls")
    with context.session.together():
        text = context.session.store_prompt(prompt.system, prompt.user)
        context.say(
            "CallReserved", target=order.target, node=order.node, call=call, model="",
            action=order.action, micro_dollars=None, purpose=order.purpose, writer=writer,
            tokens=None, prompt=text, attempt=1,
        )  # fmt: skip
    return call


def _open_call(context: Context, order: Order, prompt: Prompt) -> tuple[int, Prompt]:
    """The call of an earlier engine that is still to be answered, 0 for none, and its prompt.

    Somebody may be at work on that prompt, and the ledger says that it was asked.
    """
    reader = SessionReader(context.session.path, context.session.conn)
    rows = [row for row in reader.calls(node=order.node) if row.state == "reserved"]
    if not rows or rows[-1].purpose != order.purpose:
        return 0, prompt
    asked = reader.prompt(rows[-1].prompt or "")
    return rows[-1].id, Prompt(asked.system, asked.user) if asked else prompt


def _answered(context: Context, order: Order, call: int, text: str) -> None:
    settled: dict[str, Any] = {"state": "answered", "micro_dollars": None, "tokens_in": 0,
                               "tokens_out": 0}  # fmt: skip
    with context.session.together():
        context.session.store_reply(call, order.node, text, "")
        context.session.stream(order.node, "model", text)
        context.say("CallSettled", target=order.target, node=order.node, call=call, **settled)
