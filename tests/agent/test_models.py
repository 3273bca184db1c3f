"""Language models as writers, over HTTP to a server on this machine: each fault in its place."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import TYPE_CHECKING, Any

import pytest

from agent.errors import ModelError, TaskError
from agent.writers.llm import retry
from store import commands
from store.reading import SessionReader
from store.rebuild import rebuild
from tests.agent.asking import TOY, programs, search, session_with
from tests.agent.landscape import REPLY, Landscape, engine_on
from tests.agent.model_server import Fails, Says, fails, in_turn, says, serving

if TYPE_CHECKING:
    from pathlib import Path

    from store.rows import CallRow, NodeRow
    from tests.agent.model_server import Request

pytestmark = pytest.mark.usefixtures("home", "no_waiting")
WAITED: list[tuple[str, float]] = []


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between attempts are as decided, and take no time."""
    WAITED.clear()
    real = retry.delay

    def quick(error: Any, attempt: int, chance: Any) -> float | None:
        wait = real(error, attempt, chance)
        if wait is None:
            return None
        WAITED.append((error.code, wait))
        return 0.0

    monkeypatch.setattr(retry, "delay", quick)


def rows(path: Path) -> tuple[list[NodeRow], list[CallRow]]:
    with SessionReader(path) as reader:
        return reader.nodes(), reader.calls()


def kinds(path: Path, kind: str) -> list[dict[str, Any]]:
    with SessionReader(path) as reader:
        return [event.payload for event in reader.events() if event.kind == kind]


async def test_a_model_writes_a_search_from_drafts_to_a_confirmed_best() -> None:
    with serving(programs()) as server:
        path = session_with(server, nodes=10, parallel=3)
        assert await search(path) == "finished"
    nodes, calls = rows(path)
    assert len(nodes) == len(calls) == len(server.requests) == 10
    assert {node.writer for node in nodes} == {"model"}
    assert {node.model for node in nodes} == {"openai/test"}
    assert {call.state for call in calls} == {"paid"}
    # 100 tokens at $1 and 50 at $2 for a million each.
    assert [call.micro_dollars for call in calls] == [200] * 10
    assert [node.micro_dollars for node in nodes] == [200] * 10
    with SessionReader(path) as reader:
        (target,) = reader.targets()
        spending = reader.spending()
        reply = reader.reply(calls[0].id)
        pieces = reader.stream(nodes[0].id)
        rebuilt = rebuild(reader.events())
    assert target.confirmed == 1
    assert (spending.calls, spending.micro_dollars, spending.reserved) == (10, 2000, 0)
    assert reply is not None
    assert reply.text in "".join(piece.text for piece in pieces if piece.channel == "model")
    assert rebuilt is not None
    first, last = server.requests[0], server.requests[-1]
    assert first.system == last.system  # what a provider caches
    assert {node.action for node in nodes} >= {"draft", "improve"}


async def test_the_drafter_writes_the_first_drafts_for_nothing() -> None:
    with serving(programs()) as server:
        path = session_with(server, drafts=2)
        await search(path)
    nodes, calls = rows(path)
    assert [node.writer for node in nodes[:3]] == ["drafter", "drafter", "model"]
    assert len(calls) == 4


async def test_a_search_that_needs_no_model_says_so() -> None:
    with serving(programs()) as server:
        path = session_with(server, drafts=2, nodes=2)
        assert await search(path) == "finished"
    assert not server.requests
    assert [n["text"] for n in kinds(path, "Noted") if "no model was asked" in n["text"]]


async def test_several_models_take_turns() -> None:
    with serving(programs()) as server:
        models = [server.model("openai/a"), server.model("openai/b", price={"in": 3, "out": 9})]
        path = session_with(server, models=models)
        await search(path)
    nodes, calls = rows(path)
    assert sorted(node.model or "" for node in nodes) == ["openai/a"] * 3 + ["openai/b"] * 3
    assert {call.micro_dollars for call in calls if call.model == "openai/b"} == {750}


TROUBLES: dict[str, tuple[Says | Fails, str, int | None]] = {
    "rate": (fails(429, headers={"Retry-After": "7"}), "model-rate", 0),
    "server": (fails(500), "model-server", 0),
    "dropped": (says("Idea", " half", drop=True), "model-dropped", None),
    "empty": (says(""), "model-empty", 200),
}


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_failed_call_is_no_failed_node(trouble: str) -> None:
    first, code, cost = TROUBLES[trouble]
    with serving(in_turn(first, says(REPLY.format(n=1)))) as server:
        path = session_with(server, nodes=1)
        assert await search(path) == "finished"
    (node,), (failed, paid) = rows(path)
    assert node.state == "scored"
    assert (failed.state, failed.error, failed.attempt) == ("failed", code, 1)
    assert (paid.state, paid.attempt) == ("paid", 2)
    if cost is not None:
        assert failed.micro_dollars == cost
    else:
        assert failed.estimated
        assert failed.micro_dollars
    assert [what for what, _ in WAITED] == [code]
    (waiting,) = kinds(path, "CallWaiting")
    assert waiting["model"] == "openai/test"
    if trouble == "rate":
        assert WAITED[0][1] >= 7


async def test_a_model_that_cannot_be_reached_stops_the_search_and_loses_nothing() -> None:
    with serving(lambda request: fails(503, "overloaded")) as server:
        path = session_with(server, nodes=3, parallel=1)
        assert await search(path) == "failed"
    (node,), calls = rows(path)
    assert node.state == "live"
    assert {call.state for call in calls} == {"failed"}
    assert 3 < len(calls) < 10
    with SessionReader(path) as reader:
        assert "overloaded" in (reader.session().stop_reason or "")
        assert reader.spending().micro_dollars == 0


@pytest.mark.parametrize(
    ("status", "text", "cure"),
    [(401, "Incorrect API key provided: sk-abcdefghijklmnop", "key"),
     (404, "The model `test` does not exist", "model")],
)  # fmt: skip
async def test_what_no_attempt_can_mend_stops_at_once_with_the_cure(
    status: int, text: str, cure: str
) -> None:
    with serving(lambda request: fails(status, text, code="model_not_found")) as server:
        path = session_with(server, parallel=1)
        assert await search(path) == "failed"
    assert len(server.requests) == 1
    with SessionReader(path) as reader:
        reason = reader.session().stop_reason or ""
        everything = "".join(str(event.payload) for event in reader.events())
    assert cure in reason
    assert "sk-abcdefghijklmnop" not in everything


async def test_one_of_two_models_fails_and_the_other_goes_on() -> None:
    count = itertools.count(1)

    def script(request: Request) -> Says | Fails:
        if request.body["model"] == "bad":
            return fails(500)
        return says(REPLY.format(n=next(count)))

    with serving(script) as server:
        models = [server.model("openai/bad"), server.model("openai/good")]
        path = session_with(server, models=models, parallel=1)
        assert await search(path) == "finished"
    nodes, _ = rows(path)
    assert [node.state for node in nodes].count("dropped") == 1
    assert {node.model for node in nodes if node.state == "scored"} == {"openai/good"}
    assert any("openai/bad is asked no more" in note["text"] for note in kinds(path, "Noted"))


async def test_a_reply_that_is_cut_off_or_refused_fails_its_node_and_is_paid() -> None:
    cut = says("Idea\n```cpp\nvoid f(", finish="length")
    refused = says("", refusal="I cannot help with that.")
    with serving(in_turn(cut, refused, says(REPLY.format(n=1)))) as server:
        path = session_with(server, nodes=3, parallel=1)
        assert await search(path) == "finished"
    nodes, calls = rows(path)
    assert [(node.state, node.rung) for node in nodes[:2]] == [("failed", "read")] * 2
    assert "cut" in (nodes[0].code or "")
    assert nodes[1].code == "model-refused"
    assert nodes[2].state == "scored"
    assert [call.micro_dollars for call in calls] == [200, 200, 200]


async def test_a_stream_without_usage_is_an_estimate_and_says_so() -> None:
    with serving(lambda request: says(REPLY.format(n=1), usage="none")) as server:
        path = session_with(server, nodes=1)
        await search(path)
    _, (call,) = rows(path)
    assert call.state == "paid"
    assert call.estimated
    assert call.micro_dollars


async def test_hostile_and_huge_replies_end_their_nodes_and_nothing_else() -> None:
    hostile = "\x1b]0;owned\x07[bold red]\u202e<script>" + REPLY.format(n=2)
    with serving(in_turn(says("x" * 2_000_000), says(hostile), says(REPLY.format(n=1)))) as server:
        path = session_with(server, nodes=4, parallel=1)
        assert await search(path) == "finished"
    nodes, calls = rows(path)
    assert [call.purpose for call in calls[:2]] == ["write", "format"]
    assert calls[0].finish == "length"  # what is too long to be a program is not waited for
    assert [node.state for node in nodes].count("scored") == 2
    assert all(node.title.isprintable() for node in nodes)
    assert "owned" not in nodes[0].title


async def test_a_price_that_nobody_knows_is_no_price_and_the_tokens_are_capped() -> None:
    with serving(programs()) as server:
        models = [server.model("openai/test", price=None)]
        path = session_with(server, models=models, nodes=2, parallel=1)
        assert await search(path) == "finished"
    nodes, calls = rows(path)
    assert [call.micro_dollars for call in calls] == [None, None]
    assert [node.unpriced for node in nodes] == [1, 1]
    with serving(programs()) as server:
        models = [server.model("openai/test", price=None)]
        path = session_with(server, models=models, dollars=1.0)
        with pytest.raises(ModelError, match="no price is known"):
            await search(path)
    assert not server.requests
    with SessionReader(path) as reader:
        assert "--price" in (reader.session().stop_reason or "")


async def test_a_cap_without_room_for_a_single_call_is_no_finished_search() -> None:
    with serving(programs()) as server:
        path = session_with(server, tokens=1000)
        assert await search(path) == "failed"
    assert not server.requests
    with SessionReader(path) as reader:
        assert "raise it" in (reader.session().stop_reason or "")


async def test_prompts_that_break_the_provider_are_given_up_one_by_one() -> None:
    count = itertools.count(1)

    def script(request: Request) -> Says | Fails:
        if request.number < 3:
            return says("Idea", " half", drop=True)
        return says(REPLY.format(n=next(count)))

    with serving(script) as server:
        path = session_with(server, nodes=3, parallel=1)
        assert await search(path) == "finished"
    nodes, calls = rows(path)
    assert [node.state for node in nodes] == ["dropped", "scored", "scored"]
    assert [call.state for call in calls] == ["failed"] * 3 + ["paid"] * 2


async def test_a_server_that_restarts_is_waited_for() -> None:
    """It was there before, so a refused connection is a fault that passes."""
    with serving(programs()) as server:
        path = session_with(server, nodes=3, parallel=1)
        engine, session = await engine_on(path, Landscape(sol_ns=1))
        task = asyncio.create_task(engine.run())
        while not kinds(path, "CallSettled"):
            await asyncio.sleep(0.005)
    assert await asyncio.wait_for(task, 30) == "failed"
    session.close()
    refused = [call for call in rows(path)[1] if call.error == "model-connection"]
    assert len(refused) > 1 or not refused


async def test_a_key_in_a_task_is_refused_before_anybody_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "envsecret-0123456789")
    task = tmp_path / "task.py"
    task.write_text("# envsecret-0123456789\n" + TOY.read_text())
    with serving(programs()) as server:
        path = session_with(server, tasks=[str(task)])
        with pytest.raises(TaskError, match="MY_API_KEY"):
            await search(path)
    assert not server.requests
    with SessionReader(path) as reader:
        assert "envsecret" not in str([event.payload for event in reader.events()])


@pytest.mark.parametrize("cap", [{"calls": 3}, {"tokens": 20_000}, {"dollars": 0.05}])
async def test_a_cap_ends_the_search_with_the_best_confirmed(cap: dict[str, float]) -> None:
    count = itertools.count(1)
    script = lambda request: says(REPLY.format(n=next(count)), tokens=(3000, 2500))  # noqa: E731
    with serving(script) as server:
        models = [server.model(price={"in": 1.0, "out": 4.0})]
        path = session_with(server, models=models, nodes=50, parallel=4, **cap)
        assert await search(path) == "finished"
    with SessionReader(path) as reader:
        spending, (target,) = reader.spending(), reader.targets()
        reason = reader.session().stop_reason or ""
    assert f"cap on {next(iter(cap))}" in reason
    assert target.confirmed == 1
    assert 1 <= spending.calls <= 10
    assert spending.micro_dollars <= 50_000
    assert spending.reserved == 0


async def test_a_pause_lets_calls_in_flight_finish_and_makes_no_more() -> None:
    gate = threading.Event()
    count = itertools.count(1)
    with serving(lambda request: says(REPLY.format(n=next(count)), gate=gate)) as server:
        path = session_with(server, nodes=6, parallel=2)
        engine, session = await engine_on(path, Landscape(sol_ns=1))
        task = asyncio.create_task(engine.run())
        while len(server.requests) < 2:
            await asyncio.sleep(0.01)
        commands.send(path, "pause")
        while not kinds(path, "SearchPausing"):
            await asyncio.sleep(0.01)
        assert not kinds(path, "SearchPaused")
        gate.set()
        while not kinds(path, "SearchPaused"):
            await asyncio.sleep(0.01)
        assert len(server.requests) == 2
        _, calls = rows(path)
        assert {call.state for call in calls} == {"paid"}
        commands.send(path, "resume")
        assert await asyncio.wait_for(task, 30) == "finished"
        session.close()
    assert len(server.requests) == 6


async def test_a_stop_waits_for_paid_calls_and_a_second_one_cuts_them_off() -> None:
    gate = threading.Event()
    with serving(lambda request: says(REPLY.format(n=1), gate=gate)) as server:
        path = session_with(server, nodes=1)
        engine, session = await engine_on(path, Landscape(sol_ns=1))
        task = asyncio.create_task(engine.run())
        while not server.requests:
            await asyncio.sleep(0.01)
        commands.send(path, "stop")
        while not kinds(path, "CommandAnswered"):
            await asyncio.sleep(0.01)
        assert not task.done()
        commands.send(path, "stop")
        assert await asyncio.wait_for(task, 20) == "stopped"
        session.close()
        gate.set()
        (node,), (call,) = rows(path)
        assert (node.state, call.state, call.error) == ("live", "lost", "lost")
        # What was cut off counts in full; the next engine asks once more.
        assert await search(path) == "finished"
    (node,), (lost, paid) = rows(path)
    assert (lost.state, lost.micro_dollars) == ("lost", lost.reserved)
    assert paid.state == "paid"
    assert node.state == "scored"
    assert node.micro_dollars == (lost.reserved or 0) + 200


async def test_the_dearer_model_rests_when_the_caps_have_room_for_the_cheaper_one_alone() -> None:
    count = itertools.count(1)
    script = lambda request: says(REPLY.format(n=next(count)), tokens=(9000, 500))  # noqa: E731
    with serving(script) as server:
        models = [server.model("openai/dear", price={"in": 3.0, "out": 9.0}),
                  server.model("openai/cheap", price={"in": 0.1, "out": 0.2})]  # fmt: skip
        path = session_with(server, models=models, nodes=8, parallel=1, dollars=0.1)
        assert await search(path) == "finished"
    nodes, calls = rows(path)
    with SessionReader(path) as reader:
        assert reader.spending().micro_dollars <= 100_000
    assert len(nodes) == 8
    assert {node.state for node in nodes} <= {"scored", "failed"}
    assert [call.model for call in calls].count("openai/dear") < 4


async def test_a_reply_that_was_stored_is_not_asked_for_again() -> None:
    with serving(in_turn(says(REPLY.format(n=1)))) as server:
        path = session_with(server, nodes=1)
        engine, session = await engine_on(path, Landscape(sol_ns=1, pace_s=0.05))
        task = asyncio.create_task(engine.run())
        while not kinds(path, "CallSettled"):
            await asyncio.sleep(0.005)
        engine.stop("enough")
        await asyncio.wait_for(task, 20)
        session.close()
        assert await search(path) == "finished"
    (node,), calls = rows(path)
    assert len(server.requests) == len(calls) == 1
    assert node.state == "scored"


async def test_pruned_while_it_is_written_the_paid_reply_is_kept_and_not_judged() -> None:
    gate = threading.Event()
    with serving(lambda request: says(REPLY.format(n=1), gate=gate)) as server:
        path = session_with(server, nodes=1, parallel=1)
        engine, session = await engine_on(path, Landscape(sol_ns=1))
        task = asyncio.create_task(engine.run())
        while not server.requests:
            await asyncio.sleep(0.01)
        commands.send(path, "prune", node=1)
        while not kinds(path, "NodeDropped"):
            await asyncio.sleep(0.01)
        gate.set()
        await asyncio.wait_for(task, 20)
        session.close()
    (node,), (call,) = rows(path)
    assert (node.state, call.state) == ("dropped", "paid")
    with SessionReader(path) as reader:
        assert reader.reply(call.id) is not None
