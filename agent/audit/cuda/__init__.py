"""The CUDA half of the audit: every cheat of ours, and right programs in many styles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.audit.cuda.caches import BORROWED, CACHES, LIBRARY
from agent.audit.cuda.coarse import COARSE
from agent.audit.cuda.endings import ENDINGS, LIMITS, MAPS
from agent.audit.cuda.forms import FORMS
from agent.audit.cuda.honest import HONEST
from agent.audit.cuda.lazy import LAZY
from agent.audit.cuda.memory import REACHING, UNREADY
from agent.audit.cuda.plans import PLANS
from agent.audit.cuda.reading import BOMBS, CALLS, CODE, FILES
from agent.audit.cuda.state import STATE, TIME

if TYPE_CHECKING:
    from agent.audit.rows import Row


def rows() -> list[Row]:
    """Every CUDA row: cheats first, and those that break the device's context after the others."""
    return [
        *PLANS, *FILES, *BOMBS, *CODE, *CALLS, *TIME, *LIBRARY, *LAZY, *COARSE, *FORMS, *REACHING,
        *UNREADY, *STATE, *CACHES, *BORROWED, *MAPS, *LIMITS, *ENDINGS, *HONEST,
    ]  # fmt: skip
