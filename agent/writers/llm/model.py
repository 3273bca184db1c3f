"""Which model is asked, and how: what a session's config says of one."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from agent.errors import ModelError
from agent.writers.llm.prices import Price, given

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_NAME = 200
# Ours to set, or apt to multiply the cost behind the ledger's back.
_OURS = frozenset(
    {"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n",
     "num_retries", "max_retries", "timeout", "fallbacks", "client", "base_url", "api_base",
     "mock_response", "best_of", "tools", "functions", "callbacks"}
)  # fmt: skip
_KEYS = ("api_key", "api-key", "password", "secret", "authorization", "access_token", "auth_token")


@dataclass(frozen=True, slots=True)
class Model:
    """A model as the user named it.

    Attributes:
        name: As litellm names it: ``anthropic/claude-...``, ``gpt-...``, ``openai/NAME``.
        api_base: URL of an OpenAI-compatible server, or of a gateway; "" for the provider's own.
        params: Further parameters of the call, such as ``reasoning_effort``.
        price: What the user says that it costs; None takes litellm's list.
    """

    name: str
    api_base: str = ""
    params: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    price: Price | None = None

    @staticmethod
    def of(config: Mapping[str, Any]) -> Model:
        """From one item of the config's ``models``.

        Raises:
            ModelError: ``model-config`` or ``model-price``: it cannot be used as it is.
        """
        name = str(config.get("name") or "").strip()
        if not name or len(name) > MAX_NAME or not name.isprintable() or " " in name:
            raise _wrong(f"{name[:60]!r} is no model's name", "name it as litellm does")
        params = dict(config.get("params") or {})
        for key in _names(params):
            if any(word in key.lower() for word in _KEYS):
                raise _wrong(
                    f"{name}: {key[:40]} would be saved with the session",
                    "put keys into the environment",
                )
        for key in params:
            if key in _OURS or str(key).startswith("mock_"):
                raise _wrong(f"{name}: {str(key)[:40]} is not for params", "leave it out")
        price = config.get("price")
        return Model(
            name,
            _url(name, str(config.get("api_base") or "")),
            MappingProxyType(params),
            given(price) if price is not None else None,
        )

    @property
    def local(self) -> bool:
        """Whether its server is on this machine."""
        host = urlsplit(self.api_base).hostname or ""
        return host in ("localhost", "::1") or host.startswith("127.")


def _names(value: object) -> Iterator[str]:
    """All names in a parameter's value, such as those of headers."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _names(inner)


def _url(name: str, text: str) -> str:
    """A base URL without what may follow it."""
    if not text:
        return ""
    try:
        parts = urlsplit(text.strip())
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment or not text.isprintable():
        raise _wrong(f"{name}: {text[:80]!r} is no base URL", "give one like http://host:8000/v1")
    if parts.username or parts.password:
        raise _wrong(
            f"{name}: a base URL with a password would be saved with the session",
            "put the key into the environment",
        )
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _wrong(message: str, cure: str) -> ModelError:
    return ModelError(message, cure, code="model-config", fatal=True)
