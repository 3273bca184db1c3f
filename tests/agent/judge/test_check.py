from __future__ import annotations

import pytest

from agent.judge.inputs import FAMILIES
from tests.agent.judge.conftest import COLUMNS, ROWS, plan
from tests.agent.judge.programs import (
    HEAD,
    RELU,
    ROUND,
    SOFTMAX,
    SOFTMAX_LOW_EXP,
    SOFTMAX_LOW_INPUT,
    SOFTMAX_LOW_OUTPUT,
    SOFTMAX_ONLINE,
    SUM_BACKWARDS,
    SUM_KAHAN,
    SUM_LOW,
    SUM_LOW_ACCUMULATOR,
    SUM_NAIVE,
    SUM_VECTOR,
)

PLAN = plan("x", "out", ROWS, COLUMNS)
SUM_PLAN = plan("x", "out", 16, 4096)


@pytest.mark.parametrize("source", [SOFTMAX, SOFTMAX_ONLINE], ids=["naive", "online"])
def test_honest_softmax_passes(bench, source):
    checked = bench.check("softmax", source, PLAN)
    assert checked.failure is None
    assert {family.family for family in checked.families} == set(FAMILIES)
    assert [family.family for family in checked.families if family.skipped] == ["signed"]
    assert all(family.ok and family.worst <= 1 for family in checked.families)


@pytest.mark.parametrize("source", [SUM_NAIVE, SUM_BACKWARDS, SUM_VECTOR, SUM_KAHAN])
def test_honest_sums_pass_in_any_order(bench, source):
    assert bench.check("rowsum", source, SUM_PLAN).failure is None


def test_honest_relu_and_a_tunable_pass(bench):
    assert bench.check("relu", RELU, PLAN).failure is None
    blocked = HEAD % (
        "for (int64_t b = 0; b < rows * cols; b += BLOCK)"
        " for (int64_t i = b; i < std::min(rows * cols, b + BLOCK); ++i)"
        " out[i] = x[i] < 0 ? 0.0f : x[i];"
    )
    assert bench.check("relu", blocked, PLAN, {"BLOCK": 64}).failure is None


@pytest.mark.parametrize("bits", [16, 13], ids=["bfloat16", "tf32"])
@pytest.mark.parametrize(
    "source", [SOFTMAX_LOW_INPUT, SOFTMAX_LOW_OUTPUT, SOFTMAX_LOW_EXP],
    ids=["input", "output", "exp"],
)  # fmt: skip
def test_a_softmax_in_lower_precision_fails(bench, source, bits):
    failure = bench.check("softmax", source, PLAN, {"BITS": bits}).failure
    assert failure is not None
    assert failure.code in ("wrong-answer", "imprecise")


@pytest.mark.parametrize("bits", [16, 13], ids=["bfloat16", "tf32"])
@pytest.mark.parametrize("source", [SUM_LOW, SUM_LOW_ACCUMULATOR], ids=["terms", "accumulator"])
def test_a_sum_in_lower_precision_fails(bench, source, bits):
    failure = bench.check("rowsum", source, SUM_PLAN, {"BITS": bits}).failure
    assert failure is not None
    assert failure.code in ("wrong-answer", "imprecise")


def relu(text):
    return HEAD % ("const int64_t n = rows * cols;\n" + text)


HONEST = "for (int64_t i = 0; i < n; ++i) out[i] = x[i] < 0 ? 0.0f : x[i];\n"
WRONG = {
    "a wrong value": (HONEST + "out[n / 2] += 1;", "wrong-answer", "scattered"),
    "a wrong tail": (
        "for (int64_t r = 0; r < rows; ++r) for (int64_t c = 0; c < cols; ++c)"
        " out[r * cols + c] = c < cols / 4 * 4 && x[r * cols + c] < 0 ? 0.0f : x[r * cols + c];",
        "wrong-answer", "tail",
    ),
    "the tail never written": (
        "for (int64_t i = 0; i < n / 64 * 64; ++i) out[i] = x[i] < 0 ? 0.0f : x[i];",
        "wrong-answer", "never written",
    ),
    "whole rows wrong": (HONEST + "for (int64_t c = 0; c < 2 * cols; ++c) out[c] = 5;",
                         "wrong-answer", "whole rows"),
    "NaN dropped": (
        "for (int64_t i = 0; i < n; ++i) out[i] = x[i] > 0 ? x[i] : 0.0f;",
        "wrong-answer", "NaN",
    ),
    "a no-op": ("", "wrong-answer", "never written"),
    "a constant": ("for (int64_t i = 0; i < n; ++i) out[i] = 0.4f;", "wrong-answer", ""),
    "one element never written": (
        "for (int64_t i = 0; i < n; ++i) if (i != 77) out[i] = x[i] < 0 ? 0.0f : x[i];",
        "wrong-answer", "never written",
    ),
    "a write after the end": (HONEST + "out[n] = 1;", "out-of-bounds", ""),
    "a write far after the end": (HONEST + "out[n + 900] = 1;", "out-of-bounds", ""),
    "a write before the start": (HONEST + "out[-1] = 1;", "out-of-bounds", ""),
    "a read after the end": (HONEST + "out[0] = x[0] < 0 ? x[n] * 0 : x[0] + x[n] * 0;",
                             "wrong-answer", "NaN"),
    "a read before the start": (HONEST + "out[0] += x[-1] * 0;", "wrong-answer", "NaN"),
    "a changed argument": (HONEST + "const_cast<float*>(x)[3] = 0.25f;", "argument-changed", ""),
    "skips what looks done": (
        "for (int64_t r = 0; r < rows; ++r) {\n"
        "  const float* p = x + r * cols; float* o = out + r * cols;\n"
        "  const int64_t last = cols - 1;\n"
        "  if (o[0] == (p[0] < 0 ? 0.0f : p[0]) && o[last] == (p[last] < 0 ? 0.0f : p[last]))"
        " continue;\n"
        "  for (int64_t c = 0; c < cols; ++c) o[c] = p[c] < 0 ? 0.0f : p[c];\n}",
        "unstable", "",
    ),
    "a null pointer": (HONEST + "volatile float* p = nullptr; p[0] = 1;", "crashed", ""),
    "an endless loop": (HONEST + "volatile int forever = 1; while (forever) {}", "hung", ""),
    "a trap": (HONEST + "__builtin_trap();", "crashed", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_each_kind_of_wrong_program_fails_as_itself(bench, name):
    body, code, pattern = WRONG[name]
    failure = bench.check("relu", relu(body), PLAN).failure
    assert failure is not None
    assert failure.rung == "check"
    assert (failure.code, name) == (code, name)
    assert pattern in failure.evidence.get("pattern", "")


def test_the_evidence_says_where_and_what(bench):
    failure = bench.check("relu", relu(HONEST + "out[2 * cols + 5] = 7.5f;"), PLAN).failure
    assert failure.evidence["first"] == [2, 5]
    assert failure.evidence["got"] == [7.5]
    assert failure.evidence["bad"] == 1
    assert failure.evidence["family"] == "normal"
    failure = bench.check("relu", relu(HONEST + "out[n + 2] = 1;"), PLAN).failure
    assert failure.evidence == {"family": "normal", "tensor": "out", "bytes": 9}


def test_a_race_is_seen_as_unstable_or_wrong(bench):
    racy = HEAD % (
        "const int64_t n = rows * cols;\nint64_t next = 0;\n"
        "#pragma omp parallel num_threads(4)\n"
        "for (int64_t k = 0; k < n; ++k) {\n"
        "  const int64_t i = *(volatile int64_t*)&next; *(volatile int64_t*)&next = i + 1;\n"
        "  if (i < n) out[i] = x[i] < 0 ? 0.0f : x[i] + (i && out[i - 1] != out[i - 1]);\n}"
    )
    failure = bench.check("relu", racy, PLAN).failure
    assert failure is not None


def test_after_a_crash_the_next_program_is_judged_as_ever(bench):
    assert bench.check("relu", relu("__builtin_trap();"), PLAN).failure.code == "crashed"
    assert bench.check("relu", RELU, PLAN).failure is None


def test_scratch_is_no_memory_between_calls(bench):
    source = (
        'extern "C" void kernel(const float* x, float* out, float* kept, int64_t n) {\n'
        "if (kept[n] == 42) { for (int64_t i = 0; i < n; ++i) out[i] = kept[i]; return; }\n"
        "for (int64_t i = 0; i < n; ++i) kept[i] = out[i] = x[i] < 0 ? 0.0f : x[i];\n"
        "kept[n] = 42;\n}"
    )
    size = ROWS * COLUMNS
    scratch = [{"name": "kept", "dtype": "float32", "shape": [size + 1], "zero": False}]
    bound = plan("x", "out", "kept", size, scratch=scratch)
    # It may remember as it likes: it is never given what it left.
    assert bench.check("relu", source, bound).failure is None
    measured = bench.measure("relu", source, bound)
    assert measured.failure is None


def test_integers_are_exact_and_ties_follow_eager(bench):
    source = (
        'extern "C" void kernel(const float* x, int64_t* out, int64_t rows, int64_t cols) {\n'
        "for (int64_t r = 0; r < rows; ++r) { int64_t best = 0;\n"
        "for (int64_t c = 1; c < cols; ++c) { const float v = x[r * cols + c],"
        " b = x[r * cols + best];\n"
        "if (v %s b || (v != v && b == b)) best = c; }\nout[r] = best; }\n}"
    )
    assert bench.check("argmax", source % ">", PLAN).failure is None
    failure = bench.check("argmax", source % ">=", PLAN).failure
    assert failure.code == "wrong-answer"


NORM = """
extern "C" void kernel(const float* x, const float* w, const float* b, float* out, int64_t rows,
                       int64_t cols, float eps) {
for (int64_t r = 0; r < rows; ++r) {
    const float* p = x + r * cols;
    float mean = 0, var = 0;
    for (int64_t c = 0; c < cols; ++c) mean += p[c];
    mean *= 1.0f / cols;
    for (int64_t c = 0; c < cols; ++c) var += (p[c] - mean) * (p[c] - mean);
    const float scale = 1 / std::sqrt(var / cols + eps);
    for (int64_t c = 0; c < cols; ++c) out[r * cols + c] = (p[c] - mean) * scale * WEIGHT;
}}
"""


def test_weights_are_not_what_they_usually_are(bench):
    bound = plan("x", "norm_weight", "norm_bias", "out", 32, 128, 1e-5)
    right = NORM.replace("WEIGHT", "w[c] + b[c]")
    assert bench.check("linear", right, bound).failure is None
    lazy = NORM.replace("WEIGHT", "1.0f")
    assert bench.check("linear", lazy, bound).failure.code == "wrong-answer"


HALF = """
static inline float up(uint16_t v) {
    uint32_t bits = uint32_t(v) << 16; float f; __builtin_memcpy(&f, &bits, 4); return f;
}
static inline uint16_t down(float f) {
    uint32_t bits; __builtin_memcpy(&bits, &f, 4);
    if (f != f) return 0x7fc0;
    return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
extern "C" void kernel(const uint16_t* x, uint16_t* out, uint8_t* out1, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        out[i] = down(up(x[i]) * 2 + 1);
        out1[i] = YES;
    }
}
"""


def test_bfloat16_and_booleans(bench):
    bound = plan("x", "out", "out1", 1000)
    right = HALF.replace("YES", "up(x[i]) > 0")
    assert bench.check("half", right, bound).failure is None
    odd = HALF.replace("YES", "up(x[i]) > 0 ? 255 : 0")
    assert "0 or 1" in bench.check("half", odd, bound).failure.message
    coarse = ROUND + right.replace("down(up(x[i]) * 2 + 1)", "down(lower(up(x[i])) * 2 + 1)")
    assert bench.check("half", coarse, bound, {"BITS": 19}).failure is not None


def test_strided_arguments_come_with_their_strides(bench):
    source = (
        'extern "C" void kernel(const float* x, float* out, int64_t rows, int64_t cols,'
        " int64_t stride) {\n"
        "for (int64_t r = 0; r < rows; ++r) for (int64_t c = 0; c < cols; ++c)"
        " out[c * rows + r] = 3 * x[r * stride + c];\n}"
    )
    bench.target("strided")
    assert bench.check("strided", source, plan("x", "out", 40, 50, 70)).failure is None
    failure = bench.check("strided", source, plan("x", "out", 40, 50, 50)).failure
    assert failure.code == "wrong-answer"
