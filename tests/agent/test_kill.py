"""Kill -9 of the real engine and its workers: nothing lost, nothing twice, nobody left behind."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import psutil
import pytest

from store.reading import SessionReader
from store.rebuild import rebuild
from store.sessions import create, inspect

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs a compiler"),
    pytest.mark.usefixtures("home"),
]

TASK = (
    "import torch\n\n\ndef inputs():\n    return (torch.randn(256, 1000),)\n\n\n"
    "def reference(x):\n    return torch.softmax(x * torch.sigmoid(x), -1)\n"
)
NODES = 3
WORKERS = ("author", "builder", "judge", "runner")


def start(path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "agent", "search", str(path)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def family(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def worker(pid: int, name: str) -> psutil.Process | None:
    for process in family(pid):
        try:
            if f"agent.workers.{name}" in process.cmdline():
                return process
        except psutil.Error:
            continue
    return None


def gone(processes: list[psutil.Process]) -> bool:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        left = [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
        if not left:
            return True
        time.sleep(0.05)
    return False


def count(path: Path, kind: str) -> int:
    with SessionReader(path) as reader:
        return sum(event.kind == kind for event in reader.events())


def await_event(path: Path, engine: subprocess.Popen[bytes], kind: str, more_than: int) -> None:
    end = time.monotonic() + 90
    while count(path, kind) <= more_than and engine.poll() is None:
        assert time.monotonic() < end, kind
        time.sleep(0.02)


def test_engines_and_workers_killed_at_any_moment(tmp_path: Path) -> None:
    file = tmp_path / "task.py"
    file.write_text(TASK)
    config = {"tasks": [str(file)], "device": "cpu", "nodes": NODES, "minutes": 5.0, "patience": 50,
              "baselines": ["eager"]}  # fmt: skip
    path = create(str(file), config)
    choose = random.Random(11)
    for kind in ("TargetAdded", "NodeStage", "VariantBuilt"):
        engine = start(path)
        await_event(path, engine, kind, count(path, kind))
        time.sleep(choose.random() / 2)
        children = family(engine.pid)
        engine.kill()
        engine.wait()
        assert engine.returncode == -9, (kind, engine.returncode)
        assert children
        assert gone(children), [process.cmdline() for process in children if process.is_running()]
        assert inspect(path).state == "crashed"
    engine = start(path)
    await_event(path, engine, "TargetMeasured", 0)
    everyone = family(engine.pid)
    for name in WORKERS:
        await_event(path, engine, "NodeStage", count(path, "NodeStage"))
        if engine.poll() is None and (process := worker(engine.pid, name)) is not None:
            everyone += family(process.pid)
            process.kill()
    assert engine.wait(120) == 0
    assert gone(everyone)
    check(path)


def check(path: Path) -> None:
    """The session is whole: every node ended once, and the rows are what the events say."""
    assert [item.name for item in path.parent.iterdir() if item.name.startswith(path.name)] == [
        path.name
    ]
    with SessionReader(path) as reader:
        events, nodes = reader.events(), reader.nodes()
        assert reader.session().state == "finished"
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert [node.id for node in nodes] == list(range(1, len(nodes) + 1))
        ends = Counter(e.node for e in events if e.kind in ("NodeScored", "NodeFailed"))
        assert ends == Counter(node.id for node in nodes)
        again = rebuild(events)
        for table in ("session", "targets", "nodes", "variants", "verdicts"):
            query = f"SELECT * FROM {table} ORDER BY id"
            assert again.execute(query).fetchall() == reader.conn.execute(query).fetchall(), table
        # What was killed from outside is no program's fault.
        assert [node.reason for node in nodes if node.state == "failed"] == []
