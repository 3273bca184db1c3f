"""One attempt at a model call, through litellm: streamed, counted, bounded, its faults told apart.

Whoever asks repeats it (``retry.delay``): each attempt is a call of its own in the ledger.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.errors import ModelError
from agent.writers.llm import parameters, quiet
from agent.writers.llm.faults import Facts, Where, fault, read, shown
from agent.writers.llm.keys import Key, find_key
from agent.writers.llm.model import Model
from agent.writers.llm.prices import Price, entry_of, listed
from agent.writers.llm.turn import Call, Turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.writers.ask import Answer, Prompt

__all__ = ["Limits", "Model", "ModelClient"]

MAX_TURNS = 8
_CACHING = frozenset({"anthropic", "bedrock", "bedrock_converse", "vertex_ai", "openrouter"})


@dataclass(frozen=True, slots=True)
class Limits:
    """Time-outs in seconds.

    Attributes:
        first_s: Until anything comes.
        slow_s: The same for a model that thinks first, or a server of one's own.
        between_s: From one piece to the next.
        whole_s: For all of it.
    """

    first_s: float = 60.0
    slow_s: float = 600.0
    between_s: float = 60.0
    whole_s: float = 900.0


class ModelClient:
    """Asks one model.

    Args:
        model: Which, and how.
        limits: Time-outs.

    Attributes:
        price: What it costs; None if nobody knows.
    """

    def __init__(self, model: Model, limits: Limits | None = None) -> None:
        self.model = model
        self.price: Price | None = model.price or listed(
            model.name, str(model.params.get("service_tier") or "")
        )
        self._limits = limits or Limits()
        self._entry = entry_of(model.name) or {}
        self._params = dict(model.params)
        self._most = int(self._entry.get("max_output_tokens") or 0) or None
        self._streams = True
        self._counts = True
        self._answered = False
        self._key: Key | None = None

    def worst(self, prompt: Prompt, max_tokens: int) -> int | None:
        """The most micro-dollars that ``ask`` can cost; None without a price."""
        return self.price.worst(prompt.size, max_tokens) if self.price else None

    async def ask(
        self, prompt: Prompt, max_tokens: int, on_piece: Callable[[str, str], None]
    ) -> Answer:
        """One reply.

        What the provider refuses to take (a parameter, streaming, so long a reply) is left out at
        once, and from then on; a refusal costs nothing.

        Args:
            prompt: The question.
            max_tokens: The longest reply, thinking included.
            on_piece: Called with ``"model"`` or ``"thinking"`` and a piece of text as it comes in.

        Raises:
            ModelError: ``model-...``; see its ``again``, ``fatal``, ``wait_s`` and ``partial``.
        """
        lib = await asyncio.to_thread(quiet.litellm)
        key = await asyncio.to_thread(self._find_key, lib)
        notes: list[str] = []
        for _ in range(MAX_TURNS):
            request = self._request(prompt, min(max_tokens, self._most or max_tokens), key)
            turn = Turn(self._call(prompt, notes), on_piece)
            try:
                answer = await turn.run(lib, request)
            except ModelError as error:
                if error.partial is not None:
                    self._answered = True
                raise
            except Exception as error:  # of many libraries
                if turn.incoming.unheard:
                    raise  # it is not the model's fault
                facts = read(error, time.time())
                if turn.incoming.quiet and self._give_way(facts, request, notes):
                    continue
                partial = turn.partial()
                self._answered = self._answered or partial is not None
                raise fault(facts, self._where(key), partial) from None
            self._answered = True
            return answer
        raise ModelError(
            f"{self.model.name}: whatever is left out, the request is not accepted",
            "correct the model's parameters",
            code="model-bad",
            fatal=True,
        )

    # -- what is sent ------------------------------------------------------------------------------

    def _find_key(self, lib: Any) -> Key:
        if self._key is None or self._key.missing:
            self._key = find_key(lib, self.model)
        if self._key.missing:
            names = " or ".join(self._key.names)
            raise ModelError(
                f"{self.model.name}: no key: {names} is not set",
                f"set {names} in the environment that forge-tui is started from",
                code="model-key",
                fatal=True,
            )
        return self._key

    def _request(self, prompt: Prompt, max_tokens: int, key: Key) -> dict[str, Any]:
        messages = [{"role": "user", "content": _sendable(prompt.user)}]
        if prompt.system:
            system: Any = _sendable(prompt.system)
            if self._caches(key.provider):
                system = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
            messages.insert(0, {"role": "system", "content": system})
        request: dict[str, Any] = {
            **self._params,
            "model": key.route,
            "messages": messages,
            "max_tokens": max_tokens,
            "timeout": self._limits.whole_s + 60,  # ours are shorter
            "num_retries": 0,
            "max_retries": 0,
        }
        if self._streams:
            request["stream"] = True
            if self._counts:
                request["stream_options"] = {"include_usage": True}
        if self.model.api_base:
            request["api_base"] = key.base
            if key.provider == "openai":
                # litellm's table knows nothing of a server's own models: let the server decide.
                request["allowed_openai_params"] = list(self._params)
        if key.value:
            request["api_key"] = key.value
        return request

    def _caches(self, provider: str) -> bool:
        """Whether the system part is marked for the cache; others do it unasked, or refuse."""
        asked = "claude" in self.model.name.lower() and provider in _CACHING
        return asked and bool(self._entry.get("supports_prompt_caching"))

    def _give_way(self, facts: Facts, request: dict[str, Any], notes: list[str]) -> bool:
        """Leave out what was refused; whether there was such a thing.

        It goes by what this request had: another may have learned the same meanwhile.
        """
        if facts.status not in (400, 404, 405, 415, 422, 501):
            return False
        words = " ".join((facts.text, *facts.named))
        name = self.model.name
        if fewer := parameters.fewer_tokens(words, request["max_tokens"]):
            self._most = min(fewer, self._most or fewer)
            notes.append(f"{name}: replies are held to {self._most} tokens")
            return True
        if "stream_options" in request and "stream_options" in words:
            self._counts = False
            return True
        sent = {key: request[key] for key in self.model.params if key in request}
        if gone := parameters.refused(facts.text, sent, facts.named):
            for key in gone:
                self._params.pop(key, None)
                notes.append(f"{name} does not take {shown(key, 60)}: left out")
            return True
        if request.get("stream") and parameters.no_streaming(facts.text):
            self._streams = False
            notes.append(f"{name} does not stream: replies come in whole")
            return True
        return False

    def _where(self, key: Key) -> Where:
        model = self.model
        return Where(model.name, key.names, model.api_base, model.local, self._answered)

    def _call(self, prompt: Prompt, notes: list[str]) -> Call:
        thinks = any(
            self._params.get(name) not in (None, "none", "minimal", "")
            for name in ("reasoning_effort", "thinking", "reasoning")
        )
        slow = thinks or self.model.api_base or self._entry.get("supports_reasoning")
        limits = self._limits
        first = limits.slow_s if slow else limits.first_s
        return Call(self.model.name, prompt, self.price, first, limits.between_s, limits.whole_s,
                    tuple(notes))  # fmt: skip


def _sendable(text: str) -> str:
    """Without halves of surrogate pairs, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
