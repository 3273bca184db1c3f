"""What a model's client sends: what it leaves out when it is refused, and which key goes where."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from agent.errors import ModelError
from agent.writers.llm.client import Model, ModelClient
from agent.writers.llm.keys import NO_KEY, server_key
from agent.writers.llm.retry import delay
from tests.agent.model_server import Fails, fails, in_turn, says, serving, whole
from tests.agent.writers.llm.calling import PROMPT, Heard, ask, client_of, failing

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.agent.model_server import Script


# -- what is left out ----------------------------------------------------------------------------


def refusing(test: Callable[[Any], bool], message: str, **more: Any) -> Script:
    return lambda request: fails(400, message, **more) if test(request.body) else says("yes")


async def test_a_parameter_that_the_server_refuses_is_left_out_from_then_on() -> None:
    script = refusing(lambda body: "temperature" in body, "Unsupported value", param="temperature")
    with serving(script) as server:
        client = client_of(server, params={"temperature": 0.2, "top_p": 0.9})
        first = await client.ask(PROMPT, 9, Heard())
        second = await client.ask(PROMPT, 9, Heard())
    assert first.text == second.text == "yes"
    assert ["temperature" in request.body for request in server.requests] == [True, False, False]
    assert all(request.body["top_p"] == 0.9 for request in server.requests)
    assert len(first.notes) == 1
    assert "temperature" in first.notes[0]
    assert second.notes == ()


async def test_reasoning_effort_reaches_a_server_of_ones_own() -> None:
    _, _, server = await ask(says("yes"), params={"reasoning_effort": "high", "top_k": 5})
    assert server.requests[0].body["reasoning_effort"] == "high"
    assert server.requests[0].body["top_k"] == 5


async def test_reasoning_by_another_word() -> None:
    script = refusing(lambda body: "reasoning_effort" in body, "model does not support thinking")
    answer, _, _ = await ask(script, params={"reasoning_effort": "high"})
    assert "reasoning_effort" in answer.notes[0]


async def test_a_server_that_does_not_stream() -> None:
    script = refusing(lambda body: body.get("stream"), "streaming is not supported")
    answer, heard, server = await ask(script)
    assert answer.text == heard.all("model") == "yes"
    assert not answer.usage.estimated
    assert [bool(request.body.get("stream")) for request in server.requests] == [True, False]


async def test_a_server_that_does_not_know_stream_options() -> None:
    script = refusing(lambda body: "stream_options" in body, "Unknown field: stream_options")
    answer, _, server = await ask(script)
    assert answer.usage.estimated
    assert server.requests[1].body["stream"] is True


async def test_a_server_that_answers_a_stream_in_one_piece() -> None:
    def script(request: Any) -> Fails:
        return Fails(200, whole(says("yes")))

    answer, _, _ = await ask(script)
    assert answer.text == "yes"
    assert (answer.usage.tokens_in, answer.usage.estimated) == (100, False)


async def test_a_shorter_limit_for_replies() -> None:
    script = refusing(
        lambda body: body["max_tokens"] > 8192,
        "max_tokens is too large: 16000. This model supports at most 8192 completion tokens",
    )
    answer, _, server = await ask(script, tokens=16_000)
    assert [request.body["max_tokens"] for request in server.requests] == [16_000, 8192]
    assert "8192" in answer.notes[0]


async def test_a_small_context_leaves_room_for_a_shorter_reply() -> None:
    script = refusing(
        lambda body: body["max_tokens"] > 3600,
        "This model's maximum context length is 4096 tokens. However, you requested 16500 tokens "
        "(500 in the messages, 16000 in the completion).",
    )
    _, _, server = await ask(script, tokens=16_000)
    assert server.requests[1].body["max_tokens"] == 4096 - 500 - 16


# -- keys ----------------------------------------------------------------------------------------


async def test_no_key_is_said_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    client = ModelClient(Model("anthropic/claude-sonnet-4-5"))
    with pytest.raises(ModelError) as caught:
        await client.ask(PROMPT, 9, Heard())
    assert (caught.value.code, caught.value.fatal) == ("model-key", True)
    assert "ANTHROPIC_API_KEY" in caught.value.cure


async def test_no_such_provider() -> None:
    with pytest.raises(ModelError) as caught:
        await ModelClient(Model("nowhere/nothing")).ask(PROMPT, 9, Heard())
    assert (caught.value.code, caught.value.fatal) == ("model-unknown", True)


async def test_a_key_in_an_error_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_API_KEY", "plain-secret-12345")
    error = await failing(
        fails(401, "Incorrect API key provided: plain-secret-12345, sk-abcdefghij")
    )
    assert "plain-secret" not in error.message
    assert "sk-abc" not in error.message
    assert "FORGE_API_KEY" in error.cure


async def test_openais_key_is_shown_to_openai_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine-and-openais")
    _, _, server = await ask(says("yes"))
    assert "sk-mine" not in str(server.requests[0].headers)
    monkeypatch.setenv("FORGE_API_KEY", "for-this-server")
    _, _, server = await ask(says("yes"))
    assert server.requests[0].headers["Authorization"] == "Bearer for-this-server"
    monkeypatch.delenv("FORGE_API_KEY")
    assert server_key("https://api.openai.com/v1") == "sk-mine-and-openais"
    assert server_key("https://api.openai.com.example.org/v1") == NO_KEY


async def test_the_servers_own_name_for_a_model() -> None:
    _, _, server = await ask(says("yes"), name="Qwen/Qwen3-32B")
    assert server.requests[0].body["model"] == "Qwen/Qwen3-32B"


async def test_a_whole_schedule_of_retries() -> None:
    steps = in_turn(fails(500), fails(429, headers={"Retry-After": "3"}), says("yes"))
    waits: list[float | None] = []
    with serving(steps) as server:
        client = client_of(server)
        for attempt in (1, 2, 3):
            try:
                answer = await client.ask(PROMPT, 9, Heard())
            except ModelError as error:
                waits.append(delay(error, attempt, random.Random(1)))
    assert answer.text == "yes"
    assert len(server.requests) == 3
    assert waits[0] is not None
    assert waits[1] is not None
    assert waits[1] >= 3
