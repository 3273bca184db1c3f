"""Names of arguments: from parameters, places in nested values, and paths in a model."""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

# Names that programs use for something else: outputs, and the words of plan expressions.
_RESERVED = re.compile(r"out\d*|device|min|max|ceil_div")


def step(key: Any) -> str:
    """One step of a pytree path as text: a parameter's name, a dict key, a place in a list."""
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def names_for(wanted: Sequence[str]) -> list[str]:
    """Valid identifiers, each once, as near to the wanted names as possible."""
    taken: dict[str, None] = {}
    for text in wanted:
        name = re.sub(r"[^0-9A-Za-z_]", "_", text)
        if not name or name[0].isdigit():
            name = "_" + name
        if keyword.iskeyword(name) or _RESERVED.fullmatch(name):
            name += "_"
        base, count = name, 2
        while name in taken:
            name, count = f"{base}_{count}", count + 1
        taken[name] = None
    return list(taken)
