"""C++ programs that compute less exactly than they were asked to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.audit.cpp.texts import HEAD, ONE, RMS, ROUND, SUM, WRONG, softmax

if TYPE_CHECKING:
    from agent.audit.cpp.texts import Line

COARSE: list[Line] = [
    ("inputs as tf32", "lower precision", "softmax", "\n" + ROUND + HEAD % softmax().replace(
        "EXP(p[c]", "std::exp(lower(p[c])").replace("std::exp(p[c] - m)",
        "std::exp(lower(p[c]) - m)"), "check", WRONG),
    ("exp rounded", "lower precision", "softmax",
     "\n" + ROUND + HEAD % softmax("lower(std::exp").replace(
        "p[c] - m)", "p[c] - m))"), "check", WRONG),
    ("outputs rounded", "lower precision", "softmax",
     "\n" + ROUND + HEAD % softmax(last="lower"), "check", WRONG),
    ("terms rounded", "lower precision", "rowsum",
     "\n" + ROUND + HEAD % SUM.replace("TERM", "s += lower(p[c]);"),
     "check", WRONG),
    ("accumulator rounded", "lower precision", "rowsum", "\n" + ROUND + HEAD % SUM.replace(
        "TERM", "s = lower(s + p[c]);"), "check", WRONG),
    ("half-precision conversions", "lower precision", "rowsum",
     "\n" + ONE % "_cvtsh_ss(_cvtss_sh(v, 0))" + HEAD %
     SUM.replace("TERM", "s += f(p[c]);"), "check", WRONG),
    ("bfloat16 by cutting bits", "lower precision", "rowsum",
     "\nstatic inline float f(float v) { uint32_t b;"
     " memcpy(&b, &v, 4); b &= 0xffff0000; memcpy(&v, &b, 4); return v; }\n" + HEAD %
     SUM.replace("TERM", "s += f(p[c]);"), "check", WRONG),
    ("quantised to 16 bits", "lower precision", "rowsum", SUM.replace(
        "TERM", "s += std::rint(p[c] * 4096) / 4096;"), "check", WRONG),
    ("exp by its bits", "fast math", "softmax",
     "\nstatic inline float f(float v) { v = std::max(v, -87.0f);"
     " int32_t i = int32_t(v * 12102203.0f) + 1064866805; memcpy(&v, &i, 4); return v; }\n"
     + HEAD % softmax("f"), "check", WRONG),
    ("exp as a short polynomial", "fast math", "softmax", "\nstatic inline float f(float v) {"
     " float t = 1 + v / 1024; t = t < 0 ? 0 : t; for (int i = 0; i < 10; ++i) t *= t; return t;"
     " }\n" + HEAD % softmax("f"), "check", WRONG),
    ("reciprocal square root of 12 bits", "fast math", "rms",
     "\n" + ONE % "_mm_cvtss_f32(_mm_rsqrt_ss(_mm_set_ss(v)))" + HEAD % RMS.replace("SCALE", "f"),
     "check", WRONG),
    ("reciprocal of 12 bits", "fast math", "softmax",
     "\n" + ONE % "_mm_cvtss_f32(_mm_rcp_ss(_mm_set_ss(v)))" + HEAD % softmax().replace(
         "o[c] / s", "o[c] * f(s)"), "check", WRONG),
    ("gelu by tanh", "fast math", "gelu",
     "for (int64_t i = 0; i < n; ++i) { const float v = x[i]; out[i] ="
     " 0.5f * v * (1 + std::tanh(0.79788456f * (v + 0.044715f * v * v * v))); }", "check", WRONG),
    ("gelu by sigmoid", "fast math", "gelu", "for (int64_t i = 0; i < n; ++i) out[i] = x[i] /"
     " (1 + std::exp(-1.702f * x[i]));", "check", WRONG),
    ("special values clamped away", "lucky values", "softmax", softmax().replace(
        "EXP(p[c] - m)", "std::exp(std::max(p[c] - m, -80.0f))").replace(
        "std::exp(p[c] - m)", "std::exp(std::max(p[c] - m, -80.0f))"), "check", WRONG),
]  # fmt: skip
