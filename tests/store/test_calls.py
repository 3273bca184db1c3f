"""Calls of writers as rows: what was asked, answered, spent; hints; sessions older than calls."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from store.errors import EventError
from store.events import complete, encode
from store.reading import SessionReader
from store.rebuild import reader_at, rebuild
from store.rows import Spending
from store.sessions import inspect
from store.version import SESSION_SCHEMA
from store.writing import MAX_REPLY, SessionWriter
from tests.store import story

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("home")

PROJECTED = ["session", "targets", "nodes", "variants", "verdicts", "model_calls"]


def rows(conn: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    return {
        name: conn.execute(f"SELECT * FROM {name} ORDER BY id").fetchall() for name in PROJECTED
    }


def whole(writer: SessionWriter) -> None:
    """The rows are what the events alone bring about."""
    with SessionReader(writer.path) as reader:
        assert rows(rebuild(reader.events())) == rows(writer.conn)


def test_a_call_and_its_node_count_what_it_took() -> None:
    path, writer = story.begin()
    story.node(writer, None, ratio=2.0, action="draft")
    reader = SessionReader(path)
    first = story.asked(writer, 1, state="failed", reply=None, cost=0, tokens=(0, 0),
                        error="model-rate")  # fmt: skip
    second = story.asked(writer, 1, attempt=2, tokens_reasoning=150, estimated=True)
    calls = reader.calls(1)
    assert [(c.id, c.state, c.attempt, c.error, c.micro_dollars) for c in calls] == [
        (first, "failed", 1, "model-rate", 0), (second, "paid", 2, None, 900),
    ]  # fmt: skip
    made = calls[1]
    assert (made.tokens_in, made.tokens_out, made.tokens_cached, made.tokens_reasoning) == (
        1000, 200, 100, 150,
    )  # fmt: skip
    assert (made.estimated, made.finish, made.seconds, made.purpose) == (1, "stop", 2.5, "write")
    assert (made.reserved, made.reserved_tokens, made.writer) == (5_000, 20_000, "model")
    assert made.at_us <= (made.settled_us or 0)
    node = reader.node(1)
    assert node is not None
    assert (node.calls, node.micro_dollars, node.tokens_in, node.tokens_out) == (2, 900, 1000, 200)
    assert (node.unpriced, node.lost) == (0, 0)
    whole(writer)
    writer.close()


def test_unknown_costs_lost_calls_and_answers_by_hand_are_kept_apart() -> None:
    path, writer = story.begin()
    story.node(writer, None, ratio=2.0, action="draft")
    story.asked(writer, 1)
    story.asked(writer, 1, cost=None)
    story.asked(writer, 1, state="lost", cost=5_000, reply=None)
    story.asked(writer, 1, state="lost", cost=None, reply=None)
    story.asked(writer, 1, state="answered", cost=None, tokens=(0, 0), by="inbox", model="",
                tokens_cached=None)  # fmt: skip
    reader = SessionReader(path)
    node = reader.node(1)
    assert node is not None
    assert (node.micro_dollars, node.unpriced, node.lost, node.calls) == (5_900, 2, 2, 5)
    assert [call.unpriced for call in reader.calls()] == [False, True, False, True, False]
    assert (inspect(path).micro_dollars, inspect(path).unpriced) == (5_900, 2)
    assert reader.spending() == Spending(
        calls=4, micro_dollars=5_900, in_flight=0, reserved=0, reserved_tokens=0, unpriced=2,
        lost=2, tokens_in=4_000, tokens_out=800, tokens_cached=400, tokens_reasoning=0,
        estimated=0,
    )  # fmt: skip
    whole(writer)
    writer.close()


def test_what_is_in_flight_is_set_aside_and_not_spent() -> None:
    path, writer = story.begin()
    story.node(writer, None, ratio=2.0, action="draft")
    reader = SessionReader(path)
    assert reader.spending() == Spending(*[0] * 12)
    story.asked(writer, 1)
    call = story.asked(writer, 1, state="reserved")
    story.asked(writer, 1, state="reserved", cost=None)
    told = reader.spending()
    assert (told.calls, told.in_flight, told.micro_dollars) == (3, 2, 900)
    assert (told.reserved, told.reserved_tokens, told.unpriced) == (5_000, 40_000, 0)
    assert reader.micro_dollars() == 5_900
    assert reader.reply(call) is None
    seen = reader.last_seq()
    writer.emit("CallSettled", target=1, node=1, call=call, state="paid", micro_dollars=70,
                tokens_in=1, tokens_out=1)  # fmt: skip
    assert [row.id for row in reader.calls(after_rev=seen)] == [call]
    assert reader.calls(2) == []
    assert reader.micro_dollars() == 970
    whole(writer)
    writer.close()


def test_prompts_and_replies_are_kept_and_the_same_prompt_once() -> None:
    path, writer = story.begin()
    one = writer.store_prompt("system", "user")
    assert writer.store_prompt("system", "user") == one
    assert len({one, writer.store_prompt("systemu", "ser"), writer.store_prompt("", "x")}) == 3
    writer.store_reply(7, 3, "text", "thinking")
    reader = SessionReader(path)
    prompt, reply = reader.prompt(one), reader.reply(7)
    assert prompt is not None
    assert reply is not None
    assert (prompt.system, prompt.user) == ("system", "user")
    assert (reply.node, reply.text, reply.thinking) == (3, "text", "thinking")
    assert reader.prompt("nothing") is reader.reply(8) is None
    writer.close()


def test_text_that_is_no_unicode_and_endless_text_can_be_kept() -> None:
    path, writer = story.begin()
    story.node(writer, None, ratio=2.0)
    broken = "a\ud800b\x00c"
    key = writer.store_prompt(broken, broken)
    writer.store_reply(1, 1, broken, "x" * (MAX_REPLY + 5))
    writer.stream(1, "model", broken)
    writer.emit("HintGiven", target=1, node=1, text=broken, by="person")
    reader = SessionReader(path)
    prompt, reply, node = reader.prompt(key), reader.reply(1), reader.node(1)
    assert prompt is not None
    assert reply is not None
    assert node is not None
    assert {prompt.user, reply.text, node.hint, reader.stream(1)[-1].text} == {"a?b\x00c"}
    assert len(reply.thinking) == MAX_REPLY
    whole(writer)
    writer.close()


def test_a_reply_and_its_settlement_come_together_or_not_at_all() -> None:
    path, writer = story.begin()
    story.node(writer, None, ratio=2.0)
    call = story.asked(writer, 1, state="reserved")

    def settle() -> None:
        with writer.together():
            writer.store_reply(call, 1, "text", "")
            writer.emit("CallSettled", target=1, node=1, call=call, state="paid",
                        micro_dollars="much")  # fmt: skip

    with pytest.raises(EventError):
        settle()
    reader = SessionReader(path)
    assert reader.reply(call) is None
    assert reader.calls()[0].state == "reserved"
    writer.close()


def test_hints_reach_the_node_or_the_whole_target_and_an_empty_one_ends_it() -> None:
    path, writer = story.begin()
    story.node(writer, None, ratio=2.0)
    writer.emit("HintGiven", target=1, node=1, text="split the rows", by="person")
    writer.emit("HintGiven", target=1, text="use float4", by="person")
    reader = SessionReader(path)
    node, (target,) = reader.node(1), reader.targets()
    assert node is not None
    assert (node.hint, target.hint) == ("split the rows", "use float4")
    whole(writer)
    writer.emit("HintGiven", target=1, text="", by="person")
    assert reader.targets()[0].hint is None
    writer.close()


def test_an_improvement_says_how_large_a_step_it_takes() -> None:
    path, writer = story.begin()
    writer.emit("NodeCreated", target=1, node=1, parent=None, second_parent=None, action="improve",
                writer="model", model="some/model", step="large")  # fmt: skip
    node = SessionReader(path).node(1)
    assert node is not None
    assert node.step == "large"
    whole(writer)
    writer.close()


def test_waiting_is_told_and_touches_no_row() -> None:
    path, writer = story.begin()
    story.node(writer, None, ratio=2.0)
    before = rows(writer.conn)
    writer.emit("CallWaiting", target=1, node=1, call=1, model="m", reason="rate limit",
                seconds=12, attempt=1)  # fmt: skip
    assert rows(writer.conn) == before
    assert SessionReader(path).last_events(1)[0].payload["reason"] == "rate limit"
    writer.close()


def test_a_past_moment_has_its_calls_prompts_and_replies() -> None:
    path, writer = story.begin()
    story.node(writer, None, ratio=2.0)
    call = story.asked(writer, 1, state="reserved")
    with SessionReader(path) as reader:
        seq = reader.last_seq()
        writer.emit("CallSettled", target=1, node=1, call=call, state="paid", micro_dollars=70,
                    tokens_in=1, tokens_out=1)  # fmt: skip
        writer.store_reply(call, 1, "later", "")
        past, now = reader_at(reader, seq), reader_at(reader, reader.last_seq())
        assert [row.state for row in past.calls(1)] == ["reserved"]
        assert past.prompt(past.calls(1)[0].prompt or "") is not None
        assert past.reply(call) is None
        assert now.spending() == reader.spending()
        assert now.spending().micro_dollars == 70
    writer.close()


def test_a_session_from_before_the_calls_reads_and_is_brought_up_to_date(tmp_path: Path) -> None:
    path, writer = story.begin()
    story.node(writer, None, ratio=2.0, action="draft")
    for state in ("paid", "lost", "reserved"):
        story.asked(writer, 1, state=state)
    writer.emit("EngineStopped", state="stopped", reason="")
    writer.close()
    with SessionReader(path) as reader:
        now = reader.spending()
        node = reader.node(1)
    assert node is not None
    story.as_second_schema(path)
    old = shutil.copy(path, tmp_path / path.name)
    with SessionReader(old) as reader:
        assert reader.conn.execute("PRAGMA user_version").fetchone() == (2,)
        assert [(c.state, c.reserved, c.writer, c.prompt) for c in reader.calls()] == [
            (state, 5_000, None, None) for state in ("paid", "lost", "reserved")
        ]
        assert reader.prompt("x") is reader.reply(1) is None
        told = reader.spending()
        assert (told.calls, told.micro_dollars, told.lost, told.reserved) == (3, 1_800, 1, 5_000)
        assert (told.tokens_in, told.reserved_tokens) == (now.tokens_in, 0)
        assert [(row.calls, row.hint) for row in reader.nodes()] == [(0, None)]
        assert reader.targets()[0].hint is None
        past = reader_at(reader, reader.last_seq())
        assert past.calls()[0].settled_us is not None
        assert past.prompt("x") is past.reply(1) is None
    engine = SessionWriter(path)
    assert engine.conn.execute("PRAGMA user_version").fetchone() == (SESSION_SCHEMA,)
    whole(engine)
    with SessionReader(path) as reader:
        again = reader.node(1)
    assert again is not None
    assert (again.calls, again.tokens_in, again.lost) == (node.calls, node.tokens_in, node.lost)
    engine.close()


def test_a_viewer_and_an_engine_meet_while_the_schema_changes() -> None:
    path, writer = story.begin()
    story.node(writer, None, ratio=2.0)
    writer.close()
    story.as_second_schema(path)
    with SessionReader(path) as reader:
        assert reader.calls() == []
        engine = SessionWriter(path)
        call = story.asked(engine, 1)
        assert [row.prompt is not None for row in reader.calls()] == [True]
        assert reader.reply(call) is not None
        assert reader.spending().micro_dollars == 900
        engine.close()


def test_many_answered_commands_do_not_slow_the_search_for_new_ones() -> None:
    path, writer = story.begin()
    query = "SELECT id, verb, args FROM commands WHERE answered = 0 ORDER BY id LIMIT 100"
    (plan,) = writer.conn.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
    assert "idx_commands_unanswered" in plan[3]
    for condition in ("node = 3", "node = 3 AND rev > 5", "rev > 5"):
        (plan,) = writer.conn.execute(
            f"EXPLAIN QUERY PLAN SELECT * FROM model_calls WHERE {condition}"
        ).fetchall()
        assert "USING INDEX" in plan[3], condition
    assert path
    writer.close()


def test_what_an_old_engine_left_out_of_its_calls_is_null() -> None:
    old = {"call": 1, "micro_dollars": 5, "model": "m"}
    assert encode("CallReserved", complete("CallReserved", old))
    settled = {"call": 1, "state": "paid", "micro_dollars": 5, "tokens_in": 1, "tokens_out": 2}
    assert complete("CallSettled", settled)["estimated"] is None
    with pytest.raises(EventError, match="state"):
        encode("CallSettled", complete("CallSettled", {"call": 1}))
