"""What a writer is asked and what it answers, whoever it is."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question to a writer.

    Attributes:
        system: What is the same for every question of a language: providers cache such a prefix.
        user: This question; what changes least comes first.
    """

    system: str
    user: str

    @property
    def size(self) -> int:
        """UTF-8 bytes: no tokenizer makes more tokens of a text than it has bytes."""
        return sum(len(part.encode("utf-8", "replace")) for part in (self.system, self.user))


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call.

    Attributes:
        tokens_in: Of the prompt, the cached ones included.
        tokens_out: Of the reply, the reasoning included.
        cached: Those of ``tokens_in`` that the provider had in its cache.
        cache_written: Those of ``tokens_in`` that it wrote into its cache.
        reasoning: Those of ``tokens_out`` that are not part of the text.
        estimated: Whether we counted them ourselves, for the provider did not say.
    """

    tokens_in: int
    tokens_out: int
    cached: int = 0
    cache_written: int = 0
    reasoning: int = 0
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply that came in whole.

    Attributes:
        text: The reply, without what the model thought.
        thinking: What it thought, where the provider passes that on.
        finish: ``stop``, ``length`` (cut off at the limit) or what else the provider called it.
        micro_dollars: What it cost; None when no price is known.
        notes: What a person should know, such as a parameter that was dropped.
    """

    text: str
    thinking: str
    finish: str
    usage: Usage
    micro_dollars: int | None
    seconds: float
    notes: tuple[str, ...] = field(default=())
