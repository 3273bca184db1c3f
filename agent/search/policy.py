"""Choosing what to try next: an upper confidence bound on the branch's best reward.

At each node the arms are its open children and *expand* (one more child of this very node). A
child's score is ``value + c * sqrt(ln N / n)`` (UCB1, Auer et al. 2002, on a max-biased value);
expand's estimate is the branch's best and its bonus shrinks with the children it already has,
``c * sqrt(ln N) / (k + 1)``; it is offered while ``k < w * N ** a`` (progressive widening, Coulom
2007). Where a node would be expanded and a failed child can still be *repaired*, the repair comes
first as long as repairs tend to work: it is cheaper than a new idea. At most three repairs in a
row; failing is never minus infinity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.search.tree import ROOT

if TYPE_CHECKING:
    from agent.search.tree import Stat, Tree

MAX_REPAIRS = 3
REPAIRABLE = frozenset({"build", "check"})
WORTH_REPAIRING = 0.2


@dataclass(frozen=True, slots=True)
class Choice:
    """What to try.

    Attributes:
        action: draft, improve, repair or combine.
        parent: The node that it starts from; None for a draft.
        second: What is combined with the parent.
        step: For an improvement in words: small or large.
    """

    action: str
    parent: int | None
    second: int | None = None
    step: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """The numbers of the rule.

    Attributes:
        explore: c of the bound; rewards lie in [0, 1].
        widen, exponent: w and a of progressive widening.
        first_drafts: Drafts tried before anything is improved.
    """

    explore: float = 0.25
    widen: float = 1.5
    exponent: float = 0.5
    first_drafts: int = 3

    def choose(self, tree: Tree) -> Choice | None:
        """The next thing to try, or None when every arm is spent, closed or in work."""
        root = tree[ROOT]
        drafts_open = "draft" not in root.spent
        if drafts_open and _count(tree, root) < self.first_drafts:
            return Choice("draft", None)
        return self._descend(tree, _Estimate.of(tree))

    def _descend(self, tree: Tree, estimate: _Estimate) -> Choice | None:
        shut: set[int] = set()
        node = ROOT
        while True:
            arm = self._best_arm(tree, tree[node], shut, estimate)
            if isinstance(arm, Choice):
                return arm
            if arm is None:
                if node == ROOT:
                    return None
                shut.add(node)
                node = tree[node].parent
            else:
                node = arm

    def _best_arm(
        self, tree: Tree, stat: Stat, shut: set[int], estimate: _Estimate
    ) -> int | Choice | None:
        total = math.log(stat.visits + 2)
        best: tuple[float, int | Choice] | None = None
        for child_id in stat.children:
            child = tree[child_id]
            if child.pruned or child_id in shut:
                continue
            if child.value is None:
                continue
            score = child.value + self.explore * math.sqrt(total / max(child.visits, 1))
            if best is None or score > best[0]:
                best = (score, child_id)
        expand = self._expand(tree, stat, estimate, total)
        if expand is not None and (best is None or expand[0] > best[0]):
            best = expand
        return None if best is None else best[1]

    def _expand(
        self, tree: Tree, stat: Stat, estimate: _Estimate, total: float
    ) -> tuple[float, Choice] | None:
        action = "draft" if stat.id == ROOT else "improve"
        count = _count(tree, stat)
        prior = estimate.typical if stat.value is None else stat.value
        score = prior + self.explore * math.sqrt(total) / (count + 1)
        broken = _broken_below(tree, stat)
        if broken is not None and estimate.repair >= WORTH_REPAIRING:
            return score, Choice("repair", broken)
        usable = stat.id == ROOT or stat.state == "scored"
        if action in stat.spent or not usable:
            return None
        if count >= max(1.0, self.widen * (stat.visits + 1) ** self.exponent):
            return None
        return score, Choice(action, None if stat.id == ROOT else stat.id)


def _count(tree: Tree, stat: Stat) -> int:
    """A node's children but those whose work was given up, which count for nothing."""
    return sum(tree[child].state != "dropped" for child in stat.children)


def _broken_below(tree: Tree, stat: Stat) -> int | None:
    """A failed child, or the end of a chain of failed repairs of one, that can be repaired."""
    for child in reversed(stat.children):
        end = tree[child]
        while end.state == "failed" and end.children and not end.pruned:
            end = tree[end.children[-1]]
        if _repairable(end):
            return end.id
    return None


def _repairable(stat: Stat) -> bool:
    return (
        stat.state == "failed"
        and stat.rung in REPAIRABLE
        and not stat.children
        and not stat.pruned
        and "repair" not in stat.spent
        and stat.repairs < MAX_REPAIRS
    )


@dataclass(frozen=True, slots=True)
class _Estimate:
    """What the whole tree says: a typical draft's reward, and how often repairs work."""

    typical: float
    repair: float

    @staticmethod
    def of(tree: Tree) -> _Estimate:
        drafts = [tree[child] for child in tree[ROOT].children]
        rewards = [stat.reward for stat in drafts if stat.reward is not None]
        typical = sum(rewards) / len(rewards) if rewards else 0.5
        tried, worked = tree.repair_record
        return _Estimate(typical, (worked + 1) / (tried + 2))
