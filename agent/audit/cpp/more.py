"""More right C++ programs: dtypes, strides, ranges, several outputs and launches, library steps."""

from __future__ import annotations

from agent.audit.cpp.texts import INCLUDES, plan
from agent.audit.rows import PASSED, Row, reply

PAR = "#pragma omp parallel for\n"


def _row(
    name: str, target: str, parameters: str, body: str, *args: str, before: str = "", tune: str = ""
) -> Row:
    source = f'{INCLUDES}extern "C" void kernel({parameters}) {{\n{body}\n}}\n'
    return Row(name, "", target, reply("cpp", source, before + plan(*args), tune), (PASSED,))


def _flat(name: str, target: str, value: str, types: str = "float,float") -> Row:
    before, after = types.split(",")
    body = f"{PAR}for (int64_t i = 0; i < n; ++i) {{ const {before} v = x[i]; out[i] = {value}; }}"
    return _row(name, target, f"const {before}* x, {after}* out, int64_t n", body,
                "x", "out", "x.numel")  # fmt: skip


_XO = "const float* x, float* out, int64_t rows, int64_t cols"
_SIZES = ("x.shape[0]", "x.shape[1]")
_EACH_ROW = PAR + "for (int64_t r = 0; r < rows; ++r) { const float* p = x + r * cols;\n"
_SOFTMAX = (
    _EACH_ROW
    + """float m = -INFINITY, s = 0; float* o = out + r * cols;
for (int64_t c = 0; c < cols; ++c) m = std::max(m, p[c]);
for (int64_t c = 0; c < cols; ++c) { o[c] = std::exp(p[c] - m); s += o[c]; }
for (int64_t c = 0; c < cols; ++c) o[c] /= s; }"""
)
_PRODUCT = "const float* x, const float* w, float* out, int64_t rows, int64_t cols, int64_t inner"
_PRODUCT_ARGS = ("x", "w", "out", "x.shape[0]", "w.shape[1]", "x.shape[1]")
_TWO_LAUNCHES = reply(
    "cpp",
    INCLUDES
    + """
extern "C" void parts(const float* x, float* kept, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r) for (int64_t k = 0; k < 8; ++k) {
        float s = 0;
        for (int64_t c = k; c < cols; c += 8) s += x[r * cols + c];
        kept[r * 8 + k] = s;
    }
}
extern "C" void whole(const float* kept, float* out, int64_t rows) {
    for (int64_t r = 0; r < rows; ++r) {
        float s = 0;
        for (int64_t k = 0; k < 8; ++k) s += kept[r * 8 + k];
        out[r] = s;
    }
}
""",
    '[[scratch]]\nname = "kept"\ndtype = "float32"\nshape = ["x.shape[0]", 8]\n'
    '[[launch]]\nkernel = "parts"\nargs = ["x", "kept", "x.shape[0]", "x.shape[1]"]\n'
    '[[launch]]\nkernel = "whole"\nargs = ["kept", "out", "x.shape[0]"]\n',
)
_EPILOGUE = reply(
    "cpp",
    INCLUDES
    + """
extern "C" void kernel(const float* y, const float* b, float* out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r) for (int64_t c = 0; c < cols; ++c) {
        const float v = y[r * cols + c] + b[c];
        out[r * cols + c] = v < 0 ? 0.0f : v;
    }
}
""",
    '[[call]]\nop = "mm"\nargs = ["x", "w"]\nto = "y"\n'
    + plan("y", "b", "out", "x.shape[0]", "w.shape[1]"),
)
_BF16 = """const uint16_t* p = x + r * cols; uint16_t* o = out + r * cols;
auto wide = [](uint16_t v) {
  const uint32_t b = uint32_t(v) << 16; float f; memcpy(&f, &b, 4); return f; };
auto narrow = [](float f) { uint32_t b; memcpy(&b, &f, 4);
  return f != f ? uint16_t(0x7fc0) : uint16_t((b + 0x7fff + ((b >> 16) & 1)) >> 16); };
float m = -INFINITY, s = 0;
for (int64_t c = 0; c < cols; ++c) m = std::max(m, wide(p[c]));
for (int64_t c = 0; c < cols; ++c) s += std::exp(wide(p[c]) - m);
for (int64_t c = 0; c < cols; ++c) o[c] = narrow(std::exp(wide(p[c]) - m) / s); }"""

MORE = [
    _flat("relu, plain", "relu", "v < 0 ? 0.0f : v"),
    _flat("relu of one element", "one", "v < 0 ? 0.0f : v"),
    _flat("relu of a transposed argument", "turned", "v < 0 ? 0.0f : v"),
    _flat("a comparison to booleans", "positive", "v > 0", "float,bool"),
    _flat("bytes to floats", "scaled_bytes", "v * (1 / 128.0f) - 1", "uint8_t,float"),
    _row("relu of rows with gaps", "gaps", "const float* x, float* out, int64_t rows, int64_t cols,"
         " int64_t step", "for (int64_t r = 0; r < rows; ++r) for (int64_t c = 0; c < cols; ++c) {"
         " const float v = x[r * step + c]; out[r * cols + c] = v < 0 ? 0.0f : v; }", "x", "out",
         *_SIZES, "x.stride[0]"),
    _row("arithmetic on integers", "integers", "const int32_t* x, const int32_t* y, int32_t* out,"
         " int64_t n", "for (int64_t i = 0; i < n; ++i) out[i] = x[i] * 3 - y[i];", "x", "y",
         "out", "x.numel"),
    _row("a choice by booleans", "masked", "const float* x, const bool* m, float* out, int64_t n",
         "for (int64_t i = 0; i < n; ++i) out[i] = m[i] ? x[i] : 0.0f;", "x", "mask", "out",
         "x.numel"),
    _row("scalars of all types", "scalars", "const float* x, float* out, int64_t n, float alpha,"
         " int32_t shift, double factor", "for (int64_t i = 0; i < n; ++i) out[i] = (x[i] * alpha"
         " + shift) * float(factor);", "x", "out", "x.numel",
         '{expr = "alpha", type = "float32"}', '{expr = "shift", type = "int32"}',
         '{expr = "2 if twice else 1", type = "float64"}'),
    _row("a blur with a table of constants", "blur", _XO, "static const float w[3] = {0.25f, 0.5f,"
         " 0.25f};\n" + _EACH_ROW.replace("r * cols", "r * (cols + 2)") + "for (int64_t c = 0; c <"
         " cols; ++c) { float s = 0; for (int k = 0; k < 3; ++k) s += w[k] * p[c + k];"
         " out[r * cols + c] = s; } }", "x", "out", "x.shape[0]", "out.shape[1]"),
    _row("count of the positive", "count", _XO.replace("float* out", "int64_t* out"), _EACH_ROW +
         "int64_t s = 0; for (int64_t c = 0; c < cols; ++c) s += p[c] > 0; out[r] = s; }", "x",
         "out", *_SIZES),
    _row("place of the largest", "argmax", _XO.replace("float* out", "int64_t* out"), _EACH_ROW +
         "int64_t at = 0; for (int64_t c = 1; c < cols; ++c) if (p[at] == p[at] && (p[c] > p[at] ||"
         " p[c] != p[c])) at = c; out[r] = at; }", "x", "out", *_SIZES),
    _row("two outputs", "two", _XO.replace("float* out", "float* out, float* out1"), _EACH_ROW +
         "float s = 0, m = p[0]; for (int64_t c = 0; c < cols; ++c) { s += p[c];"
         " m = p[c] > m || p[c] != p[c] ? p[c] : m; } out[r] = s; out1[r] = m; }", "x", "out",
         "out1", *_SIZES),
    _row("sum over a transposed argument", "column_sum", _XO + ", int64_t step",
         "for (int64_t r = 0; r < rows; ++r) out[r] = 0;\nfor (int64_t c = 0; c < cols; ++c)"
         " for (int64_t r = 0; r < rows; ++r) out[r] += x[c * step + r];", "x", "out", *_SIZES,
         "x.stride[1]"),
    _row("sums by index", "index_add", "const float* x, const int64_t* index, float* out,"
         " int64_t n", "for (int k = 0; k < 64; ++k) out[k] = 0;\nfor (int64_t i = 0; i < n; ++i)"
         " out[index[i]] += x[i];", "x", "index", "out", "x.numel"),
    _row("histogram in 32 bits", "histogram", "const int64_t* x, int64_t* out, int64_t n",
         "int32_t own[64] = {};\nfor (int64_t i = 0; i < n; ++i) ++own[x[i]];\n"
         "for (int k = 0; k < 64; ++k) out[k] = own[k];", "x", "out", "x.numel"),
    _row("total in blocks", "total", "const float* x, float* out, int64_t n", "double t = 0;\n"
         "for (int64_t i = 0; i < n; i += 256) { float s = 0; for (int64_t k = i; k < std::min(n,"
         " i + 256); ++k) s += x[k]; t += s; }\nout[0] = float(t);", "x", "out", "x.numel"),
    _row("product, row by row", "product", _PRODUCT, PAR + "for (int64_t r = 0; r < rows; ++r) {"
         " float* o = out + r * cols; for (int64_t c = 0; c < cols; ++c) o[c] = 0;\n"
         "for (int64_t k = 0; k < inner; ++k) for (int64_t c = 0; c < cols; ++c)"
         " o[c] += x[r * inner + k] * w[k * cols + c]; }", *_PRODUCT_ARGS),
    _row("product, element by element", "product", _PRODUCT, PAR + "for (int64_t r = 0; r < rows;"
         " ++r) for (int64_t c = 0; c < cols; ++c) { float s = 0; for (int64_t k = 0; k < inner;"
         " ++k) s += x[r * inner + k] * w[k * cols + c]; out[r * cols + c] = s; }",
         *_PRODUCT_ARGS),
    _row("softmax of bfloat16", "softmax_bf16", "const uint16_t* x, uint16_t* out, int64_t rows,"
         " int64_t cols", PAR + "for (int64_t r = 0; r < rows; ++r) { " + _BF16, "x", "out",
         *_SIZES),
    _row("softmax of any number of rows", "softmax_ranged", _XO, _SOFTMAX, "x", "out", *_SIZES),
    _row("transpose in tiles, with tunables", "transpose", _XO, "for (int64_t a = 0; a < rows;"
         " a += TILE) for (int64_t b = 0; b < cols; b += TILE)\nfor (int64_t r = a; r <"
         " std::min<int64_t>(rows, a + TILE); ++r) for (int64_t c = b; c < std::min<int64_t>(cols,"
         " b + TILE); ++c) out[c * rows + r] = x[r * cols + c];", "x", "out", *_SIZES,
         tune="[tune]\nTILE = [16, 8]\n"),
    _row("an argument changed as asked", "updated", "float* x, const float* y, float* out,"
         " int64_t rows, int64_t cols", "for (int64_t r = 0; r < rows; ++r) { float s = 0;"
         " for (int64_t c = 0; c < cols; ++c) { float& v = x[r * cols + c]; v = v * 0.5f +"
         " y[r * cols + c]; s += v; } out[r] = s; }", "x", "y", "out", *_SIZES),
    _row("an empty argument", "joined", "const float* x, const float* y, float* out, int64_t first,"
         " int64_t n", "for (int64_t i = 0; i < n; ++i) out[i] = i < first ? x[i] : y[i - first];",
         "x", "y", "out", "x.numel", "out.numel"),
    Row("sum in two launches", "", "rowsum", _TWO_LAUNCHES, (PASSED,)),
    Row("a library product and a kernel behind it", "", "product_relu", _EPILOGUE, (PASSED,)),
]  # fmt: skip
