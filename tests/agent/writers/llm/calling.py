"""One call of a model's client against the test server: what the tests of it share."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest

from agent.errors import ModelError
from agent.writers.ask import Answer, Prompt
from agent.writers.llm.client import Limits, Model, ModelClient
from tests.agent.model_server import Fails, Says, in_turn, serving

if TYPE_CHECKING:
    from tests.agent.model_server import Script, Server


PROMPT = Prompt("You write kernels.", "Make it fast.")


class Heard:
    """What came in, piece by piece."""

    def __init__(self) -> None:
        self.pieces: list[tuple[str, str]] = []
        self.came = asyncio.Event()

    def __call__(self, channel: str, text: str) -> None:
        self.pieces.append((channel, text))
        self.came.set()

    def all(self, channel: str) -> str:
        return "".join(text for name, text in self.pieces if name == channel)


def client_of(server: Server, limits: Limits | None = None, **more: Any) -> ModelClient:
    return ModelClient(Model.of(server.model(**more)), limits)


async def ask(
    script: Script | Says | Fails, *, limits: Limits | None = None, tokens: int = 1000, **more: Any
) -> tuple[Answer, Heard, Server]:
    heard = Heard()
    steps = script if callable(script) else in_turn(script)
    with serving(steps) as server:
        answer = await client_of(server, limits, **more).ask(PROMPT, tokens, heard)
    return answer, heard, server


async def failing(script: Script | Says | Fails, **how: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(script, **how)
    error = caught.value
    assert error.message.isprintable()
    assert len(error.message) < 500
    gc.collect()  # what is left open would warn, which fails the test
    return error
