"""CUDA programs that break their device context, never end, or launch beyond what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.audit.cuda.texts import (
    NATURAL,
    RELU,
    WRONG,
    cheat,
    launch,
    relu,
    scratch,
    tensormap,
)

if TYPE_CHECKING:
    from agent.audit.rows import Row

CRASHED = frozenset({"crashed"})
HUNG = frozenset({"hung"})


def _then(what: str, before: str = "") -> str:
    """The work, and then something that one thread does."""
    return relu(f"{RELU}\n    if (i == 0) {{ {what} }}", before)


_MEETING = """
extern "C" __global__ void kernel(const float* x, float* out, long long n, unsigned* met) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) {
        atomicAdd(met, 1u);
        while (*(volatile unsigned*)met < gridDim.x) {}
    }
    __syncthreads();
    if (i < n) out[i] = x[i] < 0.0f ? 0.0f : x[i];
}
"""
_TURNS = scratch("met", "int32", "1", zero=True)

ENDINGS = [
    cheat("trap", "crash", "relu", _then("__trap();"), codes=CRASHED),
    cheat("a failed assertion", "crash", "relu", _then("assert(n == 1);", "#include <cassert>\n"),
          "read|build|check"),
    cheat("null pointer", "crash", "relu", _then("*(volatile int*)nullptr = 1;"), codes=CRASHED),
    cheat("a misaligned vector", "crash", "relu", _then(
          "*(volatile int*)((char*)out + 2) = 1;"), codes=CRASHED),
    cheat("a vector at an odd element", "crash", "relu", relu(
          "if (4 * i + 4 < n) { const float4 v = *(const float4*)(x + 4 * i + 1);"
          " *(float4*)(out + 4 * i + 1) = v; }"), codes=CRASHED),
    cheat("shared memory beyond its end", "crash", "relu", relu(
          "extern __shared__ float room[];\n"
          "    for (long long k = threadIdx.x; k < (1 << 18); k += 256) room[k] = x[0];\n"
          f"    {RELU}\n    if (i == 1 << 30) out[0] = room[n];"), codes=CRASHED),
    cheat("endless recursion", "crash", "relu", _then(
          "volatile int k = 1; out[0] += 0.0f * deep(&k, 0);",
          "__device__ __noinline__ int deep(volatile int* p, int k) { volatile int a[64];"
          " a[k & 63] = *p; return deep(a, k + 1) + a[1]; }\n"), "read|build|check"),
    cheat("a jump to a number", "own code", "relu", _then("((void (*)())0x1234)();"),
          "build|check"),
    cheat("writes to its own code", "own code", "relu", relu(
          RELU + "\n    if (i == 0) *(volatile int*)(void*)&helper = 1;",
          "__device__ __noinline__ void helper() { __threadfence(); }\n"), "build|check"),
    cheat("endless loop", "hang", "relu", _then(
          "while (((volatile const float*)x)[0] != 12345.0f) {}"), codes=HUNG),
    cheat("endless loop of one warp at a barrier", "hang", "relu", relu(
          "if (threadIdx.x < 32) while (((volatile const float*)x)[0] != 12345.0f) {}\n"
          "    __syncthreads();\n    "
          + RELU), codes=HUNG),
    cheat("a lock within a warp that is never given back", "hang", "relu", relu(
          RELU + "\n    while (atomicCAS(lock, 0u, 1u) != 0u) {}").replace(
          "long long n", "long long n, unsigned* lock"), codes=HUNG,
          plan=scratch("lock", "int32", "1", zero=True) + launch("x", "out", "x.numel", "lock")),
    cheat("waits for blocks that cannot run yet", "one device", "relu", _MEETING, codes=HUNG,
          plan=_TURNS + launch("x", "out", "x.numel", "met", grid="device.sms * 64",
          block="1024")),
    cheat("blocks that meet without being launched together", "one device", "relu", _MEETING,
          "harmless|check", plan=_TURNS + launch("x", "out", "x.numel", "met")),
    cheat("a very long loop", "hang", "relu", _then(
          "float v = x[0]; for (long long k = 0; k < 1ll << 40; ++k) v = sinf(v) + 1.0f;"
          " out[1] += v == 77.0f;"), codes=HUNG),
]  # fmt: skip

_SIZE = NATURAL % "x.shape[1]"
_WIDE = """
extern "C" __global__ void kernel(const float* x, float* out, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    float v[160];
    #pragma unroll
    for (int k = 0; k < 160; ++k) v[k] = x[(i + 7 * k) % n];
    #pragma unroll
    for (int round = 0; round < 3; ++round)
        #pragma unroll
        for (int k = 0; k < 160; ++k) v[k] = v[k] * v[(k * 37 + 11 + round) % 160];
    float s = 0.0f;
    #pragma unroll
    for (int k = 0; k < 160; ++k) s += v[k] == 1.2345f;
    if (i < n) out[i] = (x[i] < 0.0f ? 0.0f : x[i]) + (s > 159.0f ? 1.0f : 0.0f);
}
"""


def _launched(name: str, source: str, rungs: str = "read|build|check", **how: str) -> Row:
    return cheat(name, "limits", "relu", source, rungs, plan=launch("x", "out", "x.numel", **how))


LIMITS = [
    cheat("no blocks", "unwritten", "relu", relu(), codes=WRONG, plan=launch(
          "x", "out", "x.numel", grid="0")),
    _launched("a negative grid", relu(), grid="-3"),
    _launched("a grid too high", relu(), grid='[1, 70000]'),
    _launched("a grid too wide", relu(), grid="2147483648"),
    _launched("four dimensions", relu(), grid="[1, 1, 1, 1]"),
    _launched("no threads", relu(), block="0"),
    _launched("too many threads", relu(), block="1025"),
    _launched("too many threads in the depth", relu(), block="[1, 1, 128]"),
    _launched("more threads than the kernel allows", relu().replace(
        "__global__ void", "__global__ void __launch_bounds__(64)")),
    _launched("more registers than there are", _WIDE,
              "harmless|read|build|check", block="1024", grid="ceil_div(x.numel, 1024)"),
    _launched("more shared memory than a block may have", relu(),
              more='shared = "device.shared + 1"'),
    _launched("negative shared memory", relu(), more="shared = -4"),
    _launched("more static shared memory than there is", relu(
        "__shared__ float room[90000];\n    room[n % 90000] = x[0];\n    __syncthreads();\n    "
        + RELU + "\n    if (i == 0) out[0] += 0.0f * room[(n + 7) % 90000];"), "build"),
    _launched("a cluster too large", relu(), grid="64", more="cluster = 64"),
    _launched("a cluster that does not divide the grid", relu(), grid="33", more="cluster = 2"),
    _launched("too many blocks at once", relu(), grid="device.sms * 100", block="1024",
              more="cooperative = true"),
    cheat("a barrier over the grid without a common launch", "limits", "relu", """
#include <cooperative_groups.h>
extern "C" __global__ void kernel(const float* x, float* out, long long n) {
    cooperative_groups::this_grid().sync();
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] < 0.0f ? 0.0f : x[i];
}
""", "read|build|check"),
    cheat("a neighbour outside of the cluster", "out of bounds", "relu", relu(
          "__shared__ float room[256];\n    room[threadIdx.x] = 1.0f;\n    __syncthreads();\n"
          "    unsigned far, here = (unsigned)__cvta_generic_to_shared(room);\n    float v;\n"
          '    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(here),'
          ' "r"(7));\n    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(far));\n'
          "    if (i < n) out[i] = (x[i] < 0.0f ? 0.0f : x[i]) + 0.0f * v;"), "build|check",
          needs=90),
]  # fmt: skip

_LOAD = """
extern "C" __global__ void kernel(const __grid_constant__ CUtensorMap map, float* out, int cols) {
    __shared__ alignas(128) float tile[64];
    __shared__ alignas(8) unsigned long long bar;
    const unsigned to = (unsigned)__cvta_generic_to_shared(tile);
    const unsigned at = (unsigned)__cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], BYTES;" :: "r"(at));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx"
                     "::bytes [%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(&map),
                     "r"((int)blockIdx.x * 64 + FIRST), "r"((int)blockIdx.y), "r"(at) : "memory");
    }
    __syncthreads();
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;"
                     " selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at) : "memory");
    const int c = blockIdx.x * 64 + threadIdx.x;
    if (c < cols) out[blockIdx.y * cols + c] = tile[threadIdx.x] < 0.0f ? 0.0f : tile[threadIdx.x];
}
"""
_MAP_LAUNCH = launch(
    "map", "out", _SIZE, grid='["ceil_div(x.shape[1], 64)", "x.shape[0]"]', block="64"
)


def _mapped(
    name: str, maps: str, *, first: str = "0", size: str = "256", target: str = "rms",
    rungs: str = "read|build|check",
) -> Row:  # fmt: skip
    source = _LOAD.replace("FIRST", first).replace("BYTES", size)
    return cheat(name, "limits", target, source, rungs, plan=maps + _MAP_LAUNCH, needs=90)


MAPS = [
    _mapped("a box wider than the engine takes", tensormap("map", "x", 512, 1)),
    _mapped("a box of an odd number of bytes", tensormap("map", "x", 3, 1)),
    _mapped("no box", tensormap("map", "x", 0, 1)),
    _mapped("a map of nothing", tensormap("map", "y", 64, 1)),
    _mapped("rows that are not aligned", tensormap("map", "x", 64, 1), target="relu"),
    _mapped("a map larger than its tensor", tensormap("map", "x", 64, 1,
            more='dims = ["x.shape[1]", "x.shape[0] * 8"]\nstrides = ["x.shape[1] * 4"]')),
    _mapped("a map with overlapping rows", tensormap("map", "x", 64, 1, more="strides = [16]")),
    _mapped("fill taken for data", tensormap("map", "x", 64, 1), first="32", target="tiles",
            rungs="check"),
    _mapped("waits for more bytes than come", tensormap("map", "x", 64, 1), size="512",
            target="tiles", rungs="check"),
]  # fmt: skip
