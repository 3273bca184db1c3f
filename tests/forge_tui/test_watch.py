"""The watch screen under a pilot: every key, every answer, small and large terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from forge_tui.keys import KEYS
from forge_tui.launch import LaunchError
from forge_tui.screens.dialogs import Help, Question
from forge_tui.tree import is_group
from store import commands
from tests.forge_tui.pilot import both_sizes, watched

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.forge_tui.saga import Saga


@both_sizes
async def test_a_session_is_shown(saga: Saga, size: tuple[int, int]) -> None:
    async with watched(saga.path, size) as one:
        await one.until(lambda: "running" in one.text())
        text = one.text()
        assert "softmax +2" in one.line(0)
        assert "38/72 nodes" in one.line(0)
        assert "confirmed" in text
        assert "speed of light" in text
        assert all(len(line) == size[0] for line in text.split("\n"))
        assert ("best so far" in text) == (size[0] == 160)
        assert ("budget" in text) == (size[0] == 160)


@both_sizes
async def test_keys_move_the_cursor(saga: Saga, size: tuple[int, int]) -> None:
    async with watched(saga.path, size) as one:
        rows = one.screen.tree_view.shown.rows
        assert one.cursor == rows[0] == -1
        await one.press("j", "down")
        assert one.cursor == rows[2]
        await one.press("k")
        assert one.cursor == rows[1]
        await one.press("G")
        assert one.cursor == rows[-1]
        await one.press("up")
        assert one.cursor == rows[-2]
        await one.press("g")
        assert one.cursor == -1
        await one.press("pagedown")
        height = one.screen.tree_view.size.height
        assert one.cursor == rows[min(height - 1, len(rows) - 1)]
        await one.press("pageup")
        assert one.cursor == -1


@both_sizes
async def test_keys_fold_and_unfold(saga: Saga, size: tuple[int, int]) -> None:
    async with watched(saga.path, size) as one:
        tree = one.screen.tree_view.shown
        whole = list(tree.rows)
        await one.press("space")
        assert len(tree.rows) < len(whole)
        assert "▸" in one.text()
        await one.press("space")
        assert tree.rows == whole
        await one.press("minus")
        assert max(tree.depth.values()) == 1
        await one.press("equals_sign")
        assert len(tree.rows) >= len(whole)
        await one.press("g", "h")
        assert tree.is_folded(-1)
        await one.press("l")
        assert not tree.is_folded(-1)
        await one.press("l")
        assert one.cursor == tree.rows[1]
        await one.press("left", "left")
        assert one.cursor == -1


@both_sizes
async def test_b_jumps_to_the_best(saga: Saga, size: tuple[int, int]) -> None:
    async with watched(saga.path, size) as one:
        await one.press("b")
        assert one.cursor == one.screen.model.targets[1].best_node
        await one.until(lambda: "in a fresh process" in one.text() or size[0] == 80)
        await one.until(lambda: "✓ build" in one.text())


@both_sizes
async def test_panes_tabs_and_zoom(saga: Saga, size: tuple[int, int]) -> None:
    async with watched(saga.path, size) as one:
        await one.press("b", "3")
        await one.until(lambda: "of allowed" in one.text())
        await one.press("4")
        assert one.screen.node_pane.has_focus
        await one.until(lambda: "#include <algorithm>" in one.text())
        top = one.screen.node_pane.top
        await one.press("j", "j")
        assert one.screen.node_pane.top == top + 2
        await one.press("g")
        await one.press("5")
        await one.until(lambda: "nothing was logged" in one.text())
        await one.press("h", "h", "h")
        assert one.screen.tab == "summary"
        await one.press("z")
        assert not one.screen.tree_view.display or "target / idea" not in one.text()
        await one.press("escape")
        assert one.screen.tree_view.has_focus
        assert "target / idea" in one.text()
        await one.press("tab")
        assert one.screen.node_pane.has_focus
        await one.press("tab")
        assert one.screen.tree_view.has_focus
        await one.press("z")
        assert "2 summary" not in one.text()
        await one.press("1", "z", "2")
        assert one.screen.tab == "summary"


@both_sizes
async def test_enter_looks_at_a_node_and_escape_comes_back(
    saga: Saga, size: tuple[int, int]
) -> None:
    async with watched(saga.path, size) as one:
        await one.press("b", "enter")
        assert one.screen.node_pane.has_focus
        assert ("target / idea" in one.text()) == (size[0] == 160)
        await one.press("escape")
        assert one.screen.tree_view.has_focus
        assert "target / idea" in one.text()


async def test_pausing_is_shown_until_the_engine_has_paused(saga: Saga) -> None:
    async with watched(saga.path) as one:
        await one.until(lambda: one.screen.model.state == "running")
        await one.press("p")
        assert "pausing..." in one.line(0)
        await one.until(lambda: saga.writer.new_commands())
        saga.writer.answer(1, "pause", True, "two nodes finish first")
        await one.until(lambda: "pause: two nodes finish first" in one.text())
        assert "pausing..." in one.line(0)
        saga.emit("SearchPausing")
        await one.until(lambda: one.screen.model.state == "pausing")
        assert "pausing..." in one.line(0)
        saga.emit("SearchPaused")
        await one.until(lambda: "paused" in one.line(0))
        assert "p go on" in one.text()
        await one.press("p")
        assert "resuming..." in one.line(0)
        await one.until(lambda: saga.writer.new_commands())
        assert saga.writer.new_commands()[0][1] == "resume"
        saga.writer.answer(2, "resume", True, "the search goes on")
        saga.emit("SearchResumed")
        await one.until(lambda: "running" in one.line(0))


async def test_a_refusal_is_shown_and_ends_the_waiting(saga: Saga) -> None:
    async with watched(saga.path) as one:
        await one.until(lambda: one.screen.model.state == "running")
        await one.press("p")
        await one.until(lambda: saga.writer.new_commands())
        saga.writer.answer(1, "pause", False, "it is confirming [/x]")
        await one.until(lambda: "pause was refused: it is confirming [/x]" in one.text())
        assert "running" in one.line(0)


async def test_a_single_node_is_pruned_at_once(saga: Saga) -> None:
    async with watched(saga.path) as one:
        one.screen.tree_view.go(39)
        await one.press("x")
        await one.until(lambda: saga.writer.new_commands() == [(1, "prune", {"node": 39})])
        saga.emit("BranchPruned", target=1, node=39, nodes=1, by="person", reason="")
        saga.emit("NodeDropped", target=1, node=39, reason="pruned")
        saga.writer.answer(1, "prune", True, "one node is closed", node=39)
        await one.until(lambda: "prune: one node is closed" in one.text())
        assert one.cursor == 39
        await one.press("u")
        await one.until(lambda: [c[1] for c in saga.writer.new_commands()] == ["unprune"])


@both_sizes
async def test_pruning_a_branch_asks_first_and_no_is_the_default(
    saga: Saga, size: tuple[int, int]
) -> None:
    async with watched(saga.path, size) as one:
        branch = max(one.screen.model.nodes, key=lambda n: len(one.screen.model.branch(n)))
        count = len(one.screen.model.branch(branch))
        one.screen.tree_view.go(branch)
        await one.press("x")
        assert isinstance(one.app.screen, Question)
        assert f"{count} nodes are closed" in one.text()
        assert "the branch again." in one.text()
        await one.press("enter")
        assert not isinstance(one.app.screen, Question)
        await one.press("x", "y")
        await one.until(lambda: saga.writer.new_commands() == [(1, "prune", {"node": branch})])


async def test_rows_that_are_no_nodes_cannot_be_pruned(saga: Saga) -> None:
    async with watched(saga.path) as one:
        await one.press("g", "x")
        assert "only a node's branch can be pruned" in one.text()
        await one.press("u")
        assert "no closed branch here" in one.text()
        pruned = next(n for n, row in one.screen.model.nodes.items() if row.pruned)
        one.screen.tree_view.go(pruned)
        await one.press("x")
        assert "is pruned already" in one.text()


async def test_stopping_asks_and_says_the_effect(saga: Saga) -> None:
    async with watched(saga.path) as one:
        await one.until(lambda: one.screen.model.state == "running")
        await one.press("Q")
        assert "Stop the search?" in one.text()
        assert "40 nodes, 2 in work are dropped" in one.text()
        await one.press("n", "Q", "y")
        assert "stopping..." in one.line(0)
        await one.until(lambda: [c[1] for c in saga.writer.new_commands()] == ["stop"])


async def test_a_frozen_view_holds_still_while_counters_go_on(saga: Saga) -> None:
    async with watched(saga.path) as one:
        await one.until(lambda: one.screen.model.state == "running")
        await one.press("f")
        assert "frozen" in one.line(0)
        before = list(one.screen.tree_view.shown.rows)
        saga.score(1, 39, 1.05)
        saga.start_node(2, None, "new idea")
        await one.until(lambda: one.screen.model.total == 41)
        assert "39/72" in one.line(0)
        assert one.screen.tree_view.shown.rows == before
        assert one.screen.tree_view.shown.nodes[39].state == "live"
        await one.press("f")
        assert 41 in one.screen.tree_view.shown.rows
        assert "frozen" not in one.line(0)


async def test_following_keeps_the_cursor_on_the_newest_live_node(saga: Saga) -> None:
    async with watched(saga.path, follow=True) as one:
        await one.until(lambda: one.cursor == 40)
        saga.start_node(2, None, "newer")
        await one.until(lambda: one.cursor == 41)
        await one.press("g")
        assert not one.screen.following
        saga.start_node(2, None, "newest")
        await one.until(lambda: one.screen.model.total == 42)
        assert one.cursor == -1
        await one.press("full_stop")
        assert one.cursor == 42
        await one.press("full_stop")
        assert not one.screen.following


async def test_a_crash_is_said_and_r_starts_an_engine(saga: Saga) -> None:
    started: list[Path] = []

    def launcher(path: Path, on_stage: Callable[[str], None]) -> int:
        on_stage("loading suite:softmax")
        started.append(path)
        raise LaunchError("it is random", "seed it")

    async with watched(saga.path, launcher=launcher) as one:
        await one.press("r")
        assert "the search is running" in one.text()
        saga.close()
        await one.until(lambda: "crashed - press r to resume" in one.line(0))
        assert "r resume" in one.text()
        await one.press("p")
        assert "no engine is at work" in one.text()
        await one.press("r")
        await one.until(lambda: "not started: it is random (seed it)" in one.text())
        assert started == [saga.path]
        assert "crashed" in one.line(0)


async def test_pruning_without_an_engine_says_when_it_applies(saga: Saga) -> None:
    saga.close()
    async with watched(saga.path) as one:
        one.screen.tree_view.go(39)
        await one.press("x")
        await one.until(lambda: "applies when the search is resumed" in one.text())


async def test_a_read_only_viewer_asks_nothing(saga: Saga) -> None:
    async with watched(saga.path, (160, 50), read_only=True) as one:
        one.screen.tree_view.go(39)
        for key in ("p", "x", "u", "r", "Q"):
            one.screen._note = None
            await one.press(key)
            assert one.app.screen is one.screen
            assert "read-only" in one.screen.noted[0]  # type: ignore[index]
        assert saga.writer.new_commands() == []
        assert "read-only" in one.line(0)
        await one.press("question_mark")
        assert "(off: read-only)" in one.text()


@both_sizes
async def test_help_and_palette_open_and_close(saga: Saga, size: tuple[int, int]) -> None:
    async with watched(saga.path, size) as one:
        await one.press("question_mark")
        assert isinstance(one.app.screen, Help)
        assert "fold or unfold this branch" in one.text()
        await one.press("G")
        assert "hold shift" in one.text()
        await one.press("escape")
        await one.press("colon")
        await one.until(lambda: "jump to the best node" in one.text())
        await one.press("f", "o", "l", "l")
        await one.until(lambda: "follow the newest live node" in one.text())
        await one.press("enter")
        await one.until(lambda: one.app.screen is one.screen)
        await one.until(lambda: one.screen.following)
        await one.press("ctrl+p")
        await one.until(lambda: one.app.screen is not one.screen)
        await one.press("escape")


@pytest.mark.parametrize("key", ["q", "ctrl+q"])
async def test_leaving(saga: Saga, key: str) -> None:
    async with watched(saga.path) as one:
        await one.press("ctrl+c")
        assert "q leaves this view" in one.text()
        await one.press(key)
        assert one.app.return_value == "left"


async def test_every_key_is_harmless_everywhere(saga: Saga) -> None:
    """Every action on every kind of row: no exception, and the app lives."""
    async with watched(saga.path, (120, 40)) as one:
        groups = [key for key in one.screen.tree_view.shown.rows if is_group(key)]
        for row in (-1, 39, groups[0]):
            one.screen.tree_view.go(row)
            for key in KEYS:
                if key.action in {"leave", "resume"}:
                    continue
                await one.screen.run_action(key.action)
                while one.app.screen is not one.screen:
                    await one.press("escape")
                one.screen.action_back()
            await one.pilot.pause()
        assert one.app.is_running


async def test_an_answer_quicker_than_the_word_that_it_was_written(saga: Saga) -> None:
    async with watched(saga.path) as one:
        await one.until(lambda: one.screen.model.state == "running")
        saga.writer.answer(7, "prune", True, "one node is closed", node=39)
        await one.until(lambda: 7 in one.screen._answers)
        one.screen.post_message(one.screen.Sent("prune", 7, ""))
        await one.until(lambda: "prune: one node is closed" in one.text())


async def test_answers_to_other_viewers_are_not_ours(saga: Saga) -> None:
    async with watched(saga.path) as one:
        await one.until(lambda: one.screen.model.state == "running")
        saga.writer.answer(7, "prune", False, "no such node")
        await one.until(lambda: 7 in one.screen._answers)
        assert one.screen.noted is None


async def test_a_command_that_cannot_be_written_says_so(saga: Saga) -> None:
    async with watched(saga.path) as one:
        await one.until(lambda: one.screen.model.state == "running")
        one.screen.post_message(one.screen.Sent("pause", 0, "cannot write: read-only"))
        await one.until(lambda: "pause: cannot write: read-only" in one.text())
        assert "running" in one.line(0)


async def test_a_finished_search_says_that_nothing_is_left_to_resume(saga: Saga) -> None:
    saga.emit("EngineStopped", state="finished", reason="every target is closed")
    saga.close()
    started: list[Path] = []
    async with watched(saga.path, launcher=lambda path, say: started.append(path) or 1) as one:
        await one.until(lambda: "finished" in one.line(0))
        await one.press("r")
        await one.until(lambda: "nothing is left to resume" in one.text())
        assert started == []


async def test_a_targets_code_tab_says_where_the_code_is(saga: Saga) -> None:
    async with watched(saga.path) as one:
        await one.press("g", "3")
        await one.until(lambda: "b goes to the best, #37" in one.text())


async def test_an_answer_is_not_told_as_news_of_the_node_in_work(saga: Saga) -> None:
    async with watched(saga.path, (160, 50)) as one:
        saga.emit("BranchPruned", target=1, node=1, nodes=3, by="person", reason="")
        number = commands.send(saga.path, "prune", node=1)
        saga.writer.answer(number, "prune", True, "closed", node=40)
        await one.until(lambda: "softmax #1: branch closed" in one.text())
        assert "#40: prune" not in one.text()
