"""Right CUDA programs that treat each element alone."""

from __future__ import annotations

from agent.audit.cuda.caches import VECTOR_PLAN, vector
from agent.audit.cuda.texts import FLAT_PLAN, NATURAL, honest, launch, relu

_INDEX = "const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;"
_VECTORS = """
extern "C" __global__ void kernel(const float* __restrict__ x, float* __restrict__ out,
                                  long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n / 4) {
        float4 v = reinterpret_cast<const float4*>(x)[i];
        v.x = v.x < 0.0f ? 0.0f : v.x;
        v.y = v.y < 0.0f ? 0.0f : v.y;
        v.z = v.z < 0.0f ? 0.0f : v.z;
        v.w = v.w < 0.0f ? 0.0f : v.w;
        reinterpret_cast<float4*>(out)[i] = v;
    }
    if (i < n % 4) {
        const float v = x[n / 4 * 4 + i];
        out[n / 4 * 4 + i] = v < 0.0f ? 0.0f : v;
    }
}
"""
_STRIDING = """
extern "C" __global__ void kernel(const float* x, float* out, long long n) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step)
        __stcs(out + i, __ldg(x + i) < 0.0f ? 0.0f : __ldg(x + i));
}
"""
_TUNED = """
template <int PER>
__device__ __forceinline__ void some(const float* x, float* out, long long first, long long n) {
    #pragma unroll
    for (int k = 0; k < PER; ++k) {
        const long long i = first + (long long)k * THREADS;
        if (i < n) out[i] = x[i] < 0.0f ? 0.0f : x[i];
    }
}
extern "C" __global__ void __launch_bounds__(THREADS) kernel(const float* x, float* out,
                                                             long long n) {
    some<ITEMS>(x, out, (long long)blockIdx.x * THREADS * ITEMS + threadIdx.x, n);
}
"""
_GAPS = """
extern "C" __global__ void kernel(const float* x, float* out, int cols, int step) {
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        const float v = x[(long long)blockIdx.x * step + c];
        out[(long long)blockIdx.x * cols + c] = v < 0.0f ? 0.0f : v;
    }
}
"""


def _flat(value: str, types: str = "float,float") -> str:
    """Each element of ``out`` from that of ``x``."""
    before, after = types.split(",")
    return (
        f'extern "C" __global__ void kernel(const {before}* x, {after}* out, long long n) {{\n'
        f"    {_INDEX}\n    if (i >= n) return;\n    const {before} v = x[i];\n"
        f"    out[i] = {value};\n}}\n"
    )


_PTX = """
extern "C" __global__ void kernel(const float* x, float* out, long long n) {
    const long long i = (blockIdx.x * (long long)blockDim.x + threadIdx.x) * 4;
    if (i >= n) return;
    float a, b, c, d;
    asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x + i));
    a = a < 0.0f ? 0.0f : a;
    b = b < 0.0f ? 0.0f : b;
    c = c < 0.0f ? 0.0f : c;
    d = d < 0.0f ? 0.0f : d;
    asm volatile("st.global.cs.v4.f32 [%0], {%1, %2, %3, %4};"
                 :: "l"(out + i), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}
"""
_BLUR = """
__constant__ const float weights[3] = {0.25f, 0.5f, 0.25f};
extern "C" __global__ void kernel(const float* x, float* out, int cols) {
    const float* p = x + (long long)blockIdx.x * (cols + 2);
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float s = 0.0f;
        #pragma unroll
        for (int k = 0; k < 3; ++k) s += weights[k] * p[c + k];
        out[(long long)blockIdx.x * cols + c] = s;
    }
}
"""
_BLUR_PLAN = launch("x", "out", NATURAL % "out.shape[1]", grid="x.shape[0]", block="96")
_TWO = """
extern "C" __global__ void kernel(const {0}* x, const {1}* y, {0}* out, long long n) {{
    {2}
    if (i < n) out[i] = {3};
}}
"""
_SCALARS = """
extern "C" __global__ void kernel(const float* x, float* out, long long n, float alpha,
                                  int shift, double factor, int twice) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = (x[i] * alpha + (float)shift) * (twice ? (float)factor : 1.0f);
}
"""
_UPDATED = """
extern "C" __global__ void kernel(float* x, const float* y, float* out, int cols) {
    __shared__ float sums[4];
    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        const long long i = (long long)blockIdx.x * cols + c;
        const float v = x[i] * 0.5f + y[i];
        x[i] = v;
        s += v;
    }
    for (int k = 16; k > 0; k >>= 1) s += __shfl_xor_sync(0xffffffffu, s, k);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
"""
_JOINED = """
extern "C" __global__ void kernel(const float* x, const float* y, float* out, long long first,
                                  long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = i < first ? x[i] : y[i - first];
}
"""
_FLAT = launch("x", "out", "x.numel")

ELEMENTWISE = [
    honest("relu, plain", "relu", relu()),
    honest("relu by vectors and a rest", "relu", _VECTORS,
           launch("x", "out", "x.numel", grid="ceil_div(x.numel, 1024)")),
    honest("relu in a grid that strides", "relu", _STRIDING,
           launch("x", "out", "x.numel", grid="min(device.sms * 2, ceil_div(x.numel, 256))")),
    honest("relu with tunables", "relu", _TUNED, launch(
           "x", "out", "x.numel", grid="ceil_div(x.numel, THREADS * ITEMS)", block="THREADS"),
           tune="[tune]\nTHREADS = [128, 256]\nITEMS = [4, 2]\n"),
    honest("relu by inline PTX", "relu", _PTX,
           launch("x", "out", "x.numel", grid="ceil_div(x.numel, 1024)"), needs=70),
    honest("relu of three dimensions", "relu", relu(
           "const long long j = i + (blockIdx.y + 2ll * blockIdx.z) * ((n + 3) / 4);\n"
           "    if (i < (n + 3) / 4 && j < n) out[j] = x[j] < 0.0f ? 0.0f : x[j];"),
           launch("x", "out", "x.numel", grid='["ceil_div(x.numel, 1024)", 2, 2]')),
    honest("relu of rows with gaps", "gaps", _GAPS, launch(
           "x", "out", NATURAL % "x.shape[1]", NATURAL % "x.stride[0]", grid="x.shape[0]",
           block="64")),
    honest("relu of a transposed argument", "turned", relu(), FLAT_PLAN),
    honest("relu of one element", "one", relu(), FLAT_PLAN),
    honest("relu of halves of warps", "relu", relu(
           "const float v = i < n ? x[i] : 0.0f;\n"
           "    const float w = __shfl_xor_sync(0xffffffffu, v, 16);\n"
           "    const float u = __shfl_xor_sync(0xffffffffu, w, 16);\n"
           "    if (i < n) out[i] = u < 0.0f ? 0.0f : u;")),
    honest("large relu by vectors", "relu_large", vector(), VECTOR_PLAN),
    honest("large relu with streaming stores", "relu_large", vector(
           load="v = __ldcs((const float4*)(x + i));", store="__stcs((float4*)(out + i), v);"),
           VECTOR_PLAN),
    honest("gelu with erff", "gelu", _flat("0.5f * v * (1.0f + erff(v * 0.70710678f))"), _FLAT),
    honest("gelu with normcdff", "gelu", _flat("v * normcdff(v)"), _FLAT),
    honest("gelu with tanhf", "gelu_tanh", _flat(
           "0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)))"), _FLAT),
    honest("a blur with a table of constants", "blur", _BLUR, _BLUR_PLAN),
    honest("a comparison to booleans", "positive", _flat("v > 0.0f", "float,bool"), _FLAT),
    honest("arithmetic on integers", "integers", _TWO.format("int", "int", _INDEX,
           "x[i] * 3 - y[i]"), launch("x", "y", "out", "x.numel")),
    honest("a choice by booleans", "masked", _TWO.format("float", "bool", _INDEX,
           "y[i] ? x[i] : 0.0f"), launch("x", "mask", "out", "x.numel")),
    honest("bytes to floats", "scaled_bytes", _flat("v * (1.0f / 128.0f) - 1.0f",
           "unsigned char,float"), _FLAT),
    honest("scalars of all types", "scalars", _SCALARS, launch(
           "x", "out", "x.numel", '{expr = "alpha", type = "float32"}', NATURAL % "shift",
           '{expr = "2.0", type = "float64"}', NATURAL % "twice")),
    honest("an argument changed as asked", "updated", _UPDATED, launch(
           "x", "y", "out", NATURAL % "x.shape[1]", grid="x.shape[0]", block="128")),
    honest("an empty argument", "joined", _JOINED, launch(
           "x", "y", "out", "x.numel", "out.numel", grid="ceil_div(out.numel, 256)")),
]  # fmt: skip
