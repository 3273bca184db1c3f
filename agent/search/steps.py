"""How large a step a writer is asked for, and when two branches are combined.

A writer can do what a schedule cannot: a small, named change, or a restructuring. Mixing both over
a tree pays more than either alone (AdaExplore, arXiv 2604.16625), and so do steps that are larger
than a person's first thought (PIKE, arXiv 2511.16964). Choices follow from the seed and the node's
number alone, so that a search can be repeated.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.search.tree import ROOT

if TYPE_CHECKING:
    from agent.search.policy import Choice
    from agent.search.tree import Tree

COMBINE_NEAR = 0.8


@dataclass(frozen=True, slots=True)
class Steps:
    """Shares of improvements.

    Attributes:
        large: Restructurings among them.
        combine: Combinations with the best of another branch among them, where there is one whose
            reward is at least :data:`COMBINE_NEAR` of the parent's.
    """

    large: float = 0.35
    combine: float = 0.15

    def refine(self, choice: Choice, tree: Tree, node: int, seed: int) -> Choice:
        """The choice for a writer that is told in words what to do."""
        if choice.action != "improve" or choice.parent is None:
            return choice
        chance = random.Random(f"{seed}:{node}")
        first, second = chance.random(), chance.random()
        other = _rival(tree, choice.parent) if first < self.combine else None
        if other is not None:
            return replace(choice, action="combine", second=other)
        return replace(choice, step="large" if second < self.large else "small")


def _rival(tree: Tree, parent: int) -> int | None:
    """The best node of another draft's branch, if it is near the parent's reward."""
    own = tree.path(parent)[-2]
    least = COMBINE_NEAR * (tree[parent].reward or 0.0)
    found: tuple[float, int] | None = None
    for draft in tree[ROOT].children:
        value = tree[draft].value
        if draft == own or tree[draft].pruned or value is None or value < least:
            continue
        if found is None or value > found[0]:
            found = (value, draft)
    return None if found is None else tree.best(found[1])
