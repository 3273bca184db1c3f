"""Nsight Compute: the command line, its table, and its refusals in words."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent.judge import counters
from agent.judge.counters import METRICS, KernelCounters, collect, command, judged, parse, total
from agent.judge.nvidia_tools import ToolRun, find_tool, run_tool

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
    '"Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)


def row(number: int, kernel: str, metric: str, value: str) -> str:
    return (
        f'"{number}","77","python3","127.0.0.1","{kernel}","1","7","(256, 1, 1)","(132, 1, 1)","0",'
        f'"9.0","Command line profiler metrics","{metric}","unit","{value}"'
    )


STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
TABLE = "\n".join([
    "==PROF== Connected to process 77 (/usr/bin/python3)",
    "==PROF== Disconnected from process 77",
    HEAD,
    row(0, "rows(const float *, float *)", METRICS["ns"], "12,345"),
    row(0, "rows(const float *, float *)", METRICS["dram_read"], "1,048,576"),
    row(0, "rows(const float *, float *)", METRICS["dram_write"], "0"),
    row(0, "rows(const float *, float *)", METRICS["l2_hit"], "50.00"),
    row(0, "rows(const float *, float *)", METRICS["occupancy"], "93.75"),
    row(0, "rows(const float *, float *)", METRICS["load_sectors"], "16"),
    row(0, "rows(const float *, float *)", METRICS["bank_conflicts"], "50"),
    row(0, "rows(const float *, float *)", METRICS["shared_waves"], "200"),
    row(0, "rows(const float *, float *)", METRICS["tensor"], "n/a"),
    row(0, "rows(const float *, float *)", METRICS["tensor_old"], "2.5"),
    row(0, "rows(const float *, float *)", STALL.format("wait"), "1.25"),
    row(0, "rows(const float *, float *)", STALL.format("barrier"), "0"),
    row(0, "rows(const float *, float *)", STALL.format("long_scoreboard"), "14.5"),
    row(1, "finish", METRICS["ns"], "2,000"),
    row(1, "finish", METRICS["dram_read"], "(!) n/a"),
])  # fmt: skip


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(counters, "find_tool", lambda name: "")
    counters.access.cache_clear()
    yield
    counters.access.cache_clear()


def test_the_table_becomes_numbers() -> None:
    first, second = parse(TABLE)
    assert first == KernelCounters(
        "rows", 12345, 1 << 20, 0, 0.5, 0.9375, 16.0, None, 0.25, 0.025,
        (("long_scoreboard", 14.5), ("wait", 1.25)),
    )  # fmt: skip
    assert (second.kernel, second.ns, second.dram_read, second.stalls) == ("finish", 2000, None, ())
    assert total([first]) == 1 << 20
    assert total([first, second]) is None
    assert total([]) is None


@pytest.mark.parametrize(
    "text", ["", "==PROF== nothing", HEAD, HEAD + '\n"0"', '"ID"\n"1"\n', "\0"]
)
def test_no_text_breaks_the_reader(text: str) -> None:
    assert parse(text) == []


@pytest.mark.parametrize(
    ("text", "why", "cure"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "may not read",
         "NVreg_RestrictProfilingToAdminUsers=0"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "cannot start",
         "virtual"),
        ("==ERROR== something new", "", ""),
    ],
)  # fmt: skip
def test_refusals_come_with_their_cure(text: str, why: str, cure: str) -> None:
    found = judged(text)
    assert not found.ok
    assert why in found.why
    assert cure in found.cure
    assert bool(found.why) == bool(why)


def test_the_command_line_keeps_clocks_and_runs_one_process() -> None:
    line = command("/opt/ncu", Path("/tmp/job.json"), Path("/tmp/log.csv"))
    assert line[0] == "/opt/ncu"
    assert line[line.index("--clock-control") + 1] == "none"
    assert line[-5:] == [sys.executable, "-P", "-m", "agent.workers.once", "/tmp/job.json"]
    wanted = line[line.index("--metrics") + 1].split(",")
    assert set(METRICS.values()) < set(wanted)
    short = command("/opt/ncu", Path("j"), Path("l"), core=True)
    assert len(short[short.index("--metrics") + 1].split(",")) == 6


@pytest.mark.usefixtures("no_tools")
def test_without_the_tool_there_is_a_reason(tmp_path: Path) -> None:
    assert collect(tmp_path / "job.json") == ([], "Nsight Compute (ncu) is not installed")
    found = counters.access()
    assert (found.ok, found.cure) == (False, "install the CUDA toolkit")


def test_metrics_unknown_to_the_tool_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[list[str]] = []

    def fake(line: list[str], log: Path, seconds: float) -> ToolRun:
        lines.append(line)
        known = len(line[line.index("--metrics") + 1].split(",")) == 6
        return ToolRun(0 if known else 1, False, "", TABLE if known else "==ERROR== no metric x")

    monkeypatch.setattr(counters, "find_tool", lambda name: "/opt/ncu")
    monkeypatch.setattr(counters, "run_tool", fake)
    found, why = collect(tmp_path / "job.json")
    assert (len(found), why, len(lines)) == (2, "", 2)
    monkeypatch.setattr(counters, "run_tool", lambda *given: ToolRun(-9, True, "", ""))
    assert collect(tmp_path / "job.json", 3)[1] == "reading counters took longer than 3 s"
    monkeypatch.setattr(
        counters, "run_tool", lambda *given: ToolRun(1, False, "ERR_NVGPUCTRPERM", "")
    )
    assert "may not read" in collect(tmp_path / "job.json")[1]


def test_a_tool_is_found_in_the_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    place = tmp_path / "cuda" / "bin" / "compute-sanitizer"
    place.parent.mkdir(parents=True)
    place.write_text("#!/bin/sh\n")
    assert find_tool("compute-sanitizer") != str(place)
    place.chmod(0o755)
    assert find_tool("compute-sanitizer") == str(place)


def test_a_tool_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    log, mark = tmp_path / "log", tmp_path / "mark"
    script = f"echo said; echo logged > {log}; (sleep 2; echo x > {mark}) & wait"
    done = run_tool(["/bin/sh", "-c", script], log, 0.5)
    assert (done.late, done.output, done.log) == (True, "said\n", "logged\n")
    assert not mark.exists()
    done = run_tool(["/bin/sh", "-c", "echo '=== one'; exit 3"], log, 30)
    assert (done.code, done.late, done.log, done.last_line) == (3, False, "", "one")
    assert run_tool([str(tmp_path / "none")], log, 1).code == 127
