"""The drafter: programs without a language model, from the reference's own trace."""

from __future__ import annotations

from agent.writers.drafter.drafter import Drafter
from agent.writers.drafter.schedule import Schedule

__all__ = ["Drafter", "Schedule"]
