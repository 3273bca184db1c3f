"""Baselines: which is the fastest, what a gain is against, device and call time apart."""

from __future__ import annotations

from typing import Any

from forge_tui import baselines
from forge_tui.text import width
from tests.forge_tui.rows import node, target

KNOWN: dict[str, Any] = {
    "eager": {"ns": 4_000_000, "call_ns": 4_100_000},
    "compile": {"ratio": 1.5, "low": 1.45, "high": 1.55, "ns": 2_600_000, "call_ns": 2_900_000},
    "compile-max": {"ratio": 1.7, "low": 1.6, "high": 1.8, "ns": 2_300_000, "call_ns": 2_500_000},
}


def test_the_fastest_baseline_is_named() -> None:
    fastest = baselines.fastest(target(baselines=KNOWN))
    assert fastest is not None
    assert fastest.name == "compile-max"
    slow = {**KNOWN, "compile": {"ratio": 0.8}, "compile-max": {"error": "no"}}
    fastest = baselines.fastest(target(baselines=slow))
    assert fastest is not None
    assert fastest.name == "eager"
    assert baselines.fastest(target(baselines={"eager": 4_000_000})) is None
    assert baselines.fastest(None) is None


def test_a_gain_says_what_it_is_against() -> None:
    row = target(baselines=KNOWN)
    assert baselines.gain(node(1, gain=1.18), row) == "1.18x vs compile-max"
    assert baselines.gain(node(1, gain=2.0), target()) == ""  # eager alone: that is the speedup
    against = {"name": "compile-max", "ratio": 1.15, "low": 1.1, "high": 1.2, "direct": True}
    measured = node(1, gain=1.18, confirmed=1, against=against)
    assert baselines.gain(measured, row) == "1.15x vs compile-max [1.10, 1.20]"
    assert baselines.gain(node(1, gain=1.18, confirmed=-1, against=against), row).startswith(
        "1.18x"
    )


def table(gpu: bool, cells: int = 76) -> list[str]:
    rows = [*baselines.baselines(target(baselines={**KNOWN, "other": {"error": "it crashed"}})),
            baselines.best_row(node(5, call_ns=2_100_000))]  # fmt: skip
    lines = baselines.time_table(rows, cells, gpu=gpu)
    return ["".join(text for text, _ in line) for line in lines]


def test_device_and_call_time_are_two_columns_on_a_gpu() -> None:
    head, eager, compiled, _, failed, best = table(gpu=True)
    assert head.split() == ["vs", "eager", "95", "%", "interval", "device", "time", "call", "time"]
    assert eager.split() == ["eager", "1.00x", "4.00", "ms", "4.10", "ms"]
    assert compiled.split()[:2] == ["compile", "1.50x"]
    assert failed.split(maxsplit=1) == ["other", "it crashed"]
    assert best.endswith("2.00 ms    2.10 ms")
    for line in (eager, compiled, best):
        assert len(line) == len(head)


def test_on_a_cpu_there_is_call_time_alone() -> None:
    head, eager, *_ = table(gpu=False)
    assert "device" not in head
    assert eager.split() == ["eager", "1.00x", "4.00", "ms"]
    assert all(width(line) <= 40 for line in table(gpu=False, cells=40)[1:])


def test_baselines_of_any_shape_are_harmless() -> None:
    for odd in (None, 7, "x", [], {"ratio": "x"}, {"ratio": float("nan")}, {"ratio": -1}):
        rows = baselines.baselines(target(baselines={"eager": odd, "compile": odd}))
        assert [row.name for row in rows] == ["eager", "compile"]
        assert rows[1].problem
