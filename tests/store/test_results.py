"""What was measured, as rows: baselines, gains, foreign verdicts; sessions of an older schema."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from store.errors import EventError
from store.events import EVENTS, complete, encode
from store.reading import SessionReader
from store.rebuild import reader_at, rebuild
from store.sessions import inspect
from store.version import SESSION_SCHEMA
from store.writing import SessionWriter
from tests.store import story

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from store.rows import NodeRow

pytestmark = pytest.mark.usefixtures("home")

PROJECTED = ["session", "targets", "nodes", "variants", "verdicts", "model_calls"]
COMPILE = {"ratio": 1.5, "low": 1.4, "high": 1.6, "ns": 2_600_000, "call_ns": 2_700_000,
           "seconds": 30.0, "cached": False}  # fmt: skip


def node_of(path: Path, node: int) -> NodeRow:
    with SessionReader(path) as reader:
        row = reader.node(node)
    assert row is not None
    return row


def tables(conn: sqlite3.Connection) -> dict[str, Any]:
    return {
        name: conn.execute(f"SELECT * FROM {name} ORDER BY id").fetchall() for name in PROJECTED
    }


def judge(writer: SessionWriter, node: int, ratio: float, **more: Any) -> None:
    """A verdict of the node's variant, and what the node came to by it."""
    at = {"target": 1, "node": node}
    figures = {"variant": node, "outcome": "FASTER", "time_ns": int(4e6 / ratio), "ratio": ratio,
               "low": ratio, "high": ratio}  # fmt: skip
    writer.emit("VariantJudged", **at, verdict=writer.next_id("verdicts"), key="k", confirm=False,
                eager_ns=4_000_000, timing="device", evidence={}, **figures, **more)  # fmt: skip


def score(writer: SessionWriter, node: int, ratio: float) -> None:
    figures = {"variant": node, "outcome": "FASTER", "time_ns": int(4e6 / ratio), "ratio": ratio,
               "low": ratio, "high": ratio}  # fmt: skip
    writer.emit("NodeScored", target=1, node=node, sol_fraction=0.5, reward=0.1 * ratio,
                seconds={}, **figures)  # fmt: skip


def whole(writer: SessionWriter, path: Path) -> None:
    """The rows are what the events alone bring about."""
    with SessionReader(path) as reader:
        assert tables(rebuild(reader.events())) == tables(writer.conn)


def test_a_gain_follows_the_fastest_baseline_whenever_it_is_known() -> None:
    path, writer = story.begin()
    story.node(writer, None, ratio=3.0, action="draft")
    assert node_of(path, 1).gain == 3.0
    writer.emit("BaselineMeasured", target=1, name="compile", value=COMPILE)
    assert node_of(path, 1).gain == 2.0
    story.node(writer, 1, ratio=4.5)
    assert node_of(path, 2).gain == 3.0
    slow = {**COMPILE, "ratio": 0.9}
    writer.emit("BaselineMeasured", target=1, name="compile-max", value=slow)
    writer.emit("BaselineMeasured", target=1, name="other", value={"error": "it does not compile"})
    assert [node_of(path, n).gain for n in (1, 2)] == [2.0, 3.0]
    with SessionReader(path) as reader:
        (target,) = reader.targets()
    assert target.baselines == {
        "eager": {"ns": 4_000_000, "call_ns": 4_000_000},
        "compile": COMPILE,
        "compile-max": slow,
        "other": {"error": "it does not compile"},
    }
    whole(writer, path)
    writer.close()


def test_eager_measured_again_keeps_the_other_baselines() -> None:
    path, writer = story.begin()
    writer.emit("BaselineMeasured", target=1, name="compile", value=COMPILE)
    eager = {"eager": {"ns": 5_000_000, "call_ns": 5_100_000}}
    writer.emit("TargetMeasured", target=1, eager_ns=5_000_000, sol_ns=1, floor_ns=1,
                baselines=eager, detail={})  # fmt: skip
    with SessionReader(path) as reader:
        assert reader.targets()[0].baselines == {**eager, "compile": COMPILE}
    writer.close()


def test_call_times_advice_and_the_library_mark_reach_the_rows() -> None:
    path, writer = story.begin()
    story.node(writer, None, ratio=2.0)
    judge(writer, 1, 2.5, call_ns=1_700_000, eager_call_ns=4_200_000, advice=["read 16 bytes"])
    writer.emit("ProgramWritten", target=1, node=1, program="hash1", language="cuda", title="t",
                schedule=None, library=True)  # fmt: skip
    row = node_of(path, 1)
    assert (row.call_ns, row.advice, row.library) == (1_700_000, ["read 16 bytes"], 1)
    with SessionReader(path) as reader:
        first, second = reader.verdicts(1)
    assert (first.call_ns, second.call_ns, second.eager_call_ns) == (None, 1_700_000, 4_200_000)
    whole(writer, path)
    writer.close()


def test_a_confirmation_tells_the_baseline_and_the_sanitizer() -> None:
    path, writer = story.begin()
    story.node(writer, None, ratio=2.0)
    against = {"name": "compile", "ratio": 1.3, "low": 1.2, "high": 1.4, "direct": True}
    sanitizer = {"memcheck": "clean", "racecheck": "skipped: took too long"}
    writer.emit("NodeConfirmed", target=1, node=1, variant=1, ok=True, outcome="FASTER", ratio=2.0,
                low=1.9, high=2.1, reason="", against=against, sanitizer=sanitizer)  # fmt: skip
    row = node_of(path, 1)
    assert (row.confirmed, row.against, row.sanitizer) == (1, against, sanitizer)
    whole(writer, path)
    writer.close()


def test_the_figures_that_stand_are_those_of_the_confirmation() -> None:
    path, writer = story.begin()
    writer.emit("BaselineMeasured", target=1, name="compile", value=COMPILE)
    story.node(writer, None, ratio=3.0)
    at = {"target": 1, "node": 1, "variant": 1, "outcome": "FASTER", "ratio": 2.7, "low": 2.6,
          "high": 2.8}  # fmt: skip
    writer.emit("VariantJudged", **at, verdict=writer.next_id("verdicts"), key="k", confirm=True,
                time_ns=1_500_000, eager_ns=4_000_000, timing="device", evidence={},
                call_ns=1_600_000, eager_call_ns=4_000_000)  # fmt: skip
    writer.emit("NodeConfirmed", **at, ok=True, reason="")
    with SessionReader(path) as reader:
        row = reader.standing(node_of(path, 1))
    assert (row.ratio, row.time_ns, row.call_ns) == (2.7, 1_500_000, 1_600_000)
    assert row.gain == pytest.approx(1.8)
    assert row.sol_fraction == pytest.approx(0.75 * 0.9, rel=1e-3)
    assert (node_of(path, 1).ratio, node_of(path, 1).call_ns) == (3.0, None)
    whole(writer, path)
    writer.close()


def foreign_session() -> tuple[Path, SessionWriter]:
    """Three nodes, the best of them confirmed, taken up on another machine."""
    path, writer = story.begin()
    root = story.node(writer, None, ratio=2.0, action="draft")
    story.node(writer, root, ratio=3.0)
    story.node(writer, root, ratio=None)
    writer.emit("BestImproved", target=1, node=2, variant=2, ratio=3.0, time_ns=5, of_nodes=3)
    writer.emit("BaselineMeasured", target=1, name="compile", value=COMPILE)
    writer.emit("NodeConfirmed", target=1, node=2, variant=2, ok=True, outcome="FASTER", ratio=3.0,
                low=2.9, high=3.1, reason="")  # fmt: skip
    writer.emit("VerdictsForeign", target=1, machine="another GPU")
    writer.emit("BestWithdrawn", target=1, reason="measured on another machine")
    return path, writer


def test_foreign_verdicts_stay_and_claim_nothing_until_judged_again() -> None:
    path, writer = foreign_session()
    rows = [node_of(path, node) for node in (1, 2, 3)]
    assert [(row.foreign, row.confirmed, row.ratio) for row in rows] == [
        (1, 0, 2.0), (1, 0, 3.0), (0, 0, None),
    ]  # fmt: skip
    with SessionReader(path) as reader:
        (target,) = reader.targets()
    assert (target.best_node, target.confirmed, target.baselines) == (None, 0, None)
    # Baselines of this machine say nothing of figures from another one.
    writer.emit("BaselineMeasured", target=1, name="compile", value={**COMPILE, "ratio": 2.0})
    assert node_of(path, 2).gain == 2.0
    judge(writer, 2, 1.25)
    again = node_of(path, 2)
    assert (again.foreign, again.ratio, again.gain) == (0, 1.25, 0.625)
    before = node_of(path, 1).visits
    score(writer, 2, 1.25)
    root = node_of(path, 1)
    assert (root.visits, root.value) == (before, pytest.approx(0.2))
    whole(writer, path)
    writer.close()


def test_a_foreign_node_that_fails_here_has_no_figures_left() -> None:
    path, writer = foreign_session()
    before = node_of(path, 1)
    assert before.value == pytest.approx(0.3)
    writer.emit("NodeFailed", target=1, node=2, rung="check", code="wrong", reason="off at [0]",
                seconds={})  # fmt: skip
    row, root = node_of(path, 2), node_of(path, 1)
    assert (row.state, row.foreign, row.ratio, row.reward, row.value) == ("failed", 0) + (None,) * 3
    assert (root.visits, root.value) == (before.visits, pytest.approx(0.2))
    whole(writer, path)
    writer.close()


def test_a_session_of_the_first_schema_reads_and_is_brought_up_to_date(tmp_path: Path) -> None:
    path, writer = story.begin()
    root = story.node(writer, None, ratio=2.0, action="draft")
    story.node(writer, root, ratio=None)
    writer.emit("BestImproved", target=1, node=1, variant=1, ratio=2.0, time_ns=5, of_nodes=1)
    writer.emit("NodeConfirmed", target=1, node=1, variant=1, ok=True, outcome="FASTER", ratio=2.0,
                low=1.9, high=2.1, reason="")  # fmt: skip
    writer.emit("EngineStopped", state="finished", reason="")
    writer.close()
    with SessionReader(path) as reader:
        now = reader.targets(), reader.nodes(), reader.verdicts(1), reader.session()
        told = [event.payload for event in reader.events()]
    story.as_first_schema(path)
    old = shutil.copy(path, tmp_path / path.name)
    with SessionReader(path) as reader:
        assert reader.conn.execute("PRAGMA user_version").fetchone() == (1,)
        assert (reader.nodes(), reader.verdicts(1), reader.session()) == now[1:]
        assert [row.baselines for row in reader.targets()] == [
            {"eager": {"ns": 4_000_000, "call_ns": None}}
        ]
        assert [complete("NodeStage", p) for p in told] == told
        assert reader_at(reader, reader.last_seq()).nodes() == now[1]
        # An engine takes the session up while somebody looks at it.
        engine = SessionWriter(path)
        assert engine.conn.execute("PRAGMA user_version").fetchone() == (SESSION_SCHEMA,)
        engine.emit("BaselineMeasured", target=1, name="compile", value=COMPILE)
        assert reader.nodes()[0].gain == pytest.approx(2.0 / 1.5)
        whole(engine, path)
        engine.close()
    assert inspect(tmp_path / path.name).best == (2.0, "softmax")
    assert old


def test_what_may_be_null_may_be_left_out_and_nothing_else() -> None:
    assert complete("NodeConfirmed", {"ok": True}) == {
        "ok": True, "against": None, "sanitizer": None,
    }  # fmt: skip
    assert complete("of a newer version", {"x": 1}) == {"x": 1}
    with pytest.raises(EventError, match="reason"):
        encode("VerdictsForeign", complete("VerdictsForeign", {"machine": "m", "reason": ""}))
    with pytest.raises(EventError, match="name"):
        encode("BaselineMeasured", complete("BaselineMeasured", {"value": {}}))
    assert EVENTS["TargetMeasured"].version == 2
