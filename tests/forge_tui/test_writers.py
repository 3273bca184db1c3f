"""Options about who writes: what they become in a session's config, and what is refused."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from forge_tui.options import Refused
from forge_tui.settings import DEFAULTS
from forge_tui.writers import writer_options, writers


def config(*args: str) -> dict[str, Any]:
    """What the options become."""
    found: dict[str, Any] = {}

    @click.command()
    @writer_options
    def command(**options: Any) -> None:
        found.update(writers(options))
        assert options == {}  # nothing is left over

    CliRunner().invoke(command, args, catch_exceptions=False, standalone_mode=False)
    return found


def test_without_options_the_config_is_that_of_the_defaults() -> None:
    found = config()
    assert found == {name: DEFAULTS[name] for name in found}


def test_models_with_all_that_is_about_them() -> None:
    found = config(
        "--model", "anthropic/claude-sonnet-4", "--model", "ollama/qwen3:8b",
        "--api-base", "ollama/qwen3:8b=http://localhost:11434/v1",
        "--price", "ollama/qwen3:8b=0/0", "--reasoning-effort", "high",
        "--param", "temperature=0.5", "--param", "ollama/qwen3:8b:top_k=40",
        "--param", 'ollama/qwen3:8b:stop=["</s>"]', "--dollars", "0.5", "--tokens", "100000",
        "--calls", "9", "--parallel", "2", "--max-tokens", "4000", "--drafts", "0",
    )  # fmt: skip
    first, second = found["models"]
    assert first == {
        "name": "anthropic/claude-sonnet-4", "api_base": "", "price": None,
        "params": {"reasoning_effort": "high", "temperature": 0.5},
    }  # fmt: skip
    assert second["api_base"] == "http://localhost:11434/v1"
    assert second["price"] == {"in": 0.0, "out": 0.0}
    assert second["params"] == {
        "reasoning_effort": "high", "temperature": 0.5, "top_k": 40, "stop": ["</s>"]
    }  # fmt: skip
    assert (found["dollars"], found["tokens"], found["calls"]) == (0.5, 100_000, 9)
    assert (found["parallel"], found["max_tokens"], found["drafts"]) == (2, 4000, 0)


def test_what_names_no_model_is_about_all() -> None:
    found = config("--model", "a", "--model", "b", "--api-base", "http://box:8000/v1",
                   "--price", "3/15/0.3")  # fmt: skip
    for model in found["models"]:
        assert model["api_base"] == "http://box:8000/v1"
        assert model["price"] == {"in": 3.0, "out": 15.0, "cached": 0.3}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--price", "1/2"], "--price is about models"),
        (["--dollars", "1"], "--dollars is about models"),
        (["--reasoning-effort", "low"], "--reasoning-effort is about models"),
        (["--model", "a", "--model", "a"], "given twice"),
        (["--model", " "], "no name"),
        (["--model", "a", "--price", "1"], "this is no price"),
        (["--model", "a", "--price", "a=1/-2"], "this is no price"),
        (["--model", "a", "--price", "a=1/nan"], "this is no price"),
        (["--model", "a", "--price", "b=1/2"], "no --model b"),
        (["--model", "a", "--api-base", "localhost:8000"], "no server's address"),
        (["--model", "a", "--api-base", "http://"], "no server's address"),
        (["--model", "a", "--api-base", "http://me:pass@box/v1"], "a user or password"),
        (["--model", "a", "--api-base", "https://box/v1?key=1"], "with a query"),
        (["--model", "a", "--param", "temperature"], "KEY=VALUE"),
        (["--model", "a", "--param", "b:temperature=1"], "no --model b"),
        (["--model", "stop=a", "--param", "b/c:d=1"], "no --model b/c"),
        (["--model", "a", "--param", "api_key=sk-12345678"], "looks like a secret"),
        (["--model", "a", "--param", "x-auth-token=1"], "looks like a secret"),
        (["--model", "a", "--param", 'extra_headers={"Authorization":"Bearer x"}'], "secret"),
        (["--model", "a", "--param", 'extra_body={"a":[{"api_token":"1"}]}'], "api_token"),
        (["--model", "a", "--param", "user=sk-abcdefghijklmnop1234"], "looks like a key"),
        (["--model", "openai/sk-abcdefghijklmnop1234"], "looks like a key"),
        (["--model", "a", "--api-base", "http://h/sk-abcdefghijklmnop1234/v1"], "like a key"),
        (["--model", "a", "--replay", "x"], "choose one"),
        (["--inbox", "/tmp", "--replay", "x"], "choose one"),
        (["--exit-when-waiting"], "there is no --inbox"),
        (["--inbox", "suite:softmax"], "this is a task"),
    ],
)
def test_what_is_refused(args: list[str], words: str) -> None:
    with pytest.raises(Refused, match=words) as caught:
        config(*args)
    assert "pass@" not in caught.value.message
    assert "sk-1234" not in caught.value.message


def test_the_inbox_is_beside_the_session_or_where_it_is_said() -> None:
    assert config("--inbox")["inbox"] == "inbox"
    assert config("--inbox", "/tmp/x", "--exit-when-waiting") == {
        **config(), "inbox": "/tmp/x", "exit_when_waiting": True
    }  # fmt: skip
