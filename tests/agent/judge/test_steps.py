"""Library steps, zeroed scratch and arguments changed in place, judged on the CPU."""

from __future__ import annotations

import pytest

from agent.devices import open_device
from agent.judge.judge import Judge
from agent.program import parse_reply
from agent.task import TaskSource

TASKS = {
    "linear": """
import torch
def reference(x, w, b):
    return torch.relu(x @ w + b)
def inputs():
    return [torch.randn(24, 40), torch.randn(40, 50), torch.randn(50)]
""",
    "histogram": """
import torch
def reference(x):
    return torch.bincount(x, minlength=16)[:16]
def inputs():
    return [torch.randint(16, (4000,))]
""",
    "in_place": """
import torch
MUTATES = ("x",)
def reference(x, y):
    x.mul_(2.0).add_(y)
    return x.sum(-1)
def inputs():
    return [torch.randn(30, 70), torch.randn(30, 70)]
""",
}
EPILOGUE = """
#include <cstdint>
extern "C" void epilogue(const float* y, const float* b, float* out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r) for (int64_t c = 0; c < cols; ++c) {
        const float v = y[r * cols + c] + b[c];
        out[r * cols + c] = v > 0 ? v : v != v ? v : 0;
    }
}
"""
EPILOGUE_PLAN = """
[[call]]
op = "mm"
args = ["x", "w"]
to = "y"
[[launch]]
kernel = "epilogue"
args = ["y", "b", "out", "x.shape[0]", "w.shape[1]"]
"""
COUNT = """
#include <cstdint>
extern "C" void count(const int64_t* x, int64_t* bins, int64_t* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) bins[x[i]] += 1;
    for (int64_t i = 0; i < 16; ++i) out[i] = bins[i];
}
"""
IN_PLACE = """
#include <cstdint>
extern "C" void update(float* x, const float* y, float* out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < cols; ++c) {
            float v = x[r * cols + c] * 2.0f + y[r * cols + c];
            STORE
            sum += v;
        }
        out[r] = (float)sum;
    }
}
"""
IN_PLACE_PLAN = """
[[launch]]
kernel = "update"
args = ["x", "y", "out", "x.shape[0]", "x.shape[1]"]
"""


class Steps:
    def __init__(self, cache):
        self.cache = cache
        self.judge = Judge(run_seconds=2.0)
        self.specs = {}

    def judged(self, task, source, plan, *, timed=True):
        device = open_device("cpu")
        if task not in self.specs:
            number = len(self.specs) + 1
            source_of = TaskSource("plain", task, "", TASKS[task], "cpu")
            self.specs[task] = number, self.judge.load(number, source_of, 5)
        number, spec = self.specs[task]
        program = parse_reply(f"An idea\n```cpp\n{source}```\n```toml\n{plan}```\n", "cpp")
        bound = program.bind(spec, program.defaults(), device.facts()).to_json()
        built = device.build(program.source, {}, program.kernels(), self.cache)
        checked = self.judge.check(number, built.library, bound)
        if checked.failure is not None or not timed:
            return checked.failure
        return self.judge.measure(number, built.library, bound, 50).failure


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    made = Steps(tmp_path_factory.getbasetemp() / "cache")
    yield made
    made.judge.close()


def test_a_library_step_and_a_kernel_after_it(steps):
    assert steps.judged("linear", EPILOGUE, EPILOGUE_PLAN) is None


def test_a_library_step_that_is_wrong_is_found(steps):
    wrong = EPILOGUE.replace("v > 0 ?", "v > 0.1f ?")
    assert steps.judged("linear", wrong, EPILOGUE_PLAN).code == "wrong-answer"


def test_scratch_is_zero_where_the_plan_says_so(steps):
    plan = """
[[scratch]]
name = "bins"
dtype = "int64"
shape = [16]
zero = true
[[launch]]
kernel = "count"
args = ["x", "bins", "out", "x.numel"]
"""
    assert steps.judged("histogram", COUNT, plan) is None
    dirty = steps.judged("histogram", COUNT, plan.replace("zero = true\n", ""))
    assert dirty.code == "wrong-answer"


def test_an_argument_is_changed_in_place_as_declared(steps):
    honest = IN_PLACE.replace("STORE", "x[r * cols + c] = v;")
    assert steps.judged("in_place", honest, IN_PLACE_PLAN) is None


def test_an_argument_left_alone_is_a_wrong_answer(steps):
    lazy = IN_PLACE.replace("STORE", "")
    failure = steps.judged("in_place", lazy, IN_PLACE_PLAN)
    assert failure.code == "wrong-answer"
    assert "x" in failure.message


def test_an_argument_not_declared_must_stay(steps):
    greedy = IN_PLACE.replace("STORE", "x[r * cols + c] = v; ((float*)y)[r * cols + c] = v;")
    assert steps.judged("in_place", greedy, IN_PLACE_PLAN).code == "argument-changed"
