"""Right CUDA programs that sum: in every way that threads can meet."""

from __future__ import annotations

from agent.audit.cuda.texts import NATURAL, TOGETHER, honest, launch, scratch, sums

_COLS = NATURAL % "x.shape[1]"
_BY_ROWS = {"grid": "x.shape[0]", "block": "128"}
_GROUPS = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void kernel(const float* x, float* out, int rows, int cols) {
    const auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    const int r = blockIdx.x * tile.meta_group_size() + tile.meta_group_rank();
    if (r >= rows) return;
    float s = 0.0f;
    for (int c = tile.thread_rank(); c < cols; c += tile.size()) s += x[(long long)r * cols + c];
    s = cg::reduce(tile, s, cg::plus<float>());
    if (tile.thread_rank() == 0) out[r] = s;
}
"""
_ATOMIC = (
    TOGETHER
    + """
extern "C" __global__ void add_up(const float* x, float* sums, int cols) {
    __shared__ float room[32];
    const int part = (cols + gridDim.x - 1) / gridDim.x, first = blockIdx.x * part;
    const int last = min(cols, first + part);
    float s = 0.0f;
    for (int c = first + threadIdx.x; c < last; c += blockDim.x)
        s += x[(long long)blockIdx.y * cols + c];
    s = together(s, add, room);
    if (threadIdx.x == 0) atomicAdd(sums + blockIdx.y, s);
}
extern "C" __global__ void hand_over(const float* sums, float* out, int rows) {
    const int r = threadIdx.x;
    if (r < rows) out[r] = sums[r];
}
"""
)
_ATOMIC_PLAN = (
    scratch("sums", "float32", "x.shape[0]", zero=True)
    + launch("x", "sums", _COLS, grid='[4, "x.shape[0]"]', block="128", kernel="add_up")
    + launch("sums", "out", NATURAL % "x.shape[0]", grid="1", block="32", kernel="hand_over")
)
_SPLIT = (
    TOGETHER
    + """
extern "C" __global__ void parts(const float* x, float* kept, int cols) {
    __shared__ float room[32];
    float s = 0.0f;
    for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < cols; c += gridDim.x * blockDim.x)
        s += x[(long long)blockIdx.y * cols + c];
    s = together(s, add, room);
    if (threadIdx.x == 0) kept[blockIdx.y * gridDim.x + blockIdx.x] = s;
}
extern "C" __global__ void whole(const float* kept, float* out, int count) {
    float s = 0.0f;
    for (int k = 0; k < count; ++k) s += kept[threadIdx.x * count + k];
    out[threadIdx.x] = s;
}
"""
)
_SPLIT_PLAN = (
    scratch("kept", "float32", "x.shape[0] * 6")
    + launch("x", "kept", _COLS, grid='[6, "x.shape[0]"]', block="128", kernel="parts")
    + launch("kept", "out", NATURAL % "6", grid="1", block="x.shape[0]", kernel="whole")
)
# The block that comes last, as a cleared counter tells, adds up what all have left.
_LAST_BLOCK = (
    TOGETHER
    + """
extern "C" __global__ void kernel(const float* x, float* out, long long n, float* kept,
                                  unsigned* done) {
    __shared__ float room[32];
    __shared__ bool last;
    float s = 0.0f;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
         i += (long long)gridDim.x * blockDim.x)
        s += x[i];
    s = together(s, add, room);
    if (threadIdx.x == 0) {
        kept[blockIdx.x] = s;
        __threadfence();
        last = atomicAdd(done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    s = 0.0f;
    for (int k = threadIdx.x; k < (int)gridDim.x; k += blockDim.x) s += __ldcg(kept + k);
    s = together(s, add, room);
    if (threadIdx.x == 0) out[0] = s;
}
"""
)
_LAST_PLAN = (
    scratch("kept", "float32", "64")
    + scratch("done", "int32", "1", zero=True)
    + launch("x", "out", "x.numel", "kept", "done", grid="64", block="256")
)
_GRID = (
    """
#include <cooperative_groups.h>
"""
    + TOGETHER
    + """
extern "C" __global__ void kernel(const float* x, float* out, long long n, float* kept) {
    __shared__ float room[32];
    float s = 0.0f;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
         i += (long long)gridDim.x * blockDim.x)
        s += x[i];
    s = together(s, add, room);
    if (threadIdx.x == 0) kept[blockIdx.x] = s;
    cooperative_groups::this_grid().sync();
    if (blockIdx.x != 0) return;
    s = 0.0f;
    for (int k = threadIdx.x; k < (int)gridDim.x; k += blockDim.x) s += __ldcg(kept + k);
    s = together(s, add, room);
    if (threadIdx.x == 0) out[0] = s;
}
"""
)
_GRID_PLAN = scratch("kept", "float32", "device.sms") + launch(
    "x", "out", "x.numel", "kept", grid="device.sms", block="256", more="cooperative = true"
)
_KAHAN = "const float y = p[c] - k, t = s + y; k = (t - s) - y; if (k - k != 0.0f) k = 0.0f; s = t;"
_HALF = (
    """
#include <cuda_fp16.h>
"""
    + TOGETHER
    + """
extern "C" __global__ void kernel(const half2* x, half* out, int pairs) {
    __shared__ float room[32];
    float s = 0.0f;
    for (int c = threadIdx.x; c < pairs; c += blockDim.x) {
        const float2 v = __half22float2(x[(long long)blockIdx.x * pairs + c]);
        s += v.x + v.y;
    }
    s = together(s, add, room);
    if (threadIdx.x == 0) out[blockIdx.x] = __float2half(s);
}
"""
)
_TWO = (
    TOGETHER
    + """
extern "C" __global__ void kernel(const float* x, float* out, float* out1, int cols) {
    __shared__ float room[32];
    const float* p = x + (long long)blockIdx.x * cols;
    float s = 0.0f, m = p[0];
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        s += p[c];
        m = most(m, p[c]);
    }
    s = together(s, add, room);
    m = together(m, most, room);
    if (threadIdx.x == 0) { out[blockIdx.x] = s; out1[blockIdx.x] = m; }
}
"""
)
_COLUMNS = """
extern "C" __global__ void kernel(const float* x, float* out, int rows, int cols, int step) {
    __shared__ float parts[8][32];
    const int r = blockIdx.x * 32 + threadIdx.x;
    float s = 0.0f;
    if (r < rows)
        for (int c = threadIdx.y; c < cols; c += 8) s += x[(long long)c * step + r];
    parts[threadIdx.y][threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.y != 0 || r >= rows) return;
    for (int k = 1; k < 8; ++k) s += parts[k][threadIdx.x];
    out[r] = s;
}
"""
_COLUMNS_PLAN = launch(
    "x", "out", NATURAL % "x.shape[0]", _COLS, NATURAL % "x.stride[1]",
    grid="ceil_div(x.shape[0], 32)", block="[32, 8]",
)  # fmt: skip
_INDEX_ADD = """
extern "C" __global__ void kernel(const float* x, const long long* index, float* sums, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(sums + index[i], x[i]);
}
extern "C" __global__ void hand_over(const float* sums, float* out) {
    out[threadIdx.x] = sums[threadIdx.x];
}
"""
_INDEX_PLAN = (
    scratch("sums", "float32", "64", zero=True)
    + launch("x", "index", "sums", NATURAL % "x.numel")
    + launch("sums", "out", grid="1", block="64", kernel="hand_over")
)

SUMS = [
    honest("sum, a block for each row", "rowsum", sums("s += p[c];")),
    honest("sum by Kahan", "rowsum", sums(_KAHAN).replace("float s = 0.0f;",
           "float s = 0.0f, k = 0.0f;")),
    honest("sum in double precision", "rowsum", sums("t += p[c];").replace(
           "float s = 0.0f;", "float s = 0.0f;\n    double t = 0.0;").replace(
           "s = together(s,", "s = together((float)t,")),
    honest("sum by groups of threads", "rowsum", _GROUPS, launch(
           "x", "out", NATURAL % "x.shape[0]", _COLS, grid="ceil_div(x.shape[0], 4)",
           block="128")),
    honest("sum by atomics on cleared scratch", "rowsum", _ATOMIC, _ATOMIC_PLAN),
    honest("sum in two launches", "rowsum", _SPLIT, _SPLIT_PLAN),
    honest("total by the last block", "total", _LAST_BLOCK, _LAST_PLAN),
    honest("total with a barrier over the grid", "total", _GRID, _GRID_PLAN),
    honest("sum of halves in single precision", "rowsum_half", _HALF, launch(
           "x", "out", NATURAL % "x.shape[1] // 2", **_BY_ROWS)),
    honest("two outputs", "two", _TWO, launch("x", "out", "out1", _COLS, **_BY_ROWS)),
    honest("sum over a transposed argument", "column_sum", _COLUMNS, _COLUMNS_PLAN),
    honest("sums by index with atomics", "index_add", _INDEX_ADD, _INDEX_PLAN),
]  # fmt: skip
