"""Keys show up nowhere."""

from __future__ import annotations

import os
import sys
import types

import pytest

from agent.writers.llm import secrets
from agent.writers.llm.secrets import MASK, from_keyring, redact


def test_values_of_the_environment() -> None:
    environ = {"MY_API_KEY": "abcdefgh12", "OTHER_TOKEN": "abcdefgh12345", "HOME": "/home/someone"}
    text = redact("abcdefgh12345 and abcdefgh12 at /home/someone", environ)
    assert text == f"{MASK} and {MASK} at /home/someone"


@pytest.mark.parametrize("value", ["short", "true", "16000000", "/etc/ssl/key.pem", "disabled"])
def test_settings_are_not_secrets(value: str) -> None:
    text = f"it is {value}"
    assert redact(text, {"X_TOKENS": value, "KEY": value}) == text


@pytest.mark.parametrize(
    "key",
    [
        "sk-abcdefghijkl", "sk-proj-abc_DEF-123456789", "sk-ant-api03-abcdefghijkl",
        "gsk_abcdefghijkl", "xai-abcdefghijkl", "hf_abcdefghijkl", "AIzaSyA1234567890abcdefgh",
        "AKIAABCDEFGHIJKLMNOP",
        "ghp_abcdefghijklmnopqrstuvwxyz", "ya29.abcdefghijklmnopqrstuv",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefghijklmn", "sk-ab***********xyz",
    ],
)  # fmt: skip
def test_shapes_of_keys(key: str) -> None:
    assert redact(f"wrong key {key}, sorry", {}) == f"wrong key {MASK}, sorry"


def test_a_bearer() -> None:
    assert redact("Authorization: Bearer abc.def-123456", {}) == f"Authorization: Bearer {MASK}"


@pytest.mark.parametrize(
    "text",
    [
        "task-based risk-adjusted",
        "a mask-aware kernel",
        "int hf_x = 1;",
        "sk-1",
        "desk-abcdefghijk",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    assert redact(text, {}) == text


def test_much_hostile_text_is_no_matter_of_seconds() -> None:
    for text in ("sk-" * 200_000, "eyJ" * 200_000, "a" * 600_000, "Bearer " * 80_000):
        redact(text, {"A_KEY": "abcdefgh"})


def test_without_the_package_there_is_no_key_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert from_keyring("OPENAI_API_KEY") is None


def test_a_key_ring_is_asked_and_the_environment_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class KeyringError(Exception):
        pass

    def get_password(service: str, name: str) -> str | None:
        if name == "LOCKED":
            raise KeyringError
        return f"secret of {name}" if service == secrets.SERVICE else None

    ring = types.ModuleType("keyring")
    errors = types.ModuleType("keyring.errors")
    ring.get_password = get_password  # type: ignore[attr-defined]
    errors.KeyringError = KeyringError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", ring)
    monkeypatch.setitem(sys.modules, "keyring.errors", errors)
    assert from_keyring("SOME_API_KEY") == "secret of SOME_API_KEY"
    assert "SOME_API_KEY" not in os.environ
    assert from_keyring("LOCKED") is None
