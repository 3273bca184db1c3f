"""A whole search as people live it: terminals die, engines die, and nothing is lost or doubled."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from store.lock import engine_alive
from store.reading import SessionReader
from store.rebuild import rebuild
from store.sessions import find, inspect, paths

if TYPE_CHECKING:
    from collections.abc import Callable

NODES = 5
TASK = """import torch


def inputs():
    return torch.randn(32, 600), torch.randn(600)


def reference(x, weight):
    return torch.softmax(x * weight, dim=-1)
"""


def forge(*words: str, code: int | None = 0) -> str:
    """A command without a terminal; its stdout."""
    done = subprocess.run(
        [sys.executable, "-m", "forge_tui", *words],
        capture_output=True, text=True, check=False, timeout=170,
    )  # fmt: skip
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done.stdout


def viewer(*words: str) -> subprocess.Popen[bytes]:
    """A command with a terminal of its own, whose screen nobody reads."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "forge_tui", *words],
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(slave)
    os.set_blocking(master, False)
    process.master = master  # type: ignore[attr-defined]
    return process


def until(condition: Callable[[], Any], seconds: float = 120.0, drain: Any = None) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if drain is not None:
            with contextlib.suppress(OSError):
                os.read(drain.master, 1 << 16)
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    pytest.fail("it did not come to that")


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a compiler")
def test_nothing_is_lost_when_viewers_and_engines_are_killed(home: Path, tmp_path: Path) -> None:
    task = tmp_path / "scaled_softmax.py"
    task.write_text(TASK)

    def nodes() -> list[Any]:
        found = paths()
        if not found:
            return []
        with SessionReader(found[0]) as reader:
            return reader.nodes()

    first = viewer("run", str(task), "--nodes", str(NODES), "--patience", "50")
    until(lambda: any(node.state == "scored" for node in nodes()), drain=first)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    path = find(None)
    assert engine_alive(path)

    second = viewer("attach")
    forge("pause", path.name)
    until(lambda: inspect(path).state == "paused", drain=second)
    os.kill(second.pid, signal.SIGKILL)
    second.wait()
    worst = max((n for n in nodes() if n.state == "scored"), key=lambda node: -node.low)
    assert "closed" in forge("prune", path.name, str(worst.id))
    forge("resume", path.name)
    seen = len(nodes())
    until(lambda: len(nodes()) > seen or inspect(path).state == "finished")

    with SessionReader(path) as reader:
        beat = reader.heartbeat()
    assert beat is not None
    if engine_alive(path):
        os.kill(beat.pid, signal.SIGKILL)
        until(lambda: not engine_alive(path))
        assert inspect(path).state == "crashed"
        before = {node.id: node.program for node in nodes() if node.program}
        forge("resume", path.name)
        until(lambda: not engine_alive(path))
        after = {node.id: node.program for node in nodes()}
        assert before.items() <= after.items()

    assert inspect(path).state == "finished"
    with SessionReader(path) as reader:
        events, rows = reader.events(), reader.nodes()
        (target,) = reader.targets()
    assert [row.id for row in rows] == list(range(1, len(rows) + 1))
    assert len(rows) == NODES
    ends = Counter(
        event.node for event in events if event.kind in ("NodeScored", "NodeFailed", "NodeDropped")
    )
    assert ends == Counter(range(1, NODES + 1))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    again = rebuild(events).execute("SELECT id, state, visits FROM nodes ORDER BY id").fetchall()
    assert again == [(row.id, row.state, row.visits) for row in rows]
    assert rows[worst.id - 1].pruned == 1
    assert target.best_node != worst.id
    assert not Path(f"{path}-wal").exists()
