"""NVIDIA's tools over real kernels: planted faults are found, honest kernels are clean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from agent.devices import open_device
from agent.judge import counters
from agent.judge.nvidia_tools import find_tool
from agent.judge.once_job import once_job
from agent.judge.plan import wanted_scratch
from agent.judge.sanitize import sanitize
from agent.program import read_program
from agent.task import ArgSpec, OutputSpec, TargetSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(600)]

ROWS, COLUMNS = 64, 256
SIZE = ROWS * COLUMNS * 4
SPEC = TargetSpec(
    "twice", "cuda",
    (ArgSpec("x", "input", "float32", (ROWS, COLUMNS), (COLUMNS, 1)),), {},
    (OutputSpec("out", "float32", (ROWS, COLUMNS), (COLUMNS, 1)),), SIZE, SIZE, 0, "",
)  # fmt: skip
PLAIN = """
[[launch]]
kernel = "k"
args = ["x", "out", "x.numel"]
grid = "x.shape[0]"
block = "x.shape[1]"
"""
HEAD = 'extern "C" __global__ void k(const float* x, float* out, long long n)'
INDEX = "long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;"
GOOD = f"{HEAD} {{ {INDEX} if (i < n) out[i] = 2 * x[i]; }}"
BEYOND = f"{HEAD} {{ {INDEX} if (i < n) out[i + (i == n - 1)] = 2 * x[i]; }}"
READS = f"{HEAD} {{ {INDEX} if (i < n) out[i] = 2 * x[i + 1]; }}"
UNWRITTEN = f"{HEAD} {{ {INDEX} if (i < n) out[i] += 2 * x[i]; }}"
RACE = f"""{HEAD} {{
  __shared__ float row[256];
  {INDEX}
  row[threadIdx.x] = x[i];
  out[i] = row[255 - threadIdx.x] + row[threadIdx.x];
}}"""

FEATURES = """
#include <cooperative_groups.h>
#include <cuda/barrier>
namespace cg = cooperative_groups;
using barrier = cuda::barrier<cuda::thread_scope_block>;
extern "C" __global__ void first(const float* x, float* sums) {
  extern __shared__ float row[];
  row[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  cg::this_cluster().sync();
  if (threadIdx.x == 0) {
    float sum = 0;
    for (int i = 0; i < 256; ++i) sum += row[i];
    atomicAdd(sums + blockIdx.x, sum);
  }
}
extern "C" __global__ void second(const __grid_constant__ CUtensorMap map, const float* sums,
                                  float* out) {
  __shared__ alignas(128) float tile[256];
  __shared__ barrier bar;
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    cuda::device::experimental::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::device::experimental::cp_async_bulk_tensor_2d_global_to_shared(tile, &map, 0,
                                                                         blockIdx.x, bar);
    token = cuda::device::barrier_arrive_tx(bar, 1, sizeof(tile));
  } else {
    token = bar.arrive();
  }
  bar.wait(std::move(token));
  cg::this_grid().sync();
  out[blockIdx.x * 256 + threadIdx.x] = tile[threadIdx.x] + 0 * sums[blockIdx.x];
}
"""
FEATURES_PLAN = """
[[scratch]]
name = "sums"
dtype = "float32"
shape = ["x.shape[0]"]
zero = true
[[tensormap]]
name = "map"
tensor = "x"
box = ["x.shape[1]", 1]
[[launch]]
kernel = "first"
args = ["x", "sums"]
grid = 64
block = 256
shared = 1024
cluster = 2
[[launch]]
kernel = "second"
args = ["map", "sums", "out"]
grid = 64
block = 256
cooperative = true
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], tuple[str, Any]]:
    device = open_device("cuda")
    cache: Path = tmp_path_factory.mktemp("cubins")

    def made(source: str, plan: str = PLAIN) -> tuple[str, Any]:
        program = read_program("cuda", source, plan, "t")
        bound = program.bind(SPEC, {}, device.facts()).to_json()
        wanted_scratch(SPEC, bound)
        return device.build(source, {}, program.kernels(), cache).library, bound

    return made


def look(made: tuple[str, Any], *tools: str) -> dict[str, str]:
    if not find_tool("compute-sanitizer"):
        pytest.skip("compute-sanitizer is not installed")
    said = sanitize(SPEC, *made, [torch.randn(ROWS, COLUMNS)], dict.fromkeys(tools, 120.0))
    if any("does not work here" in text for text in said.values()):
        pytest.skip(str(said))
    return said


def test_an_honest_kernel_is_clean_under_every_tool(build: Any) -> None:
    tools = ("memcheck", "initcheck", "racecheck", "synccheck")
    assert look(build(GOOD), *tools) == dict.fromkeys(tools, "clean")


@pytest.mark.parametrize(
    ("source", "tool", "words"),
    [
        (BEYOND, "memcheck", "Invalid __global__ write of size 4 bytes, at k"),
        (READS, "memcheck", "Invalid __global__ read of size 4 bytes, at k"),
        (UNWRITTEN, "initcheck", "Uninitialized __global__ memory read"),
        (RACE, "racecheck", "error"),
    ],
)
def test_planted_faults_are_found(build: Any, source: str, tool: str, words: str) -> None:
    said = look(build(source), tool)[tool]
    assert words in said
    assert not said.startswith(("clean", "skipped"))


def test_every_feature_of_a_launch_works_in_the_one_shot_process(build: Any) -> None:
    assert look(build(FEATURES, FEATURES_PLAN), "memcheck") == {"memcheck": "clean"}


def test_counters_of_a_known_kernel(build: Any) -> None:
    allowed = counters.access()
    if not allowed.ok:
        pytest.skip(allowed.why)
    with once_job(SPEC, *build(GOOD), [torch.randn(ROWS, COLUMNS)]) as job:
        found, why = counters.collect(job, 120)
    assert why == ""
    (kernel,) = found
    assert kernel.kernel == "k"
    assert kernel.ns
    assert kernel.dram_read is not None
    # 32 threads of 4 bytes next to each other are 4 sectors.
    assert kernel.load_sectors == pytest.approx(4.0, abs=0.1)
    assert kernel.stalls
