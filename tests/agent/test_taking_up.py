"""Ends that are no ends: engines cancelled, failed for want of something, and taken up again."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from agent.errors import MachineError, TaskError
from store.reading import SessionReader
from tests.agent.landscape import Landscape, engine_on, new_session, run

pytestmark = pytest.mark.usefixtures("home")


async def test_an_engine_that_is_cancelled_leaves_no_step_at_work_behind() -> None:
    path, faults = new_session(nodes=3), []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    engine, session = await engine_on(path, Landscape(pace_s=0.02))
    task = asyncio.create_task(engine.run())
    reader = SessionReader(path)
    async with asyncio.timeout(20):
        while not reader.nodes():
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    session.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not others
    await asyncio.sleep(0.1)
    gc.collect()
    assert faults == []


async def test_a_session_killed_between_its_targets_loads_the_rest() -> None:
    class Dying(Landscape):
        async def load(self, target: int, task: Any) -> dict[str, Any]:
            if target == 2:
                raise MachineError("out of memory", "buy some")
            return await super().load(target, task)

    path = new_session(nodes=2)
    with SessionReader(path) as reader:
        (task,) = reader.session().config["tasks"]
    path = new_session(nodes=2, tasks=[task, task])
    with pytest.raises(MachineError):
        await run(path, Dying())
    with SessionReader(path) as reader:
        assert [target.state for target in reader.targets()] == ["open"]
        session = reader.session()
    assert (session.state, session.stop_reason) == ("failed", "out of memory; buy some")
    assert await run(path, Landscape()) == "finished"
    with SessionReader(path) as reader:
        assert [target.code for target in reader.targets()] == ["nodes", "nodes"]


async def test_a_refused_task_can_be_mended_and_the_session_taken_up() -> None:
    class Refusing(Landscape):
        async def load(self, target: int, task: Any) -> dict[str, Any]:
            raise TaskError("it is random", "seed it", code="task-random")

    path = new_session(nodes=2)
    with pytest.raises(TaskError):
        await run(path, Refusing())
    assert await run(path, Landscape()) == "finished"
    with SessionReader(path) as reader:
        assert [target.code for target in reader.targets()] == ["nodes"]
