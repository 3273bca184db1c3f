"""The view model: every line is as wide as asked, and says what the rows say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from forge_tui import budget, curve, status, view
from forge_tui.glyphs import ASCII, UNICODE
from forge_tui.model import Model, Update
from forge_tui.series import MOST_MARKS, Series
from forge_tui.text import width
from forge_tui.tree import Tree, group_key, target_key
from store.events import Event
from store.rows import Heartbeat
from tests.forge_tui.rows import node, session, target
from tests.forge_tui.test_text import HOSTILE

if TYPE_CHECKING:
    from forge_tui.view import Line
    from store.rows import NodeRow, TargetRow


def plain(line: Line) -> str:
    return "".join(text for text, _ in line)


def modelled(
    nodes: list[NodeRow], targets: list[TargetRow] | None = None, state: str = "running"
) -> tuple[Model, Tree]:
    model, shown = Model(), Tree()
    beat = Heartbeat(at_us=0, active_us=62_000_000, pid=1, doing={}, device={})
    rows = tuple(targets or [target()])
    model.apply(Update(session(), state, beat, rows, tuple(nodes), ()))
    shown.update(model.targets, nodes)
    return model, shown


@pytest.mark.parametrize("cells", [40, 57, 60, 78, 96, 130])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("gpu", [False, True])
def test_rows_are_exactly_as_wide_as_asked(cells: int, glyphs: object, gpu: bool) -> None:
    nodes = [node(1, title="漢字 wide title that is long enough to be clipped somewhere")]
    nodes += [node(2, 1, "failed", reason=HOSTILE[0]), node(3, 1, "live"), node(4, 1, pruned=1),
              node(5, 3, "scored", outcome="SLOWER"), node(6, 1, "failed"),
              node(58, 57, foreign=1, call_ns=2_200_000, gain=1.2)]  # fmt: skip
    nodes += [node(n, n - 1) for n in range(7, 60) if n != 58]
    nodes += [node(60 + n, title=text) for n, text in enumerate(HOSTILE)]
    model, shown = modelled(nodes)
    columns = view.Columns.of(cells, gpu=gpu, gain=gpu)
    for key in shown.rows:
        line = view.row(model, shown, key, columns, glyphs, 10**7)  # type: ignore[arg-type]
        assert width(plain(line)) == cells, plain(line)
    assert width(plain(view.header(columns))) == cells


def test_a_row_says_state_and_figures() -> None:
    model, shown = modelled([node(1), node(2, 1, "failed"), node(3, 1, "live")])
    columns = view.Columns.of(100)

    def text(key: int) -> str:
        return plain(view.row(model, shown, key, columns, UNICODE, 8_000_003))

    assert " ".join(text(1).split()) == "└ ▲ 1 idea 1 faster 2.00x 2.00 ms 50%"
    assert "failed" in text(2)
    assert "build: expected ';'" in text(2)
    assert "building" in text(3)
    assert "8 s" in text(3)


def test_work_left_by_a_dead_engine_does_not_look_alive() -> None:
    model, shown = modelled([node(1, state="live")], state="crashed")
    line = plain(view.row(model, shown, 1, view.Columns.of(80), UNICODE, 8_000_003))
    assert "unfinished" in line
    assert " s " not in line.replace("  ", " ")
    assert "1 unfinished" in plain(status.status(model, 120, UNICODE, 0))


def test_best_confirmed_and_pruned_have_their_words_and_signs() -> None:
    rows = [node(1, confirmed=1), node(2, pruned=1), node(3, confirmed=-1)]
    model, shown = modelled(rows, [target(best_node=1, best_ratio=2.0, confirmed=1)])
    columns = view.Columns.of(80)
    texts = [plain(view.row(model, shown, key, columns, UNICODE, 0)) for key in (1, 2, 3)]
    assert "★" in texts[0]
    assert "confirmed" in texts[0]
    assert "⊘" in texts[1]
    assert "pruned" in texts[1]
    assert "not held" in texts[2]
    head = plain(view.row(model, shown, target_key(1), columns, UNICODE, 0))
    assert head.split() == ["✓", "softmax", "confirmed", "2.00x", "2.00", "ms", "50%"]


def test_groups_count_what_they_hold() -> None:
    rows = [node(1, None, "failed"), node(2, None, "failed"), node(3, pruned=1), node(4)]
    model, shown = modelled(rows)
    key = group_key(target_key(1))
    line = plain(view.row(model, shown, key, view.Columns.of(80), UNICODE, 0))
    assert "2 failed, 1 pruned ▸" in line


def test_a_refused_target_says_why() -> None:
    refused = target(state="refused", reason="it is random", eager_ns=None, sol_ns=None)
    model, shown = modelled([], [refused])
    line = plain(view.row(model, shown, target_key(1), view.Columns.of(90), UNICODE, 0))
    assert "refused" in line
    assert "it is random" in line


@pytest.mark.parametrize("cells", [60, 80, 120, 200])
def test_the_status_line_fits_and_keeps_the_state(cells: int) -> None:
    model, _ = modelled([node(1), node(2, None, "failed"), node(3, None, "live")],
                        [target(best_node=1, best_ratio=2.0)])  # fmt: skip
    line = plain(status.status(model, cells, UNICODE, 0))
    assert width(line) == cells
    assert line.startswith(" ● running")
    if cells >= 80:
        assert "2/24 nodes" in line
        assert "best 2.00x #1" in line
        assert "1:02/10:00" in line


def test_states_say_what_to_do() -> None:
    model, _ = modelled([])
    model.heartbeat = Heartbeat(at_us=0, active_us=0, pid=1, doing={}, device={})
    assert status.state_text(model, 7_200_000) == "no heartbeat 7 s"
    model.waiting = "pause"
    assert status.state_text(model, 7_200_000) == "pausing..."
    model.waiting, model.state = "", "crashed"
    assert status.state_text(model, 0) == "crashed - press r to resume"
    model.starting = "loading \x1b[31msuite:softmax"
    assert status.state_text(model, 0) == "starting: loading suite:softmax"
    model.problem = "the session file is gone"
    assert status.state_text(model, 0) == "the session file is gone"


def test_tasks_are_named_short() -> None:
    model, _ = modelled([])
    model.session = session(config={"tasks": ["suite:softmax", "/a b/gelu.py"]})
    assert status.task_text(model, 30) == "softmax +1"
    model.session = session(config={"tasks": ["/home/me/my operators/gelu.py"]})
    assert status.task_text(model, 30) == "gelu.py"


def test_budget_lines_fit_and_add_up() -> None:
    model, _ = modelled([node(1), node(2, None, "failed")])
    lines = budget.budget(model, 50, UNICODE)
    assert all(width(plain(line)) == 50 for line in lines)
    text = "\n".join(plain(line) for line in lines)
    assert "2 of 24" in text
    assert "1:02 of 10:00" in text
    assert "building 1 s" in text
    assert "no model is asked" in text


def test_a_model_counts_each_node_once() -> None:
    model, _ = modelled([node(1, state="live")])
    for state in ("live", "scored", "scored"):
        model.apply(Update(None, "running", None, (), (node(1, state=state),), ()))
    assert model.counts == {"live": 0, "scored": 1}
    assert model.series[1].count == 1
    assert model.stages["building"] == 0.5


def test_active_time_is_the_newest_known() -> None:
    model, _ = modelled([])
    event = Event(1, 0, 90_000_000, "SearchPaused", 1, 0, 0, {})
    model.apply(Update(None, "paused", None, (), (), (event,)))
    assert model.active_s == 90.0


def series(*ratios: float | None) -> Series:
    made = Series()
    for ratio in ratios:
        made.add(ratio)
    return made


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("count", [0, 1, 5, 60, 3000])
def test_curves_fit_any_number_of_nodes(glyphs: object, count: int) -> None:
    points = series(*[None if n % 4 == 3 else 0.5 + n / max(1, count) for n in range(count)])
    lines = curve.curve(points, 4.0, 60, 9, glyphs)  # type: ignore[arg-type]
    assert len(lines) == 9
    assert all(width(plain(line)) == 60 for line in lines)


def test_the_curve_steps_up_and_keeps_failures_apart() -> None:
    lines = curve.curve(series(1.0, None, 2.0, 1.5), None, 40, 8, UNICODE)
    text = [plain(line) for line in lines]
    assert text[-1].startswith("failed")
    assert text[-1].count("✗") == 1
    top = next(line for line in text if "2.00x" in line)
    assert "┏" in top
    assert sum(line.count("•") for line in text[:-1]) == 1  # 1.5x; the others lie on the line


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), 0.0, -1.0])
def test_odd_speedups_go_to_the_lane_of_failures(odd: float) -> None:
    lines = curve.curve(series(odd, 2.0), 4.0, 40, 8, UNICODE)
    assert plain(lines[-1]).count("✗") == 1


def test_a_long_series_stays_bounded_and_keeps_its_best() -> None:
    long = series(*([1.0] * 5000), 9.0, *([1.0] * 5000))
    assert len(long.all()) <= MOST_MARKS
    assert max(mark.best or 0 for mark in long.all()) == 9.0
    assert long.count == 10_001


def test_after_the_end_no_target_looks_open() -> None:
    rows = [target(1), target(2, eager_ns=None, name="gelu")]
    model, shown = modelled([], rows, "finished")
    texts = [plain(view.row(model, shown, key, view.Columns.of(100), UNICODE, 0))
             for key in (target_key(1), target_key(2))]  # fmt: skip
    assert "ended" in texts[0]
    assert "not begun" in texts[1]
    model.state = "stopped"  # this one can go on
    assert "open" in plain(view.row(model, shown, target_key(1), view.Columns.of(100), UNICODE, 0))


def test_a_target_closed_without_a_program_says_why() -> None:
    model, shown = modelled([], [target(state="closed", reason="the judge broke")])
    text = plain(view.row(model, shown, target_key(1), view.Columns.of(100), UNICODE, 0))
    assert "the judge broke" in text


def test_confirming_is_said() -> None:
    model, _ = modelled([node(1)])
    model.heartbeat = Heartbeat(0, 0, 1, {"stage": "confirming", "node": 1}, {})
    assert status.state_text(model, 0) == "confirming"


def test_the_curve_names_the_best_that_stands() -> None:
    series = Series()
    series.add(3.0)
    series.add(1.5)
    text = "\n".join(plain(line) for line in curve.curve(series, None, 60, 10, UNICODE, 0, 1.5))
    assert "1.50x" in text
    assert "3.00x" not in text
