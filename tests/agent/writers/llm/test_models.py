"""The list of models, and the smallest call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.errors import ModelError
from agent.writers.llm.keys import key_state
from agent.writers.llm.models import models
from agent.writers.llm.quiet import litellm
from tests.agent.model_server import fails, in_turn, says, serving

KEYS = ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY", "GROQ_API_KEY")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


def told(*args: str) -> tuple[int, list[dict[str, Any]]]:
    lines: list[dict[str, Any]] = []
    code = models(args, lines.append)
    assert json.loads(json.dumps(lines)) == lines
    return code, lines


def test_models_whose_key_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key-1234567890")
    code, lines = told()
    assert code == 0
    of = {line["model"]: line for line in lines if line["provider"] == "anthropic"}
    line = of["claude-sonnet-4-5"]
    assert (line["in"], line["out"], line["cached"]) == (3.0, 15.0, 0.3)
    assert (line["context"], line["output"]) == (200_000, 64_000)
    assert {line["key"] for line in lines} == {"set"}
    assert "openai" not in {line["provider"] for line in lines}


def test_all_models_say_which_key_is_missing() -> None:
    _, lines = told("--all")
    of = {line["model"]: line["key"] for line in lines}
    assert of["gpt-5"] == "missing: OPENAI_API_KEY"
    assert of["gemini/gemini-2.5-pro"] == "missing: GOOGLE_API_KEY or GEMINI_API_KEY"
    assert any(line["key"] == "none needed" for line in lines)
    assert len(lines) > 1000


def test_a_provider_that_litellm_knows_no_variable_of(monkeypatch: pytest.MonkeyPatch) -> None:
    lib = litellm()
    monkeypatch.delenv("ZAI_API_KEY", raising=False)
    assert key_state(lib, "zai/glm-4.6", "zai") == "missing: ZAI_API_KEY"
    monkeypatch.setenv("ZAI_API_KEY", "test-key-1234567890")
    assert key_state(lib, "zai/glm-4.6", "zai") == "set"
    assert key_state(lib, "nowhere/x", "nowhere") is None


def test_what_a_server_has() -> None:
    with serving(in_turn(says("yes"))) as server:
        server.models[:] = ["one", "org/two", "bad\x1bname", "x" * 500]
        for base in (server.url, server.url.removesuffix("/v1"), server.url + "/"):
            code, lines = told("--api-base", base)
            assert code == 0
            assert [line["model"] for line in lines] == ["openai/one", "openai/org/two"]
            assert lines[0]["in"] is None


def test_a_server_that_gives_no_list() -> None:
    with serving(in_turn(says("yes"))) as server, pytest.raises(ModelError) as caught:
        models(["--api-base", server.url + "/nothing"], print)
    assert "HTTP 404" in caught.value.message
    with pytest.raises(ModelError) as caught:
        models(["--api-base", server.url], print)
    assert "refused" in caught.value.message
    assert caught.value.cure


def test_the_smallest_call() -> None:
    with serving(in_turn(says("Yes."))) as server:
        code, lines = told("--api-base", server.url, "--test", "test")
    assert code == 0
    (line,) = lines
    assert line["test"]["ok"] is True
    assert line["test"]["text"] == "Yes."
    assert line["test"]["dollars"] is None
    assert server.requests[0].body["max_tokens"] == 16


def test_a_model_that_thinks_longer_can_be_asked_too() -> None:
    with serving(in_turn(says(thinking=("hm",), finish="length"))) as server:
        code, lines = told("--api-base", server.url, "--test", "test")
    assert code == 0
    assert lines[0]["test"]["text"] == "hm"


def test_a_call_that_fails_says_why() -> None:
    with serving(in_turn(fails(404, "The model `test` does not exist"))) as server:
        code, lines = told("--api-base", server.url, "--test", "test")
    assert code == 1
    found = lines[0]["test"]
    assert (found["ok"], found["code"]) == (False, "model-unknown")
    assert found["cure"]


@pytest.mark.parametrize("args", [["--what"], ["--test"], ["x"]])
def test_usage(args: list[str]) -> None:
    with pytest.raises(ModelError) as caught:
        models(args, print)
    assert "usage" in caught.value.cure
