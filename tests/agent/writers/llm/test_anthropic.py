"""The same client by another protocol: marks for the cache, thoughts, counts in two places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.errors import ModelError
from agent.writers.ask import Answer, Prompt
from agent.writers.llm.client import Model, ModelClient
from tests.agent.model_server import Fails, Says, fails, in_turn, says, serving

if TYPE_CHECKING:
    from tests.agent.model_server import Server


PROMPT = Prompt("You write kernels.", "Make it fast.")


async def ask(step: Says | Fails, **params: object) -> tuple[Answer, Server, list[str]]:
    channels: list[str] = []
    with serving(in_turn(step)) as server:
        base = server.url.removesuffix("/v1")
        model = {"name": "anthropic/claude-sonnet-4-5", "api_base": base, "params": params}
        client = ModelClient(Model.of(model))
        answer = await client.ask(PROMPT, 4000, lambda channel, text: channels.append(channel))
    return answer, server, channels


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key-1234567890")


async def test_the_system_part_is_marked_for_the_cache() -> None:
    answer, server, _ = await ask(says("code", finish="end_turn", tokens=(2000, 50), cached=1500))
    (request,) = server.requests
    system = request.body["system"]
    assert system == [
        {"type": "text", "text": PROMPT.system, "cache_control": {"type": "ephemeral"}}
    ]
    assert "cache_control" not in str(request.body["messages"])
    assert answer.finish == "stop"
    usage = answer.usage
    assert (usage.tokens_in, usage.tokens_out, usage.cached) == (2000, 50, 1500)
    assert not usage.estimated
    # $3, $0.30 and $15 a million
    assert answer.micro_dollars == 500 * 3 + 450 + 50 * 15


async def test_thoughts() -> None:
    answer, server, channels = await ask(
        says("code", thinking=("hm", "m"), finish="end_turn"), reasoning_effort="low"
    )
    assert (answer.text, answer.thinking) == ("code", "hmm")
    assert channels == ["thinking", "thinking", "model"]
    assert server.requests[0].body["thinking"]["type"] == "enabled"


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (says("half", finish="max_tokens"), "model-cut"),
        (says("no", finish="refusal"), "model-refused"),
        (says("half", drop=True), "model-dropped"),
        (says("half", finish=None), "model-dropped"),
        (says("half", error={"type": "overloaded_error", "message": "Overloaded"}), "model-server"),
        (fails(429, "slow down", {"retry-after": "7"}, type="rate_limit_error"), "model-rate"),
        (fails(529, "Overloaded", type="overloaded_error"), "model-server"),
        (fails(401, "invalid x-api-key", type="authentication_error"), "model-key"),
        (fails(404, "model: claude-x", type="not_found_error"), "model-unknown"),
        (fails(400, "Your credit balance is too low", type="invalid_request_error"),
         "model-budget"),
        (fails(400, "prompt is too long: 300000 tokens > 200000 maximum"), "model-context"),
        (fails(400, "messages.0: bad"), "model-bad"),
    ],
)  # fmt: skip
async def test_faults(step: Says | Fails, code: str) -> None:
    with pytest.raises(ModelError) as caught:
        await ask(step)
    assert caught.value.code == code, caught.value.message
    if code == "model-rate":
        assert caught.value.wait_s == 7
    if isinstance(step, Says):
        assert caught.value.partial is not None
        assert caught.value.partial.text == step.pieces[0]
        assert caught.value.partial.usage.estimated == (code in ("model-dropped", "model-server"))


async def test_a_server_that_is_not_there() -> None:
    client = ModelClient(Model("anthropic/claude-sonnet-4-5", "http://127.0.0.1:9"))
    with pytest.raises(ModelError) as caught:
        await client.ask(PROMPT, 9, lambda channel, text: None)
    assert caught.value.code == "model-connection"
    assert caught.value.fatal


async def test_a_parameter_that_litellms_table_does_not_have_is_left_out() -> None:
    answer, server, _ = await ask(says("code", finish="end_turn"), logit_bias={"1": 2})
    assert "logit_bias" not in server.requests[0].body
    assert "logit_bias" in answer.notes[0]
