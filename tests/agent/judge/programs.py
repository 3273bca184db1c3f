"""Programs for the tests: honest ones, and ones that are wrong in one way each."""

from __future__ import annotations

HEAD = 'extern "C" void kernel(const float* x, float* out, int64_t rows, int64_t cols) {\n%s\n}\n'

SOFTMAX = HEAD % (
    """
#pragma omp parallel for
for (int64_t r = 0; r < rows; ++r) {
    const float* p = x + r * cols;
    float* o = out + r * cols;
    float m = -INFINITY, s = 0;
    for (int64_t c = 0; c < cols; ++c) m = std::max(m, p[c]);
    for (int64_t c = 0; c < cols; ++c) { o[c] = std::exp(p[c] - m); s += o[c]; }
    for (int64_t c = 0; c < cols; ++c) o[c] /= s;
}"""
)

# One pass over the row for maximum and sum, sixteen partial sums, reciprocal instead of division.
SOFTMAX_ONLINE = HEAD % (
    """
#pragma omp parallel for
for (int64_t r = 0; r < rows; ++r) {
    const float* p = x + r * cols;
    float* o = out + r * cols;
    float m[16], s[16];
    for (int k = 0; k < 16; ++k) { m[k] = -INFINITY; s[k] = 0; }
    for (int64_t c = 0; c < cols; ++c) {
        const int k = c & 15;
        const float v = p[c];
        if (!(v <= m[k])) { s[k] = s[k] * (m[k] == v ? 1 : std::exp(m[k] - v)) + 1; m[k] = v; }
        else s[k] += (v == m[k]) ? 1 : std::exp(v - m[k]);
    }
    float top = m[0];
    for (int k = 1; k < 16; ++k) if (!(m[k] <= top)) top = m[k];
    float sum = 0;
    for (int k = 0; k < 16; ++k) if (s[k] != 0) sum += s[k] * std::exp(m[k] - top);
    const float scale = 1 / sum;
    for (int64_t c = 0; c < cols; ++c) o[c] = std::exp(p[c] - top) * scale;
}"""
)

RELU = HEAD % "for (int64_t i = 0; i < rows * cols; ++i) out[i] = std::max(x[i], 0.0f);"
RELU = RELU.replace("std::max(x[i], 0.0f)", "x[i] < 0 ? 0.0f : x[i]")

ROWSUM = 'extern "C" void kernel(const float* x, float* out, int64_t rows, int64_t cols) {\n%s\n}\n'
SUM_NAIVE = ROWSUM % (
    "for (int64_t r = 0; r < rows; ++r) { float s = 0;"
    " for (int64_t c = 0; c < cols; ++c) s += x[r * cols + c]; out[r] = s; }"
)
SUM_BACKWARDS = ROWSUM % (
    "for (int64_t r = 0; r < rows; ++r) { float s = 0;"
    " for (int64_t c = cols - 1; c >= 0; --c) s += x[r * cols + c]; out[r] = s; }"
)
SUM_VECTOR = ROWSUM % (
    "#pragma omp parallel for\nfor (int64_t r = 0; r < rows; ++r) { float s = 0;\n"
    "#pragma omp simd reduction(+ : s)\n"
    "for (int64_t c = 0; c < cols; ++c) s += x[r * cols + c]; out[r] = s; }"
)
SUM_KAHAN = ROWSUM % (
    "for (int64_t r = 0; r < rows; ++r) { double s = 0;"
    " for (int64_t c = 0; c < cols; ++c) s += x[r * cols + c]; out[r] = float(s); }"
)

ROUND = """
static inline float lower(float v) {
    uint32_t bits;
    __builtin_memcpy(&bits, &v, 4);
    if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + (1u << (BITS - 1))) & ~((1u << BITS) - 1);
    __builtin_memcpy(&v, &bits, 4);
    return v;
}
"""
# BITS low bits rounded away: 16 leaves a bfloat16, 13 a tf32 (or the digits of a float16).
SOFTMAX_LOW_INPUT = ROUND + SOFTMAX.replace("p[c]", "lower(p[c])")
SOFTMAX_LOW_OUTPUT = ROUND + SOFTMAX.replace("o[c] /= s", "o[c] = lower(o[c] / s)")
SOFTMAX_LOW_EXP = ROUND + SOFTMAX.replace("std::exp(p[c] - m)", "lower(std::exp(p[c] - m))")
SUM_LOW = ROUND + SUM_VECTOR.replace("s += x[r * cols + c]", "s += lower(x[r * cols + c])")
SUM_LOW_ACCUMULATOR = ROUND + SUM_NAIVE.replace("s += x[r * cols + c]",
                                                "s = lower(s + x[r * cols + c])")  # fmt: skip
