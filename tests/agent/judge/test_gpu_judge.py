"""The judge on a real GPU: right and broken programs, both kinds of time, shared memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.devices import open_device
from agent.program import parse_reply
from agent.task import TaskSource, open_task

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

PROGRAMS = Path(__file__).parents[2] / "data" / "programs"
TASKS = {
    "relu": """
import torch
def reference(x):
    return torch.relu(x)
def inputs(device):
    return [torch.randn(512, 1000, device=device)]
""",
    "in_place": """
import torch
MUTATES = ("x",)
def reference(x, y):
    x.mul_(2.0).add_(y)
    return x.sum(-1)
def inputs(device):
    return [torch.randn(256, 256, device=device), torch.randn(256, 256, device=device)]
""",
    "waits": """
import torch
def reference(x):
    torch.cuda.synchronize()
    return x + 1.0
def inputs(device):
    return [torch.randn(512, 512, device=device)]
""",
    "ranged": """
import torch
RANGES = {"rows": (1, 5000)}
def reference(x):
    return x * 3.0
def inputs(device, rows=4096):
    return [torch.randn(rows, 64, device=device)]
""",
}
FLAT = """
[[launch]]
kernel = "k"
grid = "ceil_div(x.numel, 256)"
block = 256
args = ["x", "out", "x.numel"]
"""
HEAD = """extern "C" __global__ void k(const float* x, float* out, int64_t n) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
"""
RELU = HEAD + "if (i < n) { const float v = x[i]; out[i] = v > 0 ? v : v != v ? v : 0.0f; } }"


class Gpu:
    def __init__(self, cache):
        from agent.judge.judge import Judge

        self.device = open_device("cuda")
        self.cache = cache
        self.judge = Judge("cuda")
        self.targets = {}

    def target(self, name):
        if name not in self.targets:
            number = len(self.targets) + 1
            if name.startswith("suite:") or name.endswith(".py"):
                task = open_task(name, "cuda")
            else:
                task = TaskSource("plain", name, "", TASKS[name], "cuda")
            self.targets[name] = number, self.judge.load(number, task, 5)
        return self.targets[name]

    def made(self, task, source, plan):
        number, spec = self.target(task)
        program = parse_reply(f"An idea\n```cuda\n{source}\n```\n```toml\n{plan}\n```\n", "cuda")
        bound = program.bind(spec, program.defaults(), self.device.facts()).to_json()
        built = self.device.build(program.source, program.defaults(), program.kernels(), self.cache)
        return number, built.library, bound

    def check(self, task, source, plan=FLAT):
        return self.judge.check(*self.made(task, source, plan)).failure

    def measure(self, task, source, plan=FLAT):
        return self.judge.measure(*self.made(task, source, plan))


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    made = Gpu(tmp_path_factory.mktemp("builds"))
    yield made
    made.judge.close()


def test_a_right_program_has_both_times(gpu):
    assert gpu.check("relu", RELU) is None
    found = gpu.measure("relu", RELU)
    assert found.failure is None
    assert (found.timing, found.how) == ("device", "device")
    assert 0 < found.ns < found.call_ns * 10
    assert found.eager_call_ns > 0
    assert len(found.samples) >= 40


def test_a_wrong_program_is_told_where(gpu):
    failure = gpu.check("relu", RELU.replace("i < n", "i < n - 7"))
    assert failure.code in ("wrong-answer", "not-written", "unwritten"), failure


def test_a_fault_costs_one_verdict(gpu):
    bad = RELU.replace("if (i < n)", "if (i == 5) out[(int64_t)1 << 40] = 0; if (i < n)")
    before = gpu.judge.replaced
    failure = gpu.check("relu", bad)
    assert failure.code == "crashed"
    assert "illegal address" in failure.message
    assert gpu.check("relu", RELU) is None
    assert gpu.judge.replaced == before + 1


def test_a_hang_costs_one_verdict(gpu):
    gpu.judge._run_seconds = 1.0
    endless = RELU.replace("if (i < n)", "volatile float* p = out; while (*p != 1e30f) {} if (i<n)")
    assert gpu.check("relu", endless).code == "hung"
    gpu.judge._run_seconds = 4.0
    assert gpu.check("relu", RELU) is None


def test_what_the_driver_refuses_is_said_in_words(gpu):
    room = "__shared__ float room[12000]; room[threadIdx.x] = x[0]; __syncthreads();"
    greedy = RELU.replace("if (i < n)", room + " if (room[5] == 1e30f) out[0] = 1; if (i < n)")
    failure = gpu.check("relu", greedy, FLAT.replace("block = 256", "block = 256\nshared = 200000"))
    assert failure.code == "launch"
    assert "200000 bytes of shared memory" in failure.message
    assert gpu.check("relu", RELU) is None


def test_arguments_changed_in_place_are_put_back_before_each_timed_call(gpu):
    source = """extern "C" __global__ void k(float* x, const float* y, float* out, int cols) {
        __shared__ float sum;
        if (threadIdx.x == 0) sum = 0;
        __syncthreads();
        const int64_t i = (int64_t)blockIdx.x * cols + threadIdx.x;
        const float v = x[i] * 2.0f + y[i];
        x[i] = v;
        float s = v;
        for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
        if (threadIdx.x % 32 == 0) atomicAdd(&sum, s);
        __syncthreads();
        if (threadIdx.x == 0) out[blockIdx.x] = sum;
    }"""
    plan = """
[[launch]]
kernel = "k"
grid = "x.shape[0]"
block = "x.shape[1]"
args = ["x", "y", "out", {expr = "x.shape[1]", type = "int32"}]
"""
    assert gpu.check("in_place", source, plan) is None
    found = gpu.measure("in_place", source, plan)
    assert found.failure is None
    assert found.how == "device"
    lazy = source.replace("x[i] = v;", "")
    assert gpu.check("in_place", lazy, plan).code == "wrong-answer"


def test_what_cannot_be_captured_is_timed_by_events_and_says_so(gpu):
    add = HEAD + "if (i < n) out[i] = x[i] + 1.0f; }"
    found = gpu.measure("waits", add)
    assert found.failure is None
    assert (found.timing, found.how) == ("device", "events")


def test_neighbouring_sizes_are_checked(gpu):
    triple = HEAD + "if (i < n) out[i] = x[i] * 3.0f; }"
    assert gpu.check("ranged", triple) is None
    only_fours = triple.replace("i < n", "i < n / 256 * 256 || (n % 512 == 0 && i < n)")
    fixed = triple.replace("i < n", "i < 4096 * 64")
    assert gpu.check("ranged", fixed) is not None
    assert gpu.check("ranged", only_fours) is not None


def test_the_three_programs_by_hand_pass(gpu):
    linear = str(PROGRAMS.parent / "linear_gelu.py")
    for task, name in [("suite:softmax", "softmax"), ("suite:group_norm", "group_norm"),
                       (linear, "linear_gelu")]:  # fmt: skip
        number, spec = gpu.target(task)
        program = parse_reply((PROGRAMS / f"{name}.md").read_text(), "cuda")
        values = program.defaults()
        bound = program.bind(spec, values, gpu.device.facts()).to_json()
        built = gpu.device.build(program.source, values, program.kernels(), gpu.cache)
        assert gpu.judge.check(number, built.library, bound).failure is None, name
        found = gpu.judge.measure(number, built.library, bound)
        assert found.failure is None, name
        assert found.verdict == "FASTER", name


def test_eager_against_itself_is_one(gpu):
    found = gpu.judge.identity(gpu.target("relu")[0])
    assert found.low <= 1.02
    assert found.high >= 0.98
    assert found.verdict in ("SAME", "UNSURE")


def test_an_empty_neighbour_has_no_blocks_and_passes(gpu):
    TASKS["from_nothing"] = """
import torch
RANGES = {"rows": (0, 300)}
def reference(x):
    return x * 3.0
def inputs(device, rows=256):
    return [torch.randn(rows, 64, device=device)]
"""
    triple = HEAD + "if (i < n) out[i] = x[i] * 3.0f; }"
    assert gpu.check("from_nothing", triple) is None
