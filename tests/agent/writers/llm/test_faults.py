"""Exceptions of many libraries, told apart without any of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from agent.writers.llm.faults import MAX_MESSAGE, Where, fault, read, shown

if TYPE_CHECKING:
    from agent.errors import ModelError

WHERE = Where("some/model", ("SOME_API_KEY",))
NOW = 1_700_000_000.0


def http(status: int, message: str = "it failed", **headers: str) -> Exception:
    """As a library raises that has a response."""
    error = Exception(message)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    error.response = SimpleNamespace(status_code=status, headers=names)  # type: ignore[attr-defined]
    return error


def litellms(name: str, status: int, message: str, cause: Exception | None = None) -> Exception:
    """As litellm raises, which makes statuses up."""
    kind = type(name, (Exception,), {"__module__": "litellm.exceptions"})
    error: Exception = kind(message)
    error.status_code = status  # type: ignore[attr-defined]
    error.__cause__ = cause
    return error


def told(error: BaseException, where: Where = WHERE) -> ModelError:
    return fault(read(error, NOW), where, None)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (litellms("InternalServerError", 500, "Connection error.", ConnectionResetError()),
         "model-connection"),
        (litellms("InternalServerError", 500, "x", http(503)), "model-server"),
        (litellms("APIConnectionError", 500, "it cannot be read"), "model-server"),
        (litellms("Timeout", 408, "x"), "model-timeout"),
        (litellms("RateLimitError", 429, "x"), "model-rate"),
        (litellms("AuthenticationError", 401, "no key"), "model-key"),
        (litellms("BudgetExceededError", 400, "x"), "model-budget"),
        (litellms("ContextWindowExceededError", 400, "x"), "model-context"),
        (http(400, "API key not valid. Please pass a valid API key."), "model-key"),
        (http(403, "flagged by moderation"), "model-refused"),
        (http(429, "Request too large for this model on tokens per min"), "model-context"),
        (http(429, "You exceeded your current quota; please retry in 37.5s"), "model-rate"),
        (http(402), "model-budget"),
        (http(418, "teapot"), "model-bad"),
        (ValueError("what is this"), "model-server"),
    ],
)  # fmt: skip
def test_what_it_is(error: Exception, code: str) -> None:
    assert told(error).code == code


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [
        (http(429, retry_after="12"), 12),
        (http(429, retry_after="1.5"), 1.5),
        (http(429, retry_after_ms="2500", retry_after="9"), 2.5),
        (http(429, retry_after="-3"), 0),
        (http(429, retry_after="Tue, 14 Nov 2023 22:13:50 GMT"), 30),
        (http(429, retry_after="Tue, 14 Nov 2023 22:13:10 GMT"), 0),
        (http(429, retry_after="nan"), None),
        (http(429, retry_after="inf"), None),
        (http(429, retry_after="1e300"), None),
        (http(429, retry_after="soon"), None),
        (http(429), None),
        (http(429, 'wait: "retryDelay": "37s"'), 37),
        (http(429, "Please try again; retry after 250ms"), 0.25),
        (http(400, retry_after="5"), None),
    ],
)
def test_how_long_to_wait(error: Exception, wait_s: float | None) -> None:
    assert told(error).wait_s == wait_s


def test_messages_are_bounded_and_printable_and_have_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "a-secret-of-mine")
    error = told(http(500, "\x1b[31mno \x00a-secret-of-mine\n" + "x" * 100_000))
    assert len(error.message) < MAX_MESSAGE + 200
    assert error.message.isprintable()
    assert "a-secret" not in error.message


def test_prefixes_of_litellm_are_left_out() -> None:
    text = "litellm.RateLimitError: RateLimitError: OpenAIException - slow down"
    assert told(http(429, text)).message == "some/model: too many requests (HTTP 429): slow down"


def test_what_cannot_be_told_does_not_fail() -> None:
    class Odd(Exception):
        response = 5
        headers = "none"
        body: ClassVar[Any] = ["x"]

        def __str__(self) -> str:
            raise ValueError

    assert told(Odd()).again
    loop = ValueError("round")
    loop.__context__ = KeyError("x")
    loop.__context__.__context__ = loop
    assert told(loop).again


def test_a_local_server_that_is_not_there_ends_it_until_it_has_answered() -> None:
    refused = litellms("InternalServerError", 500, "x", ConnectionRefusedError())
    group = litellms("InternalServerError", 500, "x", OSError("all failed"))
    group.__cause__.__cause__ = ExceptionGroup("", [ConnectionRefusedError()])  # type: ignore[union-attr]
    for error in (refused, group):
        where = Where("openai/x", (), "http://localhost:1/v1", local=True)
        assert told(error, where).fatal
        where = Where("openai/x", (), "http://localhost:1/v1", local=True, answered=True)
        assert not told(error, where).fatal
        where = Where("openai/x", (), "http://far.example/v1")
        assert not told(error, where).fatal


def test_every_fatal_error_has_a_cure() -> None:
    for status in (400, 401, 402, 403, 404, 405, 410, 422):
        error = told(http(status))
        assert error.fatal
        assert error.cure


def test_a_line_of_text() -> None:
    assert shown(" a\n\tb\u202e ", 10) == "a b"
    assert shown("x" * 50, 10) == "x" * 9 + "…"
