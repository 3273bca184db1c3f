"""A target under search: its tree, how it stands, and what was tried."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.search.reward import reward
from agent.search.tree import Tree

if TYPE_CHECKING:
    from agent.search.budget import Progress
    from agent.task import TargetSpec, TaskSource


@dataclass(frozen=True, slots=True)
class Scored:
    """What a node's best variant was found to be."""

    variant: int
    outcome: str
    time_ns: int
    ratio: float
    low: float
    high: float

    @property
    def rank(self) -> tuple[bool, float]:
        """What the best is chosen by: FASTER first, then the lower bound."""
        return self.outcome == "FASTER", self.low

    @property
    def claims_win(self) -> bool:
        """Whether it may be a win: FASTER, or UNSURE only because the machine was busy."""
        return self.outcome in ("FASTER", "UNSURE") and self.low > 1.0


@dataclass(slots=True)
class Target:
    """One target of a running search.

    Attributes:
        schedules, failures: What the drafter needs of earlier nodes, by node.
        tried: Keys of the schedules that were written.
        programs: Program key -> the node that had it first.
        scored: Nodes with a verdict.
        refused: Nodes whose best did not hold when it was confirmed.
        best: The node that counts as the best, None before the first and after a withdrawal.
        confirmed: Nodes that held when they were confirmed.
        unsure: Nodes that could be neither confirmed nor refused, the machine being too busy.
        measured_busy: Whether eager and SOL were measured while others used the machine.
    """

    id: int
    name: str
    task: TaskSource
    spec: TargetSpec
    progress: Progress
    tree: Tree = field(default_factory=Tree)
    measured: bool = False
    open: bool = True
    schedules: dict[int, dict[str, Any]] = field(default_factory=dict)
    failures: dict[int, dict[str, Any]] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)
    programs: dict[str, int] = field(default_factory=dict)
    scored: dict[int, Scored] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    confirmed: set[int] = field(default_factory=set)
    unsure: set[int] = field(default_factory=set)
    measured_busy: bool = False
    best: int | None = None

    def reward_of(self, low: float) -> float:
        return reward(low, self.progress.sol_speedup)

    def may_lead(self, scored: Scored) -> bool:
        """Whether a new verdict could displace the best."""
        return self.best is None or scored.rank > self.scored[self.best].rank

    def leader(self) -> int | None:
        """The node with the highest lower bound that is neither pruned nor refused.

        One that is FASTER goes before what was measured while the machine was busy: such a figure
        may be anything, and would hide the better program for good.
        """
        standing = [
            (scored.rank, -node)
            for node, scored in self.scored.items()
            if node not in self.refused and not self.tree.closed(node)
        ]
        return -max(standing)[1] if standing else None
