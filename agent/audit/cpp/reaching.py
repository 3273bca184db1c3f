"""C++ programs that touch memory that is not theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.audit.cpp.texts import CRASH, HEAD, WORK, WRONG, beside

if TYPE_CHECKING:
    from agent.audit.cpp.texts import Line

REACHING: list[Line] = [
    ("input overwritten", "changed input", "relu",
     WORK + "const_cast<float*>(x)[n / 3] = 1;", "check",
     {"argument-changed"}),
    ("input zeroed", "changed input", "relu",
     WORK + "memset(const_cast<float*>(x), 0, n * 4);", "check",
     {"argument-changed"}),
    ("works in the input's place", "changed input", "relu",
     "float* y = const_cast<float*>(x); for (int64_t i = 0;"
     " i < n; ++i) out[i] = y[i] = x[i] < 0 ? 0.0f : x[i];", "check", {"argument-changed"}),
    ("writes past the end", "out of bounds", "relu",
     WORK + "out[n] = 1;", "check", {"out-of-bounds"}),
    ("writes before the start", "out of bounds", "relu",
     WORK + "out[-3] = 1;", "check", {"out-of-bounds"}),
    ("writes beside the input", "out of bounds", "relu",
     WORK + "const_cast<float*>(x)[n + 1] = 1;", "check",
     {"out-of-bounds"}),
    ("writes over the guard into what lies behind", "out of bounds", "relu",
     WORK + "for (int64_t i = 1200; i < 3000; i += 7) out[n + i] = 1;", "check",
     {"out-of-bounds", "argument-changed", "output-changed"}),
    ("writes far behind the guard alone", "out of bounds", "relu",
     WORK + "out[n + 1500] = 1;", "check",
     {"out-of-bounds", "output-changed"}),
    ("reads past the end", "out of bounds", "relu", WORK + "out[0] += x[n] * 0;", "check", WRONG),
    ("reads before the start", "out of bounds", "relu",
     WORK + "out[0] += x[-1] * 0;", "check", WRONG),
    ("stashes in the gaps of the input", "changed input", "gaps", "\n" + HEAD.replace(
        "int64_t cols", "int64_t cols, int64_t step") %
     "for (int64_t r = 0; r < rows; ++r) for (int64_t c = 0; c < cols; ++c) out[r * cols + c] ="
     " x[r * step + c] < 0 ? 0.0f : x[r * step + c];\nconst_cast<float*>(x)[cols + 3] = 7;",
     "check", {"argument-changed", "out-of-bounds"}),
    ("finds in scratch what it left", "kept in scratch", "relu", "\n//scratch\n" + HEAD.replace(
        "int64_t cols", "int64_t cols, float* kept") % (
        "if (kept[n] == 42) { memcpy(out, kept, n * 4); return; }\n" + WORK +
        "memcpy(kept, out, n * 4); kept[n] = 42;"), "passed", set()),
    ("leaves scratch unwritten and reads it", "uninitialised", "relu",
     "\n//scratch\n" + HEAD.replace(
        "int64_t cols", "int64_t cols, float* kept") % (WORK + "out[1] += kept[1];"), "check",
     WRONG),
    ("writes to constants", "own code", "relu",
     beside("static const float table[4] = {1, 2, 3, 4};", WORK +
     "const_cast<volatile float*>(table)[n & 3] += 1; out[0] += 0 * table[n & 3];"), "check",
     CRASH),
    ("writes to a string", "own code", "relu",
     beside("", WORK + 'char* s = (char*)"kept"; *(volatile char*)'
     "(s + (n & 1)) = 'x';"), "check", CRASH),
    ("writes to its own code", "own code", "relu",
     WORK + "*(volatile char*)&kernel = 1;", "check", CRASH),
]  # fmt: skip
