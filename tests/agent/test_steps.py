"""How large a step is asked for, and when branches are combined."""

from __future__ import annotations

from collections import Counter

from agent.search.policy import Choice
from agent.search.steps import Steps
from agent.search.tree import Tree


def two_branches(other: float) -> Tree:
    """A draft with a better child, and another draft."""
    tree = Tree()
    for node, parent, reward in ((1, None, 0.5), (2, 1, 0.8), (3, None, other)):
        tree.add(node, parent, "draft" if parent is None else "improve")
        tree.score(node, reward)
    return tree


def test_improvements_are_a_mix_that_the_seed_and_the_node_decide() -> None:
    tree, steps = two_branches(0.1), Steps()
    choice = Choice("improve", 2)
    asked = [steps.refine(choice, tree, node, 7) for node in range(400)]
    assert asked == [steps.refine(choice, tree, node, 7) for node in range(400)]
    counts = Counter(item.step for item in asked)
    assert set(counts) == {"small", "large"}
    assert 90 < counts["large"] < 190
    assert {item.action for item in asked} == {"improve"}  # the other branch is far behind
    assert asked != [steps.refine(choice, tree, node, 8) for node in range(400)]


def test_branches_that_are_both_good_are_combined_now_and_then() -> None:
    tree = two_branches(0.7)
    asked = [Steps().refine(Choice("improve", 2), tree, node, 7) for node in range(400)]
    combined = [item for item in asked if item.action == "combine"]
    assert 30 < len(combined) < 100
    assert {(item.parent, item.second, item.step) for item in combined} == {(2, 3, "")}


def test_a_closed_branch_is_not_combined() -> None:
    tree = two_branches(0.7)
    tree.prune(3, True)
    asked = [Steps().refine(Choice("improve", 2), tree, node, 7) for node in range(100)]
    assert {item.action for item in asked} == {"improve"}


def test_drafts_and_repairs_are_as_they_are() -> None:
    tree = two_branches(0.7)
    for choice in (Choice("draft", None), Choice("repair", 2)):
        assert Steps().refine(choice, tree, 5, 7) == choice
