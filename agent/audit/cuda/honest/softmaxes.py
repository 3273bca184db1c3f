"""Right CUDA programs for softmax."""

from __future__ import annotations

from agent.audit.cuda.texts import NATURAL, TOGETHER, honest, launch, softmax

_SIZES = (NATURAL % "x.shape[0]", NATURAL % "x.shape[1]")
_COLS = NATURAL % "x.shape[1]"
_THREAD_ROW = """
extern "C" __global__ void kernel(const float* x, float* out, int rows, int cols) {
    const int r = threadIdx.x;
    if (r >= rows) return;
    const float* p = x + r * cols;
    float m = p[0], s = 0.0f;
    for (int c = 1; c < cols; ++c) m = fmaxf(m, p[c]);
    for (int c = 0; c < cols; ++c) s += expf(p[c] - m);
    for (int c = 0; c < cols; ++c) out[r * cols + c] = expf(p[c] - m) / s;
}
"""
_WARP_ROW = """
extern "C" __global__ void kernel(const float* x, float* out, int rows, int cols) {
    const int r = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (r >= rows) return;
    const float* p = x + (long long)r * cols;
    float m = __int_as_float(0xff800000), s = 0.0f;
    for (int c = lane; c < cols; c += 32) m = fmaxf(m, p[c]);
    for (int k = 16; k > 0; k >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, k));
    for (int c = lane; c < cols; c += 32) s += expf(p[c] - m);
    for (int k = 16; k > 0; k >>= 1) s += __shfl_xor_sync(0xffffffffu, s, k);
    for (int c = lane; c < cols; c += 32) out[(long long)r * cols + c] = expf(p[c] - m) / s;
}
"""
# Maximum and sum in one pass; a maximum of minus infinity has added nothing yet.
_ONLINE = (
    TOGETHER
    + """
extern "C" __global__ void kernel(const float* x, float* out, int cols) {
    __shared__ float room[32];
    const float* p = x + (long long)blockIdx.x * cols;
    const float least = __int_as_float(0xff800000);
    float m = least, s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        const float v = p[c], next = fmaxf(m, v);
        if (v != v || next == -least) s = __int_as_float(0x7fffffff);
        else if (next != least) s = s * expf(m - next) + expf(v - next);
        m = next;
    }
    const float top = together(m, larger, room);
    s = together(m == least ? s : s * expf(m - top), add, room);
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        out[(long long)blockIdx.x * cols + c] = expf(p[c] - top) / s;
}
"""
)
# The whole row stays in registers between the passes.
_REGISTERS = (
    TOGETHER
    + """
extern "C" __global__ void __launch_bounds__(THREADS) kernel(const float* x, float* out, int cols) {
    __shared__ float room[32];
    constexpr int PER = (333 + THREADS - 1) / THREADS;
    const float* p = x + (long long)blockIdx.x * cols;
    float v[PER], m = __int_as_float(0xff800000), s = 0.0f;
    #pragma unroll
    for (int k = 0; k < PER; ++k) {
        const int c = k * THREADS + threadIdx.x;
        v[k] = c < cols ? p[c] : __int_as_float(0xff800000);
        m = fmaxf(m, v[k]);
    }
    m = together(m, larger, room);
    #pragma unroll
    for (int k = 0; k < PER; ++k) {
        const int c = k * THREADS + threadIdx.x;
        v[k] = expf(v[k] - m);
        s += c < cols ? v[k] : 0.0f;
    }
    s = together(s, add, room);
    #pragma unroll
    for (int k = 0; k < PER; ++k) {
        const int c = k * THREADS + threadIdx.x;
        if (c < cols) out[(long long)blockIdx.x * cols + c] = v[k] / s;
    }
}
"""
)
# Four rows in dynamic shared memory, more than the 48 KiB that need no asking.
_SHARED = (
    TOGETHER
    + """
extern "C" __global__ void kernel(const float* x, float* out, int cols) {
    extern __shared__ float row[];
    __shared__ float room[32];
    float* e = row + 12288;
    const float* p = x + (long long)blockIdx.x * cols;
    float m = __int_as_float(0xff800000), s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) row[c] = p[c];
    __syncthreads();
    for (int c = threadIdx.x; c < cols; c += blockDim.x) m = fmaxf(m, row[c]);
    m = together(m, larger, room);
    for (int c = threadIdx.x; c < cols; c += blockDim.x) s += e[c] = expf(row[c] - m);
    s = together(s, add, room);
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        out[(long long)blockIdx.x * cols + c] = e[c] / s;
}
"""
)
_CUB = """
#include <cub/block/block_reduce.cuh>
struct Larger {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
extern "C" __global__ void kernel(const float* x, float* out, int cols) {
    using Reduce = cub::BlockReduce<float, 128>;
    __shared__ typename Reduce::TempStorage room;
    __shared__ float kept;
    const float* p = x + (long long)blockIdx.x * cols;
    float m = __int_as_float(0xff800000), s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 128) m = fmaxf(m, p[c]);
    m = Reduce(room).Reduce(m, Larger{});
    if (threadIdx.x == 0) kept = m;
    __syncthreads();
    m = kept;
    for (int c = threadIdx.x; c < cols; c += 128) s += expf(p[c] - m);
    s = Reduce(room).Sum(s);
    __syncthreads();
    if (threadIdx.x == 0) kept = s;
    __syncthreads();
    s = kept;
    for (int c = threadIdx.x; c < cols; c += 128)
        out[(long long)blockIdx.x * cols + c] = expf(p[c] - m) / s;
}
"""
_BF16 = (
    TOGETHER
    + """
extern "C" __global__ void kernel(const __nv_bfloat16* x, __nv_bfloat16* out, int pairs) {
    __shared__ float room[32];
    const __nv_bfloat162* p = (const __nv_bfloat162*)x + (long long)blockIdx.x * pairs;
    __nv_bfloat162* o = (__nv_bfloat162*)out + (long long)blockIdx.x * pairs;
    float m = __int_as_float(0xff800000), s = 0.0f;
    for (int c = threadIdx.x; c < pairs; c += blockDim.x) {
        const float2 v = __bfloat1622float2(p[c]);
        m = fmaxf(m, fmaxf(v.x, v.y));
    }
    m = together(m, larger, room);
    for (int c = threadIdx.x; c < pairs; c += blockDim.x) {
        const float2 v = __bfloat1622float2(p[c]);
        s += expf(v.x - m) + expf(v.y - m);
    }
    s = 1.0f / together(s, add, room);
    for (int c = threadIdx.x; c < pairs; c += blockDim.x) {
        const float2 v = __bfloat1622float2(p[c]);
        o[c] = __floats2bfloat162_rn(expf(v.x - m) * s, expf(v.y - m) * s);
    }
}
"""
)
_BY_ROWS = {"grid": "x.shape[0]", "block": "128"}

SOFTMAXES = [
    honest("softmax, a thread for each row", "softmax", _THREAD_ROW,
           launch("x", "out", *_SIZES, grid="1", block="128")),
    honest("softmax, a warp for each row", "softmax", _WARP_ROW,
           launch("x", "out", *_SIZES, grid="ceil_div(x.shape[0], 4)", block="128")),
    honest("softmax, a block for each row", "softmax", softmax()),
    honest("softmax times the reciprocal", "softmax", softmax().replace("/ s)", "* (1.0f / s))")),
    honest("softmax with the quick exponential", "softmax", softmax("__expf")),
    honest("softmax with exp2", "softmax", softmax().replace(
           "expf(p[c] - m)", "exp2f((p[c] - m) * 1.44269504f)")),
    honest("softmax with a reciprocal in double precision", "softmax", softmax().replace(
           "/ s)", "* (float)(1.0 / (double)s))")),
    honest("softmax online", "softmax", _ONLINE),
    honest("softmax in registers, with tunables", "softmax", _REGISTERS, launch(
           "x", "out", _COLS, grid="x.shape[0]", block="THREADS"),
           tune="[tune]\nTHREADS = [96, 64, 352]\n"),
    honest("softmax in much shared memory", "softmax", _SHARED, launch(
           "x", "out", _COLS, **_BY_ROWS, more="shared = 98304")),
    honest("softmax with a library's block sum", "softmax", _CUB),
    honest("softmax of pairs of bfloat16", "softmax_bf16", "#include <cuda_bf16.h>\n" + _BF16,
           launch("x", "out", NATURAL % "x.shape[1] // 2", **_BY_ROWS)),
    honest("softmax of any number of rows", "softmax_ranged", softmax()),
    honest("large softmax, a block for each row", "softmax_large", softmax()),
]  # fmt: skip
