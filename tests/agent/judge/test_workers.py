"""The judge and the builder as the engine meets them: processes and JSON lines."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
import time

import psutil
import pytest

from agent.errors import BuildError
from agent.judge.process import sweep_scratch
from agent.task import TaskSource
from agent.workers.client import Worker
from agent.workers.workshop import worker_environment
from tests.agent.judge.conftest import COLUMNS, ROWS, TASKS, plan
from tests.agent.judge.programs import RELU

HEAD = "#include <cmath>\n#include <cstdint>\n#include <algorithm>\n"


async def test_build_check_and_measure_through_workers(tmp_path, tmp_path_factory):
    cache = str(tmp_path_factory.getbasetemp() / "cache")
    log = tmp_path / "log"
    environment = {**worker_environment(), "SECRET_API_KEY": "secret"}
    builder = Worker("agent.workers.builder", log, environment)
    judge = Worker("agent.workers.judge", log, environment)
    try:
        args = {"source": HEAD + RELU, "values": {}, "kernels": ["kernel"], "cache": cache}
        built = await builder.call("build", args, 60)
        with pytest.raises(BuildError) as caught:
            await builder.call("build", {**args, "source": "#include <cstdio>"}, 60)
        assert caught.value.evidence["rung"] == "read"
        task = TaskSource("plain", "relu", "", TASKS["relu"], "cpu").to_json()
        await judge.call("load", {"target": 3, "task": task, "seed": 1}, 60)
        bound = plan("x", "out", ROWS, COLUMNS)
        request = {"target": 3, "library": built["library"], "bound": bound}
        checked = await judge.call("check", request, 60)
        assert checked["failure"] is None
        assert checked["families"][0]["family"] == "normal"
        measured = await judge.call("measure", {**request, "budget_ms": 100}, 60)
        assert measured["failure"] is None
        await _no_secret_and_no_survivor(judge)
    finally:
        await builder.kill()
        await judge.kill()


async def _no_secret_and_no_survivor(judge: Worker) -> None:
    process = psutil.Process(judge._process.pid)
    (runner,) = [child for child in process.children() if "runner" in " ".join(child.cmdline())]
    with contextlib.suppress(psutil.AccessDenied):  # perhaps not even we may look into it
        assert "SECRET_API_KEY" not in runner.environ()
    os.kill(process.pid, signal.SIGKILL)
    end = time.monotonic() + 5
    while runner.is_running() and runner.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end, "the runner outlives the judge"
        await asyncio.sleep(0.05)


def test_what_a_killed_judge_leaves_is_swept(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gone, ours = tmp_path / "forge-runner-4194304-x", tmp_path / f"forge-runner-{os.getpid()}-x"
    gone.mkdir()
    ours.mkdir()
    sweep_scratch()
    assert ours.exists()
    assert not gone.exists()
