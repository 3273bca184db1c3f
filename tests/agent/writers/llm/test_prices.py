"""What calls cost."""

from __future__ import annotations

import pytest

from agent.errors import ModelError
from agent.writers.ask import Usage
from agent.writers.llm.prices import Price, Rate, entry_of, given, listed, price_list


def test_the_users_price_is_in_dollars_for_a_million_tokens() -> None:
    price = given({"in": 3, "out": 15.0, "cached": 0.3})
    assert price.cost(Usage(1_000_000, 0)) == 3_000_000
    assert price.cost(Usage(1000, 200, cached=400)) == 600 * 3 + 120 + 3000
    assert str(price) == "$3 in, $15 out a million tokens, as given"


def test_a_price_of_nothing_is_a_price() -> None:
    price = given({"in": 0, "out": 0})
    assert price.cost(Usage(1000, 1000)) == 0
    assert price.worst(10_000, 1000) == 0


def test_costs_are_rounded_up_and_not_by_a_hair() -> None:
    price = given({"in": 0.1, "out": 0.2})
    assert price.cost(Usage(1, 0)) == 1
    assert price.cost(Usage(30, 0)) == 3  # 3.0000000000000004 as floats
    assert price.cost(Usage(31, 0)) == 4


@pytest.mark.parametrize(
    "data",
    [{}, {"in": 1}, {"out": 1}, {"in": -1, "out": 1}, {"in": "1", "out": 1}, {"in": True, "out": 1},
     {"in": float("nan"), "out": 1}, {"in": float("inf"), "out": 1}, {"in": 1, "out": 1, "to": 1}],
)  # fmt: skip
def test_what_is_no_price(data: dict[str, object]) -> None:
    with pytest.raises(ModelError) as caught:
        given(data)
    assert caught.value.code == "model-price"
    assert caught.value.cure


def test_no_call_costs_more_than_its_worst_case() -> None:
    price = Price(
        (Rate(0, 3.0, 15.0, 0.3, 3.75, 15.0), Rate(200_000, 6.0, 22.5, 0.6, 7.5, 22.5)),
    )
    for size in (1, 1000, 199_900, 200_000, 400_000):
        for tokens in (1, size // 4, size, size + 256):
            for usage in (
                Usage(tokens, 500),
                Usage(tokens, 500, cached=tokens),
                Usage(tokens, 500, cache_written=tokens, reasoning=400),
            ):
                assert price.cost(usage) <= price.worst(size, 500), (size, usage)


def test_a_long_prompt_costs_the_dearer_rate_and_a_short_one_does_not() -> None:
    price = listed("anthropic/claude-sonnet-4-5")
    assert price is not None
    assert price.cost(Usage(200_000, 0)) == 600_000
    assert price.cost(Usage(200_001, 0)) == 1_200_006
    assert price.worst(10_000, 0) == (10_000 + 256) * 3.75


def test_ranges_of_their_own() -> None:
    price = listed("dashscope/qwen-flash")
    assert price is not None
    assert [rate.above for rate in price.rates] == [0, 256_000]


def test_service_tiers_have_prices_of_their_own() -> None:
    plain, flex, fast = (listed("gpt-5", tier) for tier in ("", "flex", "priority"))
    assert plain is not None
    assert flex is not None
    assert fast is not None
    assert flex.rates[0].tokens_in < plain.rates[0].tokens_in < fast.rates[0].tokens_in


def test_a_model_is_found_with_and_without_its_provider_but_not_at_another() -> None:
    assert listed("gpt-5") == listed("openai/gpt-5") is not None
    assert listed("groq/gpt-5") is None
    assert entry_of("nobody/knows") is None
    assert listed("nobody-knows-this") is None


def test_nothing_in_the_list_is_free_but_what_runs_here() -> None:
    free = [
        name for name in price_list()
        if (price := listed(name)) and not any(r.tokens_in or r.tokens_out for r in price.rates)
    ]  # fmt: skip
    providers = {str(price_list()[name]["litellm_provider"]) for name in free}
    assert "ollama" in providers
    assert providers <= {"ollama", "lemonade", "lm_studio", "hosted_vllm", "docker_model_runner"}


def test_every_price_of_the_list_is_one() -> None:
    known = 0
    for name in price_list():
        if price := listed(name):
            known += 1
            assert price.worst(300_000, 1000) >= price.cost(Usage(250_000, 1000)) >= 0, name
            assert price.rates[0].above == 0
    assert known > 1000
