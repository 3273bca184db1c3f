"""Options of ``run`` about who writes: models with their servers, prices and caps, and an inbox."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from forge_tui.options import Refused
from forge_tui.settings import DEFAULTS, DOLLARS, INBOX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PARAM = re.compile(r"(?P<key>[A-Za-z_][\w.:/-]*?)=(?P<value>.*)", re.DOTALL)
_SECRET = re.compile(r"(^|[_.-])(api_?key|key|token|secret|password|authorization)$", re.IGNORECASE)
_HEADERS = re.compile(r"headers$", re.IGNORECASE)
_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:sk|pk|rk|gsk|xai|hf|pplx|nvapi)[-_][A-Za-z0-9_-]{16,}|[Bb]earer "
)
_KEYS_ELSEWHERE = "put it into the environment, where no session keeps it: see the README"
_COUNT = click.IntRange(1)

_OPTIONS = (
    click.option(
        "--model", "models", multiple=True, metavar="NAME",
        help="A language model that writes, as litellm names it; several take turns.",
    ),
    click.option(
        "--api-base", "bases", multiple=True, metavar="[MODEL=]URL",
        help="An OpenAI-compatible server, such as http://localhost:8000/v1.",
    ),
    click.option(
        "--price", "prices", multiple=True, metavar="[MODEL=]IN/OUT[/CACHED]",
        help="Dollars for a million tokens, where no price is known or yours differs.",
    ),
    click.option("--reasoning-effort", metavar="LEVEL", help="How much models think before."),
    click.option(
        "--param", "params", multiple=True, metavar="[MODEL:]KEY=VALUE",
        help="A parameter of the provider's, such as temperature=0.7.",
    ),
    click.option(
        "--dollars", type=click.FloatRange(0, min_open=True),
        help="The most that models may cost; given, calls without a known price are refused. "
        f"[default: {DOLLARS:.2f} of calls that have a price]",
    ),
    click.option(
        "--tokens", type=_COUNT,
        help="The most tokens, of prompts and replies. [default: no cap, and 1,000,000 where a "
        "price is not known]",
    ),
    click.option("--calls", type=_COUNT, help="The most calls of models. [default: no cap]"),
    click.option(
        "--parallel", type=click.IntRange(1, 64), default=DEFAULTS["parallel"], show_default=True,
        help="Writers asked at once.",
    ),
    click.option(
        "--max-tokens", type=click.IntRange(256), default=DEFAULTS["max_tokens"],
        show_default=True, help="Tokens of a reply, thinking included, at most.",
    ),
    click.option(
        "--prompt-tokens", type=click.IntRange(4_000), default=DEFAULTS["prompt_tokens"],
        show_default=True, help="Tokens of a prompt, at most.",
    ),
    click.option(
        "--drafts", type=click.IntRange(0), default=DEFAULTS["drafts"], show_default=True,
        help="First drafts of a target that the drafter writes where it can, free of cost.",
    ),
    click.option(
        "--inbox", is_flag=False, flag_value=INBOX, metavar="[DIR]",
        help="Prompts go out as files and replies come in as files; put it after the TASKs. "
        "[default DIR: beside the session]",
    ),
    click.option(
        "--exit-when-waiting", is_flag=True,
        help="End, with everything saved, once only replies from the inbox are waited for; without "
        "a terminal the exit code is 3 then.",
    ),
    click.option(
        "--replay", metavar="SESSION",
        help="Write nothing new: take the replies of a saved session (its name, its file, or "
        "sample:NAME). What is not given is as there, TASKs too.",
    ),
)  # fmt: skip
_NEED_A_MODEL = ("bases", "prices", "reasoning_effort", "params", "dollars", "tokens", "calls")


def writer_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """All of them, to be taken apart by ``writers``."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def writers(options: dict[str, Any]) -> dict[str, Any]:
    """What a session's config says of its writers, taken out of a command's options.

    Raises:
        Refused: The options contradict each other, or one is not understood.
    """
    given = {
        name: options.pop(name)
        for name in (*_NEED_A_MODEL, "models", "inbox", "exit_when_waiting", "replay")
    }
    names = given["models"]
    idle = [name for name in _NEED_A_MODEL if given[name]]
    if idle and not names:
        shown = {"bases": "api-base", "prices": "price", "params": "param"}.get(idle[0], idle[0])
        raise Refused(f"--{shown.replace('_', '-')} is about models, and there is no --model")
    kinds = [word for word in ("models", "inbox", "replay") if given[word]]
    if len(kinds) > 1:
        one, two = (f"--{kind.removesuffix('s')}" for kind in kinds[:2])
        raise Refused(f"{one} and {two} both say who writes: choose one")
    if given["exit_when_waiting"] and not given["inbox"]:
        raise Refused("--exit-when-waiting is about an inbox, and there is no --inbox")
    config = {name: options.pop(name) for name in ("parallel", "max_tokens", "prompt_tokens",
                                                   "drafts")}  # fmt: skip
    return {
        **config,
        **{name: given[name] for name in ("dollars", "tokens", "calls", "exit_when_waiting")},
        "models": _models(names, given),
        "inbox": _inbox(given["inbox"]),
        "replay": given["replay"],
    }


def _models(names: Sequence[str], given: dict[str, Any]) -> list[dict[str, Any]]:
    twice = [name for at, name in enumerate(names) if name in names[:at]]
    if twice or not all(name.strip() and name.isprintable() for name in names):
        raise Refused(f"--model {twice[0]} is given twice" if twice else "a --model has no name")
    for name in names:
        _no_secret("--model", name)
    bases = dict.fromkeys(names, "")
    for word in given["bases"]:
        bases.update(dict.fromkeys(*_of("api-base", word, names, _url)))
    prices: dict[str, Any] = dict.fromkeys(names)
    for word in given["prices"]:
        prices.update(dict.fromkeys(*_of("price", word, names, _price)))
    for base in bases.values():
        _no_secret("--api-base", base)
    effort = given["reasoning_effort"]
    params: dict[str, dict[str, Any]] = {
        name: {"reasoning_effort": effort} if effort else {} for name in names
    }
    for word in given["params"]:
        about, key, value = _param(word, names)
        for name in about:
            params[name][key] = value
    return [
        {"name": name, "api_base": bases[name], "params": params[name], "price": prices[name]}
        for name in names
    ]


def _of(
    option: str, word: str, names: Sequence[str], read: Callable[[str], Any]
) -> tuple[Sequence[str], Any]:
    """The models that ``MODEL=VALUE`` or ``VALUE`` is about, and the value read."""
    before, mark, after = word.partition("=")
    if mark and before in names:
        return [before], read(after)
    if mark and option == "price":
        raise Refused(f"--price {word}: no --model {before}", f"models: {', '.join(names)}")
    return names, read(word)


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        fine = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        fine = False
    if not fine:
        raise Refused(
            f"--api-base {text}: this is no server's address",
            "say [MODEL=]URL, such as http://localhost:8000/v1, with MODEL as given to --model",
        )
    if parts.username or parts.password or parts.query:
        raise Refused(
            f"--api-base with {'a query' if parts.query else 'a user or password'} is not taken: "
            "the session would keep it",
            _KEYS_ELSEWHERE,
        )
    return text


def _price(text: str) -> dict[str, float]:
    try:
        numbers = [float(part) for part in text.split("/")]
    except ValueError:
        numbers = []
    if len(numbers) not in {2, 3} or not all(0 <= n < math.inf for n in numbers):
        raise Refused(
            f"--price {text}: this is no price", "say IN/OUT or IN/OUT/CACHED, such as 3/15/0.3"
        )
    return dict(zip(("in", "out", "cached"), numbers, strict=False))


def _param(word: str, names: Sequence[str]) -> tuple[Sequence[str], str, Any]:
    # A value may have colons too: what comes before one is a model only if it is named so.
    model = next((name for name in names if word.startswith(f"{name}:")), None)
    found = _PARAM.fullmatch(word if model is None else word.removeprefix(f"{model}:"))
    if found is None:
        raise Refused(f"--param {word}: say KEY=VALUE or MODEL:KEY=VALUE")
    key, text = found["key"], found["value"]
    if ":" in key:
        raise Refused(f"--param {word}: no --model {key.rpartition(':')[0]}",
                      f"models: {', '.join(names)}")  # fmt: skip
    if _SECRET.search(key) or _HEADERS.search(key):
        raise Refused(f"--param {key} looks like a secret", _KEYS_ELSEWHERE)
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    _no_secret(f"--param {key}", value)
    return names if model is None else [model], key, value


def _no_secret(where: str, value: Any) -> None:
    """Refuse what would be saved with the session and looks like a key, however deep it lies.

    Raises:
        Refused: A name or a text in it does.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            if _SECRET.search(str(key)):
                raise Refused(f"{where}: {str(key)[:40]} looks like a secret", _KEYS_ELSEWHERE)
            _no_secret(where, inner)
    elif isinstance(value, list):
        for inner in value:
            _no_secret(where, inner)
    elif isinstance(value, str):
        # Its shape gives it away, or that it is in the environment as a key.
        secrets = [text for name, text in os.environ.items() if _SECRET.search(name)]
        own = any(len(secret) >= 8 and secret in value for secret in secrets)
        if own or _KEY.search(value):
            raise Refused(f"{where} holds what looks like a key", _KEYS_ELSEWHERE)


def _inbox(given: str | None) -> str | None:
    if given is None or given == INBOX:
        return given
    if given.startswith("suite:") or Path(given).is_file():
        raise Refused(
            f"--inbox {given}: this is a task, not a folder", "put --inbox after the TASKs"
        )
    return str(Path(given).expanduser().absolute())
