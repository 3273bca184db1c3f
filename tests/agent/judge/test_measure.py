from __future__ import annotations

import time

import pytest

from agent.judge.measure import QUIET, Taken, copies_needed, measured
from agent.judge.process import task_places
from agent.task import TaskSource
from tests.agent.judge.conftest import COLUMNS, ROWS, plan
from tests.agent.judge.programs import HEAD, RELU, SOFTMAX

PLAN = plan("x", "out", ROWS, COLUMNS)


def test_eager_against_itself_is_the_same(bench):
    found = bench.judge.identity(bench.target("softmax"))
    assert found.verdict in ("SAME", "UNSURE")
    assert found.low < 1.1
    assert found.high > 0.9
    assert found.allocator == "pages kept"


def quiet(bench, source):
    """A measurement taken while others left the machine alone."""
    for _ in range(4):
        found = bench.measure("softmax", source, PLAN)
        if found.others < QUIET:
            return found
        time.sleep(1)
    pytest.skip("others use this machine")


def test_nothing_is_claimed_while_others_use_the_machine():
    def verdict(**more):
        taken = Taken(samples=[(200.0, 100.0)] * 20, **more)
        return measured(taken, 0, "", 0.0, None).verdict

    assert verdict() == "FASTER"
    assert verdict(others=0.6) == "UNSURE"
    assert verdict(conditions={"disturbed": "process 7 uses 40 % of the GPU"}) == "UNSURE"
    assert verdict(conditions={"disturbed": ""}) == "FASTER"


def test_device_and_call_time_stay_apart():
    taken = Taken(samples=[(200.0, 100.0)] * 20, calls=[(900.0, 600.0)] * 9, timing="device")
    found = measured(taken, 0, "", 0.0, None)
    assert (found.timing, found.ns, found.eager_ns) == ("device", 100, 200)
    assert (found.call_ns, found.eager_call_ns) == (600, 900)
    assert (found.ratio, found.call_ratio) == (2.0, 1.5)
    events = measured(Taken(samples=[(200.0, 100.0)] * 20, timing="events"), 0, "", 0.0, None)
    assert (events.timing, events.how, events.call_ns) == ("device", "events", None)


def test_doing_the_work_many_times_is_slower(bench):
    loop = "for (int64_t r = 0;"
    often = SOFTMAX.replace(loop, f"for (int k = 0; k < 8; ++k)\n{loop}")
    often = often.replace("#pragma omp parallel for\n", "")
    once = quiet(bench, SOFTMAX.replace("#pragma omp parallel for\n", ""))
    many = quiet(bench, often)
    assert once.failure is None
    assert many.failure is None
    assert many.verdict == "SLOWER"
    assert many.ratio < once.ratio / 3
    assert many.low <= many.ratio <= many.high
    assert len(many.samples) >= 15
    assert many.ns > many.eager_ns > 0


def test_a_result_is_json_and_says_under_what(bench):
    found = bench.measure("relu", RELU, PLAN).to_json()
    assert {"ns", "eager_ns", "ratio", "low", "high", "samples", "verdict", "others"} <= set(found)
    assert "cores" in found["machine"]


def test_a_screening_is_short(bench):
    library = bench.build(RELU)
    found = bench.judge.screen(bench.target("relu"), library, PLAN, 50)
    assert found.failure is None
    assert found.ns > 0


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        # Timed tensors are not where checked ones are: a program that tells by the guard bands.
        ("!(x[-1] != x[-1] && x[n] != x[n])", "wrong-when-timed"),
    ],
)
def test_what_is_right_only_when_checked_is_found(bench, condition, code):
    source = HEAD % (
        "const int64_t n = rows * cols;\n"
        f"const bool timed = {condition};\n"
        "for (int64_t i = 0; i < n; ++i) out[i] = timed && i >= n / 2 ? 1 : "
        "x[i] < 0 ? 0.0f : x[i];"
    )
    assert bench.check("relu", source, PLAN).failure is None
    found = bench.measure("relu", source, PLAN)
    assert found.failure.code == code
    assert found.failure.rung == "measure"
    assert found.verdict == ""


def test_crashes_and_hangs_while_timing_are_failures(bench):
    trap = RELU.replace("for (", "if (!(x[-1] != x[-1])) __builtin_trap();\nfor (", 1)
    assert bench.measure("relu", trap, PLAN).failure.code == "crashed"
    assert bench.measure("relu", RELU, PLAN).failure is None


def test_a_time_under_the_floor_is_turned_down(bench):
    target = bench.target("relu")
    known = bench.judge._floors.get(target, 0)
    bench.judge._floors[target] = 10**9
    try:
        found = bench.measure("relu", RELU, PLAN)
    finally:
        bench.judge._floors[target] = known
    assert found.failure.code == "below-floor"


def test_calibration_orders_floor_sol_and_eager(bench, tmp_path):
    target = bench.target("softmax")
    machine = str(tmp_path / "machine.db")
    first = bench.judge.calibrate(target, machine, str(bench.cache))
    again = bench.judge.calibrate(target, machine, str(bench.cache))
    assert 0 <= first.floor_ns < first.sol_ns < first.eager_ns * 3
    # What was taken while others worked is not kept.
    assert again.sol_ns == first.sol_ns or first.detail["stream"]["others"] >= QUIET
    assert first.detail["facts"]["cores"] >= 1
    assert first.detail["sandbox"]["openmp"].startswith("libgomp")


def test_a_task_may_import_from_its_own_folder(bench, tmp_path):
    (tmp_path / "helper.py").write_text("SCALE = 3\n")
    (tmp_path / "secret.txt").write_text("key")
    text = (
        "import torch\nfrom helper import SCALE\n"
        "def reference(x):\n    return x * SCALE\n"
        "def inputs():\n    return [torch.randn(50, 50)]\n"
    )
    path = tmp_path / "task.py"
    path.write_text(text)
    bench.judge.load(99, TaskSource("plain", "task", str(path), text, "cpu"), 1)
    assert bench.judge.identity(99).failure is None
    read, folders = task_places(str(path))
    assert sorted(read) == [str(tmp_path / "helper.py"), str(path)]
    assert folders == [str(tmp_path)]
    assert task_places("") == ([], [])


def test_copies_exceed_twice_the_caches():
    assert copies_needed(1 << 20, 1 << 20, 4) * (1 << 20) > 2 * 4 * (1 << 20)
    assert copies_needed(1 << 30, 1 << 20, 4) == 1
