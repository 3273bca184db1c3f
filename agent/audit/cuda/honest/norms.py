"""Right CUDA programs for norms and losses."""

from __future__ import annotations

from agent.audit.cuda.texts import NATURAL, RMS, TOGETHER, by_rows, honest, launch

_COLS = NATURAL % "x.shape[1]"
_BY_ROWS = {"grid": "x.shape[0]", "block": "128"}
_LAYER = (
    TOGETHER
    + """
extern "C" __global__ void kernel(const float* x, const float* w, const float* b, float* out,
                                  int cols) {
    __shared__ float room[32];
    const float* p = x + (long long)blockIdx.x * cols;
    float mean = 0.0f, m2 = 0.0f;
STATS
    const float q = rsqrtf(m2 / cols + 1e-5f);
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        out[(long long)blockIdx.x * cols + c] = (p[c] - mean) * q * w[c] + b[c];
}
"""
)
_LAYER_PLAN = launch("x", "w", "b", "out", _COLS, grid="x.shape[0]", block="128")
_TWO_PASSES = """
    for (int c = threadIdx.x; c < cols; c += blockDim.x) mean += p[c];
    mean = together(mean, add, room) / cols;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) m2 += (p[c] - mean) * (p[c] - mean);
    m2 = together(m2, add, room);"""
# Chan's formula merges what two lanes, then two warps, have seen.
_WELFORD = """
    float n = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        const float d = p[c] - mean;
        n += 1.0f;
        mean += d / n;
        m2 += d * (p[c] - mean);
    }
    for (int k = 16; k > 0; k >>= 1) {
        const float n2 = __shfl_xor_sync(0xffffffffu, n, k);
        const float d = __shfl_xor_sync(0xffffffffu, mean, k) - mean;
        const float more = __shfl_xor_sync(0xffffffffu, m2, k);
        const float both = fmaxf(n + n2, 1.0f);
        mean += d * (n2 / both);
        m2 += more + d * d * (n * n2 / both);
        n += n2;
    }
    __shared__ float parts[3][4];
    if (threadIdx.x % 32 == 0) {
        parts[0][threadIdx.x / 32] = n;
        parts[1][threadIdx.x / 32] = mean;
        parts[2][threadIdx.x / 32] = m2;
    }
    __syncthreads();
    n = parts[0][0];
    mean = parts[1][0];
    m2 = parts[2][0];
    for (int k = 1; k < 4; ++k) {
        const float n2 = parts[0][k], d = parts[1][k] - mean, both = fmaxf(n + n2, 1.0f);
        mean += d * (n2 / both);
        m2 += parts[2][k] + d * d * (n * n2 / both);
        n += n2;
    }"""
_RMS_WEIGHT = (
    TOGETHER
    + """
extern "C" __global__ void kernel(const float4* x, const float4* w, float4* out) {
    __shared__ float room[32];
    const float4 v = x[blockIdx.x * 128 + threadIdx.x], u = w[threadIdx.x];
    const float s = together(v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w, add, room);
    const float q = rsqrtf(s / 512.0f + 1e-5f);
    out[blockIdx.x * 128 + threadIdx.x] =
        make_float4(v.x * q * u.x, v.y * q * u.y, v.z * q * u.z, v.w * q * u.w);
}
"""
)
_RMS_HALF = (
    TOGETHER
    + """
extern "C" __global__ void kernel(const half2* x, half2* out) {
    __shared__ float room[32];
    const float2 v = __half22float2(x[blockIdx.x * 256 + threadIdx.x]);
    const float s = together(v.x * v.x + v.y * v.y, add, room);
    const float q = rsqrtf(s / 512.0f + 1e-5f);
    out[blockIdx.x * 256 + threadIdx.x] = __floats2half2_rn(v.x * q, v.y * q);
}
"""
)
_CROSS = (
    TOGETHER
    + """
extern "C" __global__ void losses(const float* x, const long long* y, float* loss, int cols) {
    __shared__ float room[32];
    const float* p = x + (long long)blockIdx.x * cols;
    float m = __int_as_float(0xff800000), s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) m = fmaxf(m, p[c]);
    m = together(m, larger, room);
    for (int c = threadIdx.x; c < cols; c += blockDim.x) s += expf(p[c] - m);
    s = together(s, add, room);
    if (threadIdx.x == 0) loss[blockIdx.x] = logf(s) + m - p[y[blockIdx.x]];
}
extern "C" __global__ void average(const float* loss, float* out, int rows) {
    __shared__ float room[32];
    float s = 0.0f;
    for (int r = threadIdx.x; r < rows; r += blockDim.x) s += loss[r];
    s = together(s, add, room);
    if (threadIdx.x == 0) out[0] = s / rows;
}
"""
)
_CROSS_PLAN = (
    '[[scratch]]\nname = "loss"\ndtype = "float32"\nshape = ["x.shape[0]"]\n'
    + launch("x", "y", "loss", _COLS, grid="x.shape[0]", block="128", kernel="losses")
    + launch("loss", "out", NATURAL % "x.shape[0]", grid="1", block="64", kernel="average")
)

NORMS = [
    honest("layer norm in two passes", "layer_norm", _LAYER.replace("STATS", _TWO_PASSES),
           _LAYER_PLAN),
    honest("layer norm by Welford and Chan", "layer_norm", _LAYER.replace("STATS", _WELFORD),
           _LAYER_PLAN),
    honest("rms norm, a block for each row", "rms", by_rows(RMS.replace("SCALE", "rsqrtf"))),
    honest("rms norm by vectors", "rms_weight", _RMS_WEIGHT, launch(
           "x", "w", "out", **_BY_ROWS)),
    honest("rms norm of pairs of halves", "rms_half", "#include <cuda_fp16.h>\n" + _RMS_HALF,
           launch("x", "out", grid="x.shape[0]", block="256")),
    honest("cross entropy in two launches", "cross", _CROSS, _CROSS_PLAN),
]  # fmt: skip
