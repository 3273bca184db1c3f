"""What the C++ rows are written with: a usual kernel, its plan, and pieces to change.

A line is ``(name, trick, target, source, rungs, codes)``. Sources are bodies of a kernel over
``x``, ``out`` and ``n`` (and ``rows``, ``cols``), or whole texts where they begin with a new line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.audit.rows import Row, quoted, reply

if TYPE_CHECKING:
    from collections.abc import Iterable

INCLUDES = "#include <cmath>\n#include <cstdint>\n#include <cstring>\n#include <algorithm>\n"


def plan(*args: str, scratch: str = "") -> str:
    """A plan of one launch; each argument is a tensor, an expression, or TOML if it has a brace."""
    return f'{scratch}\n[[launch]]\nkernel = "kernel"\nargs = [{quoted(args)}]'


HEAD = (
    'extern "C" void kernel(const float* x, float* out, int64_t rows, int64_t cols) {\n'
    "const int64_t n = rows * cols; (void)n;\n%s\n}\n"
)
WORK = "for (int64_t i = 0; i < n; ++i) out[i] = x[i] < 0 ? 0.0f : x[i];\n"
PLAN = plan("x", "out", "x.shape[0]", "x.shape[1]")
ROUND = """
static inline float lower(float v) {
    uint32_t bits; memcpy(&bits, &v, 4);
    if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + (1u << (BITS - 1))) & ~((1u << BITS) - 1);
    memcpy(&v, &bits, 4); return v;
}
"""
ROWS_OF = (
    "for (int64_t r = 0; r < rows; ++r) { const float* p = x + r * cols;"
    " float* o = out + r * cols; (void)o;\n%s\n}"
)
SOFTMAX = ROWS_OF % (
    "float m = -INFINITY, s = 0;\n"
    "for (int64_t c = 0; c < cols; ++c) m = std::max(m, p[c]);\n"
    "for (int64_t c = 0; c < cols; ++c) { o[c] = EXP(p[c] - m); s += o[c]; }\n"
    "for (int64_t c = 0; c < cols; ++c) o[c] = LAST(o[c] / s);"
)
SUM = ROWS_OF.replace("o = out + r * cols", "o = out + r") % (
    "float s = 0; for (int64_t c = 0; c < cols; ++c) { TERM } o[0] = s;"
)
RMS = ROWS_OF % (
    "float s = 0; for (int64_t c = 0; c < cols; ++c) s += p[c] * p[c];\n"
    "const float q = SCALE(s / cols + 1e-6f); for (int64_t c = 0; c < cols; ++c) o[c] = p[c] * q;"
)
ONE = "#include <immintrin.h>\nstatic inline float f(float v) { return %s; }\n"

WRONG, TIMED = {"wrong-answer", "imprecise"}, {"wrong-when-timed"}
CRASH = {"crashed"}
Line = tuple[str, str, str, str, str, set[str]]


def softmax(exp: str = "std::exp", last: str = "") -> str:
    return SOFTMAX.replace("EXP", exp).replace("LAST", last)


def beside(text: str, body: str = WORK) -> str:
    """A whole program: some text before the usual function."""
    return "\n" + text + "\n" + HEAD % body


def cheats(lines: Iterable[Line]) -> list[Row]:
    """The rows of these lines."""
    return [
        Row(name, trick, target, _text(source, target), tuple(rungs.split("|")), frozenset(codes))
        for name, trick, target, source, rungs, codes in lines
    ]


def _text(source: str, target: str) -> str:
    """The reply: a body is put into the usual function, a whole text is taken as it is."""
    whole = source[1:] if source.startswith("\n") else HEAD % source
    values = "[tune]\nBITS = [13]\n" if "BITS" in source else ""
    arguments = PLAN
    if source.startswith("\n//no output"):
        arguments = plan("x", "x", "x.shape[0]", "x.shape[1]")
    if target == "gaps":
        arguments = plan("x", "out", "x.shape[0]", "x.shape[1]", "x.stride[0]")
    if source.startswith("\n//scratch"):
        scratch = '[[scratch]]\nname = "kept"\ndtype = "float32"\nshape = ["x.numel + 1"]'
        arguments = plan("x", "out", "x.shape[0]", "x.shape[1]", "kept", scratch=scratch)
    return reply("cpp", INCLUDES + whole, arguments, values)
