"""The engine on a synthetic landscape: every path of a search, without workers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from agent.errors import MachineError, TaskError
from store import commands
from store.reading import SessionReader
from store.rebuild import rebuild
from store.sessions import inspect
from tests.agent.landscape import Landscape, engine_on, new_session, run

if TYPE_CHECKING:
    from pathlib import Path

    from store.rows import NodeRow
    from store.writing import SessionWriter

pytestmark = pytest.mark.usefixtures("home")


def nodes_of(path: Path) -> list[NodeRow]:
    with SessionReader(path) as reader:
        return reader.nodes()


def kinds(path: Path) -> Counter[str]:
    with SessionReader(path) as reader:
        return Counter(event.kind for event in reader.events())


async def test_a_search_ends_with_a_confirmed_best_and_counts_everything_once() -> None:
    path, workshop = new_session(), Landscape()
    assert await run(path, workshop) == "finished"
    nodes = nodes_of(path)
    with SessionReader(path) as reader:
        (target,) = reader.targets()
        session = reader.session()
    assert (session.state, session.stop_reason) == ("finished", "every target is closed")
    assert len(nodes) == 20
    assert target.code == "nodes"
    assert {node.state for node in nodes} == {"scored", "failed"}
    best = next(node for node in nodes if node.id == target.best_node)
    assert best.low == max(node.low for node in nodes if node.low is not None)
    assert best.confirmed == 1
    assert target.confirmed == 1
    assert workshop.calls["write"] == 20
    writes = [what for verb, what in workshop.log if verb == "write"]
    assert len(writes) == len(set(writes))


async def test_tuning_picks_the_fastest_variant_and_checks_it_before_it_counts() -> None:
    path, workshop = new_session(nodes=1), Landscape()
    await run(path, workshop)
    (node,) = nodes_of(path)
    with SessionReader(path) as reader:
        variants = {variant.id: variant for variant in reader.variants(node.id)}
    assert node.variant is not None
    assert variants[node.variant].tuned == {"UNROLL": 4}
    assert ("check", "1/4") in workshop.log
    assert workshop.log.index(("check", "1/4")) < workshop.log.index(("measure", "1/4"))
    assert sorted(variant.tuned["UNROLL"] for variant in variants.values()) == [1, 2, 4]


async def test_a_failed_build_is_a_node_with_evidence_and_can_be_repaired() -> None:
    path = new_session(nodes=30)
    await run(path, Landscape())
    failed = [node for node in nodes_of(path) if node.state == "failed"]
    assert {(node.rung, node.code) for node in failed} >= {("build", "compiler")}
    assert any(node.action == "repair" for node in nodes_of(path))
    with SessionReader(path) as reader:
        (first, *_) = reader.variants(failed[0].id)
        assert first.evidence == {"rung": "build", "log": "3:1: error"}
        assert "3:1: error" in [piece.text for piece in reader.stream(failed[0].id)]


async def test_search_stops_at_the_speed_of_light_at_patience_and_when_hopeless() -> None:
    for sol_ns, config, code in [
        (1_300_000, {}, "sol"),
        (100_000, {"patience": 3}, "patience"),
        (3_900_000, {}, "near-sol"),
    ]:
        path = new_session(nodes=60, **config)
        await run(path, Landscape(sol_ns=sol_ns))
        with SessionReader(path) as reader:
            (target,) = reader.targets()
        assert target.code == code, code


async def test_a_speed_of_light_that_is_too_slow_to_be_true_is_measured_again() -> None:
    path, workshop = new_session(nodes=6), Landscape(sol_ns=3_000_000)
    workshop.baselines["compile"] = {"ratio": 1.6, "low": 1.5, "high": 1.7}
    once = workshop.calibrate

    async def calibrate(target: int) -> dict[str, Any]:
        found = await once(target)
        return found if workshop.calls["calibrate"] == 1 else {**found, "sol_ns": 400_000}

    workshop.calibrate = calibrate  # type: ignore[method-assign]
    await run(path, workshop)
    with SessionReader(path) as reader:
        (target,) = reader.targets()
    assert workshop.calls["calibrate"] == 2
    assert (target.sol_ns, target.code) == (400_000, "nodes")


async def test_search_ends_when_the_writer_has_no_more() -> None:
    path = new_session(nodes=60)
    await run(path, Landscape(limit=6))
    with SessionReader(path) as reader:
        assert [target.code for target in reader.targets()] == ["exhausted"]
    assert len(nodes_of(path)) == 6


async def test_the_minute_cap_ends_the_search() -> None:
    path = new_session(nodes=10_000, minutes=0.3 / 60)
    assert await run(path, Landscape(pace_s=0.01)) == "finished"
    assert kinds(path)["BudgetReached"] == 1


async def test_a_best_that_does_not_hold_is_withdrawn() -> None:
    path, workshop = new_session(nodes=4), Landscape()
    workshop.holds = False
    await run(path, workshop)
    with SessionReader(path) as reader:
        (target,) = reader.targets()
    faster = [node for node in nodes_of(path) if node.outcome == "FASTER"]
    assert faster
    assert all(node.confirmed == -1 for node in faster)
    assert target.best_node not in {node.id for node in faster}


async def test_rows_follow_from_events_and_equal_the_tree_in_memory() -> None:
    path = new_session(nodes=25)
    engine, session = await engine_on(path, Landscape())
    await engine.run()
    (target,) = engine.targets.values()
    with SessionReader(path) as reader:
        again = rebuild(reader.events())
        for row in reader.nodes():
            stat = target.tree[row.id]
            assert (row.visits, row.value) == (stat.visits, pytest.approx(stat.value))
        rows = again.execute("SELECT id, visits, value FROM nodes ORDER BY id").fetchall()
        assert rows == [(row.id, row.visits, row.value) for row in reader.nodes()]
    session.close()


async def started(
    path: Path, workshop: Landscape
) -> tuple[asyncio.Task[str], SessionWriter, SessionReader]:
    engine, session = await engine_on(path, workshop)
    return asyncio.create_task(engine.run()), session, SessionReader(path)


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_pause_finishes_the_node_in_hand_and_resume_goes_on() -> None:
    path = new_session(nodes=500)
    task, session, reader = await started(path, Landscape(pace_s=0.002))
    await until(lambda: len(reader.nodes()) > 2)
    commands.send(path, "pause")
    await until(lambda: reader.session().state == "paused")
    assert all(node.state != "live" for node in reader.nodes())
    count, active = len(reader.nodes()), session.active_us
    await asyncio.sleep(0.4)
    assert len(reader.nodes()) == count
    commands.send(path, "pause")
    await until(lambda: not reader.pending_commands())
    answers = [e.payload for e in reader.events() if e.kind == "CommandAnswered"]
    assert [answer["ok"] for answer in answers] == [True, False]
    commands.send(path, "resume")
    await until(lambda: len(reader.nodes()) > count)
    resumed = next(e for e in reader.events() if e.kind == "SearchResumed")
    assert resumed.active_us - active < 300_000  # the pause did not count
    commands.send(path, "stop")
    assert await task == "stopped"
    session.close()


async def test_prune_in_work_drops_it_and_unprune_opens_the_branch_again() -> None:
    path = new_session(nodes=500)
    task, session, reader = await started(path, Landscape(pace_s=0.005))
    await until(lambda: len(reader.nodes()) > 8)
    commands.send(path, "pause")
    await until(lambda: reader.session().state == "paused")
    best = reader.targets()[0].best_node
    assert best is not None
    commands.send(path, "prune", node=best)
    await until(lambda: reader.targets()[0].best_node != best)
    commands.send(path, "prune", node=best)
    commands.send(path, "prune", node=9999)
    commands.send(path, "unprune", node=best)
    await until(lambda: reader.targets()[0].best_node == best)
    answers = [e.payload for e in reader.events() if e.kind == "CommandAnswered"]
    assert [answer["ok"] for answer in answers] == [True, True, False, False, True]
    commands.send(path, "resume")
    await until(lambda: any(node.state == "live" for node in reader.nodes()))
    live = [node.id for node in reader.nodes() if node.state == "live"][-1]
    commands.send(path, "prune", node=live)
    await until(lambda: not reader.pending_commands())
    node = reader.node(live)
    assert node is not None
    assert node.pruned == 1
    assert node.state in {"dropped", "scored", "failed"}
    commands.send(path, "stop")
    await task
    session.close()
    with SessionReader(path) as after:
        events = after.events()
    closed_at = next(e.seq for e in events if e.kind == "BranchPruned" and e.node == live)
    later = [e.payload["parent"] for e in events if e.kind == "NodeCreated" and e.seq > closed_at]
    assert live not in later


async def test_what_was_asked_of_a_finished_search_applies_before_it_ends_again() -> None:
    path = new_session(nodes=12)
    await run(path, Landscape())
    with SessionReader(path) as reader:
        best = reader.targets()[0].best_node
    assert best is not None
    commands.send(path, "prune", node=best)
    assert await run(path, Landscape()) == "finished"
    with SessionReader(path) as reader:
        (target,) = reader.targets()
        assert reader.pending_commands() == []
    assert target.best_node not in {None, best}


async def test_stop_leaves_the_node_in_work_and_the_next_engine_finishes_it_once() -> None:
    path = new_session(nodes=12)
    first = Landscape(pace_s=0.02)
    task, session, _ = await started(path, first)
    await until(lambda: first.calls.get("check", 0) >= 3)
    commands.send(path, "stop")
    assert await task == "stopped"
    session.close()
    unfinished = [node.id for node in nodes_of(path) if node.state == "live"]
    assert len(unfinished) == 1
    second = Landscape()
    assert await run(path, second) == "finished"
    nodes = nodes_of(path)
    assert len(nodes) == 12
    assert next(node for node in nodes if node.id == unfinished[0]).attempts == 1
    ends = Counter(
        event.node
        for event in SessionReader(path).events()
        if event.kind in ("NodeScored", "NodeFailed")
    )
    assert ends == Counter(range(1, 13))


def test_kill_minus_nine_at_many_moments_loses_and_doubles_nothing() -> None:
    path = new_session(nodes=40)
    command = [sys.executable, "-m", "tests.agent.landscape", str(path), "0.004"]
    for delay in (0.05, 0.11, 0.23, 0.31, 0.07):
        with subprocess.Popen(command) as engine:
            seen = len(nodes_of(path))
            end = time.monotonic() + 20
            while len(nodes_of(path)) == seen and time.monotonic() < end:
                time.sleep(0.005)
            time.sleep(delay)
            os.kill(engine.pid, signal.SIGKILL)
        assert inspect(path).state == "crashed"
    subprocess.run([*command[:-1], "0"], check=True)
    nodes = nodes_of(path)
    assert [node.id for node in nodes] == list(range(1, 41))
    with SessionReader(path) as reader:
        events = reader.events()
        again = rebuild(events)
    ends = Counter(event.node for event in events if event.kind in ("NodeScored", "NodeFailed"))
    assert ends == Counter(range(1, 41))
    written = Counter(event.node for event in events if event.kind == "ProgramWritten")
    assert written == Counter(range(1, 41))
    schedules = [node.schedule["n"] for node in nodes if node.schedule is not None]
    assert len(schedules) == len(set(schedules)) == 40
    tuned = Counter(
        (row.node, tuple(row.tuned.items()))
        for number in range(1, 41)
        for row in SessionReader(path).variants(number)
    )
    assert max(tuned.values()) == 1
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    (root_visits,) = again.execute("SELECT sum(visits) FROM nodes WHERE parent IS NULL").fetchone()
    assert root_visits == 40


async def test_a_node_that_kills_every_engine_is_given_up() -> None:
    path = new_session(nodes=3)
    for turn in (1, 2, 3):
        task, session, reader = await started(path, Landscape(pace_s=0.02))
        await until(lambda r=reader, t=turn: r.nodes() and r.nodes()[0].attempts == t)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        session.close()
    await run(path, Landscape())
    node = nodes_of(path)[0]
    assert (node.state, node.code) == ("failed", "lost")


async def test_the_same_search_twice_makes_the_same_tree() -> None:
    trees = []
    for _ in range(2):
        path = new_session(nodes=30)
        await run(path, Landscape())
        trees.append([(n.id, n.parent, n.action, n.program, n.ratio) for n in nodes_of(path)])
    assert trees[0] == trees[1]


async def test_a_refused_task_ends_the_session_with_the_reason() -> None:
    class Refusing(Landscape):
        async def load(self, target: int, task: Any) -> dict[str, Any]:
            raise TaskError("it is random", "seed it", code="task-random")

    path = new_session()
    with pytest.raises(TaskError):
        await run(path, Refusing())
    with SessionReader(path) as reader:
        (target,) = reader.targets()
        assert (target.state, target.code, target.cure) == ("refused", "task-random", "seed it")
        assert reader.session().state == "failed"


async def test_a_machine_without_a_compiler_stops_the_search_and_blames_no_program() -> None:
    class Bare(Landscape):
        async def build(self, program: Any, values: dict[str, int]) -> dict[str, Any]:
            raise MachineError("no C++ compiler", "install g++")

    path = new_session()
    assert await run(path, Bare()) == "failed"
    with SessionReader(path) as reader:
        assert reader.session().stop_reason == "no C++ compiler; install g++"
    assert [node.state for node in nodes_of(path)] == ["live"]


async def test_a_program_written_twice_is_told_and_not_judged_again() -> None:
    class Repeating(Landscape):
        async def write(self, target: int, request: dict[str, Any]) -> str:
            request["schedule"]["n"] = 1
            return await super().write(target, request)

    path, workshop = new_session(nodes=4), Repeating()
    await run(path, workshop)
    nodes = nodes_of(path)
    assert [node.code for node in nodes[1:]] == ["duplicate"] * 3
    assert nodes[1].reason == "the same program as node 1"
    assert workshop.calls["check"] <= 2


async def test_an_unsure_confirmation_neither_confirms_nor_withdraws() -> None:
    class Busy(Landscape):
        async def confirm(self, target: int, library: str, bound: Any) -> dict[str, Any]:
            return {**self._verdict(library), "verdict": "UNSURE"}

    path = new_session(nodes=4)
    assert await run(path, Busy()) == "finished"
    with SessionReader(path) as reader:
        (target,) = reader.targets()
    best = next(node for node in nodes_of(path) if node.id == target.best_node)
    assert (best.outcome, best.confirmed, target.confirmed) == ("FASTER", 0, 0)


async def test_limits_measured_on_a_busy_machine_are_measured_again_before_they_close() -> None:
    class Busy(Landscape):
        async def calibrate(self, target: int) -> dict[str, Any]:
            found = await super().calibrate(target)
            first = self.calls["calibrate"] == 1
            sol_ns = 3_900_000 if first else 100_000
            return {**found, "sol_ns": sol_ns, "detail": {"others": 0.5 if first else 0.0}}

    path, workshop = new_session(nodes=5), Busy()
    await run(path, workshop)
    assert workshop.calls["calibrate"] == 2
    with SessionReader(path) as reader:
        (target,) = reader.targets()
    assert (target.code, target.sol_ns, len(nodes_of(path))) == ("nodes", 100_000, 5)
    assert kinds(path)["Noted"] == 1


async def test_the_first_alternatives_are_built_beside_the_default() -> None:
    class Slow(Landscape):
        now = most = 0

        async def build(self, program: Any, values: dict[str, int]) -> dict[str, Any]:
            Slow.now += 1
            Slow.most = max(Slow.most, Slow.now)
            try:
                return await super().build(program, values)
            finally:
                Slow.now -= 1

        async def screen(self, target: int, library: str, bound: Any) -> dict[str, Any]:
            assert Slow.now == 0  # nothing is built while times are taken
            return await super().screen(target, library, bound)

    path, workshop = new_session(nodes=4), Slow(pace_s=0.005)
    await run(path, workshop)
    assert Slow.most == 3
    built = [what for verb, what in workshop.log if verb == "build"]
    assert len(built) - workshop.calls["confirm"] == len(set(built))
    with SessionReader(path) as reader:
        # What is built for nothing, the default having failed, leaves no trace.
        states = {node.state: len(reader.variants(node.id)) for node in reader.nodes()}
    assert states == {"scored": 3, "failed": 1}
