"""What model calls cost: litellm's own list of prices, or what the user gives.

The list lies in litellm's package and is read without importing it. A price that is not known is
None, never 0: a cap in dollars must not be fooled by a model that nobody has priced.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.writers.ask import Usage

TEMPLATE_TOKENS = 256
MAX_PRICE = 1e6
_LIST = "model_prices_and_context_window_backup.json"
_ABOVE = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
_NUMBERS = {"in": "in", "out": "out", "cached": "cached"}
# These run on somebody's own machine: a price of 0 in the list is true.
LOCAL = frozenset(
    {"ollama", "ollama_chat", "lm_studio", "vllm", "hosted_vllm", "llamafile", "lemonade",
     "xinference", "docker_model_runner", "oobabooga", "petals", "triton"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rate:
    """Micro-dollars for a token, which are dollars for a million tokens.

    Attributes:
        above: For prompts of more tokens than this.
        write: For prompt tokens that the provider puts into its cache.
        reasoning: For reply tokens that are not part of the text.
    """

    above: int
    tokens_in: float
    tokens_out: float
    cached: float
    write: float
    reasoning: float


@dataclass(frozen=True, slots=True)
class Price:
    """What one model costs.

    Attributes:
        rates: By length of the prompt, the shortest first; the first is for prompts of any length.
        given: Whether the user said so.
    """

    rates: tuple[Rate, ...]
    given: bool = False

    def __str__(self) -> str:
        first = self.rates[0]
        text = f"${first.tokens_in:.4g} in, ${first.tokens_out:.4g} out a million tokens"
        if len(self.rates) > 1:
            text += f", more above {self.rates[1].above:,} tokens"
        return text + (", as given" if self.given else "")

    def worst(self, prompt_bytes: int, max_tokens: int) -> int:
        """The most micro-dollars that a call can cost.

        No tokenizer makes more tokens of a text than it has bytes; a chat template adds a few.
        """
        tokens = prompt_bytes + TEMPLATE_TOKENS
        costs = [
            tokens * max(rate.tokens_in, rate.write, rate.cached)
            + max_tokens * max(rate.tokens_out, rate.reasoning)
            for rate in self.rates
            if rate.above <= tokens
        ]
        return _up(max(costs))

    def cost(self, usage: Usage) -> int:
        """Micro-dollars of a call, rounded up."""
        rate = [rate for rate in self.rates if rate.above == 0 or usage.tokens_in > rate.above][-1]
        cached = min(usage.cached, usage.tokens_in)
        written = min(usage.cache_written, usage.tokens_in - cached)
        reasoning = min(usage.reasoning, usage.tokens_out)
        return _up(
            (usage.tokens_in - cached - written) * rate.tokens_in
            + cached * rate.cached
            + written * rate.write
            + (usage.tokens_out - reasoning) * rate.tokens_out
            + reasoning * rate.reasoning
        )


def _up(cost: float) -> int:
    return math.ceil(round(cost, 6))


def given(price: Mapping[str, Any]) -> Price:
    """The user's price: ``in``, ``out`` and perhaps ``cached``, in $ for a million tokens.

    Raises:
        ModelError: It is no price.
    """
    numbers: dict[str, float] = {}
    for name, value in price.items():
        known = name in _NUMBERS and isinstance(value, int | float) and not isinstance(value, bool)
        if value is None and name == "cached":
            continue
        if not known or not 0 <= value <= MAX_PRICE:
            raise ModelError(
                f"{str(name)[:40]}={str(value)[:40]} is no price",
                "give in, out and perhaps cached, in $ for a million tokens",
                code="model-price",
                fatal=True,
            )
        numbers[name] = float(value)
    if "in" not in numbers or "out" not in numbers:
        raise ModelError(
            "a price needs both in and out",
            "give $ for a million tokens of the prompt and of the reply: IN/OUT",
            code="model-price",
            fatal=True,
        )
    cached = numbers.get("cached", numbers["in"])
    rate = Rate(0, numbers["in"], numbers["out"], cached, numbers["in"], numbers["out"])
    return Price((rate,), given=True)


def listed(model: str, tier: str = "") -> Price | None:
    """The price of a model in litellm's list; None where it has none.

    Args:
        model: As litellm names it, with or without its provider.
        tier: A service tier with prices of its own, such as ``flex``.
    """
    entry = entry_of(model)
    if entry is None:
        return None
    suffix = f"_{tier}" if tier and f"input_cost_per_token_{tier}" in entry else ""
    rates = _by_range(entry) or _by_key(entry, suffix)
    paid = any(rate.tokens_in or rate.tokens_out for rate in rates)
    if not rates or not (paid or entry.get("litellm_provider") in LOCAL):
        return None
    first = replace(rates[0], above=0)
    return Price((first, *sorted(rates[1:], key=lambda rate: rate.above)))


def entry_of(model: str) -> Mapping[str, Any] | None:
    """What litellm's list says of a model: provider, prices, limits, abilities."""
    entries = price_list()
    if model in entries:
        return entries[model]
    provider, _, name = model.partition("/")
    entry = entries.get(name)
    # The same name at another provider has another price.
    if entry and str(entry.get("litellm_provider", "")).split("-")[0] == provider:
        return entry
    return None


@cache
def price_list() -> dict[str, Mapping[str, Any]]:
    """litellm's list, by model name; empty if its package has none."""
    found = importlib.util.find_spec("litellm")
    if found is None or found.origin is None:
        return {}
    try:
        data = json.loads((Path(found.origin).parent / _LIST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    entries: dict[str, Mapping[str, Any]] = {
        str(name): entry
        for name, entry in data.items()
        if isinstance(entry, dict) and name != "sample_spec"
    }
    for entry in list(entries.values()):
        for alias in entry.get("aliases") or ():
            entries.setdefault(str(alias), entry)
    return entries


def _by_range(entry: Mapping[str, Any]) -> list[Rate]:
    rates = []
    for tier in entry.get("tiered_pricing") or ():
        start = int((tier.get("range") or [0])[0])
        rate = _rate(tier, "", start)
        if rate is None:
            return []
        rates.append(rate)
    return sorted(rates, key=lambda rate: rate.above)


def _by_key(entry: Mapping[str, Any], suffix: str) -> list[Rate]:
    first = _rate(entry, suffix, 0)
    if first is None:
        return []
    rates = [first]
    for key in entry:
        if found := _ABOVE.fullmatch(key):
            thousands = found.group(1)
            rate = _rate(entry, f"_above_{thousands}k_tokens{suffix}", int(thousands) * 1000, first)
            rates.append(rate or first)
    return rates


def _rate(
    entry: Mapping[str, Any], suffix: str, above: int, lower: Rate | None = None
) -> Rate | None:
    """One line of an entry; what it leaves out is as in ``lower``, or as the plain tokens."""

    def read(key: str, tail: str) -> float | None:
        value = entry.get(key + tail)
        # Rounded: 8e-07 a token is 0.8 and not 0.7999... for a million.
        return round(value * 1e6, 9) if isinstance(value, int | float) and value >= 0 else None

    # A tier may have no price of its own at this length.
    tails = (suffix, suffix.removesuffix("_priority").removesuffix("_flex")) if lower else (suffix,)

    def first(key: str) -> float | None:
        return next((found for tail in tails if (found := read(key, tail)) is not None), None)

    tokens_in, tokens_out = first("input_cost_per_token"), first("output_cost_per_token")
    if lower:
        tokens_in = lower.tokens_in if tokens_in is None else tokens_in
        tokens_out = lower.tokens_out if tokens_out is None else tokens_out
    if tokens_in is None or tokens_out is None:
        return None
    cached = first("cache_read_input_token_cost")
    write = first("cache_creation_input_token_cost") or tokens_in
    reasoning = first("output_cost_per_reasoning_token")
    return Rate(
        above,
        tokens_in,
        tokens_out,
        tokens_in if cached is None else cached,
        write,
        tokens_out if reasoning is None else reasoning,
    )
