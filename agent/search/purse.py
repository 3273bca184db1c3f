"""The caps on model calls: what is spent, what is set aside for calls in flight, what is left.

Before a call its worst case is set aside; when it is settled, what it really took replaces that. So
the sum of both never exceeds a cap, whatever runs at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_DOLLARS = 2.0
DEFAULT_TOKENS = 1_000_000


@dataclass(frozen=True, slots=True)
class Worst:
    """The most that a call can take: micro-dollars (None: no price is known), and tokens."""

    micro_dollars: int | None
    tokens: int


@dataclass(slots=True)
class Purse:
    """Caps and spending of one session.

    Attributes:
        micro_dollars: The cap on what calls cost that have a price.
        tokens, calls: The other caps; None is none. While no cap on tokens is given, calls without
            a price are held to :data:`DEFAULT_TOKENS`.
        strict: Whether a person set the cap in dollars: then no call without a price may be made.
        spent: Micro-dollars settled, and of calls that were lost.
        spent_tokens: Tokens settled, in and out.
        made: Calls made that took something, or may yet.
        held: What is set aside, by call.
    """

    micro_dollars: int
    tokens: int | None = None
    calls: int | None = None
    strict: bool = True
    spent: int = 0
    spent_tokens: int = 0
    made: int = 0
    held: dict[int, Worst] = field(default_factory=dict)

    @staticmethod
    def of(config: Mapping[str, Any]) -> Purse:
        dollars = config.get("dollars")
        cap = DEFAULT_DOLLARS if dollars is None else float(dollars)
        return Purse(
            round(cap * 1e6), config.get("tokens"), config.get("calls"), strict=dollars is not None
        )

    def lacks(self, worst: Worst) -> str:
        """Which cap a call could break: ``dollars``, ``tokens``, ``calls``; "" for none."""
        if self.calls is not None and self.made >= self.calls:
            return "calls"
        priced = worst.micro_dollars is not None
        cap = self.tokens if self.tokens is not None or priced else DEFAULT_TOKENS
        tokens = self.spent_tokens + sum(held.tokens for held in self.held.values())
        if cap is not None and tokens + worst.tokens > cap:
            return "tokens"
        if worst.micro_dollars is None:
            return "dollars" if self.strict else ""
        money = self.spent + sum(held.micro_dollars or 0 for held in self.held.values())
        return "dollars" if money + worst.micro_dollars > self.micro_dollars else ""

    def hold(self, call: int, worst: Worst) -> None:
        """Set a call's worst case aside; the call counts as made."""
        self.held[call] = worst
        self.made += 1

    def settle(self, call: int, micro_dollars: int | None, tokens: int) -> None:
        """Replace what was set aside by what was taken; a call that took nothing counts as none."""
        self.held.pop(call, None)
        self.spent += micro_dollars or 0
        self.spent_tokens += tokens
        if tokens == 0 and not micro_dollars:
            self.made -= 1

    def said(self, which: str) -> tuple[float, float]:
        """What was spent of a cap, and the cap, as people count: dollars, tokens, calls."""
        match which:
            case "dollars":
                return self.spent / 1e6, self.micro_dollars / 1e6
            case "tokens":
                cap = DEFAULT_TOKENS if self.tokens is None else self.tokens
                return float(self.spent_tokens), float(cap)
            case _:
                return float(self.made), float(self.calls or 0)
