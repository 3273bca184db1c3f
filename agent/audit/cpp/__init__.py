"""The C++ half of the audit: every cheat of ours, and right programs in many styles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.audit.cpp.bare import BARE
from agent.audit.cpp.coarse import COARSE
from agent.audit.cpp.honest import HONEST
from agent.audit.cpp.keeping import KEEPING
from agent.audit.cpp.lazy import LAZY
from agent.audit.cpp.more import MORE
from agent.audit.cpp.outside import OUTSIDE
from agent.audit.cpp.plans import PLANS
from agent.audit.cpp.reaching import REACHING
from agent.audit.cpp.reading import READING
from agent.audit.cpp.texts import cheats

if TYPE_CHECKING:
    from agent.audit.rows import Row


def rows() -> list[Row]:
    """Every C++ row, cheats first."""
    lines = [*LAZY, *COARSE, *REACHING, *KEEPING, *OUTSIDE, *BARE, *READING]
    return [*cheats(lines), *PLANS, *HONEST, *MORE]
