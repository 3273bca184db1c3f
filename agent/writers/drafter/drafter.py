"""The drafter: from a reference to replies, one for each schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.writers.drafter.build import build
from agent.writers.drafter.cpp import reply, write_source
from agent.writers.drafter.ir import Pool
from agent.writers.drafter.options import options
from agent.writers.drafter.trace import trace

if TYPE_CHECKING:
    from agent.reference import Reference
    from agent.writers.drafter.schedule import Schedule


class Drafter:
    """Writes C++ programs for one reference.

    Args:
        reference: What to write programs for.

    Raises:
        ForgeError: code ``cannot-draft``; the message says which operator stands in the way.
    """

    def __init__(self, reference: Reference) -> None:
        self._spec = reference.spec
        self._pool = Pool()
        self._draft = build(trace(reference), reference.spec, self._pool)
        self._options = options(self._draft, self._pool)

    def drafts(self) -> list[Schedule]:
        """Different approaches, the most promising first."""
        return self._options.drafts()

    def neighbours(self, schedule: Schedule) -> list[Schedule]:
        """Schedules that differ in one choice, the most promising first."""
        return self._options.neighbours(schedule)

    def repair(self, schedule: Schedule, failure: dict[str, Any]) -> Schedule | None:
        """A plainer schedule to try after a failed build or check, or None."""
        return self._options.plainer(schedule)

    def write(self, schedule: Schedule) -> str:
        """The reply for this schedule: idea line, source, plan, tunables left open."""
        source = write_source(self._draft, self._pool, schedule)
        return reply(source, schedule.title, f"{self._spec.name}: {schedule.title}")
