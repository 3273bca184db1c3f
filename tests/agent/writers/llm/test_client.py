"""A model's client through the real litellm, against a real server that does what it is told."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from agent.errors import ModelError
from agent.writers.ask import Prompt
from agent.writers.llm.client import Limits
from tests.agent.model_server import Fails, Says, fails, in_turn, says, serving
from tests.agent.writers.llm.calling import PROMPT, Heard, ask, client_of, failing


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
