"""What a refusal is about, in the words of many providers."""

from __future__ import annotations

import pytest

from agent.writers.llm.parameters import fewer_tokens, no_streaming, refused

PARAMS = {"temperature": 0.2, "reasoning_effort": "high", "top_p": 1, "seed": 1}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Unsupported value: 'temperature' does not support 0.2 with it.", ("temperature",)),
        ("Unsupported parameter: 'top_p' is not supported with this model.", ("top_p",)),
        ("openai does not support parameters: ['reasoning_effort', 'seed'], for model=x.",
         ("reasoning_effort", "seed")),
        ("`temperature` and `top_p` cannot both be specified", ("temperature", "top_p")),
        ("\"reasoning.effort\" is not allowed", ("reasoning_effort",)),
        ("Extra inputs are not permitted: body.seed_value", ()),
        ("temperatures of GPUs", ()),
        ("bad request", ()),
    ],
)  # fmt: skip
def test_which_parameters(text: str, names: tuple[str, ...]) -> None:
    assert refused(text, PARAMS) == names


def test_a_field_of_the_body_names_it() -> None:
    assert refused("Unsupported value", PARAMS, ["seed"]) == ("seed",)


def test_what_was_not_sent_is_not_it() -> None:
    assert refused("temperature is wrong", {"top_p": 1}) == ()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("max_tokens is too large: 16000. This model supports at most 8192 tokens", 8192),
        ("max_tokens: 16000 > 4096, which is the maximum allowed number of output tokens; "
         "maximum allowed is 4096", 4096),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
        ("`max_tokens` must be less than or equal to `32768`", None),
        ("max_tokens must be less than or equal to 8000", 8000),
        ("This model's maximum context length is 4096 tokens. However, you requested 16500 tokens "
         "(500 in the messages, 16000 in the completion).", 3580),
        ("This model's maximum context length is 8192 tokens. However, you requested 16000 output "
         "tokens and your prompt contains at least 1000 input tokens", 7176),
        ("maximum context length is 4096 tokens", None),
        ("maximum context length is 4096 tokens, 4090 in the messages", None),
        ("max_tokens must be at most 20000", None),
        ("temperature must be at most 8000", None),
    ],
)  # fmt: skip
def test_how_long_a_reply_may_be(text: str, left: int | None) -> None:
    assert fewer_tokens(text, 16_000) == left


def test_streaming() -> None:
    assert no_streaming("Streaming is not supported for this model")
    assert no_streaming("'stream' must be false")
    assert not no_streaming("stream_options is unknown")
    assert not no_streaming("upstream error")


def test_a_long_text_is_cut() -> None:
    assert refused("x" * 100_000 + " temperature", PARAMS) == ()
    assert fewer_tokens("context " * 100_000, 9000) is None
