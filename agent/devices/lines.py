"""The logical lines of a C++ text, as a preprocessor would see its directives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PARTS = re.compile(
    r"""(?P<raw>(?<!\w)(?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{0,16})\(.*?(?:\)(?P=mark)"|\Z))
      | (?P<line>//[^\n]*)|(?P<block>/[*].*?(?:[*]/|\Z))
      | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<number>(?<![\w.])\.?\d(?:'?[\w.]|[eEpP][+-])*)""",
    re.VERBOSE | re.DOTALL,
)


def logical_lines(source: str) -> Iterator[tuple[int, str]]:
    """Lines after splicing, comments blanked, strings emptied, each with its first line number.

    A raw string becomes ``R""`` with its newlines kept out, so that a caller can refuse it.
    """
    text = re.sub(r"\\[ \t\f\v]*\n", "\x01", source)
    # A splice may stand inside a token (`#inc\<newline>lude`), so it must be gone before words
    # are read; the map keeps the numbers of the physical lines.
    numbers, joined, number = [], [], 1
    for char in text:
        if char == "\x01":
            number += 1
            continue
        joined.append(char)
        numbers.append(number)
        number += char == "\n"
    flat = "".join(joined)

    def blank(match: re.Match[str]) -> str:
        if match.lastgroup == "number":
            return match.group()
        if match.lastgroup == "raw" or match.group("raw"):
            return 'R""' + " " * (len(match.group()) - 3)
        if match.lastgroup == "text":
            return '""' + " " * (len(match.group()) - 2)
        # Newlines too: a directive goes on after a comment that began on its line.
        return " " * len(match.group())

    start = 0
    for part in _PARTS.sub(blank, flat).split("\n"):
        yield (numbers[start] if start < len(numbers) else number), part
        start += len(part) + 1
