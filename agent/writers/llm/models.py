"""``models``: which language models can be asked from here, and a call to see that one can be.

One JSON line a model: ``model``, ``provider``, ``in``, ``out``, ``cached`` ($ for a million tokens,
null if not known), ``context`` and ``output`` (tokens), ``key`` (``set``, ``missing: NAME`` or
``none needed``). With ``--test`` one line ``{"test": {...}}`` instead.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from agent.errors import ModelError
from agent.writers.ask import Prompt
from agent.writers.llm import quiet
from agent.writers.llm.client import Limits, Model, ModelClient
from agent.writers.llm.faults import shown
from agent.writers.llm.keys import key_state, server_key, with_path
from agent.writers.llm.prices import LOCAL, Price, listed, price_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Say = Callable[[dict[str, Any]], None]

USAGE = "models [--api-base URL] [--test MODEL] [--all]"
MAX_BYTES = 4 << 20
MAX_MODELS = 1000
ANSWER_S = 15.0
TEST_TOKENS = 16
_KINDS = frozenset({"chat", "responses"})
_HELLO = Prompt("Answer with one word.", "Say yes.")


def models(args: Sequence[str], say: Say) -> int:
    """List models, or try one.

    Args:
        args: What follows the verb.
        say: Called with each line.

    Returns:
        The exit code: 1 if the call of ``--test`` failed.

    Raises:
        ModelError: The arguments make no sense, or the server at ``--api-base`` gives no list.
    """
    base, name, every = _read(args)
    if name:
        return asyncio.run(_try(Model.of({"name": name, "api_base": base}), say))
    for line in _served(base) if base else _listed(every):
        say(line)
    return 0


def _read(args: Sequence[str]) -> tuple[str, str, bool]:
    given = {"--api-base": "", "--test": ""}
    every = False
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word == "--all":
            every = True
        elif word in given and rest:
            given[word] = rest.pop(0)
        else:
            raise ModelError(f"models: {shown(word, 60)}?", f"usage: {USAGE}", code="usage")
    return given["--api-base"], given["--test"], every


def _line(name: str, provider: str, price: Price | None, key: str) -> dict[str, Any]:
    rate = price.rates[0] if price else None
    return {
        "model": name,
        "provider": provider,
        "in": rate.tokens_in if rate else None,
        "out": rate.tokens_out if rate else None,
        "cached": rate.cached if rate else None,
        "context": None,
        "output": None,
        "key": key,
    }


def _listed(every: bool) -> Iterator[dict[str, Any]]:
    """What litellm's list has, of providers whose key is set, or of all."""
    lib = quiet.litellm()
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    for name, entry in sorted(price_list().items()):
        provider = str(entry.get("litellm_provider") or "")
        gone = str(entry.get("deprecation_date") or "9999") < today
        if entry.get("mode") not in _KINDS or not provider or (gone and not every):
            continue
        state = "none needed" if provider in LOCAL else key_state(lib, name, provider)
        # What runs on one's own machine is not known to be there.
        if state is None or not (every or state == "set"):
            continue
        line = _line(name, provider, listed(name), state)
        yield line | {
            "context": _limit(entry.get("max_input_tokens") or entry.get("max_tokens")),
            "output": _limit(entry.get("max_output_tokens")),
        }


def _limit(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and 0 < value < 1 << 40 else None


def _served(base: str) -> Iterator[dict[str, Any]]:
    """What a server of the OpenAI protocol says that it has."""
    url = with_path(Model.of({"name": "any", "api_base": base}).api_base)
    data = _fetch(f"{url}/models")
    found = data.get("data")
    if not isinstance(found, list):
        raise _no_list(url, "it gave something else than a list")
    for item in found[:MAX_MODELS]:
        name = item.get("id") if isinstance(item, dict) else None
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= 180:
            continue
        line = _line(f"openai/{name}", url, None, "none needed")
        yield line | {"context": _limit(item.get("max_model_len") or item.get("context_length"))}


def _fetch(url: str) -> Mapping[str, Any]:
    key = server_key(url)
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            data = json.loads(answer.read(MAX_BYTES))
    except urllib.error.HTTPError as error:
        with error:
            raise _no_list(url, f"HTTP {error.code}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise _no_list(url, shown(f"{type(reason).__name__}: {reason}", 160)) from None
    return data if isinstance(data, dict) else {}


def _no_list(url: str, why: str) -> ModelError:
    return ModelError(
        f"{url} gives no list of models: {why}",
        "start the server, or correct the address: it usually ends in /v1",
        code="model-connection",
        fatal=True,
    )


async def _try(model: Model, say: Say) -> int:
    client = ModelClient(model, Limits(slow_s=120.0))
    told: dict[str, Any] = {"model": model.name}
    error: ModelError | None = None
    try:
        answer = await client.ask(_HELLO, TEST_TOKENS, lambda channel, text: None)
    except ModelError as caught:
        # A model that thinks, or says more than a word, can be asked all the same.
        if caught.code not in ("model-cut", "model-empty") or caught.partial is None:
            error = caught
        partial = caught.partial
    else:
        partial = answer
    told["ok"] = error is None
    if error is not None:
        told |= {"error": error.message, "code": error.code, "cure": error.cure}
    if partial is not None:
        cost = partial.micro_dollars
        told |= {
            "text": shown(partial.text or partial.thinking, 80),
            "tokens in": partial.usage.tokens_in,
            "tokens out": partial.usage.tokens_out,
            "estimated": partial.usage.estimated,
            "dollars": None if cost is None else cost / 1e6,
            "seconds": round(partial.seconds, 2),
            "price": str(client.price) if client.price else None,
            "notes": "; ".join(partial.notes),
        }
    say({"test": told})
    return 0 if error is None else 1
