"""The tree's rows: order, folding, dead children in one row, any depth."""

from __future__ import annotations

import random
import time

from forge_tui.tree import GROUP, Tree, group_key, target_key
from tests.forge_tui.rows import node

T = target_key(1)


def made(*nodes: object) -> Tree:
    tree = Tree()
    tree.update([1], nodes)  # type: ignore[arg-type]
    return tree


def test_children_come_below_their_parent_in_order() -> None:
    tree = made(node(1), node(2), node(3, 1), node(4, 3), node(5, 1))
    assert tree.rows == [T, 1, 3, 4, 5, 2]
    assert [tree.depth[key] for key in tree.rows] == [0, 1, 2, 3, 2, 1]


def test_a_single_failure_is_shown_several_become_one_row() -> None:
    tree = made(node(1), node(2, 1, "failed"))
    assert tree.rows == [T, 1, 2]
    tree.update([1], [node(3, 1, "failed"), node(4, 1)])
    assert tree.rows == [T, 1, 4, group_key(1)]
    assert tree.members(group_key(1)) == [2, 3]
    tree.set_folded(group_key(1), False)
    assert tree.rows == [T, 1, 4, group_key(1), 2, 3]


def test_a_failure_that_is_repaired_stays_in_the_tree() -> None:
    tree = made(node(1, None, "failed"), node(2, None, "failed"))
    assert tree.rows == [T, group_key(T)]
    tree.update([1], [node(3, 1, "live")])
    assert tree.rows == [T, 1, 3, 2]
    tree.update([1], [node(3, 1, "failed")])
    assert tree.rows == [T, group_key(T)]


def test_a_live_node_that_fails_moves_into_the_row_of_failures() -> None:
    tree = made(node(1, None, "live"), node(2, None, "failed"), node(3))
    assert tree.rows == [T, 1, 2, 3]
    assert tree.update([1], [node(1, None, "failed")])
    assert tree.rows == [T, 3, group_key(T)]


def test_a_closed_branch_folds_and_opens_again() -> None:
    tree = made(node(1), node(2, 1), node(3, 2))
    tree.update([1], [node(1, pruned=1)])
    assert tree.rows == [T, 1]
    assert tree.is_folded(1)
    tree.update([1], [node(1, pruned=0)])
    assert tree.rows == [T, 1, 2, 3]


def test_a_closed_branch_with_work_in_it_is_not_dead_yet() -> None:
    tree = made(node(1, pruned=1), node(2, 1, "live"), node(3, None, "failed"))
    assert group_key(T) not in tree.rows
    tree.update([1], [node(2, 1, "dropped")])
    assert tree.rows == [T, group_key(T)]


def test_an_update_that_moves_nothing_says_so() -> None:
    tree = made(node(1), node(2, 1, "live"))
    assert not tree.update([1], [node(2, 1, "scored")])
    assert tree.nodes[2].state == "scored"


def test_folds_survive_updates_and_count_what_they_hide() -> None:
    tree = made(node(1), node(2, 1), node(3, 2))
    tree.set_folded(1, True)
    tree.update([1], [node(4, 3), node(5)])
    assert tree.rows == [T, 1, 5]
    assert tree.below(1) == 3
    tree.update([1], [node(6, 4)])
    assert tree.below(1) == 4


def test_reveal_opens_what_hides_a_row() -> None:
    tree = made(node(1), node(2, 1), node(3, 2, "failed"), node(4, 2, "failed"))
    tree.fold_all(True)
    assert tree.rows == [T, 1]
    assert tree.visible(3) == 1
    assert tree.reveal(3)
    assert 3 in tree.rows
    assert not tree.reveal(99)


def test_last_children_close_their_guides() -> None:
    tree = made(node(1), node(2, 1), node(3, 1))
    assert tree.lasts(2, 10) == [True, False]
    assert tree.lasts(3, 10) == [True, True]
    assert tree.lasts(3, 1) == [True]


def test_splices_agree_with_a_fresh_tree() -> None:
    rng = random.Random(3)
    tree = Tree()
    state: dict[int, object] = {}
    for step in range(1, 400):
        parent = rng.choice([None, *range(max(1, step - 30), step)]) if step > 1 else None
        row = node(step, parent, rng.choice(["scored", "failed", "live"]))
        state[step] = row
        changed = [row]
        if step > 3:
            old = rng.randrange(1, step)
            before = state[old]
            state[old] = node(
                old, before.parent, rng.choice(["scored", "failed"]), pruned=rng.random() < 0.1  # type: ignore[attr-defined]
            )  # fmt: skip
            changed.insert(0, state[old])  # type: ignore[arg-type]
        tree.update([1], changed)
        if step % 20 == 0:
            fresh = Tree()
            fresh._folded = set(tree._folded)
            fresh._opened_groups = set(tree._opened_groups)
            fresh.update([1], [state[key] for key in sorted(state)])  # type: ignore[misc]
            fresh._folded = set(tree._folded)
            fresh._rebuild()
            assert tree.rows == fresh.rows, step
            assert tree.depth == fresh.depth
            for key in tree.rows:
                assert tree.lasts(key, 99) == fresh.lasts(key, 99)


def test_a_chain_of_thousands_needs_no_recursion_and_little_time() -> None:
    tree = Tree()
    started = time.perf_counter()
    tree.update([1], [node(1), *(node(n, n - 1) for n in range(2, 5001))])
    assert len(tree.rows) == 5001
    tree.fold_all(True)
    assert tree.rows == [T, 1]
    assert tree.below(1) == 4999
    assert tree.reveal(5000)
    assert time.perf_counter() - started < 3.0


def test_keys_of_groups_and_targets_do_not_meet() -> None:
    assert group_key(T) == GROUP - 1
    assert group_key(1) == GROUP + 1
