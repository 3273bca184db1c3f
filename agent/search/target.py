"""A target under search: its tree, how it stands, and what was tried."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.search.reward import reward
from agent.search.tree import Tree

if TYPE_CHECKING:
    from agent.search.budget import Progress
    from agent.task import TargetSpec, TaskSource

JUDGE_AGAIN = 3


@dataclass(frozen=True, slots=True)
class Scored:
    """What a node's best variant was found to be.

    ``outcome`` is FASTER, SAME, SLOWER or UNSURE, or LIBRARY for a program that would be FASTER and
    has nothing of its own. ``library`` marks every program of library calls alone.
    """

    variant: int
    outcome: str
    time_ns: int
    ratio: float
    low: float
    high: float
    library: bool = False

    @property
    def rank(self) -> tuple[bool, float]:
        """What the best is chosen by: FASTER first, then the lower bound."""
        return self.outcome == "FASTER", self.low

    @property
    def claims_win(self) -> bool:
        """Whether it may be a win: FASTER, or UNSURE only because the machine was busy."""
        return self.outcome in ("FASTER", "UNSURE") and self.low > 1.0 and not self.library


@dataclass(slots=True)
class Target:
    """One target of a running search.

    Attributes:
        machine: Where it was measured: the device's key, "" when that is not known.
        baselines: What was measured of eager and of its compiled forms, by name.
        stale: Whether it was measured elsewhere and must be measured here before all else.
        refusal: Why the drafter cannot write for it, "" if it can.
        graph: The reference's traced operations, a line each, for prompts.
        handed_in: Replies of a person's that are no nodes yet, in order.
        schedules, failures: What the drafter needs of earlier nodes, by node.
        tried: Keys of the schedules that were written.
        drafted: How many drafts the drafter wrote.
        programs: Program key -> the node that had it first.
        scored: Nodes with a verdict.
        foreign: Those of them whose verdict is from another machine.
        judge_again: Foreign nodes still to be judged here, the best first.
        refused: Nodes whose best did not hold when it was confirmed.
        best: The node that counts as the best, None before the first and after a withdrawal.
        confirmed: Nodes that held when they were confirmed.
        unsure: Nodes that could be neither confirmed nor refused, the machine being too busy.
        measured_busy: Whether eager and SOL were measured while others used the machine.
        looked_again: Whether they were then measured once more.
    """

    id: int
    name: str
    task: TaskSource
    spec: TargetSpec
    progress: Progress
    tree: Tree = field(default_factory=Tree)
    measured: bool = False
    open: bool = True
    machine: str = ""
    baselines: dict[str, dict[str, Any]] = field(default_factory=dict)
    stale: bool = False
    refusal: str = ""
    graph: tuple[str, ...] = ()
    handed_in: list[str] = field(default_factory=list)
    schedules: dict[int, dict[str, Any]] = field(default_factory=dict)
    failures: dict[int, dict[str, Any]] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)
    drafted: int = 0
    programs: dict[str, int] = field(default_factory=dict)
    scored: dict[int, Scored] = field(default_factory=dict)
    foreign: set[int] = field(default_factory=set)
    judge_again: list[int] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    confirmed: set[int] = field(default_factory=set)
    unsure: set[int] = field(default_factory=set)
    measured_busy: bool = False
    looked_again: bool = False
    best: int | None = None

    def reward_of(self, low: float) -> float:
        return reward(low, self.progress.sol_speedup)

    def may_lead(self, scored: Scored) -> bool:
        """Whether a new verdict could displace the best."""
        if scored.library:
            return False
        return self.best is None or scored.rank > self.scored[self.best].rank

    def leader(self) -> int | None:
        """The node with the highest lower bound that may lead: neither pruned nor refused, judged
        on this machine, and with something of its own in it.

        One that is FASTER goes before what was measured while the machine was busy: such a figure
        may be anything, and would hide the better program for good.
        """
        standing = [
            (scored.rank, -node)
            for node, scored in self.scored.items()
            if node not in self.foreign and not scored.library and self._stands(node)
        ]
        return -max(standing)[1] if standing else None

    def _stands(self, node: int) -> bool:
        return node not in self.refused and not self.tree.closed(node)

    def merge_baselines(self, fresh: dict[str, dict[str, Any]]) -> None:
        """Take measured baselines up; the fastest of them counts for the progress."""
        self.baselines |= fresh
        fastest = fastest_baseline(self.baselines)
        self.progress.baseline, self.progress.baseline_name = fastest

    def become_foreign(self) -> None:
        """What was measured so far was so on another machine: it is kept and leads nothing."""
        self.measured, self.stale, self.best = False, True, None
        self.foreign = set(self.scored)
        self.confirmed.clear()
        self.baselines.clear()
        self.merge_baselines({})
        self.progress.begin_again()
        self.plan_to_judge_again(JUDGE_AGAIN)

    def plan_to_judge_again(self, most: int) -> None:
        """Choose the best foreign nodes, by the figures that they have."""
        ranked = sorted(
            (
                (self.scored[node].rank, -node)
                for node in self.foreign
                if self._stands(node) and not self.scored[node].library
            ),
            reverse=True,
        )
        self.judge_again = [-node for _, node in ranked[:most]]


def fastest_baseline(baselines: dict[str, dict[str, Any]]) -> tuple[float, str]:
    """The speedup over eager of the fastest baseline, and its name; eager's own is 1."""
    known = [
        (float(value["ratio"]), name)
        for name, value in baselines.items()
        if value.get("ratio") is not None
    ]
    return max([(1.0, "eager"), *known], key=lambda item: item[0])
