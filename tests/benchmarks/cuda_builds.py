"""Seconds from CUDA source to cubin, by kind of program, and how many a pool builds per second.

Run as ``python -m tests.benchmarks.cuda_builds [ARCH] [BUILDERS]``; no GPU is needed. Headers are
unpacked before the clock starts. ``first`` is the first build of a fresh process, ``again`` the
median of five others (another tunable value each), ``cpu`` the processor's share of that, and
``found`` one of them once more, from the cache.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from agent.devices.cuda.build import build, toolchain
from tests.agent.devices.cuda_programs import PROGRAMS


def seconds(arch: str, name: str, cache: Path, step: int) -> tuple[float, float]:
    """Wall and processor seconds of one build."""
    source, values, _ = PROGRAMS[name]
    wall, cpu = time.perf_counter(), time.process_time()
    build(arch, source, {**values, "STEP": step}, ["kernel"], cache)
    return time.perf_counter() - wall, time.process_time() - cpu


def one_kind(arch: str, name: str, cache: Path) -> tuple[float, float, float, float]:
    first, _ = seconds(arch, name, cache, 0)
    others = [seconds(arch, name, cache, step) for step in range(1, 6)]
    again, cpu = (statistics.median(column) for column in zip(*others, strict=True))
    return first, again, cpu, seconds(arch, name, cache, 3)[0]


def main() -> None:
    arch = sys.argv[1] if len(sys.argv) > 1 else "sm_90a"
    builders = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        toolchain(cache)
        print(f"{'program':26}{'first':>8}{'again':>8}{'cpu':>8}{'found':>8}   seconds, {arch}")
        for name in PROGRAMS:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
                first, again, cpu, found = fresh.submit(one_kind, arch, name, cache).result()
            print(f"{name:26}{first:8.3f}{again:8.3f}{cpu:8.3f}{found:8.4f}")
        with ProcessPoolExecutor(builders, mp_context=get_context("spawn")) as pool:
            for name in ("plain", "cub, cooperative groups"):
                list(pool.map(seconds, *_jobs(arch, name, cache, range(-builders, 0))))
                started = time.perf_counter()
                count = 60 if name == "plain" else 6 * builders
                list(pool.map(seconds, *_jobs(arch, name, cache, range(100, 100 + count))))
                rate = count / (time.perf_counter() - started)
                print(f"{builders} builders, {name}: {rate:.1f} builds per second")


def _jobs(arch: str, name: str, cache: Path, steps: range) -> tuple[list, list, list, range]:
    count = len(steps)
    return [arch] * count, [name] * count, [cache] * count, steps


if __name__ == "__main__":
    main()
