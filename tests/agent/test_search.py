"""Selection, backup, tuning and budgets, without an engine."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.search.budget import Caps, Progress, closing, hopeless, next_target
from agent.search.policy import Choice, Policy
from agent.search.reward import reward
from agent.search.target import Scored, Target
from agent.search.tree import ROOT, Tree
from agent.search.tuning import Tuner
from agent.task import TargetSpec, TaskSource
from tests.agent.landscape import SPEC


def test_reward_is_scaled_between_a_sixteenth_and_the_speed_of_light() -> None:
    assert reward(1 / 16, 8.0) == 0.0
    assert reward(8.0, 8.0) == pytest.approx(1.0)
    assert reward(1.0, 16.0) == pytest.approx(0.5)
    assert reward(1e-9, 8.0) == 0.0
    assert reward(100.0, 8.0) == pytest.approx(1.1)
    assert reward(0.8, 3.0) < reward(0.9, 3.0) < reward(1.1, 3.0)


@given(st.floats(1e-6, 1e3), st.floats(0.2, 100.0))
def test_reward_stays_in_bounds(low: float, sol: float) -> None:
    assert 0.0 <= reward(low, sol) <= 1.1


def grown() -> Tree:
    """1 (0.5) with children 2 (0.7) and 3 (failed); 2 with child 4 (0.6); draft 5 (0.2)."""
    tree = Tree()
    for node, parent, action in [(1, None, "draft"), (2, 1, "improve"), (3, 1, "improve"),
                                 (4, 2, "improve"), (5, None, "draft")]:  # fmt: skip
        tree.add(node, parent, action)
    for node, value in [(1, 0.5), (2, 0.7), (4, 0.6), (5, 0.2)]:
        tree.score(node, value)
    tree.fail(3, "build")
    return tree


def test_backup_is_the_best_of_the_branch_and_counts_each_end_once() -> None:
    tree = grown()
    assert [tree[node].visits for node in (ROOT, 1, 2, 3, 4, 5)] == [5, 4, 2, 1, 1, 1]
    assert [tree[node].value for node in (ROOT, 1, 2, 4, 5)] == [0.7, 0.7, 0.7, 0.6, 0.2]
    assert tree[3].value is None
    assert tree.best() == 2


def test_prune_and_unprune_are_a_round_trip() -> None:
    tree = grown()
    before = {node: (stat.visits, stat.value) for node, stat in tree.stats.items()}
    tree.prune(2, True)
    assert (tree[1].value, tree[ROOT].value, tree.best()) == (0.5, 0.5, 1)
    assert tree.closed(4)
    assert sorted(tree.branch(2)) == [2, 4]
    tree.prune(2, False)
    assert {node: (stat.visits, stat.value) for node, stat in tree.stats.items()} == before


def test_first_drafts_come_first_then_the_best_branch_grows() -> None:
    policy, tree = Policy(first_drafts=2), Tree()
    for node, value in [(1, 0.9), (2, 0.1)]:
        assert policy.choose(tree) == Choice("draft", None)
        tree.add(node, None, "draft")
        tree.score(node, value)
    assert policy.choose(tree) == Choice("improve", 1)


def test_a_failed_child_is_repaired_before_a_sibling_at_most_three_times() -> None:
    policy, tree = Policy(first_drafts=1), Tree()
    tree.add(1, None, "draft")
    tree.fail(1, "build")
    for node in (2, 3, 4):
        choice = policy.choose(tree)
        assert choice == Choice("repair", node - 1)
        tree.add(node, node - 1, "repair")
        tree.fail(node, "build")
    assert policy.choose(tree) == Choice("draft", None)


def test_what_is_wrong_with_the_reply_or_the_time_is_not_repaired() -> None:
    policy, tree = Policy(first_drafts=1), Tree()
    tree.add(1, None, "draft")
    tree.fail(1, "measure")
    assert policy.choose(tree) == Choice("draft", None)


def test_pruned_branches_are_never_chosen() -> None:
    policy, tree = Policy(first_drafts=0), grown()
    for node in (1, 5):
        tree.prune(node, True)
    assert policy.choose(tree) == Choice("draft", None)
    tree[ROOT].spent.add("draft")
    assert policy.choose(tree) is None


def test_when_everything_is_spent_there_is_nothing_to_choose() -> None:
    policy, tree = Policy(first_drafts=0), grown()
    for stat in tree.stats.values():
        stat.spent |= {"draft", "improve", "repair"}
    assert policy.choose(tree) is None


def test_the_search_neither_starves_a_branch_nor_ignores_the_best() -> None:
    policy, tree = Policy(), Tree()
    for node in range(1, 301):
        choice = policy.choose(tree)
        assert choice is not None
        tree.add(node, choice.parent, choice.action)
        depth = len(tree.path(node))
        tree.score(node, 0.5 + 0.4 * math.sin(node * 12.9898) ** 2 * (1 - 0.8**depth))
    drafts = [tree[child] for child in tree[ROOT].children]
    assert 5 <= len(drafts) <= 60
    assert max(len(tree.path(node)) for node in tree.stats) >= 6
    best = max(drafts, key=lambda stat: stat.value or 0)
    assert best.visits > 300 / len(drafts)


@given(st.lists(st.tuples(st.integers(0, 30), st.one_of(st.none(), st.floats(0, 1))), max_size=40))
def test_values_equal_those_recomputed_from_scratch(story: list[tuple[int, float | None]]) -> None:
    tree = Tree()
    for node, (parent, value) in enumerate(story, start=1):
        above = parent if 0 < parent < node else None
        tree.add(node, above, "improve" if above else "draft")
        if value is None:
            tree.fail(node, "build")
        else:
            tree.score(node, value)
        if parent % 7 == 6:
            tree.prune(node, True)

    def recomputed(node: int) -> float | None:
        values = [tree[node].reward]
        values += [recomputed(c) for c in tree[node].children if not tree[c].pruned]
        known = [value for value in values if value is not None]
        return max(known) if known else None

    for node, stat in tree.stats.items():
        assert stat.value == recomputed(node)
        assert stat.visits == len(tree.branch(node)) - (node == ROOT)


def test_tuning_finds_the_best_of_each_tunable_within_its_allowance() -> None:
    tune = {"A": (1, 2, 4), "B": (8, 16), "C": (0, 1)}
    tuner = Tuner(tune, 20)
    tuner.report({"A": 1, "B": 8, "C": 0}, 100)
    tried = []
    while batch := tuner.next_batch():
        for values in batch:
            tried.append(values)
            cost = 100 - 10 * (values["A"] == 4) - 20 * (values["B"] == 16) - 5 * values["C"]
            tuner.report(values, None if values["A"] == 2 else cost)
    assert tuner.ranking()[0] == {"A": 4, "B": 16, "C": 1}
    assert len(tried) == len({tuple(values.items()) for values in tried})


def test_tuning_stops_at_its_allowance() -> None:
    tuner = Tuner({"A": tuple(range(50))}, 5)
    tuner.report({"A": 0}, 10)
    assert len(tuner.next_batch()) == 5
    assert tuner.next_batch() == []


def test_the_first_batch_is_known_before_the_default_was_timed() -> None:
    tuner = Tuner({"A": (1, 2, 4), "B": (8, 16)}, 8)
    assert tuner.next_batch() == [{"A": 2, "B": 8}, {"A": 4, "B": 8}]
    assert tuner.ranking() == []
    tuner.report({"A": 1, "B": 8}, 10)
    tuner.report({"A": 4, "B": 8}, 5)
    assert tuner.next_batch() == [{"A": 4, "B": 16}]


def test_a_target_closes_for_a_reason() -> None:
    caps = Caps(nodes=5, patience=3)
    progress = Progress(eager_ns=1000, sol_ns=250)
    assert closing(progress, caps) is None
    progress.ended_with(2.0, 2.1)
    progress.nodes = 5
    assert closing(progress, caps) == ("nodes", "its cap of 5 nodes is reached")
    progress.nodes = 4
    for low in (None, 1.0, 2.001):
        progress.ended_with(low, low)
    assert closing(progress, caps) == ("patience", "no gain in 3 nodes")
    progress.ended_with(3.85, 3.9)
    assert closing(progress, caps) == ("sol", "the best program runs at 98% of the speed of light")


def test_eager_at_the_speed_of_light_is_not_worth_a_program() -> None:
    assert hopeless(Progress(1000, 500)) is None
    assert hopeless(Progress(1000, 980)) == (
        "near-sol",
        "eager already runs at 98% of the speed of light",
    )
    beyond = Progress(1000, 1400)
    assert beyond.sol_in_doubt
    assert hopeless(beyond) is None  # so slow a speed of light was measured while others worked
    assert hopeless(Progress(1000, None)) is None


def test_nor_is_a_compiled_form_at_the_speed_of_light() -> None:
    progress = Progress(1000, 250, baseline=3.9, baseline_name="compile-max")
    assert hopeless(progress) == (
        "near-sol",
        "compile-max already runs at 98% of the speed of light",
    )
    assert progress.headroom == pytest.approx(4 / 3.9)


def test_a_node_judged_again_is_no_second_visit() -> None:
    tree = grown()
    visits = {node: stat.visits for node, stat in tree.stats.items()}
    tree.score(2, 0.3)
    assert (tree[2].value, tree[1].value, tree[ROOT].value) == (0.6, 0.6, 0.6)
    tree.fail(2, "check")
    assert (tree[2].reward, tree[2].value, tree[1].value) == (None, 0.6, 0.6)
    assert {node: stat.visits for node, stat in tree.stats.items()} == visits


def test_targets_take_turns_with_drafts_then_headroom_decides() -> None:
    targets = {1: Progress(1000, 100), 2: Progress(1000, 900), 3: Progress(1000, 500)}
    order = []
    for _ in range(6):
        chosen = next_target(targets, drafts=2)
        assert chosen is not None
        order.append(chosen)
        targets[chosen].nodes += 1
        targets[chosen].ended_with(None, None)
    assert order == [1, 2, 3, 1, 2, 3]
    assert next_target(targets, drafts=2) == 1
    assert next_target({}, drafts=2) is None


def test_caps_come_from_the_config_and_unknown_entries_do_no_harm() -> None:
    assert Caps.of({"nodes": 3, "minutes": 1.5, "seed": 4, "patience": None}) == Caps(3, 1.5)
    assert Caps(minutes=2.0).minutes_left(60_000_000) == pytest.approx(1.0)


def test_a_figure_from_a_busy_machine_does_not_displace_a_sure_one() -> None:
    spec = TargetSpec.from_json(SPEC)
    target = Target(1, "toy", TaskSource("plain", "toy", "", "", "cpu"), spec, Progress(900, 300))
    for node in (1, 2):
        target.tree.add(node, None, "draft")
    target.scored = {
        1: Scored(1, "FASTER", 500, 1.9, 1.8, 2.0),
        2: Scored(2, "UNSURE", 6000, 3.0, 2.1, 3.3),
    }
    assert target.leader() == 1
    target.refused.add(1)
    assert target.leader() == 2
    target.foreign.add(2)
    assert target.leader() is None
