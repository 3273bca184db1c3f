"""What programs are measured against: baselines, their failures, and figures of another machine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from agent.errors import MachineError, WorkerError
from agent.yardstick import wanted_baselines
from store import commands
from store.reading import SessionReader
from store.rebuild import rebuild
from tests.agent.landscape import (
    CUDA_REPLY,
    PLACES,
    Landscape,
    engine_on,
    new_session,
    programs,
    run,
)

if TYPE_CHECKING:
    from pathlib import Path

    from store.events import Event
    from store.rows import NodeRow, TargetRow

pytestmark = pytest.mark.usefixtures("home")

OTHER = replace(PLACES["cpu"], key="another CPU")


def read(path: Path) -> tuple[TargetRow, list[NodeRow], list[Event]]:
    with SessionReader(path) as reader:
        return reader.targets()[0], reader.nodes(), reader.events()


def kinds(path: Path) -> list[str]:
    with SessionReader(path) as reader:
        return [event.kind for event in reader.events()]


def cuda_session(count: int = 2, **config: Any) -> Path:
    texts = [CUDA_REPLY.format(n=n) for n in range(1, count + 1)]
    return new_session(device="cuda", programs=programs(*texts), **config)


def whole(path: Path) -> None:
    with SessionReader(path) as reader:
        again = rebuild(reader.events())
        for table in ("targets", "nodes", "variants", "verdicts"):
            query = f"SELECT * FROM {table} ORDER BY id"
            assert again.execute(query).fetchall() == reader.conn.execute(query).fetchall(), table


async def test_on_a_gpu_baselines_come_first_and_gains_are_over_the_fastest() -> None:
    path, workshop = cuda_session(), Landscape()
    await run(path, workshop)
    target, nodes, events = read(path)
    assert set(target.baselines or {}) == {"eager", "compile", "compile-max"}
    assert (target.baselines or {})["eager"] == {"ns": 4_000_000, "call_ns": 4_100_000}
    for node in nodes:
        assert node.ratio is not None
        assert node.gain == pytest.approx(node.ratio / 1.25)
    order = [event.kind for event in events]
    assert order.index("BaselineMeasured") < order.index("NodeCreated")
    whole(path)


async def test_on_a_cpu_the_baseline_comes_before_the_confirmation_alone() -> None:
    path, workshop = new_session(nodes=4), Landscape()
    await run(path, workshop)
    order = kinds(path)
    asked = [what for verb, what in workshop.log if verb == "baseline"]
    assert asked == ["compile"]
    assert order.index("TargetClosed") < order.index("BaselineMeasured")
    assert order.index("BaselineMeasured") < order.index("NodeConfirmed")
    slow = Landscape()
    slow.scale = 0.2  # nothing is faster: there is nothing to compare
    await run(new_session(nodes=4), slow)
    assert "baseline" not in slow.calls


def test_which_baselines_are_wanted() -> None:
    assert wanted_baselines({}, "cpu") == ("compile",)
    assert wanted_baselines({}, "cuda") == ("compile", "compile-max")
    assert wanted_baselines({"baselines": ["eager"]}, "cuda") == ()
    assert wanted_baselines({"baselines": ["eager", "compile-max"]}, "cpu") == ("compile-max",)


@pytest.mark.parametrize("fault", [WorkerError("it hung", code="worker-timeout"), None])
async def test_a_baseline_that_cannot_be_had_is_a_note(fault: WorkerError | None) -> None:
    class Without(Landscape):
        async def baseline(self, target: int, name: str) -> dict[str, Any]:
            if fault:
                raise fault
            return {"error": "no Triton"}

    path = cuda_session()
    assert await run(path, Without()) == "finished"
    target, nodes, events = read(path)
    why = "it hung" if fault else "no Triton"
    assert (target.baselines or {})["compile"] == {"error": why}
    notes = [event.payload["text"] for event in events if event.kind == "Noted"]
    assert notes == [f"the baseline {n} cannot be had: {why}" for n in ("compile", "compile-max")]
    assert all(node.gain == node.ratio for node in nodes)
    assert target.confirmed == 1
    # It is not asked for again when the session is taken up.
    await run(path, Without())
    assert kinds(path).count("BaselineMeasured") == 2


async def test_a_gpu_that_is_in_use_stops_the_search_during_a_baseline() -> None:
    class Exclusive(Landscape):
        async def baseline(self, target: int, name: str) -> dict[str, Any]:
            raise MachineError("the GPU is in exclusive mode", "nvidia-smi -c 0")

    path = cuda_session()
    assert await run(path, Exclusive()) == "failed"
    assert await run(path, Landscape()) == "finished"


async def test_a_baseline_near_the_speed_of_light_closes_a_target_after_peoples_programs() -> None:
    path, workshop = cuda_session(1), Landscape(sol_ns=1_500_000)
    workshop.baselines["compile"] = {"ratio": 2.6, "low": 2.5, "high": 2.7}
    await run(path, workshop)
    target, nodes, _ = read(path)
    assert (target.code, target.reason) == (
        "near-sol", "compile already runs at 98% of the speed of light",
    )  # fmt: skip
    assert [node.state for node in nodes] == ["scored"]


# -- another machine -------------------------------------------------------------------------------


async def test_taken_up_elsewhere_the_best_are_judged_again_before_the_search_goes_on() -> None:
    path = new_session(nodes=12)
    await run(path, Landscape())
    _, before, _ = read(path)
    ranked = sorted((n for n in before if n.low), key=lambda n: (n.outcome == "FASTER", n.low))
    best = [node.id for node in reversed(ranked)][:3]
    there = Landscape()
    there.scale = 0.8
    assert await run(path, there, OTHER) == "finished"
    target, nodes, events = read(path)
    own = {node.id for node in nodes if node.state == "scored" and not node.foreign}
    assert own == set(best)
    (mark,) = [event for event in events if event.kind == "VerdictsForeign"]
    assert mark.payload == {"machine": "a CPU"}
    notes = [event.payload["text"] for event in events if event.kind == "Noted"]
    assert notes == ["recorded on a CPU, measured again here"]
    after = [event.kind for event in events if event.seq > mark.seq]
    assert after[:3] == ["Noted", "BestWithdrawn", "TargetMeasured"]
    assert target.best_node in best
    assert target.confirmed == 1
    rows = {node.id: node for node in nodes}
    assert rows[best[0]].ratio == pytest.approx((before[best[0] - 1].ratio or 0) * 0.8, rel=0.01)
    assert [node.visits for node in nodes] == [node.visits for node in before]
    with SessionReader(path) as reader:
        keys = [verdict.key for verdict in reader.verdicts(best[0])]
    assert "a CPU" in keys[0]
    assert "another CPU" in keys[-1]
    whole(path)


async def test_an_unfinished_search_goes_on_elsewhere_after_that() -> None:
    path = new_session(nodes=12)
    engine, session = await engine_on(path, Landscape(pace_s=0.01))
    task = asyncio.create_task(engine.run())
    async with asyncio.timeout(20):
        while len(read(path)[1]) < 6:
            await asyncio.sleep(0.01)
        commands.send(path, "stop")
        assert await task == "stopped"
    session.close()
    assert await run(path, Landscape(), OTHER) == "finished"
    target, nodes, events = read(path)
    assert (len(nodes), target.code) == (12, "nodes")
    marked = next(event.seq for event in events if event.kind == "VerdictsForeign")
    # Whether a node was in work when it stopped is chance.
    begun = ("NodeRequeued", "NodeCreated")
    first = next(event for event in events if event.seq > marked and event.kind in begun)
    again = [e.node for e in events if marked < e.seq < first.seq and e.kind == "NodeScored"]
    assert len(again) == 3
    ended = [event.node for event in events if event.kind in ("NodeScored", "NodeFailed")]
    assert sorted(ended) == sorted([*range(1, 13), *again])
    whole(path)


@pytest.mark.parametrize("verb", ["load", "calibrate", "build", "check", "measure", "confirm"])
async def test_an_engine_that_dies_meanwhile_judges_no_more_than_three(verb: str) -> None:
    path = new_session(nodes=12)
    await run(path, Landscape())
    for count in (1, 2):
        workshop = Landscape(pace_s=0.01)
        task = asyncio.create_task(run(path, workshop, OTHER))
        async with asyncio.timeout(20):
            while workshop.calls.get(verb, 0) < (count if verb in ("build", "measure") else 1):
                if task.done():
                    break
                await asyncio.sleep(0.002)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert await run(path, Landscape(), OTHER) == "finished"
    target, nodes, _ = read(path)
    assert kinds(path).count("VerdictsForeign") == 1
    assert sum(node.state == "scored" and not node.foreign for node in nodes) == 3
    assert target.confirmed == 1
    whole(path)


async def test_a_node_that_fails_elsewhere_is_a_failed_node_and_the_next_leads() -> None:
    class Broken(Landscape):
        async def check(self, target: int, library: str, bound: Any) -> dict[str, Any]:
            if library.split("/")[0] == self.wrong:
                return {"failure": {"rung": "check", "code": "wrong", "message": "off"}}
            return await super().check(target, library, bound)

        wrong = ""

    path = new_session(nodes=12)
    await run(path, Landscape())
    best = read(path)[0].best_node
    assert best is not None
    workshop = Broken()
    workshop.wrong = str((read(path)[1][best - 1].schedule or {})["n"])
    assert await run(path, workshop, OTHER) == "finished"
    target, nodes, _ = read(path)
    assert (nodes[best - 1].state, nodes[best - 1].ratio) == ("failed", None)
    assert target.best_node not in (None, best)
    assert target.confirmed == 1
    whole(path)


async def test_a_closed_branch_is_not_judged_again_and_other_targets_stay() -> None:
    path = new_session(nodes=12)
    await run(path, Landscape())
    best = read(path)[0].best_node
    commands.send(path, "prune", node=best)
    assert await run(path, Landscape(), OTHER) == "finished"
    _, nodes, _ = read(path)
    assert best is not None
    assert nodes[best - 1].foreign == 1


async def test_a_target_that_cannot_be_measured_elsewhere_is_closed() -> None:
    class Unable(Landscape):
        async def calibrate(self, target: int) -> dict[str, Any]:
            raise WorkerError("it takes too long here", code="worker-timeout")

    path = new_session(nodes=4)
    await run(path, Landscape())
    assert await run(path, Unable(), OTHER) == "finished"
    target, _, _ = read(path)
    assert (target.code, target.best_node) == ("worker-timeout", None)


async def test_sessions_that_do_not_say_where_they_were_measured_ask_their_verdicts() -> None:
    class Telling(Landscape):
        def _verdict(self, library: str) -> dict[str, Any]:
            return {**super()._verdict(library), "machine": "a CPU"}

    path = new_session(nodes=4)
    await run(path, Telling())
    _, session = await engine_on(path, Landscape())
    session.conn.execute("UPDATE targets SET detail = '{}'")
    session.close()
    assert await run(path, Landscape()) == "finished"
    assert "VerdictsForeign" not in kinds(path)
    assert await run(path, Landscape(), OTHER) == "finished"
    assert "VerdictsForeign" in kinds(path)


@pytest.mark.slow
def test_kill_minus_nine_at_each_step_of_a_gpu_session_and_on_another_machine() -> None:
    path = cuda_session(4)
    here = ("TargetMeasured", "BaselineMeasured", "NodeCreated", "ProgramWritten", "VariantJudged")
    there = ("VerdictsForeign", "TargetMeasured", "BaselineMeasured", "VariantJudged",
             "NodeScored")  # fmt: skip
    killed(path, PLACES["cuda"].key, here)
    finish(path, PLACES["cuda"].key)
    killed(path, "GPU-2 | driver 1", there)
    finish(path, "GPU-2 | driver 1")
    target, nodes, events = read(path)
    assert [node.title for node in nodes] == ["Idea 1", "Idea 2", "Idea 3", "Idea 4"]
    scored = [node for node in nodes if node.state == "scored"]
    assert len(scored) == 3
    assert not any(node.foreign for node in scored)
    assert sum(event.kind == "VerdictsForeign" for event in events) == 1
    assert target.confirmed == 1
    assert (target.detail or {})["machine"] == "GPU-2 | driver 1"
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    whole(path)


def command(path: Path, pace: str, key: str) -> list[str]:
    return [sys.executable, "-m", "tests.agent.landscape", str(path), pace, key]


def killed(path: Path, key: str, moments: tuple[str, ...]) -> None:
    """Start an engine for each kind of event, and kill it when one more of the kind is there."""
    for kind in moments:
        seen = kinds(path).count(kind)
        with subprocess.Popen(command(path, "0.03", key)) as engine:
            end = time.monotonic() + 30
            while kinds(path).count(kind) == seen and engine.poll() is None:
                assert time.monotonic() < end, kind
                time.sleep(0.005)
            engine.kill()
        assert engine.returncode == -9, kind


def finish(path: Path, key: str) -> None:
    subprocess.run(command(path, "0", key), check=True)
    with SessionReader(path) as reader:
        assert reader.session().state == "finished"
