"""Keys of model providers: where they come from, and that they show up nowhere."""

from __future__ import annotations

import importlib
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MASK = "[key]"
SERVICE = "forge-tui"
MIN_SECRET = 8
_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
# Values of such names that are settings: masking them would eat ordinary words and numbers.
_PLAIN = re.compile(r"true|false|none|null|disabled|enabled|\d{1,12}|[./~][^\s]*", re.IGNORECASE)
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:sk|pk|rk|gsk|xai|hf|pplx|fw|nvapi|tgp|r8|csk|dsk)[-_][A-Za-z0-9_*-]{8,200}"
    r"|AIza[A-Za-z0-9_*-]{16,80}"
    r"|AKIA[A-Z0-9]{12,20}"
    r"|gh[pousr]_[A-Za-z0-9]{20,80}"
    r"|ya29\.[A-Za-z0-9._-]{20,400}"
    r"|eyJ[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{10,2000}"
    r")|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,400}"
)


def redact(text: str, environ: Mapping[str, str] | None = None) -> str:
    """The text with everything that is or looks like a key masked.

    Args:
        text: Any text, such as a provider's error.
        environ: Where keys are; the process's environment by default.
    """
    values = set(_values(os.environ if environ is None else environ).values())
    for value in sorted(values, key=len, reverse=True):  # one may be part of another
        text = text.replace(value, MASK)
    return _SHAPES.sub(MASK, text)


def held(text: str, environ: Mapping[str, str] | None = None) -> str:
    """The variable whose secret value is in a text; "" for none."""
    values = _values(os.environ if environ is None else environ)
    return next((name for name, value in values.items() if value in text), "")


def _values(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that look like keys, with their values."""
    return {
        name: value
        for name, value in environ.items()
        if len(value) >= MIN_SECRET and _NAMES.search(name) and not _PLAIN.fullmatch(value)
    }


def from_keyring(variable: str) -> str | None:
    """The key that the system's key ring has for a provider's variable; None without one.

    The package ``keyring`` is optional. What it gives is handed on as an argument, and never put
    into the environment, which child processes inherit.
    """
    try:
        keyring = importlib.import_module("keyring")
        errors = importlib.import_module("keyring.errors")
    except ImportError:
        return None
    try:
        found = keyring.get_password(SERVICE, variable)
    except (errors.KeyringError, OSError, RuntimeError):  # locked, or no service behind it
        return None
    return str(found) if found else None
