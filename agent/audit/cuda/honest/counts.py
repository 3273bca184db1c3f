"""Right CUDA programs that count, search and keep running sums."""

from __future__ import annotations

from agent.audit.cuda.texts import NATURAL, honest, launch, scratch

_COLS = NATURAL % "x.shape[1]"
_BY_ROWS = {"grid": "x.shape[0]", "block": "128"}
_COUNT = """
extern "C" __global__ void kernel(const float* x, long long* out, int rows, int cols) {
    const int r = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (r >= rows) return;
    int count = 0;
    for (int first = 0; first < cols; first += 32) {
        const int c = first + lane;
        const bool yes = c < cols && x[(long long)r * cols + c] > 0.0f;
        count += __popc(__ballot_sync(0xffffffffu, yes));
    }
    if (lane == 0) out[r] = count;
}
"""
# Not-a-number is the largest of all; of equal ones the first counts.
_ARGMAX = """
__device__ bool better(float a, int i, float b, int j) {
    if (a != a || b != b) return a != a && (b == b || i < j);
    return a > b || (a == b && i < j);
}
extern "C" __global__ void kernel(const float* x, long long* out, int cols) {
    const float* p = x + (long long)blockIdx.x * cols;
    int at = threadIdx.x < cols ? threadIdx.x : 0;
    float best = p[at];
    for (int c = threadIdx.x; c < cols; c += 32)
        if (better(p[c], c, best, at)) { best = p[c]; at = c; }
    for (int k = 16; k > 0; k >>= 1) {
        const float other = __shfl_xor_sync(0xffffffffu, best, k);
        const int place = __shfl_xor_sync(0xffffffffu, at, k);
        if (better(other, place, best, at)) { best = other; at = place; }
    }
    if (threadIdx.x == 0) out[blockIdx.x] = at;
}
"""
_HISTOGRAM = """
extern "C" __global__ void kernel(const long long* x, int* counts, int n) {
    __shared__ int own[64];
    if (threadIdx.x < 64) own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(own + x[i], 1);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(counts + threadIdx.x, own[threadIdx.x]);
}
extern "C" __global__ void hand_over(const int* counts, long long* out) {
    out[threadIdx.x] = counts[threadIdx.x];
}
"""
_HISTOGRAM_PLAN = (
    scratch("counts", "int32", "64", zero=True)
    + launch("x", "counts", NATURAL % "x.numel", grid="5", block="128")
    + launch("counts", "out", grid="1", block="64", kernel="hand_over")
)
# Each thread adds up 32 elements, then the threads' totals are summed up before each.
_SCAN = """
extern "C" __global__ void kernel(const float* x, float* out, int cols) {
    __shared__ float totals[4];
    const int per = (cols + blockDim.x - 1) / blockDim.x, lane = threadIdx.x % 32;
    const int first = threadIdx.x * per, last = min(cols, first + per);
    const float* p = x + (long long)blockIdx.x * cols;
    float* o = out + (long long)blockIdx.x * cols;
    float s = 0.0f;
    for (int c = first; c < last; ++c) s += p[c];
    float up = s;
    for (int k = 1; k < 32; k <<= 1) {
        const float v = __shfl_up_sync(0xffffffffu, up, k);
        if (lane >= k) up += v;
    }
    if (lane == 31) totals[threadIdx.x / 32] = up;
    __syncthreads();
    float before = __shfl_up_sync(0xffffffffu, up, 1);
    if (lane == 0) before = 0.0f;
    for (int k = 0; k < (int)threadIdx.x / 32; ++k) before += totals[k];
    for (int c = first; c < last; ++c) o[c] = before += p[c];
}
"""
_CUB_SCAN = """
#include <cub/block/block_scan.cuh>
extern "C" __global__ void kernel(const float* x, float* out, int cols) {
    using Scan = cub::BlockScan<float, 128>;
    __shared__ typename Scan::TempStorage room;
    const float* p = x + (long long)blockIdx.x * cols;
    float* o = out + (long long)blockIdx.x * cols;
    float before = 0.0f;
    for (int first = 0; first < cols; first += 128) {
        const int c = first + threadIdx.x;
        float v = c < cols ? p[c] : 0.0f, total;
        Scan(room).InclusiveSum(v, v, total);
        if (c < cols) o[c] = before + v;
        before += total;
        __syncthreads();
    }
}
"""

COUNTS = [
    honest("count by ballots", "count", _COUNT, launch(
           "x", "out", NATURAL % "x.shape[0]", _COLS, grid="ceil_div(x.shape[0], 4)",
           block="128")),
    honest("place of the largest", "argmax", _ARGMAX, launch(
           "x", "out", _COLS, grid="x.shape[0]", block="32")),
    honest("histogram in shared memory", "histogram", _HISTOGRAM, _HISTOGRAM_PLAN),
    honest("running sum by shuffles", "cumsum", _SCAN, launch("x", "out", _COLS, **_BY_ROWS)),
    honest("running sum by a library's block scan", "cumsum", _CUB_SCAN, launch(
           "x", "out", _COLS, **_BY_ROWS)),
]  # fmt: skip
