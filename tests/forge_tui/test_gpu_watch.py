"""The watch screen over a search on a GPU: two times, gains, proof, foreign figures, a lost GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from forge_tui.glyphs import ASCII
from tests.forge_tui import gpu_saga
from tests.forge_tui.pilot import both_sizes, watched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOST = (
    "the GPU is gone or unusable (timing softmax: CUDA_ERROR_DEVICE_UNAVAILABLE, 46); run "
    "forge-tui doctor; when the GPU is back, resume the session"
)


@pytest.fixture
def saga(home: Path) -> Iterator[gpu_saga.GpuSaga]:
    made = gpu_saga.told()
    yield made
    made.close()


@both_sizes
async def test_device_and_call_time_are_two_columns(
    saga: gpu_saga.GpuSaga, size: tuple[int, int]
) -> None:
    async with watched(saga.path, size) as one:
        await one.until(lambda: "compile" in one.text())
        head = one.line(1)
        assert head.index("speedup") < head.index("device") < head.index("call") < head.index("SOL")
        assert ("gain" in head) == (size[0] == 160)
        row = next(line for line in one.text().split("\n") if "★" in line)
        assert "33.5 us  34.5 us  87%" in row
        assert "◇ 2 a matrix product" in one.text()
        assert "library " in one.text()
        assert "call time" not in head


@both_sizes
async def test_a_target_names_its_baselines(saga: gpu_saga.GpuSaga, size: tuple[int, int]) -> None:
    async with watched(saga.path, size) as one:
        await one.until(lambda: "the fastest baseline" in one.text())
        text = one.text()
        for piece in ("1.25x vs compile [1.20, 1.30]", "device time  call time",
                      "compile            1.62x  [1.60, 1.64]        42.0 us    61.0 us",
                      "compile-max     Triton has no working compiler", "best #3 ",
                      "speed of light"):  # fmt: skip
            assert piece in text, piece


async def test_a_node_shows_speedup_gain_times_and_advice(saga: gpu_saga.GpuSaga) -> None:
    async with watched(saga.path, (160, 50)) as one:
        await one.press("b")
        await one.until(lambda: "advice" in one.text())
        text = one.text()
        for piece in ("2.03x vs eager [2.01, 2.05] 95 %   confirmed",
                      "1.25x vs compile [1.20, 1.30], the fastest baseline",
                      "this program       2.03x      33.5 us    34.5 us",
                      "eager              1.00x      68.0 us    74.0 us",
                      "10 of 10 sets of inputs pass", "168 registers, spills 160 B",
                      "in a fresh process, memcheck, racecheck", "softmax_tail spills 160 bytes",
                      "try: fewer rows a thread"):  # fmt: skip
            assert piece in text, piece
        assert "…" not in "\n".join(line[90:] for line in text.split("\n"))


@both_sizes
async def test_checks_hold_the_proof(saga: gpu_saga.GpuSaga, size: tuple[int, int]) -> None:
    async with watched(saga.path, size) as one:
        await one.press("b", "3", "z")
        await one.until(lambda: "of allowed" in one.text())
        seen = one.text()
        for _ in range(4):
            await one.press("pagedown")
            seen += one.text()
        for piece in ("special values @rows=4097", "occupancy", "75% by registers", "160 B",
                      "2.05x vs eager [2.01, 2.09], device time", "vs eager in call time",
                      "clocks 1980 MHz", "clocks held down by: power cap", "✓ memcheck   clean",
                      "skipped: too slow for this size"):  # fmt: skip
            assert piece in seen, piece
        assert "…" not in seen


async def test_foreign_figures_are_marked_with_their_reason(saga: gpu_saga.GpuSaga) -> None:
    async with watched(saga.path, (160, 50)) as one:
        await one.press("b")
        saga.writer.emit("VerdictsForeign", target=1, machine=gpu_saga.OTHER)
        await one.until(lambda: "≠ 3" in one.text())
        text = " ".join(one.text().split())
        assert "foreign 2.05x" in text
        await one.until(lambda: "foreign: measured on another machine" in one.text())
        assert gpu_saga.OTHER in one.text()
        assert "best 2.0" not in one.line(0)


@both_sizes
async def test_a_lost_gpu_is_told_of_until_the_search_is_taken_up(
    saga: gpu_saga.GpuSaga, size: tuple[int, int]
) -> None:
    async with watched(saga.path, size) as one:
        saga.fail(LOST)
        await one.until(lambda: "failed - press r to resume" in one.line(0))
        # The lines above the tree are laid out after the status line has been written.
        await one.until(
            lambda: LOST in " ".join(" ".join(one.line(at) for at in range(1, 4)).split())
        )
        assert "r resume" in one.text()
        assert "target / idea" in one.text()
        saga.writer.emit("EngineStarted", pid=1, host="box", version="0", machine={})
        await one.until(lambda: "running" in one.line(0) and "target / idea" in one.line(1))


async def test_a_gpu_search_in_ascii_without_colour(
    saga: gpu_saga.GpuSaga, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    saga.writer.emit("VerdictsForeign", target=1, machine=gpu_saga.OTHER)
    async with watched(saga.path, (160, 50), glyphs=ASCII) as one:
        for keys in (("b", "2"), ("3",), ("4",), ("g", "2")):
            await one.press(*keys)
            assert one.text().isascii()
        assert "! 3 one block a row" in one.text()
