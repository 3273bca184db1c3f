"""The real engine with a model: no key in anything that it leaves behind, kill -9 in mid-call."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from store.reading import SessionReader
from store.sessions import create
from tests.agent.model_server import fails, in_turn, says, serving

if TYPE_CHECKING:
    from collections.abc import Callable

    from store.rows import CallRow
    from tests.agent.model_server import Server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs a compiler"),
]

SECRET = "sk-verysecretkey0123456789abcdef"
OTHER = "sk-anothersecretkey987654321abcde"
TASK = (
    "import torch\n\n\ndef inputs():\n    return (torch.randn(64, 1000),)\n\n\n"
    "def reference(x):\n    return torch.relu(x) * 2 + 1\n"
)
REPLY = """All three steps in one pass
```cpp
extern "C" void chain(const float* x, float* out, int64_t n) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] > 0 ? 2 * x[i] + 1 : x[i] <= 0 ? 1 : x[i];
}
```
```toml
[[launch]]
kernel = "chain"
args = ["x", "out", "x.numel"]
```
"""


def session(home: Path, server: Server, **config: object) -> Path:
    file = home.parent / "task.py"
    file.write_text(TASK)
    model = server.model("openai/gpt-4o-mini", price=None)
    return create(str(file), {
        "tasks": [str(file)], "device": "cpu", "nodes": 1, "minutes": 5.0, "patience": 50,
        "baselines": ["eager"], "models": [model], "drafts": 0, **config,
    })  # fmt: skip


def start(path: Path, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "agent", "search", str(path)]
    with log.open("ab") as out:
        return subprocess.Popen(
            command,
            stdout=out,
            stderr=out,
            env={**os.environ, "FORGE_API_KEY": SECRET, "OPENAI_API_KEY": OTHER},
        )


def why_ended(path: Path) -> str:
    calls = [(c.node, c.state, c.error, c.attempt) for c in calls_of(path)]
    with SessionReader(path) as reader:
        targets = [target.reason for target in reader.targets()]
        return f"the engine ended: {reader.session().stop_reason}, {targets}, {calls}"


def until(true: Callable[[], bool], engine: subprocess.Popen[bytes], path: Path) -> None:
    end = time.monotonic() + 120
    while not true():
        assert engine.poll() is None, why_ended(path)
        assert time.monotonic() < end
        time.sleep(0.02)


def calls_of(path: Path) -> list[CallRow]:
    with SessionReader(path) as reader:
        return reader.calls()


def environments(pid: int) -> list[str]:
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        try:
            found.append(Path(f"/proc/{child.pid}/environ").read_text())
        except OSError:
            continue
    return found


def test_no_key_is_in_anything_that_a_run_leaves_behind(home: Path, tmp_path: Path) -> None:
    """Nor in what its workers are given. The provider echoes the key, as some do."""
    gate = threading.Event()
    steps = in_turn(
        fails(500, f"internal error for key {SECRET}"),
        says(REPLY, gate=gate),
    )
    log = tmp_path / "engine.log"
    with serving(steps) as server:
        path = session(home, server)
        engine = start(path, log)
        until(lambda: len(server.requests) == 2, engine, path)
        workers = environments(engine.pid)
        gate.set()
        assert engine.wait(120) == 0, log.read_text()
    assert server.requests[0].headers["Authorization"] == f"Bearer {SECRET}"
    assert len(workers) >= 2
    assert not [text for text in workers if "secretkey" in text or "API_KEY" in text]
    with SessionReader(path) as reader:
        (node,) = reader.nodes()
        assert reader.session().state == "finished"
    assert node.state == "scored", node.reason
    places = [file for file in (*home.rglob("*"), log) if file.is_file()]
    assert len(places) >= 4
    for key in (SECRET, OTHER):
        assert not [file for file in places if key.encode() in file.read_bytes()]


def test_a_killed_engine_asks_once_more_and_counts_every_call(home: Path, tmp_path: Path) -> None:
    gate, log = threading.Event(), tmp_path / "engine.log"
    with serving(lambda request: says(REPLY, gate=gate)) as server:
        path = session(home, server, nodes=2, parallel=1)
        for count in (1, 2):
            engine = start(path, log)
            until(lambda count=count: len(server.requests) == count, engine, path)
            engine.kill()
            engine.wait()
            assert [call.state for call in calls_of(path)] == ["lost"] * (count - 1) + ["reserved"]
        gate.set()
        assert start(path, log).wait(120) == 0, log.read_text()
    with SessionReader(path) as reader:
        first, second = reader.nodes()
        calls, spending = reader.calls(), reader.spending()
    # The first node was asked for chain and never more; the search went on.
    assert (first.state, first.code, first.lost) == ("failed", "lost", 2)
    assert second.state == "scored", second.reason
    assert [call.state for call in calls] == ["lost", "lost", "paid"]
    assert len(server.requests) == 3
    lost = [call.reserved or 0 for call in calls[:2]]
    assert spending.micro_dollars == sum(lost) + (calls[2].micro_dollars or 0)
    assert first.micro_dollars == sum(lost) > 0
