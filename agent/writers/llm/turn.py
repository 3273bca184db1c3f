"""One request to a model, and what comes of it: an answer, or what is wrong with the reply."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.errors import ModelError
from agent.writers.ask import Answer
from agent.writers.llm.faults import shown
from agent.writers.llm.incoming import Incoming, Meter, TooLong, in_one_piece
from agent.writers.llm.secrets import redact

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.writers.ask import Prompt
    from agent.writers.llm.prices import Price


@dataclass(frozen=True, slots=True)
class Call:
    """What a request is about.

    Attributes:
        name: The model's name, for messages.
        prompt: What is asked, for estimates.
        price: What it costs; None if nobody knows.
        first_s: Seconds until anything of the reply itself comes.
        between_s: Seconds from one piece to the next.
        whole_s: Seconds for all of it.
        notes: What the answer is to tell.
    """

    name: str
    prompt: Prompt
    price: Price | None
    first_s: float
    between_s: float
    whole_s: float
    notes: tuple[str, ...] = ()


class Turn:
    """One request and what comes of it."""

    def __init__(self, call: Call, on_piece: Callable[[str, str], None]) -> None:
        self.incoming = Incoming(on_piece)
        self._call = call
        self._began = time.monotonic()
        self._cut = False
        self._streams = True
        self._deadline: asyncio.Timeout | None = None

    async def run(self, lib: Any, request: dict[str, Any]) -> Answer:
        """Send it and read the reply.

        Raises:
            ModelError: The reply is late, cut, empty, or a refusal.
            Exception: Whatever else litellm raised.
        """
        self._streams = bool(request.get("stream"))
        try:
            async with asyncio.timeout(None) as self._deadline:
                self._heard()
                response = await lib.acompletion(**request)
                self.incoming.accepted = True
                if hasattr(response, "completion_stream"):
                    await self._read(lib, response)
                else:
                    self._take(response)
        except TimeoutError:
            if not self._deadline or not self._deadline.expired():
                raise
            raise self._late() from None
        self.incoming.end()
        return self._judge()

    def partial(self) -> Answer | None:
        """What has come in, if the provider has begun."""
        return self._answer(self.incoming.finish) if self.incoming.accepted else None

    # -- reading -----------------------------------------------------------------------------------

    def _heard(self) -> None:
        """Something came in (or the request goes out): the next must come before long."""
        now = asyncio.get_running_loop().time()
        pause = self._call.between_s if self.incoming.begun else self._call.first_s
        if not self._streams:
            pause = self._call.whole_s
        end = self._began + self._call.whole_s
        if self._deadline is not None:
            self._deadline.reschedule(min(now + pause, now + end - time.monotonic()))

    async def _read(self, lib: Any, response: Any) -> None:
        if response.completion_stream is None:
            await response.fetch_stream()
        if (whole := await in_one_piece(response.completion_stream)) is not None:
            self._take(lib.ModelResponse(**whole))
            return
        if hasattr(response.completion_stream, "__aiter__"):
            response.completion_stream = Meter(
                response.completion_stream, self.incoming, self._heard
            )
        try:
            async for chunk in response:
                for choice in chunk.choices[:1]:
                    self._piece(choice.delta)
        except TooLong:
            self._cut = True
        finally:
            self.incoming.finish = str(response.received_finish_reason or "")[:40]
            with contextlib.suppress(OSError, RuntimeError):
                await response.aclose()

    def _piece(self, part: Any) -> None:
        if isinstance(thought := getattr(part, "reasoning_content", None), str):
            self.incoming.add_thinking(thought)
        if isinstance(text := getattr(part, "content", None), str):
            self.incoming.add_text(text)
        self._heard()

    def _take(self, response: Any) -> None:
        """A reply that came in whole."""
        self.incoming.count(getattr(response, "usage", None))
        for choice in response.choices[:1]:
            self.incoming.finish = str(choice.finish_reason or "stop")[:40]
            refusal = getattr(choice.message, "refusal", None)
            self.incoming.refusal = refusal[:1000] if isinstance(refusal, str) else ""
            try:
                self._piece(choice.message)
            except TooLong:
                self._cut = True

    # -- judging -----------------------------------------------------------------------------------

    def _judge(self) -> Answer:
        """The answer, or what is wrong with it."""
        incoming = self.incoming
        finish = "length" if self._cut else incoming.finish
        answer = self._answer(finish)
        if incoming.refusal or finish in ("content_filter", "refusal"):
            said = shown(redact(incoming.refusal or answer.text), 200) or "no reason given"
            cure = "the search goes on with other ideas"
            raise self._error("model-refused", f"it refused to answer: {said}", answer, cure=cure)
        if not finish:
            raise self._error("model-dropped", "the stream ended in the middle of the reply",
                              answer, again=True)  # fmt: skip
        if not answer.text.strip():
            what = "thoughts, but no reply" if answer.thinking.strip() else "an empty reply"
            full = finish == "length"  # as the next one would be, at the same cost
            cure = "let replies be longer, or think less" if full else ""
            raise self._error("model-empty", f"it gave {what}", answer, again=not full, cure=cure)
        if finish == "length":
            what = f"the reply is cut off after {answer.usage.tokens_out:,} tokens"
            raise self._error("model-cut", what, answer, cure="let replies be longer")
        return answer

    def _late(self) -> ModelError:
        seconds = time.monotonic() - self._began
        what = "nothing came" if self.incoming.quiet else "the reply stopped coming"
        if seconds >= self._call.whole_s:
            what = "the reply was not complete"
        # The request is on its way, so it may be charged for, whether or not anything came.
        partial = self._answer("")
        return self._error("model-timeout", f"{what} within {seconds:.0f} s", partial, again=True)

    def _error(
        self, code: str, what: str, partial: Answer | None, *, again: bool = False, cure: str = ""
    ) -> ModelError:
        message = f"{self._call.name}: {what}"
        return ModelError(message, cure, code=code, again=again, partial=partial)

    def _answer(self, finish: str) -> Answer:
        usage = self.incoming.usage(self._call.prompt)
        price = self._call.price
        return Answer(
            self.incoming.text,
            self.incoming.thinking,
            finish,
            usage,
            price.cost(usage) if price else None,
            time.monotonic() - self._began,
            self._call.notes,
        )
