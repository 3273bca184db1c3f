"""Where asking ends: what is paid is judged, what nobody wants is not asked for, nothing hangs."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import TYPE_CHECKING, Any

import pytest

from agent import briefing, desk
from agent.calls import Calls, Order
from agent.context import Context
from agent.errors import ModelError
from agent.writers.ask import Answer, Prompt, Usage
from agent.writers.inbox import Inbox
from agent.writers.llm import retry
from agent.writers.llm.client import ModelClient
from agent.writers.offline import Posted, Recorded
from agent.writers.replay import Replay
from store import commands
from store.reading import SessionReader
from store.writing import SessionWriter
from tests.agent.asking import TOY, programs, search, session_with
from tests.agent.landscape import PLACES, REPLY, Landscape, engine_on, new_session, run
from tests.agent.model_server import fails, in_turn, says, serving

if TYPE_CHECKING:
    from pathlib import Path

    from agent.engine import Engine
    from agent.writers.offline import Offline
    from store.rows import CallRow, NodeRow, TargetRow
    from tests.agent.model_server import Fails, Request, Says

pytestmark = pytest.mark.usefixtures("home")


def at_once(monkeypatch: pytest.MonkeyPatch, wait_s: float = 0.0) -> None:
    """Attempts as decided, after another wait."""
    real = retry.delay

    def changed(error: Any, attempt: int, chance: Any) -> float | None:
        return None if real(error, attempt, chance) is None else wait_s

    monkeypatch.setattr(retry, "delay", changed)


def rows(path: Path) -> tuple[list[NodeRow], list[CallRow], TargetRow]:
    with SessionReader(path) as reader:
        (target,) = reader.targets()
        return reader.nodes(), reader.calls(), target


async def until(path: Path, kind: str, count: int = 1) -> None:
    while True:
        with SessionReader(path) as reader:
            if sum(event.kind == kind for event in reader.events()) >= count:
                return
        await asyncio.sleep(0.005)


# -- trouble ---------------------------------------------------------------------------------------


async def test_a_bad_key_closes_no_target_and_the_next_start_goes_on() -> None:
    with serving(in_turn(fails(401, "Incorrect API key"))) as server:
        path = session_with(server, parallel=4)
        assert await search(path) == "failed"
        nodes, _, target = rows(path)
        assert target.state == "open"
        assert {node.state for node in nodes} == {"live"}
        # Fewer at once than there are nodes to take up: it fails again, and nothing is lost.
        assert await search(path) == "failed"
        assert rows(path)[2].state == "open"
    with serving(programs()) as server:
        with_key = {**server.model()}
        with SessionReader(path) as reader:
            models = reader.session().config["models"]
        assert models[0]["name"] == with_key["name"]
        writer = SessionWriter(path)
        writer.emit("BudgetChanged", caps={"models": [with_key]})
        writer.close()
        assert await search(path) == "finished"
    nodes, _, _ = rows(path)
    assert len(nodes) == 6
    assert "live" not in {node.state for node in nodes}


async def test_two_calls_of_a_model_that_fails_leave_the_other_model_at_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once(monkeypatch)
    count = itertools.count(1)

    def script(request: Request) -> Says | Fails:
        if request.body["model"] == "bad":
            return fails(500)
        return says(REPLY.format(n=next(count)))

    with serving(script) as server:
        models = [server.model("openai/bad"), server.model("openai/good")]
        path = session_with(server, models=models, parallel=4, nodes=8)
        assert await search(path) == "finished"
    nodes, _, _ = rows(path)
    assert {node.model for node in nodes if node.state == "scored"} == {"openai/good"}


async def test_a_fault_while_a_writer_is_asked_ends_the_engine_and_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*args: Any) -> Any:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(desk, "brief", broken)
    assert briefing.brief is not broken
    with serving(programs()) as server:
        path = session_with(server, parallel=2)
        with pytest.raises(ZeroDivisionError):
            await search(path)
    assert {node.state for node in rows(path)[0]} == {"live"}


# -- what is paid is judged ------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [{"calls": 3}, {"minutes": 1e-6}])
async def test_programs_that_were_paid_are_judged_whatever_cap_is_reached(
    cap: dict[str, Any],
) -> None:
    with serving(programs()) as server:
        path = session_with(server, parallel=3, nodes=3)
        engine, session = await engine_on(path, Landscape(sol_ns=1, pace_s=0.05))
        task = asyncio.create_task(engine.run())
        await until(path, "ProgramWritten", 3)
        engine.stop("enough")
        await asyncio.wait_for(task, 20)
        session.emit("BudgetChanged", caps=cap)
        session.close()
        assert "live" in {node.state for node in rows(path)[0]}
        assert await search(path) == "finished"
    nodes, calls, target = rows(path)
    assert len(calls) == 3
    assert not [node for node in nodes if node.state in ("live", "dropped")]
    assert target.confirmed == 1


async def test_when_the_time_is_up_nothing_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once(monkeypatch, 3600.0)
    with serving(in_turn(fails(500))) as server:
        path = session_with(server, parallel=1)
        engine, session = await engine_on(path, Landscape(sol_ns=1))
        task = asyncio.create_task(engine.run())
        await until(path, "CallWaiting")
        past_its_time(engine)
        assert await asyncio.wait_for(task, 20) == "finished"
        session.close()
    (node,), calls, _ = rows(path)
    assert len(server.requests) == len(calls) == 1
    assert node.state == "dropped"


def past_its_time(engine: Engine) -> None:
    clock = engine._context.clock
    clock.us = lambda: 10**12  # type: ignore[method-assign]
    engine.desk.news.set()


# -- what nobody wants -----------------------------------------------------------------------------


async def test_pruned_between_two_attempts_it_is_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once(monkeypatch, 3600.0)
    with serving(in_turn(fails(500), says(REPLY.format(n=1)))) as server:
        path = session_with(server, parallel=1, nodes=2)
        engine, session = await engine_on(path, Landscape(sol_ns=1))
        task = asyncio.create_task(engine.run())
        await until(path, "CallWaiting")
        commands.send(path, "prune", node=1)
        assert await asyncio.wait_for(task, 20) == "finished"
        session.close()
    nodes, calls, _ = rows(path)
    assert [node.state for node in nodes] == ["dropped", "scored"]
    assert [call.node for call in calls] == [1, 2]


@pytest.mark.parametrize("bad", [says("I would rather not."), says("")])
async def test_pruned_in_flight_its_call_is_the_last(
    bad: Says, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    gate = threading.Event()
    held = says(*bad.pieces, gate=gate)
    with serving(in_turn(held)) as server:
        path = session_with(server, parallel=1, nodes=1)
        engine, session = await engine_on(path, Landscape(sol_ns=1))
        task = asyncio.create_task(engine.run())
        while not server.requests:
            await asyncio.sleep(0.005)
        commands.send(path, "prune", node=1)
        await until(path, "NodeDropped")
        gate.set()
        assert await asyncio.wait_for(task, 20) == "finished"
        session.close()
    (node,), (call,), _ = rows(path)
    assert node.state == "dropped"
    assert call.micro_dollars == 200


async def test_pruned_while_no_engine_was_there_it_is_not_asked_for() -> None:
    with serving(in_turn(fails(401, "Incorrect API key"))) as server:
        path = session_with(server, parallel=1)
        assert await search(path) == "failed"
    asked = len(server.requests)
    commands.send(path, "prune", node=1)
    with serving(programs()) as server:
        writer = SessionWriter(path)
        writer.emit("BudgetChanged", caps={"models": [server.model()]})
        writer.close()
        assert await search(path) == "finished"
    nodes, calls, _ = rows(path)
    assert nodes[0].state == "dropped"
    assert [call.node for call in calls].count(1) == asked == 1


# -- money -----------------------------------------------------------------------------------------


async def test_replies_that_are_paid_and_empty_are_asked_for_three_times_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once(monkeypatch)
    with serving(in_turn(says("", thinking=("hm",)))) as server:
        path = session_with(server, parallel=1, nodes=1)
        assert await search(path) == "finished"
    (node,), calls, _ = rows(path)
    assert node.code == "model-empty"
    assert len(calls) == 3


async def test_a_call_that_timed_out_in_silence_counts_as_what_was_set_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model that thinks unseen may have written all of it."""

    async def late(self: ModelClient, prompt: Prompt, max_tokens: int, on_piece: Any) -> Answer:
        usage = Usage(prompt.size // 3, 0, estimated=True)
        partial = Answer("", "", "", usage, 7, 60.0)
        raise ModelError("nothing came", code="model-timeout", partial=partial)

    monkeypatch.setattr(ModelClient, "ask", late)
    config = {"models": [{"name": "openai/gpt-4o", "params": {}, "price": None}], "dollars": 1.0}
    path = new_session(**config)
    session = SessionWriter(path)
    context = Context(session, Landscape(), PLACES["cpu"], "toy", None)
    session.emit("NodeCreated", target=1, node=1, parent=None, second_parent=None,
                 action="draft", writer="model", model="openai/gpt-4o")  # fmt: skip
    calls = Calls(context, config, asyncio.Event())
    with pytest.raises(ModelError):
        await calls.ask(Order(1, 1, "openai/gpt-4o", "draft"), Prompt("system", "user"))
    (call,) = SessionReader(path, session.conn).calls()
    session.close()
    assert call.state == "lost"
    assert call.micro_dollars == call.reserved == calls.purse.spent


# -- recordings and inboxes ------------------------------------------------------------------------


async def test_a_recording_that_ends_for_one_target_goes_on_for_the_others(tmp_path: Path) -> None:
    tasks = []
    for name in ("first", "second"):
        task = tmp_path / f"{name}.py"
        task.write_text(TOY.read_text())
        tasks.append(str(task))
    texts = (("first", 1), ("second", 1), ("second", 2), ("second", 4))
    recorded = [{"target": name, "action": "draft", "text": REPLY.format(n=n)} for name, n in texts]
    path = new_session(tasks=tasks, replay={"from": "old", "replies": recorded}, parallel=1)

    def recording(session: SessionWriter) -> Offline:
        return Recorded(Replay(recorded), session)

    assert await run(path, Landscape(sol_ns=1), offline=recording) == "finished"
    with SessionReader(path) as reader:
        judged = [node.target for node in reader.nodes() if node.state != "dropped"]
        reasons = [target.reason for target in reader.targets()]
        assert "no more replies" in (reader.session().stop_reason or "")
    assert sorted(judged) == [1, 2, 2, 2]
    assert all("no more replies" in (reason or "") for reason in reasons)


async def test_a_recorded_reply_is_taken_and_stored_in_one(tmp_path: Path) -> None:
    """An engine that is killed between the two would give the node another reply."""
    recorded = [{"target": "toy_task", "action": "draft", "text": REPLY.format(n=1)}]
    path = new_session(replay={"from": "old", "replies": recorded}, nodes=1)
    seen: list[str] = []

    def recording(session: SessionWriter) -> Offline:
        before = session.stream

        def watched(node: int, channel: str, text: str) -> None:
            other = SessionReader(path)
            seen.extend(call.state for call in other.calls())
            other.close()
            before(node, channel, text)

        session.stream = watched  # type: ignore[method-assign]
        return Recorded(Replay(recorded), session)

    assert await run(path, Landscape(sol_ns=1), offline=recording) == "finished"
    assert seen == []


async def test_what_is_asked_by_files_stays_as_it_was_asked(tmp_path: Path) -> None:
    path = new_session(inbox="inbox", nodes=2, drafts=0, parallel=2, exit_when_waiting=True)
    folder = tmp_path / "inbox"

    def posted(session: SessionWriter) -> Offline:
        return Posted(Inbox(folder, "toy", poll_s=0.002))

    assert await run(path, Landscape(sol_ns=1), offline=posted) == "stopped"
    before = {page.name: page.read_text() for page in folder.glob("*.md")}
    commands.send(path, "hint", target=1, text="Read each row once.")
    commands.send(path, "prune", node=2)
    assert await run(path, Landscape(sol_ns=1), offline=posted) == "stopped"
    first, second = sorted(before)
    assert (folder / first).read_text() == before[first]
    assert not (folder / second).exists()
    assert (folder / "withdrawn" / second).exists()
    _, calls, _ = rows(path)
    assert [(call.state, call.error) for call in calls] == [
        ("reserved", None), ("failed", "withdrawn")
    ]  # fmt: skip


async def test_a_reply_that_no_call_may_put_right_fails_where_it_is_read() -> None:
    with serving(in_turn(says("I would rather not."))) as server:
        path = session_with(server, calls=1, parallel=1)
        assert await search(path) == "finished"
    nodes, _, _ = rows(path)
    assert (nodes[0].state, nodes[0].rung) == ("failed", "read")


async def test_no_more_nodes_are_made_than_there_are_calls_for() -> None:
    with serving(programs()) as server:
        path = session_with(server, calls=2, parallel=4)
        assert await search(path) == "finished"
    nodes, calls, _ = rows(path)
    assert len(nodes) == len(calls) == 2
    assert "dropped" not in {node.state for node in nodes}


async def test_drafts_that_were_given_up_make_room_for_others() -> None:
    gate = threading.Event()
    held = [says(REPLY.format(n=n), gate=gate) for n in (1, 2, 4)]
    with serving(in_turn(*held, says(REPLY.format(n=6)))) as server:
        path = session_with(server, parallel=3, nodes=4)
        engine, session = await engine_on(path, Landscape(sol_ns=1))
        task = asyncio.create_task(engine.run())
        while len(server.requests) < 3:
            await asyncio.sleep(0.005)
        for node in (1, 2, 3):
            commands.send(path, "prune", node=node)
        await until(path, "NodeDropped", 3)
        gate.set()
        assert await asyncio.wait_for(task, 20) == "finished"
        session.close()
    nodes, _, _ = rows(path)
    assert [node.state for node in nodes] == ["dropped"] * 3 + ["scored"]
