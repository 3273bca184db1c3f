"""A model's client through the real litellm, against a real server that does what it is told."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

from agent.errors import ModelError
from agent.writers.ask import Answer, Prompt
from agent.writers.llm.client import Limits, Model, ModelClient
from agent.writers.llm.keys import NO_KEY, server_key
from agent.writers.llm.retry import delay
from tests.agent.model_server import Fails, Says, fails, in_turn, says, serving, whole

if TYPE_CHECKING:
    from collections.abc import Callable

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


async def test_a_reply_streams_in_with_the_providers_own_count() -> None:
    answer, heard, server = await ask(says("int ", "x", " = 1;\n", cached=40))
    assert answer.text == "int x = 1;\n"
    assert heard.pieces == [("model", "int "), ("model", "x"), ("model", " = 1;\n")]
    assert (answer.usage.tokens_in, answer.usage.tokens_out) == (100, 50)
    assert answer.usage.cached == 40
    assert not answer.usage.estimated
    assert answer.micro_dollars == 100 * 1 + 50 * 2
    assert answer.finish == "stop"
    assert answer.notes == ()
    (request,) = server.requests
    assert (request.system, request.user) == (PROMPT.system, PROMPT.user)
    assert request.body["model"] == "test"
    assert request.body["stream"] is True


async def test_a_count_in_a_chunk_that_has_choices_too_is_not_lost() -> None:
    answer, _, _ = await ask(says("x", usage="inside", tokens=(321, 45), cached=300))
    assert (answer.usage.tokens_in, answer.usage.tokens_out) == (321, 45)
    assert answer.usage.cached == 300
    assert not answer.usage.estimated


async def test_without_a_count_the_estimate_says_so() -> None:
    answer, _, _ = await ask(says("x" * 300, usage="none"))
    assert answer.usage.estimated
    assert answer.usage.tokens_out == 100
    assert answer.usage.tokens_in > 0
    assert answer.micro_dollars == answer.usage.tokens_in + 200


@pytest.mark.parametrize("channel", ["reasoning_content", "reasoning"])
async def test_thoughts_have_a_channel_of_their_own(channel: str) -> None:
    step = says("code", thinking=("let me ", "see"), channel=channel, reasoning=30)
    answer, heard, _ = await ask(step)
    assert (answer.text, answer.thinking) == ("code", "let me see")
    assert (heard.all("model"), heard.all("thinking")) == ("code", "let me see")
    assert answer.usage.reasoning == 30


async def test_thoughts_in_tags_are_sorted_out() -> None:
    answer, heard, _ = await ask(says("\n<th", "ink>a < b", "</thi", "nk>\n\ncode </think>"))
    assert answer.text == "code </think>"
    assert heard.all("thinking") == answer.thinking == "a < b"


async def test_a_slow_model_is_heard_before_it_ends() -> None:
    gate = threading.Event()
    heard = Heard()
    with serving(in_turn(says("first", "second", gate=gate, late=True))) as server:
        asking = asyncio.create_task(client_of(server).ask(PROMPT, 1000, heard))
        await heard.came.wait()
        assert heard.pieces == [("model", "first")]
        assert not asking.done()
        gate.set()
        assert (await asking).text == "firstsecond"


async def test_several_are_asked_at_once() -> None:
    together = threading.Barrier(4, timeout=20)

    def script(request: object) -> Says:
        together.wait()
        return says("yes")

    with serving(script) as server:
        client = client_of(server)
        answers = await asyncio.gather(*(client.ask(PROMPT, 9, Heard()) for _ in range(4)))
    assert [answer.text for answer in answers] == ["yes"] * 4


# -- faults --------------------------------------------------------------------------------------


async def test_too_many_requests() -> None:
    error = await failing(fails(429, "slow down", {"Retry-After": "17"}))
    assert (error.code, error.again, error.fatal, error.wait_s) == ("model-rate", True, False, 17)
    assert "slow down" in error.message


async def test_a_date_to_wait_for() -> None:
    error = await failing(fails(429, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}))
    assert error.wait_s == 0
    error = await failing(fails(429, headers={"Retry-After": "soon"}))
    assert error.wait_s is None


@pytest.mark.parametrize(
    ("step", "code", "again", "fatal"),
    [
        (fails(401, "Incorrect API key provided"), "model-key", False, True),
        (fails(403, "not allowed to use this model"), "model-key", False, True),
        (fails(404, "The model `test` does not exist", code="model_not_found"),
         "model-unknown", False, True),
        (fails(404), "model-unknown", False, True),
        (fails(429, "You exceeded your current quota", code="insufficient_quota"),
         "model-budget", False, True),
        (fails(402, "Insufficient Balance"), "model-budget", False, True),
        (fails(500), "model-server", True, False),
        (fails(502), "model-server", True, False),
        (fails(503), "model-server", True, False),
        (fails(529, "Overloaded"), "model-server", True, False),
        (fails(504), "model-timeout", True, False),
        (fails(408), "model-timeout", True, False),
        (fails(400, "This model's maximum context length is 4096 tokens.",
               code="context_length_exceeded"), "model-context", False, False),
        (fails(413, "Request too large"), "model-context", False, False),
        (fails(400, "rejected by our safety system", code="content_policy_violation"),
         "model-refused", False, False),
        (fails(400, "messages: bad role"), "model-bad", False, True),
        (fails(422, "bad field"), "model-bad", False, True),
    ],
)  # fmt: skip
async def test_what_http_says(step: Fails, code: str, again: bool, fatal: bool) -> None:
    error = await failing(step)
    assert (error.code, error.again, error.fatal) == (code, again, fatal)
    assert error.partial is None
    assert bool(error.cure) == (not again)


async def test_html_of_a_proxy_is_one_bounded_line() -> None:
    page = "<html>\x1b[31m" + "<p>Bad gateway</p>\n" * 50_000
    error = await failing(Fails(502, page))
    assert error.code == "model-server"
    assert "\x1b" not in error.message


async def test_a_broken_stream_keeps_what_came_and_what_it_costs() -> None:
    error = await failing(says("half of ", "it", drop=True))
    assert (error.code, error.again, error.fatal) == ("model-dropped", True, False)
    assert error.partial is not None
    assert error.partial.text == "half of it"
    assert error.partial.usage.estimated
    assert error.partial.usage.tokens_out == 4
    assert error.partial.micro_dollars == error.partial.usage.tokens_in + 8


async def test_a_stream_that_ends_without_an_end_is_broken_too() -> None:
    error = await failing(says("half", finish=None))
    assert (error.code, error.again) == ("model-dropped", True)
    assert error.partial is not None
    assert error.partial.text == "half"


async def test_an_error_within_the_stream() -> None:
    error = await failing(says("half", error={"message": "Overloaded", "type": "overloaded_error"}))
    assert (error.code, error.again) == ("model-server", True)
    assert error.partial is not None
    assert error.partial.text == "half"


async def test_a_reply_that_is_cut_off_carries_its_text() -> None:
    error = await failing(says("half", finish="length"))
    assert (error.code, error.again, error.fatal) == ("model-cut", False, False)
    assert error.partial is not None
    assert error.partial.text == "half"
    assert not error.partial.usage.estimated
    assert error.partial.finish == "length"


@pytest.mark.parametrize("step", [says(), says("  \n"), says(thinking=("hm",))])
async def test_nothing_but_thoughts(step: Says) -> None:
    error = await failing(step)
    assert (error.code, error.again) == ("model-empty", True)
    assert error.partial is not None
    assert error.partial.micro_dollars == 200


@pytest.mark.parametrize(
    "step", [says(refusal="I cannot help"), says("no", finish="content_filter")]
)
async def test_a_refusal(step: Says) -> None:
    error = await failing(step)
    assert (error.code, error.again, error.fatal) == ("model-refused", False, False)
    assert error.partial is not None


async def test_two_megabytes_are_cut() -> None:
    error = await failing(says(*["x" * 4096] * 512))
    assert error.code == "model-cut"
    assert error.partial is not None
    assert len(error.partial.text) == 512 << 10
    assert error.partial.usage.estimated


async def test_a_model_that_says_the_same_for_ever_is_stopped() -> None:
    error = await failing(says(*["again "] * 3000))
    assert (error.code, error.again) == ("model-cut", False)
    assert "again and again" in error.message
    assert error.partial is not None
    assert error.partial.text.startswith("again again ")


async def test_hostile_text_comes_through_as_it_is() -> None:
    text = "\x1b[2J[bold]x[/] \u202e \U0001f600 </think> data: [DONE]\r\n\n"
    answer, _, _ = await ask(says(text))
    assert answer.text == text


async def test_what_no_file_can_hold_is_replaced() -> None:
    answer, heard, _ = await ask(says("a\0b\ud83dc"))
    assert answer.text == heard.all("model") == "ab\ufffdc"


async def test_nothing_comes() -> None:
    limits = Limits(slow_s=0.2, between_s=0.2)
    error = await failing(says("x", gate=threading.Event()), limits=limits)
    assert (error.code, error.again) == ("model-timeout", True)
    assert "nothing came" in error.message


async def test_a_reply_stops_coming() -> None:
    step = says("first", "second", gate=threading.Event(), late=True)
    error = await failing(step, limits=Limits(between_s=0.2))
    assert error.code == "model-timeout"
    assert error.partial is not None
    assert error.partial.text == "first"


async def test_a_reply_takes_too_long_in_all() -> None:
    step = says("first", "second", gate=threading.Event(), late=True)
    error = await failing(step, limits=Limits(whole_s=0.4))
    assert error.code == "model-timeout"


async def test_a_cancelled_call_ends_at_once() -> None:
    heard = Heard()
    with serving(in_turn(says("first", "x", gate=threading.Event(), late=True))) as server:
        asking = asyncio.create_task(client_of(server).ask(PROMPT, 1000, heard))
        await heard.came.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_a_server_that_is_not_there() -> None:
    with serving(in_turn(says("yes"))) as server:
        client = client_of(server)
        by_name = client_of(server, api_base=server.url.replace("127.0.0.1", "localhost"))
    for gone in (client, by_name):
        with pytest.raises(ModelError) as caught:
            await gone.ask(PROMPT, 9, Heard())
        assert (caught.value.code, caught.value.fatal) == ("model-connection", True)
        assert gone.model.api_base in caught.value.cure


async def test_a_server_that_went_away_may_come_back() -> None:
    with serving(in_turn(says("yes"))) as server:
        client = client_of(server)
        await client.ask(PROMPT, 9, Heard())
    with pytest.raises(ModelError) as caught:
        await client.ask(PROMPT, 9, Heard())
    assert (caught.value.code, caught.value.again) == ("model-connection", True)
    assert not caught.value.fatal


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


# -- what is not the model's fault ---------------------------------------------------------------


async def test_a_listener_that_fails_is_no_fault_of_the_model() -> None:
    def full(channel: str, text: str) -> None:
        raise OSError("the disk is full")

    with serving(in_turn(says("yes"))) as server:
        client = client_of(server)
        with pytest.raises(OSError, match="the disk is full"):
            await client.ask(PROMPT, 9, full)


async def test_two_that_learn_the_same_at_once_both_go_on() -> None:
    together = threading.Barrier(2, timeout=20)

    def script(request: Any) -> Says | Fails:
        if "temperature" not in request.body:
            return says("yes")
        together.wait()
        return fails(400, "temperature is not supported")

    with serving(script) as server:
        client = client_of(server, params={"temperature": 1})
        answers = await asyncio.gather(*(client.ask(PROMPT, 9, Heard()) for _ in range(2)))
    assert [answer.text for answer in answers] == ["yes", "yes"]


async def test_a_prompt_with_half_a_character_is_sent() -> None:
    with serving(in_turn(says("yes"))) as server:
        await client_of(server).ask(Prompt("a\ud800b", "c\udfffd"), 9, Heard())
    assert (server.requests[0].system, server.requests[0].user) == ("a?b", "c?d")


async def test_an_error_with_a_status_of_success() -> None:
    error = await failing(Fails(200, {"error": {"message": "Rate limit exceeded", "code": 429}}))
    assert (error.code, error.again) == ("model-rate", True)
    error = await failing(Fails(200, "<html>sign in</html>"))
    assert error.again


async def test_a_refusal_of_everything_ends() -> None:
    error = await failing(fails(400, "stream_options, temperature, stream: all wrong"),
                          params={"temperature": 1})  # fmt: skip
    assert (error.code, error.fatal) == ("model-bad", True)


async def test_a_whole_reply_may_take_longer_than_a_first_piece() -> None:
    gate = threading.Event()

    def script(request: Any) -> Says | Fails:
        if request.body.get("stream"):
            return fails(400, "stream is not supported")
        asyncio_loop.call_soon_threadsafe(asyncio_loop.call_later, 0.4, gate.set)
        return says("yes", gate=gate)

    asyncio_loop = asyncio.get_running_loop()
    answer, _, _ = await ask(script, limits=Limits(slow_s=0.2, between_s=0.2))
    assert answer.text == "yes"
