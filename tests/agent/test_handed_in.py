"""Programs that a person handed in: judged before all else, on a GPU the only ones there are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.errors import ForgeError, MachineError
from store import commands
from store.reading import SessionReader
from tests.agent.landscape import (
    CUDA_REPLY,
    LIBRARY_REPLY,
    REPLY,
    Landscape,
    engine_on,
    matrix_spec,
    new_session,
    programs,
    run,
)

if TYPE_CHECKING:
    from store.rows import NodeRow, TargetRow

pytestmark = pytest.mark.usefixtures("home")


def nodes_of(path: Path) -> list[NodeRow]:
    with SessionReader(path) as reader:
        return reader.nodes()


def target_of(path: Path) -> TargetRow:
    with SessionReader(path) as reader:
        return reader.targets()[0]


def cuda_session(*texts: str, **config: Any) -> Path:
    return new_session(device="cuda", programs=programs(*texts), **config)


def numbers(*chosen: int, reply: str = CUDA_REPLY) -> list[str]:
    return [reply.format(n=n) for n in chosen]


async def test_they_become_drafts_before_anything_is_drafted_and_nothing_grows_from_them() -> None:
    path = new_session(nodes=12, programs=programs(*numbers(50, 51, reply=REPLY)))
    await run(path, Landscape())
    nodes = nodes_of(path)
    first, second, *others = nodes
    assert [(n.writer, n.action, n.title) for n in (first, second)] == [
        ("person", "draft", "Idea 50"), ("person", "draft", "Idea 51"),
    ]  # fmt: skip
    assert {node.writer for node in others} == {"drafter"}
    assert len(nodes) == 12
    assert not {1, 2} & {node.parent for node in others}


async def test_those_of_every_target_come_before_anything_is_drafted() -> None:
    task = str(Path(__file__).with_name("toy_task.py"))
    given = programs(*numbers(50, 51, 52, 53, reply=REPLY), target=2)
    path = new_session(nodes=6, tasks=[task, task], programs=given)
    await run(path, Landscape())
    order = [(node.target, node.writer) for node in nodes_of(path)]
    assert order[:4] == [(2, "person")] * 4
    assert {writer for _, writer in order[4:]} == {"drafter"}


async def test_one_that_cannot_be_read_is_a_failed_node_like_any_other() -> None:
    path = cuda_session("no block at all", *numbers(1, 1, 3))
    assert await run(path, Landscape()) == "finished"
    assert [(n.state, n.rung, n.code) for n in nodes_of(path)] == [
        ("failed", "read", "reply"), ("scored", None, None), ("failed", "read", "duplicate"),
        ("failed", "build", "compiler"),
    ]  # fmt: skip


async def test_on_a_gpu_a_target_closes_when_they_are_done() -> None:
    path, workshop = cuda_session(*numbers(1, 2)), Landscape()
    assert await run(path, workshop) == "finished"
    target = target_of(path)
    assert (target.code, target.reason) == ("exhausted", "no writer for CUDA is configured")
    assert (target.device, target.confirmed) == ("cuda", 1)
    assert "propose" not in workshop.calls
    with SessionReader(path) as reader:
        program = reader.program(str(nodes_of(path)[0].program))
    assert program is not None
    assert program.language == "cuda"


async def test_a_gpu_session_without_one_is_refused_with_a_cure() -> None:
    path = new_session(device="cuda")
    with pytest.raises(ForgeError) as caught:
        await run(path, Landscape())
    assert (caught.value.code, caught.value.message) == (
        "no-writer", "no writer for CUDA is configured",
    )  # fmt: skip
    assert "--program" in caught.value.cure
    with SessionReader(path) as reader:
        assert reader.session().state == "failed"


async def test_a_target_that_cannot_be_drafted_takes_them_and_is_refused_without() -> None:
    workshop = Landscape()
    workshop.refusal = "its product has no loop"
    path = new_session(programs=programs(*numbers(1, reply=REPLY)))
    assert await run(path, workshop) == "finished"
    assert (target_of(path).code, target_of(path).reason) == (
        "exhausted", "it cannot be drafted: its product has no loop",
    )  # fmt: skip
    assert [node.state for node in nodes_of(path)] == ["scored"]
    with pytest.raises(ForgeError, match="cannot be drafted"):
        await run(new_session(), workshop)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
async def test_library_calls_alone_are_told_and_never_lead(device: str) -> None:
    workshop = Landscape()
    workshop.spec = matrix_spec()
    language = {"cpu": "cpp", "cuda": "cuda"}[device]
    text = LIBRARY_REPLY.format(n=8, language=language)
    path = new_session(device=device, nodes=1, programs=programs(text))
    assert await run(path, workshop) == "finished"
    (node,) = nodes_of(path)
    assert (node.state, node.outcome, node.library, node.confirmed) == ("scored", "LIBRARY", 1, 0)
    assert node.ratio is not None
    assert node.ratio > 1.5
    target = target_of(path)
    assert (target.best_node, target.confirmed) == (None, 0)
    assert "confirm" not in workshop.calls
    # Nor does it after the session was taken up again.
    assert await run(path, workshop) == "finished"
    assert target_of(path).best_node is None


async def stop_at(path: Path, workshop: Landscape, verb: str, count: int) -> None:
    """Run until a verb was asked so often, then let the engine die."""
    engine, session = await engine_on(path, workshop)
    task = asyncio.create_task(engine.run())
    async with asyncio.timeout(20):
        while workshop.calls.get(verb, 0) < count and not task.done():
            await asyncio.sleep(0.002)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    session.close()


ONCE = {
    "calibrate",
    "baseline",
    "confirm",
    "against",
    "sanitize",
}  # a good engine asks no second time


@pytest.mark.parametrize("verb", ["calibrate", "baseline", "build", "check", "measure", "confirm",
                                  "against", "sanitize"])  # fmt: skip
async def test_an_engine_that_dies_anywhere_leaves_each_program_judged_once(verb: str) -> None:
    path = cuda_session(*numbers(1, 2, 4))
    for count in (1, 2):
        await stop_at(path, Landscape(pace_s=0.01), verb, 1 if verb in ONCE else count)
    assert await run(path, Landscape()) == "finished"
    nodes = nodes_of(path)
    assert [(node.id, node.state, node.title) for node in nodes] == [
        (1, "scored", "Idea 1"), (2, "scored", "Idea 2"), (3, "scored", "Idea 4"),
    ]  # fmt: skip
    target = target_of(path)
    assert target.confirmed == 1
    assert set(target.baselines or {}) == {"eager", "compile", "compile-max"}


async def test_a_gpu_that_is_lost_stops_the_search_in_order_and_it_goes_on_later() -> None:
    class Lost(Landscape):
        async def measure(self, target: int, library: str, bound: Any) -> dict[str, Any]:
            raise MachineError("the GPU fell off the bus", "reset it", code="gpu-lost")

    path = cuda_session(*numbers(1, 2))
    assert await run(path, Lost()) == "failed"
    with SessionReader(path) as reader:
        assert reader.session().stop_reason == "the GPU fell off the bus; reset it"
    assert [node.state for node in nodes_of(path)] == ["live"]
    assert await run(path, Landscape()) == "finished"
    assert [(node.state, node.attempts) for node in nodes_of(path)] == [("scored", 1)] * 2


async def test_one_that_was_pruned_while_in_work_is_not_taken_up() -> None:
    path = cuda_session(*numbers(1, 2))
    engine, session = await engine_on(path, Landscape(pace_s=0.1))
    task = asyncio.create_task(engine.run())
    while not nodes_of(path):
        await asyncio.sleep(0.01)
    commands.send(path, "prune", node=1)
    async with asyncio.timeout(20):
        assert await task == "finished"
    session.close()
    assert [node.state for node in nodes_of(path)] == ["dropped", "scored"]
