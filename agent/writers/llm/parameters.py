"""What a provider does not take: found in its refusal, so that it can be asked without."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LEAST_TOKENS = 256
MAX_READ = 4000
# Other words that refusals use for a parameter.
_ALSO = {
    "reasoning_effort": ("reasoning", "reasoning.effort", "thinking", "effort"),
    "thinking": ("budget_tokens", "reasoning"),
    "top_p": ("topP",),
    "top_k": ("topK",),
    "stop": ("stop_sequences",),
}
_AT_MOST = re.compile(
    r"(?:at most|up to|maximum(?: allowed)?(?: value)?(?: is| of)?|less than or equal to|<=|"
    r"cannot exceed|must not exceed|limit of|\[\s?\d{1,4}\s?,)\s*:?\s*(\d{3,7})\b",
    re.IGNORECASE,
)
_CONTEXT = re.compile(
    r"(?:maximum context length|context (?:length|window|limit|size))\D{0,40}(\d{3,8})",
    re.IGNORECASE,
)
_PROMPT = re.compile(
    r"(\d{1,8}) (?:tokens )?(?:in|from) (?:the |your )?(?:messages|prompt|input)"
    r"|(?:prompt|input)(?: already)? (?:contains|has|is)(?: at least)? (\d{1,8})"
    r"|(\d{1,8}) input tokens",
    re.IGNORECASE,
)
_STREAM = re.compile(r"\bstream(?:ing)?\b(?!_)", re.IGNORECASE)


def refused(text: str, params: Mapping[str, Any], named: Iterable[str] = ()) -> tuple[str, ...]:
    """Those of the parameters that a refusal is about.

    Args:
        text: What the provider, or litellm's table, said.
        params: What was sent.
        named: What its ``param`` field said.
    """
    text = text[:MAX_READ]
    found = []
    for name in params:
        words = (name, *_ALSO.get(name, ()))
        pattern = r"(?<![\w.-])(?:" + "|".join(map(re.escape, words)) + r")(?![\w-])"
        if re.search(pattern, text) or any(word in words for word in named):
            found.append(name)
    return tuple(found)


def no_streaming(text: str) -> bool:
    """Whether a refusal is about streaming as such."""
    return bool(_STREAM.search(text[:MAX_READ]))


def fewer_tokens(text: str, max_tokens: int) -> int | None:
    """The longest reply that a refusal leaves, if it says so and that is less than was asked."""
    text = text[:MAX_READ]
    if context := _CONTEXT.search(text):
        prompt = _PROMPT.search(text)
        if prompt is None:
            return None
        taken = next(int(part) for part in prompt.groups() if part)
        # Our count of the prompt may come out a little different next time.
        left = int(context.group(1)) - taken - 16
    elif "max_tokens" in text or "max_completion_tokens" in text or "maxOutputTokens" in text:
        numbers = [int(number) for number in _AT_MOST.findall(text)]
        left = max((number for number in numbers if number < max_tokens), default=0)
    else:
        return None
    return left if LEAST_TOKENS <= left < max_tokens else None
