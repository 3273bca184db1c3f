"""Final tables and ``status``: on a GPU two times, what was compared, and what does not count."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from forge_tui.cli import main
from forge_tui.plain import status_lines
from forge_tui.results import node_line, result_table
from tests.forge_tui import gpu_saga

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def saga(home: Path) -> Iterator[gpu_saga.GpuSaga]:
    made = gpu_saga.told()
    yield made
    made.close()


def test_the_table_of_a_gpu_has_both_times_and_the_baselines(saga: gpu_saga.GpuSaga) -> None:
    head, row, blank, against, gains = result_table(saga.path)
    assert head.split() == ["target", "nodes", "speedup", "95", "%", "interval", "device", "call",
                            "SOL", "verdict"]  # fmt: skip
    assert row.split("  ")[0] == "softmax"
    assert row.endswith("2.03x   [2.01, 2.05]  33.5 us  34.5 us  87%  FASTER confirmed")
    assert blank == ""
    assert against.split()[:3] == ["target", "gain", "against"]
    assert gains.split()[:3] == ["softmax", "1.25x", "compile"]
    assert gains.endswith("compile 1.62x, compile-max Triton has no working compiler")
    assert max(len(line) for line in (head, row, against)) <= 80


def test_status_as_json_tells_what_each_figure_is(saga: gpu_saga.GpuSaga) -> None:
    found = json.loads(CliRunner().invoke(main, ["status", "--json"]).output)["targets"][0]
    assert found["fastest_baseline"] == "compile"
    assert found["baselines"]["compile"]["ratio"] == 1.62
    best = found["best"]
    assert (best["timing"], best["time_ns"], best["call_ns"]) == ("device", 33_497, 34_482)
    assert best["gain"] == pytest.approx(2.03 / 1.62)
    assert best["against"]["direct"] is True
    assert best["sanitizer"]["memcheck"] == "clean"
    assert not best["foreign"]


def test_code_says_on_stderr_how_it_was_judged(saga: gpu_saga.GpuSaga) -> None:
    result = CliRunner().invoke(main, ["code", saga.path.name.removesuffix(".forge.db")])
    assert result.stdout.startswith("one block a row\n```cuda\n")
    assert result.stderr.strip() == (
        "#3: confirmed, 2.03x vs eager [2.01, 2.05], 1.25x vs compile [1.20, 1.30], "
        "device time 33.5 us, call time 34.5 us"
    )
    assert node_line(saga.path, 99) == ""
    assert node_line(saga.path, 2).startswith("#2: library, 1.30x vs eager")


def test_a_foreign_best_is_no_claim(saga: gpu_saga.GpuSaga) -> None:
    saga.writer.emit("VerdictsForeign", target=1, machine=gpu_saga.OTHER)
    (line,) = [line for line in result_table(saga.path) if line.startswith("softmax")][:1]
    assert line.endswith("FASTER on another machine")


def test_a_failed_gpu_is_told_of_whole_with_the_way_back(saga: gpu_saga.GpuSaga) -> None:
    reason = "the GPU is gone or unusable (timing: CUDA_ERROR_ECC_UNCORRECTABLE, 214); " * 4
    saga.fail(reason.strip())
    text = "\n".join(status_lines(saga.path))
    assert text.count("ECC_UNCORRECTABLE") == 4
    assert "take it up again with `forge-tui resume`" in text
