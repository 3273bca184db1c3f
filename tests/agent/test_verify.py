"""One program without a session: every rung is said, and the last line is the verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.errors import MachineError
from agent.task import TaskSource, open_task
from agent.verify import Ladder
from tests.agent.landscape import (
    CUDA_REPLY,
    LIBRARY_REPLY,
    PLACES,
    REPLY,
    Landscape,
    matrix_spec,
)

pytestmark = pytest.mark.usefixtures("home")


def toy(device: str) -> TaskSource:
    return open_task(str(Path(__file__).with_name("toy_task.py")), device)


async def climb(
    reply: str, workshop: Landscape | None = None, device: str = "cpu"
) -> tuple[int, list[dict[str, Any]]]:
    lines: list[dict[str, Any]] = []
    ladder = Ladder(workshop or Landscape(), PLACES[device], lines.append)
    code = await ladder.climb(toy(device), reply)
    assert json.loads(json.dumps(lines, allow_nan=False)) == lines
    return code, lines


def rungs(lines: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    return [(line["rung"], line["ok"]) for line in lines if "rung" in line]


PASSED = [(rung, True) for rung in ("read", "build", "check", "measure", "confirm")]


async def test_a_good_program_passes_every_rung() -> None:
    code, lines = await climb(REPLY.format(n=1))
    assert (code, rungs(lines)) == (0, PASSED)
    assert lines[-1] == {"verdict": {"ok": True, "outcome": "FASTER"}}
    read, build, check, measure, confirm = [line for line in lines if "rung" in line]
    assert (read["language"], read["steps"], read["variants"]) == ("cpp", 1, 3)
    assert build["values"] == {"UNROLL": 1}
    assert check["families"][0]["family"] == "normal"
    assert (measure["against"], set(measure["baselines"])) == ("compile", {"eager", "compile"})
    # Only the last line has a verdict: that is how a listener tells it.
    assert [line for line in lines if "verdict" in line] == [lines[-1]]
    assert (measure["outcome"], confirm["outcome"]) == ("FASTER", "FASTER")
    assert measure["gain"] == pytest.approx(measure["ratio"] / 1.2)
    assert measure["sol_fraction"] == pytest.approx(measure["ratio"] / 8)
    assert confirm["against"]["direct"] is False
    assert next(line for line in lines if "spec" in line)["spec"]["device"] == "cpu"
    assert [line["baseline"] for line in lines if "baseline" in line] == ["compile"]


async def test_on_a_gpu_it_is_compared_directly_and_sanitized() -> None:
    code, lines = await climb(CUDA_REPLY.format(n=1), device="cuda")
    assert (code, rungs(lines)) == (0, PASSED)
    confirm = lines[-2]
    assert (confirm["against"]["name"], confirm["against"]["direct"]) == ("compile-max", True)
    assert confirm["sanitizer"] == {"memcheck": "clean"}
    workshop = Landscape()
    workshop.sanitizer = {"memcheck": "1 error: out of bounds"}
    code, lines = await climb(CUDA_REPLY.format(n=1), workshop, "cuda")
    assert (code, rungs(lines)) == (1, [*PASSED[:-1], ("confirm", False)])
    assert lines[-2]["reason"] == "memcheck: 1 error: out of bounds"


@pytest.mark.parametrize(
    ("reply", "rung", "code"),
    [
        ("nothing", "read", "reply"),
        (REPLY.format(n=1).replace('"out"', '"nowhere"'), "read", None),
        (REPLY.format(n=3), "build", "compiler"),
        (REPLY.format(n=5), "check", "wrong"),
    ],
)
async def test_the_first_rung_that_fails_ends_it(reply: str, rung: str, code: str | None) -> None:
    ended, lines = await climb(reply)
    assert ended == 1
    assert rungs(lines)[-1] == (rung, False)
    failed, verdict = lines[-2:]
    assert failed["reason"]
    assert code is None or failed["code"] == code
    assert verdict == {"verdict": {"ok": False, "outcome": "FAILED"}}


async def test_a_slow_program_passes_and_library_calls_are_told() -> None:
    slow = Landscape()
    slow.scale = 0.1
    code, lines = await climb(REPLY.format(n=1), slow)
    assert (code, lines[-1]["verdict"]["outcome"]) == (0, "SLOWER")
    library = Landscape()
    library.spec = matrix_spec()
    code, lines = await climb(LIBRARY_REPLY.format(n=8, language="cpp"), library)
    assert (code, lines[-1]["verdict"]["outcome"]) == (0, "LIBRARY")


async def test_a_fault_of_the_machines_is_no_verdict() -> None:
    class Lost(Landscape):
        async def check(self, target: int, library: str, bound: Any) -> dict[str, Any]:
            raise MachineError("the GPU fell off the bus", "reset it", code="gpu-lost")

    with pytest.raises(MachineError):
        await climb(REPLY.format(n=1), Lost())


def spoken(*args: str, **env: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "agent", *args], capture_output=True, text=True, timeout=60,
        check=False, env={**os.environ, **env},
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("suite:softmax", "missing.md"), "no-program"),
        (("suite:softmaxx", "missing.md"), "task-suite-name"),
        (("suite:softmax", "missing.md", "--device", "tpu"), "device-unknown"),
    ],
)
def test_what_cannot_be_judged_at_all_is_an_error_with_a_cure(
    args: tuple[str, ...], code: str
) -> None:
    ended, last = spoken("verify", *args)
    assert (ended, last["error"]["code"]) == (1, code)
    assert last["error"]["cure"]


def test_words_that_are_no_verb_are_answered_with_how_to_use_it() -> None:
    ended, last = spoken("verify", "suite:softmax")
    assert ended == 2
    assert "verify TASK FILE" in last["error"]["message"]
