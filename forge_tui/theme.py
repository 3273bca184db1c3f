"""Colours by role: a calm dark theme, and one that uses the terminal's own 16 colours.

A role is what a piece of text means (``good``, ``muted``, ``best``). Each also has a glyph or a
word on the screen, so that nothing hangs on colour.
"""

from __future__ import annotations

from rich.style import Style
from textual.theme import BUILTIN_THEMES, Theme

CALM = Theme(
    name="forge",
    primary="#6f9fb8",
    secondary="#8aa3b5",
    accent="#d9b96c",
    foreground="#c9cfd6",
    background="#14171b",
    surface="#14171b",
    panel="#1d2228",
    boost="#1d2228",
    success="#8fb573",
    warning="#d4a05f",
    error="#cb7470",
    dark=True,
    variables={"border": "#333a42", "border-blurred": "#333a42", "scrollbar": "#333a42"},
)
NAMED = Theme(
    name="forge-16",
    ansi=True,
    primary="ansi_cyan",
    secondary="ansi_cyan",
    accent="ansi_yellow",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    success="ansi_green",
    warning="ansi_yellow",
    error="ansi_red",
    dark=True,
    variables=BUILTIN_THEMES["ansi-dark"].variables | {"border": "ansi_bright_black"},
)

_CALM_ROLES = {
    "text": "#c9cfd6",
    "strong": "bold #e8ecf0",
    "muted": "#8b949e",
    "faint": "#545c66",
    "head": "#8aa3b5",
    "live": "#6fb0c4",
    "good": "#8fb573",
    "best": "bold #d9b96c",
    "warn": "#d4a05f",
    "bad": "#cb7470",
    "key": "bold #a9bccb",
    "tab": "#8b949e",
    "tab-on": "bold #e8ecf0",
    "cursor": "on #2b3742",
    "cursor-away": "on #20262d",
    "code-key": "#a493c7",
    "code-text": "#8fb573",
    "code-number": "#cf9d7c",
    "code-comment": "#6d7681",
    "code-pre": "#7f9fb0",
    "code-name": "#79b3c9",
}
_NAMED_ROLES = {
    "text": "",
    "strong": "bold",
    "muted": "dim",
    "faint": "dim",
    "head": "cyan",
    "live": "cyan",
    "good": "green",
    "best": "bold yellow",
    "warn": "yellow",
    "bad": "red",
    "key": "bold",
    "tab": "dim",
    "tab-on": "bold underline",
    "cursor": "reverse",
    "cursor-away": "underline",
    "code-key": "cyan",
    "code-text": "green",
    "code-number": "yellow",
    "code-comment": "dim",
    "code-pre": "magenta",
    "code-name": "bold",
}


def roles(ansi: bool) -> dict[str, Style]:
    """The style of every role."""
    chosen = _NAMED_ROLES if ansi else _CALM_ROLES
    return {role: Style.parse(text) if text else Style() for role, text in chosen.items()}
