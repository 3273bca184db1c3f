"""A model's provider and key: which variable it is in, and whether it is set."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agent.errors import ModelError
from agent.writers.llm.secrets import from_keyring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.writers.llm.model import Model

_SIGN_IN = frozenset({"github_copilot", "chatgpt"})
_STARTS = {
    "bedrock": ("AWS",),
    "gemini": ("GEMINI", "GOOGLE"),
    "huggingface": ("HUGGINGFACE", "HF_"),
    "sagemaker": ("AWS",),
    "vertex": ("VERTEX", "GOOGLE"),
}
_LETS_IN = re.compile(r"KEY|TOKEN|PROFILE|PROJECT|CREDENTIALS|ROLE")
NO_KEY = "none-needed"  # a server of one's own often wants some key, and takes any
# The key for servers that the user names. A provider's own key goes to that provider alone: whoever
# runs another server must not get to see it.
SERVER_KEY = "FORGE_API_KEY"
_OPENAI = ("openai.com", "openai.azure.com")


@dataclass(frozen=True, slots=True)
class Key:
    """How to reach a model.

    Attributes:
        route: Its name with its provider, as litellm wants it.
        provider: As litellm calls it.
        base: URL to ask; None leaves it to litellm.
        names: Environment variables that its key may be in.
        value: Handed to litellm as an argument; None leaves it to read the environment.
        missing: Whether a key is needed and there is none.
    """

    route: str
    provider: str
    base: str | None
    names: tuple[str, ...]
    value: str | None = field(default=None, repr=False)
    missing: bool = False


def find_key(lib: Any, model: Model) -> Key:
    """Find a model's provider and key.

    Args:
        lib: litellm.
        model: What to look for.

    Raises:
        ModelError: ``model-unknown``: litellm knows no provider of that name.
    """
    name = model.name
    prefix = name.partition("/")[0]
    if model.api_base and (prefix == name or prefix not in _providers(lib)):
        name = f"openai/{name}"
    try:
        provider = str(lib.get_llm_provider(name)[1])
        said = lib.validate_environment(name)
    except Exception as error:  # noqa: BLE001 - litellm raises many kinds; all mean the same here
        raise ModelError(
            f"{name}: litellm knows no provider of that name ({type(error).__name__})",
            "put the provider before it, as in anthropic/NAME; `forge-tui models` lists names",
            code="model-unknown",
            fatal=True,
        ) from None
    base = model.api_base or None
    if base and provider == "openai":
        base = with_path(base)
    names = tuple(str(key) for key in said.get("missing_keys") or ())
    if said.get("keys_in_environment") or not names:
        names = names or _set_keys(provider)
        if base and provider == "openai":
            names = (SERVER_KEY,)
        return Key(name, provider, base, names, _for_server(base, provider, None))
    # Where some are no keys, parameters may stand in for them: litellm says what is missing.
    keys = _alternatives(names)
    found = next(filter(None, map(from_keyring, names)), None) if keys else None
    if base:
        found = _for_server(base, provider, found)
        names = (SERVER_KEY,) if provider == "openai" else names
    return Key(name, provider, base, names, found, missing=keys and found is None and not base)


def with_path(url: str) -> str:
    """A base URL as OpenAI-compatible servers mean it: with ``/v1`` if it has no path."""
    return url if urlsplit(url).path else f"{url}/v1"


def key_state(lib: Any, name: str, provider: str) -> str | None:
    """Whether a provider's key is there: ``set``, ``missing: NAME``, or None without a route to it.

    Args:
        lib: litellm.
        name: One of its models.
        provider: As litellm calls it.
    """
    if provider in _SIGN_IN:  # asking litellm would send it to the provider
        return "missing: a sign-in"
    try:
        if not provider.startswith(str(lib.get_llm_provider(name)[1])):
            return None  # by this name it would go to somebody else
        said = lib.validate_environment(name)
    except Exception:  # noqa: BLE001 - litellm raises many kinds; all mean that it cannot be asked
        return None
    missing = [str(key) for key in said.get("missing_keys") or ()]
    if not missing:  # set, or litellm does not know what it needs
        variable = f"{provider.upper().replace('-', '_')}_API_KEY"
        return "set" if _variables(provider) else f"missing: {variable}"
    if _alternatives(missing):
        found = any(from_keyring(key) for key in missing)
        return "set" if found else f"missing: {' or '.join(missing)}"
    return f"missing: {', '.join(missing)}"


def _alternatives(names: Sequence[str]) -> bool:
    """Whether each of the variables would do: all are keys. Else they belong together."""
    return bool(names) and all(name.endswith(("_API_KEY", "_TOKEN")) for name in names)


def _providers(lib: Any) -> set[str]:
    return {str(getattr(provider, "value", provider)) for provider in lib.provider_list}


def _for_server(base: str | None, provider: str, found: str | None) -> str | None:
    """The key for a server that the user named; None leaves it to litellm."""
    if base is None:
        return found
    if key := os.environ.get(SERVER_KEY):
        return key
    if provider == "openai":
        return server_key(base)
    return found


def server_key(base: str) -> str:
    """What an OpenAI-compatible server is shown: OpenAI's key goes to OpenAI alone."""
    if key := os.environ.get(SERVER_KEY):
        return key
    host = urlsplit(base).hostname or ""
    own = any(host == name or host.endswith(f".{name}") for name in _OPENAI)
    return (os.environ.get("OPENAI_API_KEY") if own else None) or NO_KEY


def _variables(provider: str) -> tuple[str, ...]:
    """The variables of this provider that are set and let one in."""
    start = provider.replace("-", "_").split("_")[0]
    starts = tuple(_STARTS.get(start, (start.upper(),)))
    return tuple(
        sorted(
            name
            for name, value in os.environ.items()
            if value and name.startswith(starts) and _LETS_IN.search(name)
        )
    )


def _set_keys(provider: str) -> tuple[str, ...]:
    """For a message: its variables that hold a key."""
    names = _variables(provider)
    return tuple(name for name in names if name.endswith(("_KEY", "_TOKEN")))[:3]
