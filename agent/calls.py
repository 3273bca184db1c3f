"""Calls of language models: set aside, made, tried again, stored, settled.

Each attempt is a call of its own in the ledger. Its worst case is set aside before it is made; its
reply is stored in the transaction that settles it, before anybody judges it. A call that an engine
leaves behind is settled by the next one as lost, at all that was set aside.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.errors import ModelError
from agent.search.purse import Purse, Worst
from store.reading import SessionReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.context import Context
    from agent.writers.ask import Answer, Prompt
    from agent.writers.llm.client import ModelClient

MIN_REPLY = 2048
MAX_REPLY = 16_000
# Our estimate takes three bytes for a token. No tokenizer makes more tokens than there are bytes,
# and a chat template adds some: against the caps an estimate counts so many times.
AT_MOST = 4
MAY_BE_BILLED = frozenset({"model-timeout", "model-dropped"})
PIECE_S = 0.25
PIECE_CHARS = 2048


class CapReached(Exception):
    """No call fits into what is left of a cap: ``dollars``, ``tokens`` or ``calls``."""

    def __init__(self, which: str) -> None:
        super().__init__(which)
        self.which = which


@dataclass(frozen=True, slots=True)
class Order:
    """What a call is for: ``purpose`` is ``write``, or ``format`` to have a reply put right."""

    target: int
    node: int
    model: str
    action: str
    purpose: str = "write"


class _Pen:
    """Writes what streams in, a few times a second at most."""

    def __init__(self, context: Context, node: int) -> None:
        self._session = context.session
        self._node = node
        self._text = ""
        self._channel = "model"
        self._last = 0.0

    def __call__(self, channel: str, text: str) -> None:
        if channel != self._channel:
            self.flush()
            self._channel = channel
        self._text += text
        if len(self._text) > PIECE_CHARS or time.monotonic() - self._last > PIECE_S:
            self.flush()

    def flush(self) -> None:
        if self._text:
            self._session.stream(self._node, self._channel, self._text)
        self._text, self._last = "", time.monotonic()


class Calls:
    """Makes model calls within the session's caps.

    Args:
        context: The session.
        config: ``models``, ``max_tokens`` and the caps.

    Attributes:
        purse: The caps, and what is spent of them.
        news: Set whenever a call was settled.
    """

    def __init__(self, context: Context, config: Mapping[str, Any], news: asyncio.Event) -> None:
        self.purse = Purse.of(config)
        self.news = news
        self._flying: dict[int, tuple[Order, int]] = {}  # calls in flight, by node
        self._done_with: set[int] = set()
        self._cut: dict[int, int] = {}  # the limits of replies that were cut off, by node
        self._context = context
        self._session = context.session
        self._models = {str(model["name"]): model for model in config.get("models") or []}
        self._clients: dict[str, ModelClient] = {}
        self._max_tokens = int(config.get("max_tokens") or MAX_REPLY)
        self._random = random.Random()
        self._settled = asyncio.Event()
        self._go = asyncio.Event()
        self._go.set()
        self._least: dict[str, Worst] = {}  # what the last question's shortest reply would take
        self._restore()

    def _restore(self) -> None:
        """Take the ledger up; what an earlier engine left in flight is lost at its reservation."""
        reader = SessionReader(self._session.path, self._session.conn)
        for row in reader.calls():
            if row.writer not in (None, "model"):
                continue
            nothing = row.state == "failed" and not (row.tokens_in or row.tokens_out)
            self.purse.made += not nothing
            taken = (row.tokens_in or 0) + (row.tokens_out or 0)
            held = Worst(row.reserved, row.reserved_tokens or taken)
            money, tokens = _at_most(row.micro_dollars, taken, held, bool(row.estimated))
            if row.state == "reserved":
                money, tokens = held.micro_dollars, held.tokens
                self._lost(row.target, row.node, row.id, money, tokens)
            self.purse.spent += money or 0
            self.purse.spent_tokens += tokens

    def _lost(
        self, target: int, node: int, call: int, micro_dollars: int | None, tokens: int
    ) -> None:
        """Settle a call whose reply nobody waits for any more: all that was set aside counts."""
        with self._session.together():
            self._context.say(
                "CallSettled", target=target, node=node, call=call, state="lost",
                micro_dollars=micro_dollars, tokens_in=tokens, tokens_out=0, error="lost",
            )  # fmt: skip
            cost = "" if micro_dollars is None else f": ${micro_dollars / 1e6:.4f} counts"
            text = f"call {call} was in flight when its engine ended{cost} as spent"
            self._context.note("warning", text, target=target)

    def cut_off(self) -> None:
        """Settle what is in flight as lost, for a person cut it off."""
        for order, call in list(self._flying.values()):
            held = self.purse.held[call]
            self._lost(order.target, order.node, call, held.micro_dollars, held.tokens)
            self.purse.settle(call, held.micro_dollars, held.tokens)
        self._flying.clear()

    @property
    def in_flight(self) -> int:
        """How many calls were made and have not come back."""
        return len(self._flying)

    # -- what people do ----------------------------------------------------------------------------

    def hold_on(self) -> None:
        """Make no more calls until ``go_on``; those in flight finish."""
        self._go.clear()

    def go_on(self) -> None:
        self._go.set()

    def was_cut(self, node: int) -> int:
        """The limit in tokens at which a node's reply was cut off; 0 if it was not."""
        return self._cut.get(node, 0)

    def check(self) -> None:
        """Look at every model's name, parameters and price, before anything is asked.

        Raises:
            ModelError: One cannot be used as it is configured.
        """
        for name in self._models:
            self._client(name)

    def no_more(self, node: int) -> bool:
        """Make no further call for a node; whether one is in flight, which is paid and goes on."""
        self._done_with.add(node)
        return node in self._flying

    def has_room(self, asked: int) -> bool | None:
        """Whether another call may fit: None for not before others have come to an end.

        Without a call made before, nobody knows what one takes.

        Args:
            asked: Nodes that are asked for: those without a call in flight are about to make one.
        """
        most, about = self.purse.calls, asked - self.in_flight
        if most is not None and self.purse.made + about >= most:
            return None if self.purse.held or about else False
        if any(not self.lacks(model) for model in self._models):
            return True
        return None if self.purse.held else False

    def lacks(self, model: str) -> str:
        """The cap that keeps a model's next call from being made; "" for none."""
        return self.purse.lacks(self._least.get(model) or Worst(0, 0))

    def cap(self) -> str:
        """The cap that keeps every next call from being made; "" for none."""
        found = [self.lacks(model) for model in self._models]
        return found[0] if found and all(found) else ""

    # -- a call ------------------------------------------------------------------------------------

    async def ask(self, order: Order, prompt: Prompt) -> str:
        """A model's reply, asked for until it comes or nothing more is to be hoped for.

        Raises:
            CapReached: No call fits into what is left.
            ModelError: The model gave no usable reply, however often it was asked.
        """
        from agent.writers.llm.retry import delay

        self._state(order, "asking")
        client = self._client(order.model)
        attempt = 1
        while True:
            await self._go.wait()
            max_tokens, worst = await self._set_aside(client, prompt)
            call = self._reserve(order, prompt, worst, attempt)
            try:
                answer = await self._made(client, prompt, max_tokens, order, call)
            except ModelError as error:
                self._settle(order, call, error.partial, error)
                if error.code == "model-cut" and error.partial is not None:
                    self._cut[order.node] = max_tokens
                    return error.partial.text
                wait = delay(error, attempt, self._random)
                if wait is None or order.node in self._done_with:
                    raise
                await self._wait(order, call, error, wait, attempt)
                attempt += 1
                self._state(order, "asking")
            else:
                self._settle(order, call, answer, None)
                return answer.text

    def _client(self, name: str) -> ModelClient:
        if name not in self._clients:
            from agent.writers.llm.client import Model, ModelClient

            client = ModelClient(Model.of(self._models[name]))
            if client.price is None and self.purse.strict:
                raise ModelError(
                    f"no price is known for {name}, so a cap in dollars cannot be kept",
                    f"give one (--price {name}=IN/OUT, in $ for a million tokens), or leave "
                    "--dollars out and cap with --tokens",
                    code="model-price",
                    fatal=True,
                )
            said = "price unknown" if client.price is None else str(client.price)
            self._context.note("info", f"{name}: {said}")
            self._clients[name] = client
        return self._clients[name]

    async def _set_aside(self, client: ModelClient, prompt: Prompt) -> tuple[int, Worst]:
        """The longest reply that the caps allow, up to the session's own limit."""
        least = min(MIN_REPLY, self._max_tokens)
        while True:
            self._settled.clear()
            tokens = self._max_tokens
            while which := self.purse.lacks(worst := _worst(client, prompt, tokens)):
                # A shorter reply only once nothing is set aside for others any more.
                if tokens == least or self.purse.held or which == "calls":
                    break
                tokens = max(tokens // 2, least)
            self._least[client.model.name] = _worst(client, prompt, least)
            if not which:
                return tokens, worst
            if not self.purse.held:
                raise CapReached(which)
            await self._settled.wait()
            await self._go.wait()

    def _reserve(self, order: Order, prompt: Prompt, worst: Worst, attempt: int) -> int:
        call = self._session.next_id("model_calls")
        with self._session.together():
            text = self._session.store_prompt(prompt.system, prompt.user)
            self._context.say(
                "CallReserved", target=order.target, node=order.node, call=call,
                model=order.model, action=order.action, micro_dollars=worst.micro_dollars,
                purpose=order.purpose, writer="model", tokens=worst.tokens, prompt=text,
                attempt=attempt,
            )  # fmt: skip
        self.purse.hold(call, worst)
        return call

    async def _made(
        self, client: ModelClient, prompt: Prompt, max_tokens: int, order: Order, call: int
    ) -> Answer:
        pen = _Pen(self._context, order.node)
        begun = False

        def on_piece(channel: str, text: str) -> None:
            nonlocal begun
            if not begun:
                begun = True
                self._state(order, "writing")
            pen(channel, text)

        self._flying[order.node] = order, call
        try:
            return await client.ask(prompt, max_tokens, on_piece)
        finally:
            self._flying.pop(order.node, None)
            pen.flush()

    def _settle(
        self, order: Order, call: int, answer: Answer | None, error: ModelError | None
    ) -> None:
        """Store what came and what it took.

        A call that failed and brought nothing took nothing, unless the provider may be at work on
        it, perhaps with thoughts that nobody sees: then all that was set aside counts, for that is
        the most that it can be.
        """
        usage = answer.usage if answer else None
        money = answer.micro_dollars if answer else 0
        taken = (usage.tokens_in, usage.tokens_out) if usage else (0, 0)
        state = "failed" if error and error.code != "model-cut" else "paid"
        silent = usage is None or (usage.estimated and not usage.tokens_out)
        if error and silent and error.code in MAY_BE_BILLED:
            held = self.purse.held[call]
            state, money, taken = "lost", held.micro_dollars, (held.tokens, 0)
        with self._session.together():
            if answer and (answer.text or answer.thinking):
                self._session.store_reply(call, order.node, answer.text, answer.thinking)
            self._context.say(
                "CallSettled", target=order.target, node=order.node, call=call,
                state=state,
                micro_dollars=money, tokens_in=taken[0], tokens_out=taken[1],
                tokens_cached=usage.cached if usage else None,
                tokens_reasoning=usage.reasoning if usage else None,
                estimated=usage.estimated if usage else None,
                error=error.code if error else None,
                finish=answer.finish if answer else None,
                seconds=round(answer.seconds, 3) if answer else None,
            )  # fmt: skip
            for note in answer.notes if answer else ():
                self._context.note("warning", note, target=order.target)
        held = self.purse.held[call]
        estimated = usage is not None and usage.estimated
        self.purse.settle(call, *_at_most(money, sum(taken), held, estimated))
        self._settled.set()
        self.news.set()

    async def _wait(
        self, order: Order, call: int, error: ModelError, wait: float, attempt: int
    ) -> None:
        self._context.say(
            "CallWaiting", target=order.target, node=order.node, call=call, model=order.model,
            reason=error.message[:300], seconds=round(wait, 1), attempt=attempt,
        )  # fmt: skip
        until = int((time.time() + wait) * 1e6)
        self._state(order, "waiting", until_us=until, reason=error.message[:120])
        await asyncio.sleep(wait)

    def _state(self, order: Order, stage: str, **more: Any) -> None:
        self._context.awaits(order.target, order.node, stage, model=order.model, **more)


def _at_most(
    money: int | None, tokens: int, held: Worst, estimated: bool
) -> tuple[int | None, int]:
    """What a call counts against the caps: what it took, or the most that an estimate can mean."""
    if not estimated:
        return money, tokens
    if money is not None and held.micro_dollars is not None:
        money = max(money, min(held.micro_dollars, AT_MOST * money))
    return money, max(tokens, min(held.tokens, AT_MOST * tokens))


def _worst(client: ModelClient, prompt: Prompt, tokens: int) -> Worst:
    return Worst(client.worst(prompt, tokens), prompt.size + tokens)
