"""Recorded replies: a search again with what was written before, without a model."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Both start from a program that works and ask for a faster one.
_KIN = {"improve": "combine", "combine": "improve"}


@dataclass(frozen=True, slots=True)
class Recorded:
    """A reply as it was recorded. ``target`` is the target's name, not its number."""

    target: str
    action: str
    text: str

    @staticmethod
    def of(data: Mapping[str, Any]) -> Recorded:
        """From an item of the config's ``replay.replies``; what else it says is for people."""
        return Recorded(
            str(data.get("target", "")), str(data.get("action", "")), str(data.get("text", ""))
        )


class Replay:
    """Gives recorded replies out, each once, in the order in which they were recorded.

    The same asks get the same replies: an engine that takes a session up again asks once for each
    node that was made, in order, and is where it was.

    Args:
        recorded: As the session's config has them, oldest first.
    """

    def __init__(self, recorded: Iterable[Mapping[str, Any]]) -> None:
        self._unused: dict[tuple[str, str], list[str]] = {}
        for item in map(Recorded.of, recorded):
            self._unused.setdefault((item.target, item.action), []).append(item.text)
        for texts in self._unused.values():
            texts.reverse()  # the oldest last, where taking it out is cheap

    def answer(self, target: str, action: str) -> str | None:
        """The next reply for a target and an action; None when the recording has no more.

        Where there is none for this action, an improvement takes that of a combination, and the
        other way round; then any that is left will do, for the tree may have grown otherwise.
        """
        others = [name for about, name in self._unused if about == target]
        for wanted in (action, _KIN.get(action, ""), *others):
            if texts := self._unused.get((target, wanted)):
                return texts.pop()
        return None

    def left(self, target: str) -> dict[str, int]:
        """How many replies of a target are unused, by action; those with none are left out."""
        counts: Counter[str] = Counter()
        for (name, action), texts in self._unused.items():
            if name == target:
                counts[action] += len(texts)
        return {action: count for action, count in counts.items() if count}
