"""Confirming a win: the second measurement, the fastest baseline, the sanitizer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from agent.confirm import composed
from agent.errors import WorkerError
from store.reading import SessionReader
from tests.agent.landscape import CUDA_REPLY, Landscape, new_session, programs, run

if TYPE_CHECKING:
    from pathlib import Path

    from store.rows import NodeRow

pytestmark = pytest.mark.usefixtures("home")

BASELINES: dict[str, dict[str, Any]] = {
    "eager": {"ns": 1, "call_ns": 1},
    "compile": {"ratio": 2.0, "low": 1.6, "high": 2.2},
    "compile-max": {"error": "no Triton"},
}


def confirmed(path: Path) -> NodeRow:
    with SessionReader(path) as reader:
        return next(node for node in reader.nodes() if node.confirmed)


def cuda_session() -> Path:
    return new_session(device="cuda", programs=programs(CUDA_REPLY.format(n=1)))


def test_a_ratio_of_ratios_has_the_uncertainty_of_both() -> None:
    answer = {"ratio": 3.0, "low": 2.7, "high": 3.3}
    found = composed(answer, "compile", BASELINES)
    assert (found["ratio"], found["direct"]) == (1.5, False)
    down = math.hypot(math.log(3.0 / 2.7), math.log(2.2 / 2.0))
    up = math.hypot(math.log(3.3 / 3.0), math.log(2.0 / 1.6))
    assert found["low"] == pytest.approx(1.5 * math.exp(-down))
    assert found["high"] == pytest.approx(1.5 * math.exp(up))
    # Wider than either, narrower than the worst of both together.
    assert 2.7 / 2.2 < found["low"] < 1.5 * 2.7 / 3.0
    assert 1.5 * 2.0 / 1.6 < found["high"] < 3.3 / 1.6


def test_against_eager_the_measurement_itself_is_the_comparison() -> None:
    answer = {"ratio": 3.0, "low": 2.7, "high": "inf"}
    assert composed({**answer, "high": 3.3}, "eager", {}) == {
        "name": "eager", "ratio": 3.0, "low": 2.7, "high": 3.3, "direct": True,
    }  # fmt: skip
    assert math.isfinite(composed(answer, "compile", BASELINES)["high"])


async def test_on_a_cpu_the_fastest_baseline_is_compared_with_by_way_of_eager() -> None:
    path, workshop = new_session(nodes=4), Landscape()
    await run(path, workshop)
    node = confirmed(path)
    assert node.against is not None
    assert (node.against["name"], node.against["direct"]) == ("compile", False)
    assert node.ratio is not None
    assert node.against["ratio"] == pytest.approx(node.ratio / 1.2)
    assert node.sanitizer is None
    assert {"against", "sanitize"} & workshop.calls.keys() == set()


async def test_on_a_gpu_it_is_compared_with_directly_and_the_sanitizer_looks() -> None:
    path, workshop = cuda_session(), Landscape()
    workshop.sanitizer = {"memcheck": "clean", "racecheck": "skipped: it took too long"}
    await run(path, workshop)
    node = confirmed(path)
    assert node.against == {
        "name": "compile-max", "ratio": 1.5, "low": 1.4, "high": 1.6, "direct": True,
    }  # fmt: skip
    assert (node.confirmed, node.sanitizer) == (1, workshop.sanitizer)


async def test_what_the_sanitizer_finds_refuses_the_win() -> None:
    path, workshop = cuda_session(), Landscape()
    workshop.sanitizer = {"memcheck": "2 errors: an access of 4 bytes is out of bounds"}
    await run(path, workshop)
    node = confirmed(path)
    assert (node.confirmed, node.sanitizer) == (-1, workshop.sanitizer)
    with SessionReader(path) as reader:
        (target,) = reader.targets()
        (event,) = [event for event in reader.events() if event.kind == "NodeConfirmed"]
    assert event.payload["reason"] == "memcheck: 2 errors: an access of 4 bytes is out of bounds"
    assert (event.payload["ok"], event.payload["outcome"]) == (False, "FAILED")
    assert target.best_node is None


async def test_what_cannot_be_had_is_told_and_refuses_nothing() -> None:
    class Without(Landscape):
        async def against(self, target: int, name: str, library: str, bound: Any) -> dict[str, Any]:
            raise WorkerError("it hung", code="worker-timeout")

    path, workshop = cuda_session(), Without()
    workshop.sanitizer = None
    await run(path, workshop)
    node = confirmed(path)
    assert node.confirmed == 1
    assert node.against is not None
    assert (node.against["name"], node.against["direct"]) == ("compile-max", False)
    assert node.sanitizer == {"memcheck": "skipped: this worker has no verb sanitize"}
