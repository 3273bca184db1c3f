"""A reply's idea in one line: what becomes the title of its node."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_TITLE = 200
_ANSI = re.compile(r"\x1b\[[0-9;:?]{0,32}[@-~]|\x1b\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)")
_LEAD = re.compile(
    r"(?:the |my |main |core |key |one-line )*(?:idea|title|approach|summary)(?: in one line)?"
    r"(?:[ \t]*[:\u2014]| -)[ \t]*",
    re.I,
)
# What only announces: "Sure!", "Here is the kernel", "Plan:", and headings without a word more.
_FILLER = re.compile(
    r"(?:sure|certainly|of course|absolutely|okay|ok|great)\b(?:[!,. ]|$)|(?:here|below)\b.{0,120}$"
    r"|(?:the |my )?(?:plan|source|code|kernel|cuda|c\+\+|cpp|toml|idea|title|approach|solution"
    r"|answer)(?: (?:code|source|plan|kernel|block))?:?$|.{0,60}:$",
    re.I,
)
_COMMENT = re.compile(r"//+([^\n]*\w[^\n]*)|/\*+\s*([^\n*]*\w[^\n*]*)")


def title_of(lines: Iterable[str]) -> str:
    """The first line that says something, as plain text of at most 200 characters; "" without.

    A line that only announces what follows is taken where there is no other.
    """
    spare = ""
    for line in lines:
        shown = _plain(line[:2000])
        if not re.search(r"\w", shown):
            continue
        if not _FILLER.match(shown):
            return shown
        spare = spare or shown
    return spare


def comment_of(source: str) -> str:
    """The first comment of a source, as a title; "" without."""
    found = _COMMENT.search(source[:4000])
    return _plain(found.group(1) or found.group(2)) if found else ""


def first_line(text: str) -> str:
    """The first line that is not blank, bounded and printable."""
    line = next((line.strip() for line in text.split("\n") if line.strip()), "")
    return "".join(char if char.isprintable() else " " for char in line)[:80]


def _plain(line: str) -> str:
    """A line without Markdown, control codes, and words that only announce the idea."""
    shown = "".join(c if c.isprintable() else " " for c in _ANSI.sub("", line))
    shown = re.sub(r"^(?:[#>*+ -]|\d{1,2}[.)] )+", "", " ".join(shown.split()))
    shown = re.sub(r"\*\*|(?<!\w)__|__(?!\w)|`", "", shown).strip("*~# ")
    return _LEAD.sub("", shown, count=1).strip("* ")[:MAX_TITLE].rstrip()
