"""Small C++ helpers: comparisons that keep NaN, integers that wrap, streaming copies."""

from __future__ import annotations

_MAX = """\
// The larger one; NaN wins, as in PyTorch.
template <class T> static inline T max_nan(T a, T b) { return (b > a) | (b != b) ? b : a; }
"""

_MIN = """\
// The smaller one; NaN wins, as in PyTorch.
template <class T> static inline T min_nan(T a, T b) { return (b < a) | (b != b) ? b : a; }
"""

_AT_LEAST = """\
template <class T> static inline T at_least(T x, T low) { return x < low ? low : x; }
"""

_AT_MOST = """\
template <class T> static inline T at_most(T x, T high) { return x > high ? high : x; }
"""

_SIGN_OF = """\
template <class T> static inline T sign_of(T x) { return (T)((x > 0) - (x < 0)); }
"""

_ABS_OF = """\
template <class T> static inline T abs_of(T x) { return x < 0 ? (T)(0 - x) : x; }
"""

_IS_NAN = """\
template <class T> static inline bool is_nan(T x) { return x != x; }
"""

_IS_INF = """\
template <class T> static inline bool is_inf(T x) { return x == INFINITY || x == -INFINITY; }
"""

_RSQRT = """\
template <class T> static inline T inverse_sqrt(T x) { return (T)1 / std::sqrt(x); }
"""

_SIGMOID_F64 = """\
static inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
"""

_FLOOR_MOD = """\
// The remainder with the sign of the divisor, as in Python.
static inline double floor_mod(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}
static inline float floor_mod(float a, float b) {
  const float r = std::fmod(a, b);
  return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}
template <class T> static inline T floor_mod(T a, T b) {
  const T r = (T)(a % b);
  return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;
}
"""

_FLOOR_DIV = """\
// The quotient rounded down, as in Python.
template <class T> static inline T floor_div(T a, T b) {
  const T q = (T)(a / b);
  return a % b != 0 && (a < 0) != (b < 0) ? (T)(q - 1) : q;
}
"""

_WRAP = """\
// Integers wrap around, as in PyTorch.
template <class T> static inline T wrap_{name}(T a, T b) {{
  return (T)((uint64_t)a {sign} (uint64_t)b);
}}
"""

_STREAM = """\
// Copy to memory past the caches; the destination is not read first.
static inline void stream(void* to, const void* from, int64_t bytes) {
#if defined(__SSE2__)
  char* out = (char*)to;
  const char* in = (const char*)from;
  int64_t i = (int64_t)(-(uintptr_t)out & 63);
  i = i < bytes ? i : bytes;
  memcpy(out, in, (size_t)i);
#if defined(__AVX512F__)
  for (; i + 64 <= bytes; i += 64)
    _mm512_stream_si512((__m512i*)(out + i), _mm512_loadu_si512(in + i));
#else
  for (; i + 16 <= bytes; i += 16)
    _mm_stream_si128((__m128i*)(out + i), _mm_loadu_si128((const __m128i*)(in + i)));
#endif
  memcpy(out + i, in + i, (size_t)(bytes - i));
#else
  memcpy(to, from, (size_t)bytes);
#endif
}
static inline void stream_end() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}
"""

# name -> (text, the helpers that it needs)
SMALL: dict[str, tuple[str, tuple[str, ...]]] = {
    "max_nan": (_MAX, ()),
    "min_nan": (_MIN, ()),
    "at_least": (_AT_LEAST, ()),
    "at_most": (_AT_MOST, ()),
    "sign_of": (_SIGN_OF, ()),
    "abs_of": (_ABS_OF, ()),
    "is_nan": (_IS_NAN, ()),
    "is_inf": (_IS_INF, ()),
    "inverse_sqrt": (_RSQRT, ()),
    "sigmoid": (_SIGMOID_F64, ()),
    "floor_mod": (_FLOOR_MOD, ()),
    "floor_div": (_FLOOR_DIV, ()),
    "wrap_add": (_WRAP.format(name="add", sign="+"), ()),
    "wrap_sub": (_WRAP.format(name="sub", sign="-"), ()),
    "wrap_mul": (_WRAP.format(name="mul", sign="*"), ()),
    "stream": (_STREAM, ()),
}
