"""Foreign text made safe and made to fit: nothing from a model, compiler or file is trusted.

Escape sequences and control characters are taken out, direction marks too (they could reorder a
line), lengths are bounded before anything else looks at them, and widths are counted in terminal
cells. Nothing here is ever parsed as markup.
"""

from __future__ import annotations

import re
import unicodedata

MAX_CHARS = 400_000
MAX_LINE = 2_000

_ESCAPES = re.compile(
    "\x1b\\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI
    "|\x1b[\\]PX^_][^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\\\|\x9c)?"  # OSC, DCS, SOS, PM, APC
    "|\x1b[ -/]{0,4}[0-~]?"  # the rest of ESC
)
_DROP = {
    **{code: None for code in range(0x20) if chr(code) not in "\n\t"},
    **dict.fromkeys(range(127, 160)),
    **dict.fromkeys(range(8203, 8208)),
    **dict.fromkeys(range(8234, 8239)),
    **dict.fromkeys(range(8288, 8304)),
    **dict.fromkeys(range(55296, 57344), "�"),
    **dict.fromkeys(range(65024, 65040)),
    0x2028: "\n",
    0x2029: "\n",
    0xFEFF: None,
}


def clean(text: object, limit: int = MAX_CHARS) -> str:
    """Plain text of at most ``limit`` characters; newlines and tabs stay."""
    plain = str(text)[:limit]
    if "\r" in plain:
        plain = plain.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in plain:
        plain = _ESCAPES.sub("", plain)
    return plain if plain.isascii() and plain.isprintable() else plain.translate(_DROP)


def one_line(text: object, limit: int = 300) -> str:
    """The text as one line: runs of white space become one space."""
    return " ".join(clean(text, limit * 4).split())[:limit]


def lines(text: object, most: int = 5_000) -> list[str]:
    """The lines of a text, each of at most 2,000 characters, tabs expanded."""
    split = clean(text).split("\n")
    kept = [line.expandtabs(4)[:MAX_LINE].rstrip() for line in split[:most]]
    if len(split) > most:
        kept.append(f"({len(split) - most:,} more lines are not shown)")
    return kept


def width(text: str) -> int:
    """Terminal cells that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def clip(text: str, cells: int, mark: str = "…") -> str:
    """The text, or its beginning and ``mark``, in at most ``cells`` cells."""
    if width(text) <= cells:
        return text
    room = cells - len(mark)
    if room <= 0:
        return mark[:cells]
    if text.isascii():
        return text[:room] + mark
    used, end = 0, 0
    for end, char in enumerate(text):  # noqa: B007 - the last value is used
        used += 0 if unicodedata.combining(char) else width(char)
        if used > room:
            break
    cut = text[:end]
    while width(cut) > room:  # clusters may be wider than the sum of their characters
        cut = cut[:-1]
    return cut + mark


def fit(text: str, cells: int, *, right: bool = False, mark: str = "…") -> str:
    """The text clipped and padded to exactly ``cells`` cells."""
    text = clip(text, cells, mark)
    space = " " * (cells - width(text))
    return space + text if right else text + space


def wrap(text: str, cells: int, most: int = 100) -> list[str]:
    """The text broken at spaces into lines of at most ``cells`` cells; a longer word is cut."""
    out: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            if line and width(line) + 1 + width(word) > cells:
                out.append(line)
                line = ""
            line = f"{line} {word}" if line else word
            while width(line) > cells > 1:
                head = clip(line, cells, "")
                if not head:
                    break
                out.append(head)
                line = line[len(head) :]
            if len(out) >= most:
                return out[:most]
        out.append(line)
    return out[:most]
