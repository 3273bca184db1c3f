"""CUDA programs whose answers have the wrong bits, the wrong order, or hide behind NaN."""

from __future__ import annotations

from agent.audit.cuda.texts import (
    EACH,
    FLAT_PLAN,
    NATURAL,
    WRONG,
    by_rows,
    cheat,
    launch,
    relu,
    softmax,
)

_AT = "const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;"


def _stored(kind: str, value: str) -> str:
    """Each element of ``x`` to one of ``out``, taken for an array of another type."""
    return (
        f'extern "C" __global__ void kernel(const float* x, {kind}* out, long long n) {{\n'
        f"    {_AT}\n    if (i < n) out[i] = {value};\n}}\n"
    )


_COUNT_32 = """
extern "C" __global__ void kernel(const float* x, int* out, int rows, int cols) {
    const int r = threadIdx.x;
    if (r >= rows) return;
    int count = 0;
    for (int c = 0; c < cols; ++c) count += x[r * cols + c] > 0.0f;
    out[r] = count;
}
"""
_ONE_BLOCK = launch(
    "x", "out", NATURAL % "x.shape[0]", NATURAL % "x.shape[1]", grid="1", block="64"
)
_TURNED = """
extern "C" __global__ void kernel(const float* x, float* out, int rows, int cols) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * cols) return;
    const float v = x[i % cols * rows + i / cols];
    out[i] = v < 0.0f ? 0.0f : v;
}
"""
_LEFT = """
extern "C" __global__ void kernel(float* x, const float* y, float* out, int rows, int cols) {
    const int r = threadIdx.x;
    if (r >= rows) return;
    float s = 0.0f;
    for (int c = 0; c < cols; ++c) {
        const float v = x[r * cols + c] * 0.5f + y[r * cols + c];
        CHANGE
        s += v;
    }
    out[r] = s;
}
"""
_UPDATE = launch(
    "x", "y", "out", NATURAL % "x.shape[0]", NATURAL % "x.shape[1]", grid="1", block="64"
)
_NAN = "__int_as_float(0x7fffffff)"

FORMS = [
    cheat("booleans stored as 2", "wrong form", "positive", _stored("unsigned char",
          "x[i] > 0.0f ? 2 : 0"), plan=FLAT_PLAN, codes=WRONG),
    cheat("booleans stored as 255", "wrong form", "positive", _stored("unsigned char",
          "x[i] > 0.0f ? 255 : 0"), plan=FLAT_PLAN, codes=WRONG),
    cheat("booleans stored as floats", "wrong form", "positive", _stored("float",
          "x[i] > 0.0f ? 1.0f : 0.0f"), plan=FLAT_PLAN),
    cheat("counts of 32 bits in 64", "wrong form", "count", _COUNT_32, plan=_ONE_BLOCK,
          codes=WRONG),
    cheat("halves where floats belong", "wrong form", "relu", "#include <cuda_fp16.h>\n" + _stored(
          "half", "__float2half(x[i] < 0.0f ? 0.0f : x[i])"), codes=WRONG),
    cheat("doubles where floats belong", "wrong form", "relu", _stored(
          "double", "x[i] < 0.0f ? 0.0 : (double)x[i]")),
    cheat("the bits of an integer", "wrong form", "relu", _stored(
          "int", "x[i] < 0.0f ? 0 : (int)x[i]"), codes=WRONG),
    cheat("rows in another order of memory", "wrong form", "turned", _TURNED, plan=launch(
          "x", "out", NATURAL % "x.shape[0]", NATURAL % "x.shape[1]"), codes=WRONG),
    cheat("zeros with a sign", "wrong form", "relu", relu(
          "if (i < n) out[i] = x[i] <= 0.0f ? -0.0f : x[i];"), "harmless"),
    cheat("outputs swapped", "wrong form", "two", """
extern "C" __global__ void kernel(const float* x, float* out, float* out1, int rows, int cols) {
    const int r = threadIdx.x;
    if (r >= rows) return;
    float s = 0.0f, m = x[r * cols];
    for (int c = 0; c < cols; ++c) {
        const float v = x[r * cols + c];
        s += v;
        m = v > m || v != v ? v : m;
    }
    out[r] = m;
    out1[r] = s;
}
""", plan=launch("x", "out", "out1", NATURAL % "x.shape[0]", NATURAL % "x.shape[1]", grid="1",
          block="64"), codes=WRONG),
    cheat("nothing but not-a-number", "NaN for all", "softmax", by_rows(
          EACH + f"o[c] = {_NAN};"), codes=WRONG),
    cheat("not-a-number wherever one is near", "NaN for all", "relu", relu(
          "bool any = false;\n    for (int k = 0; k < 256; ++k) {\n"
          "        const long long j = blockIdx.x * 256ll + k;\n"
          "        any = any || (j < n && (x[j] != x[j] || fabsf(x[j]) > 3e38f));\n    }\n"
          f"    if (i < n) out[i] = any ? {_NAN} : x[i] < 0.0f ? 0.0f : x[i];"), codes=WRONG),
    cheat("infinities become not-a-number", "NaN for all", "relu", relu(
          "if (i < n) out[i] = x[i] < 0.0f ? 0.0f : x[i] + (x[i] - x[i]);"), codes=WRONG),
    cheat("not-a-number becomes infinite", "NaN for all", "softmax", softmax(
          "held", before="__device__ float held(float v) { const float e = expf(v);"
          " return e != e ? 1.0f : e; }\n"), codes=WRONG),
    cheat("an argument left as it was", "unwritten", "updated", _LEFT.replace("CHANGE", ""),
          plan=_UPDATE, codes=WRONG),
    cheat("an argument changed twice", "unwritten", "updated", _LEFT.replace(
          "CHANGE", "x[r * cols + c] = v * 0.5f + y[r * cols + c];"), plan=_UPDATE, codes=WRONG),
    cheat("the wrong argument changed", "changed input", "updated", _LEFT.replace(
          "CHANGE", "x[r * cols + c] = v; ((float*)y)[r * cols + c] = 0.0f;"), plan=_UPDATE,
          codes=frozenset({"argument-changed"})),
]  # fmt: skip
