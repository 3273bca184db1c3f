"""Right CUDA programs that move elements: transposes, windows, gathers."""

from __future__ import annotations

from agent.audit.cuda.texts import NATURAL, honest, launch

_TRANSPOSE = """
extern "C" __global__ void kernel(const float* x, float* out, int rows, int cols) {
    __shared__ float tile[32][33];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (c < cols && r + k < rows) tile[threadIdx.y + k][threadIdx.x] = x[(r + k) * cols + c];
    __syncthreads();
    c = blockIdx.y * 32 + threadIdx.x;
    r = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (c < rows && r + k < cols) out[(r + k) * rows + c] = tile[threadIdx.x][threadIdx.y + k];
}
"""
_TRANSPOSE_PLAN = launch(
    "x", "out", NATURAL % "x.shape[0]", NATURAL % "x.shape[1]",
    grid='["ceil_div(x.shape[1], 32)", "ceil_div(x.shape[0], 32)"]', block="[32, 8]",
)  # fmt: skip
_POOL = """
extern "C" __global__ void kernel(const float* x, float* out, int planes, int height, int width,
                                  int rows, int cols) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= planes * rows * cols) return;
    const int c = i % cols, r = i / cols % rows;
    const float* p = x + i / (rows * cols) * height * width;
    float m = __int_as_float(0xff800000);
    for (int a = max(0, 2 * r - 1); a < min(height, 2 * r + 2); ++a)
        for (int b = max(0, 2 * c - 1); b < min(width, 2 * c + 2); ++b) {
            const float v = p[a * width + b];
            m = v > m || v != v ? v : m;
        }
    out[i] = m;
}
"""
_POOL_PLAN = launch(
    "x", "out", NATURAL % "x.shape[0] * x.shape[1]",
    *(NATURAL % f"{name}.shape[{at}]" for name in ("x", "out") for at in (2, 3)),
    grid="ceil_div(out.numel, 128)", block="128",
)  # fmt: skip
_EMBEDDING = """
extern "C" __global__ void kernel(const float4* weight, const long long* index, float4* out,
                                  int width) {
    for (int c = threadIdx.x; c < width; c += blockDim.x)
        out[blockIdx.x * width + c] = weight[index[blockIdx.x] * width + c];
}
"""

MOVEMENT = [
    honest("transpose through padded tiles", "transpose", _TRANSPOSE, _TRANSPOSE_PLAN),
    honest("transpose, a thread for each element", "transpose", """
extern "C" __global__ void kernel(const float* x, float* out, int rows, int cols) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) out[i % cols * rows + i / cols] = x[i];
}
""", launch("x", "out", NATURAL % "x.shape[0]", NATURAL % "x.shape[1]")),
    honest("largest of windows", "pool", _POOL, _POOL_PLAN),
    honest("rows by index, by vectors", "embedding", _EMBEDDING, launch(
           "weight", "index", "out", NATURAL % "weight.shape[1] // 4", grid="index.numel",
           block="32")),
]  # fmt: skip
