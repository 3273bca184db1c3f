"""Fits the sections of a prompt into a budget: the least useful parts get shorter first.

Nobody knows a model's tokenizer beforehand. :data:`BYTES_A_TOKEN` is on the safe side for English
and code: common tokenizers take 3.6 to 3.9 bytes a token of the contract's texts.
"""

from __future__ import annotations

from dataclasses import dataclass

BYTES_A_TOKEN = 3.5


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a prompt in one or more forms.

    Attributes:
        forms: From the full one to the shortest; "" leaves the section out.
        ranks: When to go from each form to the next: the lowest number of all sections first.
    """

    forms: tuple[str, ...]
    ranks: tuple[int, ...] = ()


def size(text: str) -> int:
    """Bytes of a text as it travels."""
    return len(text.encode("utf-8", "replace"))


def tokens(text: str) -> int:
    """About how many tokens a text has."""
    return -(-size(text) * 10 // round(BYTES_A_TOKEN * 10))


def fit(sections: list[Section], room: int) -> str:
    """The sections in their order, in the fullest forms that together have ``room`` bytes.

    What has no shorter form stays, whatever the room.
    """
    chosen = [0] * len(sections)
    steps = sorted(
        (rank, at)
        for at, section in enumerate(sections)
        for rank in section.ranks[: len(section.forms) - 1]
    )
    total = sum(_own(section.forms[0]) for section in sections)
    for _, at in steps:
        if total <= room:
            break
        forms, old = sections[at].forms, chosen[at]
        chosen[at] = old + 1
        total += _own(forms[old + 1]) - _own(forms[old])
    shown = (section.forms[form] for section, form in zip(sections, chosen, strict=True))
    return "\n\n".join(text for text in shown if text)


def _own(text: str) -> int:
    """Bytes with the blank line after it."""
    return size(text) + 2 if text else 0
