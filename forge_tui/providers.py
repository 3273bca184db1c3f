"""``models``: which language models can be asked from here, and what they cost."""

from __future__ import annotations

import json
from typing import Any

import click

from forge_tui import figures, words
from forge_tui.launch import spoken
from forge_tui.options import AS_JSON, Refused
from forge_tui.text import one_line

PATIENCE_S = 180.0


@click.command(short_help="List the language models that can be asked, with prices.")
@click.option(
    "--api-base", "base", default="", metavar="URL",
    help="Ask this OpenAI-compatible server for its models.",
)  # fmt: skip
@click.option(
    "--test", default="", metavar="MODEL", help="Make the smallest call and say what it cost."
)
@click.option("--all", "every", is_flag=True, help="Also models whose key is not set.")
@AS_JSON
def models(base: str, test: str, every: bool, as_json: bool) -> None:
    """List the language models that can be asked from here, with prices for a million tokens.

    These are those of providers whose key is in the environment, or of the server that --api-base
    names. The exit code is 1 if there is none, or if the call of --test failed.
    """
    asked = ["models"]
    asked += ["--api-base", base] if base else []
    asked += ["--test", test] if test else []
    asked += ["--all"] if every else []
    said = list(spoken(asked, patience_s=PATIENCE_S, may_be_silent=True))
    rows = [line for line in said if "model" in line]
    tested = next((line["test"] for line in said if isinstance(line.get("test"), dict)), None)
    if as_json:
        click.echo(json.dumps({"models": rows, "test": tested}, indent=2, ensure_ascii=False))
    else:
        for text in model_lines(rows) if tested is None else call_lines(tested):
            click.echo(text)
    if test:
        _require_reply(test, tested or {})
    elif not rows:
        raise Refused(
            "no model can be asked from here",
            "set a provider's key, such as ANTHROPIC_API_KEY, or name a server with --api-base; "
            "--all lists every model that is known",
        )


def _require_reply(model: str, tested: dict[str, Any]) -> None:
    if tested.get("ok") is not True:
        why = one_line(tested.get("error") or f"{model} gave no reply", 400)
        raise Refused(why, one_line(tested.get("cure") or "", 300))


def model_lines(rows: list[dict[str, Any]]) -> list[str]:
    """One line a model; a price or a limit that nobody knows is told as such."""
    from forge_tui.results import table

    if not rows:
        return []
    head = ["model", "in", "cached", "out", "context", "reply", "key"]
    body = [
        [
            one_line(row.get("model", "?"), 60),
            *(_price(row.get(name)) for name in ("in", "cached", "out")),
            *(_count(row.get(name)) for name in ("context", "output")),
            one_line(row.get("key", ""), 60),
        ]
        for row in rows
    ]
    return [*table([head, *body], right=range(1, 6)), "", "in, cached, out: $ per 1,000,000 tokens"]


def _price(value: Any) -> str:
    known = figures.number(value)
    return words.UNKNOWN if known is None else f"{known:,.4g}"


def _count(value: Any) -> str:
    known = figures.number(value)
    return words.UNKNOWN if known is None else f"{known:,.0f}"


def call_lines(tested: dict[str, Any]) -> list[str]:
    """What came of the smallest call, one fact a line; what cannot be told is left out."""
    facts = [("model", tested.get("model")), ("reply", tested.get("text"))]
    tokens = [figures.number(tested.get(f"tokens {way}")) for way in ("in", "out")]
    if None not in tokens:
        guess = ", estimated" if tested.get("estimated") else ""
        facts.append(("tokens", f"{tokens[0]:,.0f} in, {tokens[1]:,.0f} out{guess}"))
        cost = figures.number(tested.get("dollars"))
        facts.append(("cost", words.UNKNOWN if cost is None else figures.dollars(cost * 1e6)))
        facts.append(("price", tested.get("price") or words.UNKNOWN))
    if seconds := figures.number(tested.get("seconds")):
        facts.append(("time", figures.seconds_of(seconds)))
    facts.append(("notes", tested.get("notes")))
    return [f"{name:<9}{one_line(value, 300)}" for name, value in facts if value]


COMMANDS = (models,)
