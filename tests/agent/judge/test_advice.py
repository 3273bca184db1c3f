"""Advice: each finding where its numbers are, and none where the program is as fast as can be."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agent.devices.cuda.arches import limits_of
from agent.judge.advice import MOST, Finding, Measurement, advise
from agent.judge.counter_findings import counter_findings
from agent.judge.counters import KernelCounters
from agent.judge.plan_bytes import plan_bytes
from agent.task import ArgSpec, OutputSpec, TargetSpec

FACTS = limits_of(9, 0)
ROWS, COLUMNS = 8192, 4096
SIZE = ROWS * COLUMNS * 4
SPEC = TargetSpec(
    "softmax", "cuda", (ArgSpec("x", "input", "float32", (ROWS, COLUMNS), (COLUMNS, 1)),), {},
    (OutputSpec("out", "float32", (ROWS, COLUMNS), (COLUMNS, 1)),), SIZE, SIZE, 0, "",
)  # fmt: skip
X, OUT = {"tensor": "x"}, {"tensor": "out"}


def launch(kernel: str = "k", args: Any = (X, OUT), **changes: Any) -> dict[str, Any]:
    return {
        "kernel": kernel, "args": list(args), "grid": [132 * 8 * 20, 1, 1], "block": [256, 1, 1],
        "shared": 0, "cluster": None, "cooperative": False, **changes,
    }  # fmt: skip


def plan(*steps: Any, scratch: Any = ()) -> dict[str, Any]:
    return {"scratch": list(scratch), "tensormaps": [], "steps": list(steps)}


GOOD = {"registers": 32, "shared": 0, "local": 0, "spill_stores": 0, "spill_loads": 0}
WIDE = {"load_bytes": 16, "store_bytes": 16, "loads": {"16": 4}, "atomics": 0}


def measured(bound: Any, kernel: Any = GOOD, access: Any = WIDE, **changes: Any) -> Measurement:
    names = [step["kernel"] for step in bound["steps"] if "kernel" in step]
    detail = {"kernels": dict.fromkeys(names, kernel), "access": dict.fromkeys(names, access)}
    made = Measurement(SPEC, bound, detail, FACTS, 200_000, 66_000)
    return replace(made, **changes)


def names(found: list[Finding]) -> list[str]:
    return [item.name for item in found]


def one(found: list[Finding], name: str) -> Finding:
    (item,) = [item for item in found if item.name == name]
    return item


def test_a_program_without_faults_gets_no_advice() -> None:
    assert advise(measured(plan(launch()))) == []


def test_at_the_speed_of_light_there_is_one_thing_to_say() -> None:
    bad = {**GOOD, "spill_loads": 8}
    assert names(advise(measured(plan(launch()), bad, ns=68_000))) == ["near-sol"]


def test_without_build_facts_the_plan_alone_speaks() -> None:
    found = advise(measured(plan(launch(), launch()), detail={}))
    assert names(found) == ["bytes-moved", "single-pass"]


@pytest.mark.parametrize(
    ("kernel", "name", "evidence"),
    [
        ({"spill_stores": 16, "spill_loads": 24}, "spills", "16 bytes stored and 24 loaded"),
        ({"local": 128}, "local-memory", "128 bytes a thread"),
        ({"registers": 168}, "occupancy", "8 warps on an SM (12 %), limited by 168 registers"),
        ({"shared": 100_000}, "occupancy", "limited by 100000 bytes of shared memory"),
    ],
)
def test_what_the_compiler_says(kernel: dict[str, int], name: str, evidence: str) -> None:
    item = one(advise(measured(plan(launch()), {**GOOD, **kernel})), name)
    assert evidence in item.evidence
    assert item.suggestion


def test_low_occupancy_is_no_matter_where_the_copy_engine_works() -> None:
    mapped = launch(args=[{"tensormap": "m"}, OUT])
    bound = {**plan(mapped), "tensormaps": [{"name": "m", "tensor": "x"}]}
    narrow = {**WIDE, "load_bytes": 4, "store_bytes": 4}
    assert advise(measured(bound, {**GOOD, "registers": 168}, narrow)) == []


def test_narrow_loads_where_the_rows_allow_wide_ones() -> None:
    narrow = {**WIDE, "load_bytes": 4}
    item = one(advise(measured(plan(launch()), access=narrow)), "narrow-access")
    assert (item.finding, "rows of x" in item.evidence) == ("k reads 4 bytes at a time", True)
    odd = replace(SPEC, args=(ArgSpec("x", "input", "float32", (ROWS, COLUMNS), (COLUMNS + 1, 1)),))
    assert advise(measured(plan(launch()), access=narrow, spec=odd)) == []
    unaligned = replace(SPEC, args=(replace(SPEC.args[0], alignment=4),))
    assert advise(measured(plan(launch()), access=narrow, spec=unaligned)) == []


def test_blocks_that_leave_the_gpu_idle() -> None:
    item = one(advise(measured(plan(launch(grid=[33, 1, 1])))), "few-blocks")
    assert item.evidence == "33 blocks on 132 SMs"
    small = replace(SPEC, read_bytes=1 << 14, write_bytes=1 << 14)
    assert "few-blocks" not in names(
        advise(measured(plan(launch(grid=[33, 1, 1])), spec=small, ns=9000, sol_ns=4000))
    )


def test_a_last_wave_that_is_nearly_empty() -> None:
    # 132 SMs x 8 blocks of 256 threads at once.
    item = one(advise(measured(plan(launch(grid=[1100, 1, 1])))), "tail-effect")
    assert "1.04 waves, the last one filled to 4 %" in item.evidence
    assert "tail-effect" not in names(advise(measured(plan(launch(grid=[1056, 1, 1])))))


def test_many_steps_of_a_short_call() -> None:
    scratch = {"name": "s", "dtype": "float32", "shape": [ROWS], "zero": True}
    first = launch("a", [X, {"tensor": "s"}])
    bound = plan(first, launch("b", [{"tensor": "s"}, OUT]), scratch=[scratch])
    found = advise(measured(bound, ns=8_000, sol_ns=3_000))
    assert "3 steps a call" in one(found, "launch-count").evidence
    assert "launch-count" not in names(advise(measured(bound)))


def test_bytes_beyond_the_least() -> None:
    scratch = {"name": "s", "dtype": "float32", "shape": [ROWS, COLUMNS], "zero": False}
    bound = plan(
        launch("a", [X, {"tensor": "s"}]), launch("b", [X, {"tensor": "s"}, OUT]), scratch=[scratch]
    )
    moved = plan_bytes(SPEC, bound)
    assert (moved.least, moved.extra, moved.scratch) == (2 * SIZE, 3 * SIZE, 2 * SIZE)
    found = advise(measured(bound))
    assert one(found, "bytes-moved").evidence.startswith(
        "at least 671.1 MB where 268.4 MB would do"
    )
    item = one(found, "single-pass")
    assert (item.finding, "row of 16384 bytes" in item.evidence) == ("x is read by 2 steps", True)


def test_a_gathered_table_is_not_taken_for_read_twice() -> None:
    table = ArgSpec("w", "weight", "float32", (ROWS, COLUMNS), (COLUMNS, 1))
    spec = replace(SPEC, args=(table,), read_bytes=SIZE // 100)
    given = [{"tensor": "w"}, OUT]
    assert plan_bytes(spec, plan(launch(args=given), launch(args=given))).again == {}


def test_atomics_and_the_library() -> None:
    item = one(advise(measured(plan(launch()), access={**WIDE, "atomics": 2})), "atomics")
    assert item.evidence.startswith("2 atomic instructions")
    call = {"call": "matmul", "args": [X, X], "to": "y"}
    square = replace(
        SPEC,
        args=(ArgSpec("x", "input", "float32", (4096, 4096), (4096, 1)),),
        outputs=(OutputSpec("out", "float32", (4096, 4096), (4096, 1)),),
    )
    bound = plan(call, launch(args=[{"tensor": "y"}, OUT]))
    found = advise(measured(bound, spec=square, step_ns={"matmul": 150_000, "k": 50_000}))
    assert "about 75 %" in one(found, "library-share").evidence


def test_the_worst_comes_first_and_the_list_ends() -> None:
    bad = {**GOOD, "registers": 200, "spill_loads": 8}
    narrow = {**WIDE, "load_bytes": 2, "store_bytes": 2, "atomics": 1}
    steps = [launch(str(number), grid=[1100, 1, 1]) for number in range(9)]
    found = advise(measured(plan(*steps), bad, narrow, ns=30_000, sol_ns=20_000))
    assert len(found) == MOST
    weights = [item.weight for item in found]
    assert weights == sorted(weights, reverse=True)
    assert json.dumps([item.to_json() for item in found])
    assert found[0].to_json().keys() == {"name", "finding", "evidence", "suggestion"}


COUNTED = KernelCounters("k", 100, SIZE, SIZE, 0.5, 0.9, 16.0, 16.0, 0.0, 0.0, ())


@pytest.mark.parametrize(
    ("change", "name", "evidence"),
    [
        ({"dram_read": 3 * SIZE}, "bytes-moved", "536.9 MB counted, 268.4 MB would do"),
        ({"load_sectors": 32.0}, "uncoalesced", "32.0 sectors of 32 bytes a request, 16 would do"),
        ({"bank_conflicts": 0.5}, "bank-conflicts", "50 % of the passes"),
        ({"stalls": (("long_scoreboard", 9.5),)}, "stalls", "9.5 warps wait"),
    ],
)
def test_what_counters_say(change: dict[str, Any], name: str, evidence: str) -> None:
    quiet = measured(plan(launch()))
    assert counter_findings(quiet, [COUNTED]) == []
    found = counter_findings(quiet, [replace(COUNTED, **change)])
    assert names(found) == [name]
    assert evidence in found[0].evidence
    assert names(advise(quiet, found)) == [name]


def test_idle_tensor_cores_matter_only_for_products() -> None:
    quiet = measured(plan(launch()))
    assert counter_findings(quiet, [replace(COUNTED, tensor=0.0)]) == []
    product = replace(quiet, spec=replace(SPEC, flops=10**12))
    assert names(counter_findings(product, [replace(COUNTED, tensor=0.0)])) == ["tensor-cores"]
    assert counter_findings(product, [replace(COUNTED, tensor=None)]) == []
