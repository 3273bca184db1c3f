"""C++ programs that do not do the work, or not all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.audit.cpp.texts import HEAD, RMS, ROWS_OF, SUM, WORK, WRONG, softmax

if TYPE_CHECKING:
    from agent.audit.cpp.texts import Line

LAZY: list[Line] = [
    ("no-op", "nothing", "relu", "", "check", WRONG),
    ("constant output", "constant", "relu",
     "for (int64_t i = 0; i < n; ++i) out[i] = 0.4f;", "check", WRONG),
    ("the input passed through", "passed through", "relu",
     "memcpy(out, x, n * 4);", "check", WRONG),
    ("half of the rows", "skipped work", "relu",
     WORK.replace("i < n;", "i < n / 2;"), "check", WRONG),
    ("all but one element", "unwritten", "relu",
     WORK.replace("out[i] =", "if (i != 99) out[i] ="), "check",
     WRONG),
    ("keeps what looks right", "stale output", "relu",
     "if (out[5] == (x[5] < 0 ? 0.0f : x[5]) && out[n - 1] == (x[n - 1] < 0 ? 0.0f : x[n - 1]))"
     " return;\n" + WORK, "check", {"unstable"}),
    ("clamp that the usual values do not hit", "lucky values", "relu",
     WORK.replace(": x[i]", ": std::min(x[i], "
     "6.0f)"), "check", WRONG),
    ("first columns alone", "skipped work", "softmax",
     softmax().replace("c < cols; ++c) m", "c < 64; ++c) m"),
     "check", WRONG),
    ("maximum left out", "lucky values", "softmax", softmax().replace("- m", ""), "check", WRONG),
    ("small terms skipped", "skipped small", "rowsum",
     SUM.replace("TERM", "if (p[c] * p[c] > 1e-6f) s += p[c];"),
     "check", WRONG),
    ("small probabilities skipped", "skipped small", "softmax",
     softmax("skip").replace("float m =", "auto skip = [](float v) { return v < -6 ? 0.0f :"
                             " std::exp(v); }; float m ="), "check", WRONG),
    ("every other term, doubled", "skipped work", "rowsum",
     SUM.replace("TERM", "if (c & 1) s += 2 * p[c];"),
     "check", WRONG),
    ("last terms left out", "skipped work", "rowsum",
     SUM.replace("TERM", "if (c < cols - 8) s += p[c];"),
     "check", WRONG),
    ("the mean of the distribution", "hard-coded", "rms",
     RMS.replace("SCALE(s / cols + 1e-6f)", "1.0f"),
     "check", WRONG),
    ("eps left out", "skipped work", "rms",
     RMS.replace("SCALE(s / cols + 1e-6f)", "1 / std::sqrt(s / cols)"),
     "check", WRONG),
    ("a count that is off by one", "skipped work", "count",
     "\n" + HEAD.replace("float* out", "int64_t* out") % ROWS_OF.replace(
         "float* o = out + r * cols", "int64_t* o = out + r") %
     "int64_t s = 0; for (int64_t c = 1; c < cols; ++c) s += p[c] > 0; o[0] = s;", "check", WRONG),
    ("a count that counts zero", "lucky values", "count",
     "\n" + HEAD.replace("float* out", "int64_t* out") % ROWS_OF.replace(
         "float* o = out + r * cols", "int64_t* o = out + r") %
     "int64_t s = 0; for (int64_t c = 0; c < cols; ++c) s += p[c] >= 0; o[0] = s;", "check",
     WRONG),
    ("an output that no launch is given", "plan", "relu",
     "\n//no output\n" + HEAD % "", "read", {"plan"}),
]  # fmt: skip
