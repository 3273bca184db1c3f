"""Right C++ programs in many styles, each of which must pass."""

from __future__ import annotations

from agent.audit.cpp.texts import INCLUDES, plan
from agent.audit.rows import PASSED, Row, reply

PAR = "#pragma omp parallel for\n"
TOP = 'extern "C" void kernel('
ROWS = PAR + "for (int64_t r = 0; r < rows; ++r) { const float* p = x + r * cols;\n"
XO = TOP + "const float* x, float* out, int64_t rows, int64_t cols) {\n"
XO_PLAN = plan("x", "out", "x.shape[0]", "x.shape[1]")
FLAT = TOP + "const float* x, float* out, int64_t n) {\n" + PAR
FLAT_PLAN = plan("x", "out", "x.numel")
GELU = FLAT + "for (int64_t i = 0; i < n; ++i) { const float v = x[i]; out[i] = %s; }\n}"

SOFTMAX = (
    XO
    + ROWS
    + """float* o = out + r * cols; float m = -INFINITY, s = 0;
for (int64_t c = 0; c < cols; ++c) m = std::max(m, p[c]);
for (int64_t c = 0; c < cols; ++c) { o[c] = std::exp(p[c] - m); s += o[c]; }
for (int64_t c = 0; c < cols; ++c) o[c] = LAST; } }"""
)
ONLINE = (
    XO
    + ROWS
    + """float* o = out + r * cols; float m = -INFINITY, s = 0;
for (int64_t c = 0; c < cols; ++c) { const float v = p[c];
  if (v > m) { s = s * std::exp(m - v) + std::exp(v - v); m = v; }
  else if (v != -INFINITY) s += std::exp(v - m); }
for (int64_t c = 0; c < cols; ++c) o[c] = std::exp(p[c] - m) / s; } }"""
)
LAYER = (
    TOP
    + """const float* x, const float* w, const float* b, float* out, int64_t rows,
int64_t cols) {
"""
    + ROWS
    + """float mean = 0, m2 = 0;
STATS
const float q = 1 / std::sqrt(m2 / cols + 1e-5f);
for (int64_t c = 0; c < cols; ++c) out[r * cols + c] = (p[c] - mean) * q * w[c] + b[c]; } }"""
)
LAYER_PLAN = plan("x", "w", "b", "out", "x.shape[0]", "x.shape[1]")
WELFORD = """for (int64_t c = 0; c < cols; ++c) { const float d = p[c] - mean;
mean += d / float(c + 1); m2 += d * (p[c] - mean); }"""
TWO_PASS = """for (int64_t c = 0; c < cols; ++c) mean += p[c]; mean /= cols;
for (int64_t c = 0; c < cols; ++c) m2 += (p[c] - mean) * (p[c] - mean);"""
RMS = (
    "#include <immintrin.h>\n"
    + TOP
    + """const float* x, const float* w, float* out, int64_t rows,
int64_t cols) {
"""
    + ROWS
    + """__m128 s = _mm_setzero_ps();
for (int64_t c = 0; c < cols; c += 4) { const __m128 v = _mm_loadu_ps(p + c);
  s = _mm_add_ps(s, _mm_mul_ps(v, v)); }
alignas(16) float t[4]; _mm_store_ps(t, s);
const __m128 q = _mm_set1_ps(1 / std::sqrt((t[0] + t[1] + t[2] + t[3]) / cols + 1e-5f));
for (int64_t c = 0; c < cols; c += 4) _mm_storeu_ps(out + r * cols + c,
  _mm_mul_ps(_mm_mul_ps(_mm_loadu_ps(p + c), q), _mm_loadu_ps(w + c))); } }"""
)
SUM = XO + ROWS + "float s = 0; %s out[r] = s; } }"
PAIRWISE = """static float pairwise(const float* p, int64_t n) {
if (n <= 8) { float s = 0; for (int64_t i = 0; i < n; ++i) s += p[i]; return s; }
return pairwise(p, n / 2) + pairwise(p + n / 2, n - n / 2); }
"""
CUMSUM = (
    XO + ROWS + "T s = 0; for (int64_t c = 0; c < cols; ++c) { s += p[c]; "
    "out[r * cols + c] = float(s); } } }"
)
POOL = (
    XO
    + """for (int64_t k = 0; k < 6; ++k) for (int64_t i = 0; i < rows; ++i)
for (int64_t j = 0; j < cols; ++j) { float m = -INFINITY;
  for (int64_t a = 2 * i - 1; a < 2 * i + 2; ++a) for (int64_t b = 2 * j - 1; b < 2 * j + 2; ++b)
    if (a >= 0 && a < 31 && b >= 0 && b < 30) { const float v = x[(k * 31 + a) * 30 + b];
      m = v > m || v != v ? v : m; }
  out[(k * rows + i) * cols + j] = m; } }"""
)
EMBED = (
    TOP
    + """const float* weight, const int64_t* index, float* out, int64_t n, int64_t width) {
for (int64_t i = 0; i < n; ++i) std::memcpy(out + i * width, weight + index[i] * width, width * 4);
}"""
)
CROSS = (
    TOP
    + """const float* x, const int64_t* y, float* out, int64_t rows, int64_t cols) {
float total = 0;
for (int64_t r = 0; r < rows; ++r) { const float* p = x + r * cols; float m = -INFINITY, s = 0;
  for (int64_t c = 0; c < cols; ++c) m = std::max(m, p[c]);
  for (int64_t c = 0; c < cols; ++c) s += std::exp(p[c] - m);
  total += std::log(s) + m - p[y[r]]; }
out[0] = total / rows; }"""
)

PROGRAMS = [
    ("softmax naive", "softmax", SOFTMAX.replace("LAST", "o[c] / s"), XO_PLAN),
    ("softmax times the reciprocal", "softmax", SOFTMAX.replace("LAST", "o[c] * (1 / s)"), XO_PLAN),
    ("softmax in double", "softmax", SOFTMAX.replace("LAST", "o[c] / s").replace(
        "s = 0;", "z = 0; double s = 0;"), XO_PLAN),
    ("softmax online", "softmax", ONLINE, XO_PLAN),
    ("layer norm by Welford", "layer_norm", LAYER.replace("STATS", WELFORD), LAYER_PLAN),
    ("layer norm in two passes", "layer_norm", LAYER.replace("STATS", TWO_PASS), LAYER_PLAN),
    ("rms norm with intrinsics", "rms_weight", RMS,
     plan("x", "w", "out", "x.shape[0]", "x.shape[1]")),
    ("sum, plain", "rowsum", SUM % "for (int64_t c = 0; c < cols; ++c) s += p[c];", XO_PLAN),
    ("sum by Kahan", "rowsum", SUM % "float k = 0; for (int64_t c = 0; c < cols; ++c) {"
     " const float y = p[c] - k, t = s + y; k = (t - s) - y;"
     " if (k - k != 0) k = 0; s = t; }", XO_PLAN),
    ("sum by halves", "rowsum", PAIRWISE + SUM % "s = pairwise(p, cols);", XO_PLAN),
    ("sum by simd", "rowsum", SUM % "\n#pragma omp simd reduction(+ : s)\n"
     "for (int64_t c = 0; c < cols; ++c) s += p[c];", XO_PLAN),
    ("gelu with erff", "gelu", GELU % "0.5f * v * (1 + erff(v * 0.70710678f))", FLAT_PLAN),
    ("gelu with erf in double", "gelu", GELU % "float(0.5 * v * (1 + erf(v / sqrt(2.0))))",
     FLAT_PLAN),
    ("gelu with tanhf", "gelu_tanh", GELU %
     "0.5f * v * (1 + tanhf(0.79788456f * (v + 0.044715f * v * v * v)))", FLAT_PLAN),
    ("transpose, plain", "transpose", XO + "for (int64_t r = 0; r < rows; ++r) for (int64_t c = 0;"
     " c < cols; ++c) out[c * rows + r] = x[r * cols + c]; }", XO_PLAN),
    ("cumsum in order", "cumsum", CUMSUM.replace("T s", "float s"), XO_PLAN),
    ("cumsum in double", "cumsum", CUMSUM.replace("T s", "double s"), XO_PLAN),
    ("max pool, plain", "pool", POOL, plan("x", "out", "out.shape[2]", "out.shape[3]")),
    ("embedding by memcpy", "embedding", EMBED,
     plan("weight", "index", "out", "index.numel", "weight.shape[1]")),
    ("cross entropy in two passes", "cross", CROSS,
     plan("x", "y", "out", "x.shape[0]", "x.shape[1]")),
]  # fmt: skip

HONEST = [
    Row(name, "", target, reply("cpp", INCLUDES + source, arguments), (PASSED,))
    for name, target, source, arguments in PROGRAMS
]
