"""A reply as it comes in: text apart from thinking, and the provider's own count of tokens.

litellm (1.90) replaces what a provider counted by an estimate of its own, without a word, when the
last chunk also has choices, or when there is no count. So the chunks are looked at before litellm
has them, and an estimate of ours is marked as one.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from typing import TYPE_CHECKING, Any

from agent.writers.ask import Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from agent.writers.ask import Prompt

MAX_TEXT = 512 << 10
MAX_THINKING = 2 << 20
BYTES_A_TOKEN = 3.0  # of code; of prose there are more, so an estimate is rather too high
MAX_TOKENS = 1 << 30
_UNFIT = re.compile(r"[\0\ud800-\udfff]")  # what no UTF-8 file and no SQLite text can hold
_OPEN, _CLOSE = "<think>", "</think>"


class TooLong(Exception):
    """More came in than is of use."""


class Told(Exception):
    """A server said with a status of success what went wrong."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__("an error as the reply")
        self.body = body


class Incoming:
    """Gathers one reply.

    Args:
        on_piece: Called with ``"model"`` or ``"thinking"`` and the text that came in.

    Attributes:
        accepted: Whether the provider has begun to answer, and so may charge for it.
        finish: What the provider called the end; "" before it.
        refusal: What it said instead of a reply.
        unheard: Whether ``on_piece`` failed.
    """

    def __init__(self, on_piece: Callable[[str, str], None]) -> None:
        self.accepted = False
        self.finish = ""
        self.refusal = ""
        self.unheard = False
        self._on_piece = on_piece
        self._parts: dict[str, list[str]] = {"model": [], "thinking": []}
        self._size = {"model": 0, "thinking": 0}
        self._counts: dict[str, int] = {}
        self._held = ""
        self._blank = False
        self._inside: bool | None = None  # None: not known yet whether it begins with thoughts

    @property
    def text(self) -> str:
        return "".join(self._parts["model"])

    @property
    def thinking(self) -> str:
        return "".join(self._parts["thinking"])

    @property
    def begun(self) -> bool:
        """Whether anything of the reply itself is there."""
        return self._size["model"] > 0

    @property
    def quiet(self) -> bool:
        """Whether nothing at all came in yet."""
        return not any(self._size.values())

    def add_thinking(self, piece: str) -> None:
        self._put("thinking", piece)

    def add_text(self, piece: str) -> None:
        """Text of the reply. Thoughts that a server leaves in it, in tags, are sorted out."""
        if self._inside is False:
            self._put("model", self._after_thoughts(piece))
            return
        self._held += piece
        if self._inside is None:
            start = self._held.lstrip()
            if _OPEN.startswith(start) and len(start) < len(_OPEN):
                return
            self._inside = start.startswith(_OPEN)
            if self._inside:
                self._held = start[len(_OPEN) :]
        if self._inside:
            before, found, after = self._held.partition(_CLOSE)
            if not found:
                keep = _overlap(self._held)
                self._held, piece = (
                    self._held[len(self._held) - keep :],
                    self._held[: -keep or None],
                )
                self._put("thinking", piece)
                return
            self._put("thinking", before)
            self._inside, self._blank = False, True
            self._held = self._after_thoughts(after)
        self._flush("model")

    def end(self) -> None:
        """Nothing more comes."""
        self._flush("thinking" if self._inside else "model")

    def count(self, usage: object) -> None:
        """Take a provider's count in. All that come are counts up to there: the highest stand."""
        data = _mapping(usage)
        prompt, reply = data.get("prompt_tokens_details"), data.get("completion_tokens_details")
        inside, outside = _mapping(prompt), _mapping(reply)
        found = {
            "in": _number(data.get("prompt_tokens")),
            "out": _number(data.get("completion_tokens")),
            "total": _number(data.get("total_tokens")),
            "cached": _number(inside.get("cached_tokens"))
            or _number(data.get("cache_read_input_tokens"))
            or _number(data.get("prompt_cache_hit_tokens")),
            "written": _number(data.get("cache_creation_input_tokens"))
            or _number(inside.get("cache_creation_tokens")),
            "reasoning": _number(outside.get("reasoning_tokens")),
        }
        for name, number in found.items():
            if number:
                self._counts[name] = max(self._counts.get(name, 0), number)

    def usage(self, prompt: Prompt) -> Usage:
        """The provider's count; our own, marked, if it gave none or stopped before the end."""
        counts = self._counts
        seen = _tokens(self.text) + _tokens(self.thinking)
        tokens_in, tokens_out = counts.get("in", 0), counts.get("out", 0)
        # Some do not count thoughts as part of the reply, only in the total.
        if counts.get("reasoning") and counts.get("total", 0) > tokens_in + tokens_out:
            tokens_out = counts["total"] - tokens_in
        estimated = not tokens_in or (not tokens_out and seen > 0) or not self.finish
        if estimated:
            tokens_in = tokens_in or math.ceil(prompt.size / BYTES_A_TOKEN)
            tokens_out = max(tokens_out, seen)
        reasoning = counts.get("reasoning", 0)
        if estimated and not reasoning:
            reasoning = _tokens(self.thinking)
        return Usage(
            tokens_in,
            tokens_out,
            cached=min(counts.get("cached", 0), tokens_in),
            cache_written=min(counts.get("written", 0), tokens_in),
            reasoning=min(reasoning, tokens_out),
            estimated=estimated,
        )

    def _after_thoughts(self, piece: str) -> str:
        """Without the empty lines between thoughts and reply."""
        if self._blank:
            piece = piece.lstrip("\n")
            self._blank = not piece
        return piece

    def _flush(self, channel: str) -> None:
        held, self._held = self._held, ""
        self._put(channel, held)

    def _put(self, channel: str, piece: str) -> None:
        if _UNFIT.search(piece):
            # Halves of a pair that JSON escaped one by one belong together; others are broken.
            whole = piece.replace("\0", "").encode("utf-16", "surrogatepass")
            piece = whole.decode("utf-16", "replace")
        if not piece:
            return
        most = MAX_TEXT if channel == "model" else MAX_THINKING
        room = most - self._size[channel]
        part = piece[:room]
        if part:
            self._parts[channel].append(part)
            self._size[channel] += len(part)
            self.unheard = True
            self._on_piece(channel, part)
            self.unheard = False
        if len(piece) > room:
            raise TooLong(channel)


class Meter:
    """A provider's chunks on their way to litellm.

    Args:
        chunks: What litellm would read.
        incoming: What counts and ends are told to.
        on_chunk: Called for each, for the time-outs.
    """

    def __init__(self, chunks: Any, incoming: Incoming, on_chunk: Callable[[], None]) -> None:
        self._chunks = chunks
        self._iterator: AsyncIterator[Any] = chunks.__aiter__()
        self._incoming = incoming
        self._on_chunk = on_chunk

    def __aiter__(self) -> Meter:
        return self

    async def __anext__(self) -> Any:
        chunk = await self._iterator.__anext__()
        self._on_chunk()
        usage = chunk.get("usage") if isinstance(chunk, dict) else getattr(chunk, "usage", None)
        if usage is not None:
            self._incoming.count(usage)
        for choice in getattr(chunk, "choices", None) or ():
            _look(choice, self._incoming)
        return chunk

    async def aclose(self) -> None:
        """Drop the connection."""
        for name in ("aclose", "close"):
            if close := getattr(self._chunks, name, None):
                done = close()
                if asyncio.iscoroutine(done):
                    await done
                return


async def in_one_piece(chunks: Any) -> dict[str, Any] | None:
    """The reply of a server that answers a request for a stream with all of it at once.

    Raises:
        Told: It is an error.
        ValueError: It is no JSON.
    """
    response = getattr(chunks, "response", None)
    kind = str(getattr(response, "headers", {}).get("content-type", ""))
    if response is None or not kind.startswith("application/json"):
        return None
    data = json.loads(await response.aread())
    if not isinstance(data, dict) or not data.get("choices"):
        raise Told(data if isinstance(data, dict) else {})
    return data


def _look(choice: Any, incoming: Incoming) -> None:
    delta = getattr(choice, "delta", None)
    if isinstance(refusal := getattr(delta, "refusal", None), str):
        incoming.refusal += refusal[:1000]
    # vLLM and OpenRouter call it so; litellm knows the other name alone.
    thought = getattr(delta, "reasoning", None)
    if (
        delta is not None
        and isinstance(thought, str)
        and not getattr(delta, "reasoning_content", None)
    ):
        delta.reasoning_content = thought


def _overlap(text: str) -> int:
    """How many characters at the end may be the beginning of the closing tag."""
    return next((n for n in range(len(_CLOSE) - 1, 0, -1) if text.endswith(_CLOSE[:n])), 0)


def _tokens(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_A_TOKEN)


def _mapping(value: object) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    dump = getattr(value, "model_dump", None)
    found = dump(warnings=False) if dump else None
    return found if isinstance(found, dict) else {}


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return 0
    return int(min(max(value, 0), MAX_TOKENS))
