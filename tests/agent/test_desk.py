"""Writers without a model on a synthetic landscape: an inbox that is answered, a recording."""

from __future__ import annotations

import asyncio
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from agent.writers.inbox import Inbox
from agent.writers.offline import Posted, Recorded
from agent.writers.replay import Replay
from store import commands
from store.machine import MachineStore
from store.reading import SessionReader
from store.rebuild import rebuild
from tests.agent.landscape import CUDA_REPLY, PLACES, REPLY, Landscape, engine_on, new_session, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent.writers.offline import Offline
    from store.writing import SessionWriter

pytestmark = pytest.mark.usefixtures("home")


def posted(folder: Path) -> Callable[[SessionWriter], Offline]:
    def make(session: SessionWriter) -> Offline:
        return Posted(Inbox(folder, "toy", poll_s=0.002))

    return make


async def answering(folder: Path, template: str, asked: list[str], count: int = 10**6) -> None:
    """Somebody who answers prompts, each with another program, for as long as they are asked."""
    while len(asked) < count:
        for page in sorted(folder.glob("*.md")):
            if page.name.endswith(".reply.md") or page.name in asked:
                continue
            asked.append(page.name)
            done = page.with_name("coming")
            done.write_text(template.format(n=len(asked)))
            done.rename(page.with_suffix(".reply.md"))
        await asyncio.sleep(0.002)


async def searched(path: Path, folder: Path, template: str = REPLY) -> tuple[str, list[str]]:
    asked: list[str] = []
    somebody = asyncio.create_task(answering(folder, template, asked))
    workshop = Landscape(sol_ns=1)
    workshop.refusal = "it cannot" if template == CUDA_REPLY else None
    try:
        return await asyncio.wait_for(run(path, workshop, offline=posted(folder)), 60), asked
    finally:
        somebody.cancel()


async def test_prompts_are_answered_by_files_and_the_best_of_them_is_confirmed(
    tmp_path: Path,
) -> None:
    path, folder = new_session(inbox="inbox", nodes=12, drafts=2, parallel=3), tmp_path / "inbox"
    state, asked = await searched(path, folder)
    assert state == "finished"
    with SessionReader(path) as reader:
        nodes, calls, (target,) = reader.nodes(), reader.calls(), reader.targets()
        shown = rebuild(reader.events())
        prompt = reader.prompt(calls[0].prompt or "")
        reply = reader.reply(calls[0].id)
    assert len(nodes) == 12
    assert [node.writer for node in nodes[:2]] == ["drafter", "drafter"]
    assert {node.writer for node in nodes[2:]} == {"inbox"}
    assert len(asked) == len(calls) == 10
    assert {call.state for call in calls} == {"answered"}
    assert {call.micro_dollars for call in calls} == {None}
    assert target.confirmed == 1
    assert {node.step for node in nodes if node.action == "improve"} <= {"small", "large"}
    assert prompt is not None
    assert "x" in prompt.user
    assert reply is not None
    assert reply.text.startswith("Idea")
    assert shown is not None
    assert not list(folder.glob("*.md"))
    assert len(list((folder / "answered").glob("*.reply.md"))) == 10


async def test_a_cuda_search_needs_no_drafter(tmp_path: Path) -> None:
    path = new_session(inbox="inbox", nodes=5, device="cuda")
    state, asked = await searched(path, tmp_path / "inbox", CUDA_REPLY)
    assert state == "finished"
    assert len(asked) == 5
    with SessionReader(path) as reader:
        assert {node.writer for node in reader.nodes()} == {"inbox"}
        first = reader.prompt(reader.calls()[0].prompt or "")
    assert first is not None
    assert "compile-max" in first.user  # what there is to beat was measured before


async def test_a_session_ends_when_it_waits_and_goes_on_elsewhere(tmp_path: Path) -> None:
    path = new_session(inbox="inbox", nodes=4, drafts=0, parallel=2, exit_when_waiting=True)
    folder = tmp_path / "inbox"
    assert await run(path, Landscape(sol_ns=1), offline=posted(folder)) == "stopped"
    with SessionReader(path) as reader:
        assert reader.session().stop_reason == f"it waits for 2 replies in {folder}"
        assert [node.state for node in reader.nodes()] == ["live", "live"]
    pages = sorted(folder.glob("*.md"))
    assert [page.name for page in pages] == ["0001-draft-toy-task.md", "0002-draft-toy-task.md"]
    moved = tmp_path / "elsewhere"
    shutil.copytree(folder, moved)
    (moved / "0002-draft-toy-task.reply.md").write_text(REPLY.format(n=1))
    assert await run(path, Landscape(sol_ns=1), offline=posted(moved)) == "stopped"
    with SessionReader(path) as reader:
        nodes, calls = reader.nodes(), reader.calls()
    assert [node.state for node in nodes] == ["live", "scored", "live"]
    assert [call.node for call in calls] == [1, 2, 3]  # nothing was asked twice


async def test_a_reply_without_a_plan_is_asked_for_once_more(tmp_path: Path) -> None:
    path = new_session(inbox="inbox", nodes=1, drafts=0)
    folder = tmp_path / "inbox"
    good = REPLY.format(n=1)
    replies = ["I would rather not.", good]

    async def somebody() -> None:
        seen: list[Path] = []
        while replies:
            for page in folder.glob("*.md"):
                if not page.name.endswith(".reply.md") and page not in seen:
                    seen.append(page)
                    page.with_suffix(".reply.md").write_text(replies.pop(0))
            await asyncio.sleep(0.002)

    task = asyncio.create_task(somebody())
    assert await run(path, Landscape(sol_ns=1), offline=posted(folder)) == "finished"
    await task
    with SessionReader(path) as reader:
        (node,), calls = reader.nodes(), reader.calls()
        again = reader.prompt(calls[1].prompt or "")
    assert node.state == "scored"
    assert [call.purpose for call in calls] == ["write", "format"]
    assert again is not None
    assert "I would rather not." in again.user


async def test_two_replies_that_cannot_be_read_fail_the_node_where_it_is_read(
    tmp_path: Path,
) -> None:
    path = new_session(inbox="inbox", nodes=2, drafts=0, parallel=1)
    state, asked = await searched(path, tmp_path / "inbox", "No. {n}")
    assert state == "finished"
    with SessionReader(path) as reader:
        nodes = reader.nodes()
    assert [(node.state, node.rung) for node in nodes] == [("failed", "read")] * 2
    assert len(asked) == 4


async def test_a_closed_branch_withdraws_its_prompt(tmp_path: Path) -> None:
    path = new_session(inbox="inbox", nodes=3, drafts=0, parallel=1)
    folder = tmp_path / "inbox"
    engine, session = await engine_on(path, Landscape(sol_ns=1), None, posted(folder))
    task = asyncio.create_task(engine.run())
    while not list(folder.glob("0001*.md")):
        await asyncio.sleep(0.002)
    commands.send(path, "prune", node=1)
    while not list(folder.glob("0002*.md")):
        await asyncio.sleep(0.002)
    commands.send(path, "stop")
    assert await asyncio.wait_for(task, 20) == "stopped"
    session.close()
    assert [page.name for page in (folder / "withdrawn").iterdir()] == ["0001-draft-toy-task.md"]
    with SessionReader(path) as reader:
        assert [node.state for node in reader.nodes()] == ["dropped", "live"]


async def test_a_hint_is_in_the_prompts_that_follow(tmp_path: Path) -> None:
    path = new_session(inbox="inbox", nodes=2, drafts=1, parallel=1)
    folder = tmp_path / "inbox"
    commands.send(path, "hint", target=1, text="Read each row once.")
    await searched(path, folder)
    with SessionReader(path) as reader:
        (call,) = reader.calls()
        prompt = reader.prompt(call.prompt or "")
        (target,) = reader.targets()
    assert target.hint == "Read each row once."
    assert prompt is not None
    assert "Read each row once." in prompt.user


async def test_what_failed_twice_is_a_rule_for_later_sessions(tmp_path: Path) -> None:
    records = MachineStore(tmp_path / "machine.db")
    key = PLACES["cpu"].key
    for _ in range(2):
        records.learn(key, "cpp", "k", "Never call frobnicate: it is not there.")
    path = new_session(inbox="inbox", nodes=1, drafts=0)
    folder = tmp_path / "inbox"
    asked: list[str] = []
    somebody = asyncio.create_task(answering(folder, REPLY, asked))
    await run(path, Landscape(sol_ns=1), offline=posted(folder), records=records)
    somebody.cancel()
    with SessionReader(path) as reader:
        prompt = reader.prompt(reader.calls()[0].prompt or "")
    assert prompt is not None
    assert "Never call frobnicate" in prompt.user


async def test_a_recording_is_replayed_and_says_so(tmp_path: Path) -> None:
    recorded = [{"target": "toy_task", "action": "draft", "model": "m", "text": REPLY.format(n=n)}
                for n in (1, 2)]  # fmt: skip
    config = {"from": "old", "replies": recorded}
    path = new_session(replay=config, nodes=9)

    def recording(session: SessionWriter) -> Offline:
        return Recorded(Replay(recorded), session)

    assert await run(path, Landscape(sol_ns=1), offline=recording) == "finished"
    with SessionReader(path) as reader:
        nodes = [node for node in reader.nodes() if node.state != "dropped"]
        session = reader.session()
    assert [(node.writer, node.state) for node in nodes] == [("replay", "scored")] * 2
    assert re.search("no more replies", session.stop_reason or "")
