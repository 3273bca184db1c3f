"""C++ helpers that a drafted source carries along: only the ones that it uses.

GCC does not vectorise libm's float functions without -ffast-math, so these are written as straight
lines that it does vectorise. Method: reduce the argument by a power of two (Cody and Waite's
two-part ln 2), then a polynomial whose coefficients were fitted here with a reweighted least
squares (Lawson) in 40-digit arithmetic; bits are moved with integer operations. Errors were
measured over all finite arguments in steps (see the tests): exp and log at most 1.5 ulp, the others
3 ulp. Infinities, NaN, denormal results and signed zeros are right; sigmoid is 0 below about 1e-38,
as it is in PyTorch.
"""

from __future__ import annotations

from agent.writers.drafter.cpp_small import SMALL

_BITS = """\
static inline uint32_t bits(float x) { return __builtin_bit_cast(uint32_t, x); }
static inline float from_bits(uint32_t u) { return __builtin_bit_cast(float, u); }
"""

_FROM_BF16 = """\
static inline float from_bf16(uint16_t h) { return from_bits((uint32_t)h << 16); }
"""

_TO_BF16 = """\
// Round to nearest, ties to even; NaN stays NaN.
static inline uint16_t to_bf16(float x) {
  const uint32_t u = bits(x);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (uint16_t)(x == x ? rounded : 0x7fc0u);
}
"""

_FROM_F16 = """\
// Shift the half's exponent and mantissa into a float's place, then scale by 2^112.
static inline float from_f16(uint16_t h) {
  const uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13;
  const float finite = from_bits(magnitude) * 0x1p112f;
  const uint32_t special = magnitude | 0x7f800000u;
  const uint32_t u = magnitude >= 0x0f800000u ? special : bits(finite);
  return from_bits(u | (uint32_t)(h & 0x8000) << 16);
}
"""

_TO_F16 = """\
// Normal results round in the integer domain, denormal ones by adding a float whose last bit weighs
// as much as the half's (0.5); ties to even in both.
static inline uint16_t to_f16(float x) {
  const uint32_t sign = bits(x) & 0x80000000u, u = bits(x) ^ sign;
  const uint32_t normal = (u - 0x38000000u + 0x0fffu + ((u >> 13) & 1u)) >> 13;
  const uint32_t tiny = bits(from_bits(u) + 0.5f) - 0x3f000000u;
  const uint32_t large = u > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const uint32_t h = u >= 0x47800000u ? large : u < 0x38800000u ? tiny : normal;
  return (uint16_t)(h | sign >> 16);
}
"""

_EXP = """\
// exp(x) = 4^k * (1 + p) with r = x - 2k ln 2, |r| <= ln 2, p = exp(r) - 1. Adding 1.5 * 2^23
// rounds to a whole number and leaves it in the low bits. 2^k is multiplied twice: neither over-
// nor underflows before the result does. The clamps only keep k in range; NaN passes them.
static inline float exp_f32(float x) {
  x = x < -104.0f ? -104.0f : x;
  float t = __builtin_fmaf(x, 0.72134752f, 12582912.0f);
  t = t > 12582976.0f ? 12582976.0f : t;
  const float k = t - 12582912.0f;
  const float r = __builtin_fmaf(k, 4.24388880e-4f, __builtin_fmaf(k, -1.38671875f, x));
  float q = 0.000196113469f;
  q = __builtin_fmaf(q, r, 0.0014104679f);
  q = __builtin_fmaf(q, r, 0.00833610911f);
  q = __builtin_fmaf(q, r, 0.0416612588f);
  q = __builtin_fmaf(q, r, 0.166666135f);
  q = __builtin_fmaf(q, r, 0.500000358f);
  const float p = __builtin_fmaf(q, r * r, r);
  const float power = from_bits((bits(t) << 23) + 0x3f800000u);
  return (p + 1.0f) * power * power;
}
"""

_EXPM1_LOW = """\
// exp(x) - 1 for x <= 0, to the last bits near 0 too: 2^k * p + (2^k - 1).
static inline float expm1_low(float x) {
  x = x < -30.0f ? -30.0f : x;
  const float t = __builtin_fmaf(x, 1.44269504f, 12582912.0f), k = t - 12582912.0f;
  const float r = __builtin_fmaf(k, 2.12194440e-4f, __builtin_fmaf(k, -0.693359375f, x));
  float q = 0.00138825073f;
  q = __builtin_fmaf(q, r, 0.00836658012f);
  q = __builtin_fmaf(q, r, 0.0416672006f);
  q = __builtin_fmaf(q, r, 0.166665435f);
  q = __builtin_fmaf(q, r, 0.49999997f);
  const float p = __builtin_fmaf(q, r * r, r);
  const float power = from_bits((bits(t) << 23) + 0x3f800000u);
  return __builtin_fmaf(power, p, power - 1.0f);
}
"""

_EXPM1 = """\
static inline float expm1_f32(float x) {
  const float low = expm1_low(x), high = exp_f32(x) - 1.0f;
  // For 0 < x < 1: exp(x) - 1 = -m / (1 + m) with m = exp(-x) - 1.
  const float m = expm1_low(-x), middle = -m / (1.0f + m);
  const float y = x < 1.0f ? middle : high;
  return x > 0.0f ? y : x == 0.0f ? x : low;
}
"""

_SIGMOID = """\
static inline float sigmoid_f32(float x) { return 1.0f / (1.0f + exp_f32(-x)); }
"""

_TANH = """\
// With m = exp(-2|x|) - 1: |tanh(x)| = -m / (m + 2).
static inline float tanh_f32(float x) {
  const float m = expm1_low(-2.0f * __builtin_fabsf(x));
  return __builtin_copysignf(m / (m + 2.0f), x);
}
"""

_ERF = """\
// |erf(x)| = -(exp(a * Q(a)) - 1), a = |x|, where Q fits log(erfc(a)) / a up to a = 4.
static inline float erf_f32(float x) {
  float a = __builtin_fabsf(x);
  a = a > 4.0f ? 4.0f : a;
  float q = 9.25634868e-06f;
  q = __builtin_fmaf(q, a, -0.000117641976f);
  q = __builtin_fmaf(q, a, 0.000632839219f);
  q = __builtin_fmaf(q, a, -0.00166703144f);
  q = __builtin_fmaf(q, a, 0.000160399795f);
  q = __builtin_fmaf(q, a, 0.0191530623f);
  q = __builtin_fmaf(q, a, -0.102777831f);
  q = __builtin_fmaf(q, a, -0.636619389f);
  q = __builtin_fmaf(q, a, -1.12837923f);
  return __builtin_copysignf(expm1_low(a * q), x);
}
"""

_LOG = """\
// x = 2^k * (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2); log(1 + f) = f - f^2/2 + f^3 * P(f).
static inline float log_f32(float x) {
  const float scaled = x < 0x1p-126f ? x * 0x1p23f : x;
  const uint32_t shifted = bits(scaled) - 0x3f3504f3u;
  const int32_t exponent = (int32_t)shifted >> 23;
  const float k = (float)exponent - (x < 0x1p-126f ? 23.0f : 0.0f);
  const float f = from_bits((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  float p = 0.0674661249f;
  p = __builtin_fmaf(p, f, -0.116756596f);
  p = __builtin_fmaf(p, f, 0.118881799f);
  p = __builtin_fmaf(p, f, -0.124055892f);
  p = __builtin_fmaf(p, f, 0.142195493f);
  p = __builtin_fmaf(p, f, -0.166679963f);
  p = __builtin_fmaf(p, f, 0.200021192f);
  p = __builtin_fmaf(p, f, -0.250000089f);
  p = __builtin_fmaf(p, f, 0.333333135f);
  const float square = f * f;
  float y = __builtin_fmaf(p, f * square, k * -2.12194440e-4f);
  y = __builtin_fmaf(-0.5f, square, y) + f;
  y = __builtin_fmaf(k, 0.693359375f, y);
  y = x == 0.0f ? -INFINITY : y;
  return x > 0.0f ? (x < INFINITY ? y : x) : x == 0.0f ? y : NAN;
}
"""

_LOG1P = """\
// log(u) * x / (u - 1) with u = 1 + x as rounded: its error cancels (W. Kahan).
static inline float log1p_f32(float x) {
  const float u = 1.0f + x, d = u - 1.0f;
  const float y = log_f32(u) * (x / d);
  return d == 0.0f ? x : u == INFINITY ? u : y;
}
"""

# name -> (text, the helpers that it needs); in the order in which they are written.
HELPERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "bits": (_BITS, ()),
    "from_bf16": (_FROM_BF16, ("bits",)),
    "to_bf16": (_TO_BF16, ("bits",)),
    "from_f16": (_FROM_F16, ("bits",)),
    "to_f16": (_TO_F16, ("bits",)),
    "exp_f32": (_EXP, ("bits",)),
    "expm1_low": (_EXPM1_LOW, ("bits",)),
    "expm1_f32": (_EXPM1, ("expm1_low", "exp_f32")),
    "sigmoid_f32": (_SIGMOID, ("exp_f32",)),
    "tanh_f32": (_TANH, ("expm1_low",)),
    "erf_f32": (_ERF, ("expm1_low",)),
    "log_f32": (_LOG, ("bits",)),
    "log1p_f32": (_LOG1P, ("log_f32",)),
} | SMALL


def helpers(names: set[str]) -> str:
    """The text of these helpers and of what they need."""
    needed: set[str] = set()
    stack = list(names)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack.extend(HELPERS[name][1])
    return "\n".join(text for name, (text, _) in HELPERS.items() if name in needed)
