"""What comes in, in whatever pieces."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.writers.ask import Prompt
from agent.writers.llm.incoming import MAX_TEXT, MAX_TOKENS, Incoming, Meter, TooLong

PROMPT = Prompt("s" * 30, "u" * 270)


def gathered(*pieces: str) -> tuple[Incoming, list[tuple[str, str]]]:
    heard: list[tuple[str, str]] = []
    incoming = Incoming(lambda channel, text: heard.append((channel, text)))
    for piece in pieces:
        incoming.add_text(piece)
    incoming.end()
    return incoming, heard


@given(st.text(alphabet="<>/think ab\n", max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_pieces_make_no_difference(text: str, cuts: list[int]) -> None:
    ends = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in itertools.pairwise(ends)]
    cut, heard = gathered(*pieces)
    whole, _ = gathered(text)
    assert cut.thinking == whole.thinking
    assert cut.text == whole.text
    assert "".join(t for name, t in heard if name == "model") == cut.text


@pytest.mark.parametrize(
    ("text", "thinking", "reply"),
    [
        ("plain", "", "plain"),
        ("<think>a</think>\n\nb", "a", "b"),
        ("  <think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
        ("<think>never ends", "never ends", ""),
        ("<think>ends almost</think", "ends almost</think", ""),
        ("<thi", "", "<thi"),
        ("x <think>y</think>", "", "x <think>y</think>"),
    ],
)
def test_thoughts_in_tags(text: str, thinking: str, reply: str) -> None:
    for pieces in ([text], list(text)):
        incoming, _ = gathered(*pieces)
        assert (incoming.thinking, incoming.text) == (thinking, reply)


def test_too_much_is_cut_where_it_is_too_much() -> None:
    incoming = Incoming(lambda channel, text: None)
    incoming.add_text("x" * (MAX_TEXT - 1))
    with pytest.raises(TooLong):
        incoming.add_text("xyz")
    assert len(incoming.text) == MAX_TEXT


_COUNTS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.dictionaries(
        st.sampled_from(["prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens",
                         "prompt_tokens_details", "completion_tokens_details", "reasoning_tokens",
                         "cache_creation_input_tokens"]), inner, max_size=6)
    | st.lists(inner, max_size=2),
    max_leaves=12,
)  # fmt: skip


@given(st.lists(_COUNTS, max_size=4), st.text(max_size=20), st.booleans())
def test_counts_of_any_kind_make_sense(counts: list[Any], text: str, ended: bool) -> None:
    incoming = Incoming(lambda channel, text: None)
    incoming.add_text(text)
    for count in counts:
        incoming.count(count)
    incoming.finish = "stop" if ended else ""
    usage = incoming.usage(PROMPT)
    assert 0 <= usage.cached <= usage.tokens_in <= 2 * MAX_TOKENS
    assert 0 <= usage.cache_written <= usage.tokens_in
    assert 0 <= usage.reasoning <= usage.tokens_out <= 2 * MAX_TOKENS
    assert usage.tokens_in > 0
    assert usage.estimated or ended


def test_the_highest_of_several_counts_stands() -> None:
    incoming = Incoming(lambda channel, text: None)
    incoming.finish = "stop"
    incoming.count({"prompt_tokens": 100, "completion_tokens": 1})
    incoming.count({"prompt_tokens": 0, "completion_tokens": 60})
    usage = incoming.usage(PROMPT)
    assert (usage.tokens_in, usage.tokens_out, usage.estimated) == (100, 60, False)


def test_thoughts_that_are_counted_apart_are_counted() -> None:
    incoming = Incoming(lambda channel, text: None)
    incoming.finish = "stop"
    details = {"reasoning_tokens": 500}
    incoming.count({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 620,
                    "completion_tokens_details": details})  # fmt: skip
    assert incoming.usage(PROMPT).tokens_out == 520
    incoming.count({"prompt_tokens": 100, "completion_tokens": 520, "total_tokens": 620,
                    "completion_tokens_details": details})  # fmt: skip
    assert incoming.usage(PROMPT).tokens_out == 520


def test_a_meter_looks_and_hands_on() -> None:
    chunk = SimpleNamespace(
        usage={"prompt_tokens": 7, "completion_tokens": 3},
        choices=[SimpleNamespace(delta=SimpleNamespace(refusal="no", reasoning="hm"))],
    )

    async def chunks() -> Any:
        for item in (chunk, {"usage": None}, "odd"):
            yield item

    async def main() -> list[Any]:
        return [item async for item in Meter(chunks(), incoming, lambda: heard.append(1))]

    heard: list[int] = []
    incoming = Incoming(lambda channel, text: None)
    assert asyncio.run(main()) == [chunk, {"usage": None}, "odd"]
    assert len(heard) == 3
    assert incoming.refusal == "no"
    assert chunk.choices[0].delta.reasoning_content == "hm"
    incoming.finish = "stop"
    assert incoming.usage(PROMPT).tokens_in == 7
