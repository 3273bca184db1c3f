"""What a session's config says of a model."""

from __future__ import annotations

from typing import Any

import pytest

from agent.errors import ModelError
from agent.writers.llm.client import Model, ModelClient
from agent.writers.llm.keys import with_path


def test_a_name_alone() -> None:
    model = Model.of({"name": "gpt-5", "api_base": "", "params": {}, "price": None})
    assert (model.name, model.api_base, dict(model.params), model.price) == ("gpt-5", "", {}, None)
    client = ModelClient(model)
    assert client.price is not None
    assert not client.price.given


def test_the_users_price_goes_before_the_list() -> None:
    model = Model.of({"name": "gpt-5", "price": {"in": 1, "out": 2, "cached": None}})
    price = ModelClient(model).price
    assert price is not None
    assert price.given
    assert price.rates[0].tokens_out == 2


def test_without_a_price_nothing_is_known() -> None:
    client = ModelClient(Model.of({"name": "openai/mine", "api_base": "http://localhost:8000/v1"}))
    assert client.price is None


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("http://localhost:8000/v1/", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1/chat/completions", "http://localhost:8000/v1"),
        ("https://host/a/b", "https://host/a/b"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_base_urls(given: str, kept: str) -> None:
    assert Model.of({"name": "x", "api_base": given}).api_base == kept


def test_a_base_without_a_path_means_the_usual_one() -> None:
    assert with_path("http://localhost:11434") == "http://localhost:11434/v1"
    assert with_path("http://localhost:11434/api") == "http://localhost:11434/api"


def test_what_is_on_this_machine() -> None:
    for host, local in (("localhost", True), ("127.0.0.1", True), ("[::1]", True), ("a.b", False)):
        assert Model.of({"name": "x", "api_base": f"http://{host}:1"}).local is local


@pytest.mark.parametrize(
    "config",
    [
        {}, {"name": ""}, {"name": "two words"}, {"name": "x\x1b"}, {"name": "x" * 300},
        {"name": "x", "api_base": "ftp://x"}, {"name": "x", "api_base": "localhost:80"},
        {"name": "x", "api_base": "http://u:p@x"}, {"name": "x", "api_base": "http://x?k=1"},
        {"name": "x", "api_base": "http://x:port"}, {"name": "x", "params": {"api_key": "k"}},
        {"name": "x", "params": {"extra_headers": {"X-Api-Key": "k"}}},
        {"name": "x", "params": {"n": 3}}, {"name": "x", "params": {"mock_response": "y"}},
        {"name": "x", "params": {"stream": False}}, {"name": "x", "price": {}},
    ],
)  # fmt: skip
def test_what_cannot_be_used(config: dict[str, Any]) -> None:
    with pytest.raises(ModelError) as caught:
        Model.of(config)
    assert caught.value.fatal
    assert caught.value.cure
    assert caught.value.message.isprintable()
