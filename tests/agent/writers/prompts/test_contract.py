"""What every writer is told is true: examples build and pass, what is named exists."""

from __future__ import annotations

import re
import tomllib

import pytest

from agent import expressions
from agent.devices import open_device
from agent.devices.cpu import CpuDevice
from agent.devices.cuda import source as cuda_source
from agent.devices.cuda.arches import limits_of
from agent.devices.purity import HEADERS
from agent.errors import BuildError, MachineError
from agent.judge.judge import Judge
from agent.plan.calls import OPERATIONS
from agent.plan.parts import ITEM_BYTES, SCALAR_TYPES
from agent.plan.reading import read_plan
from agent.replies import read_reply
from agent.task import ArgSpec, OutputSpec, TargetSpec, TaskSource
from agent.writers.prompts import CONTRACT, cpp, cuda
from agent.writers.prompts.budget import tokens
from tests.agent.writers.prompts.briefs import H200, XEON

EXAMPLES = {"cpp": cpp.EXAMPLE, "cuda": cuda.EXAMPLE}
LANGUAGES = sorted(CONTRACT)


def spec(language: str) -> TargetSpec:
    x = ArgSpec("x", "input", "float32", (8192, 4096), (4096, 1))
    weight = ArgSpec("weight", "weight", "float32", (4096,), (1,))
    out = OutputSpec("out", "float32", (8192, 4096), (4096, 1))
    device = "cpu" if language == "cpp" else "cuda"
    return TargetSpec("t", device, (x, weight), {"eps": 1e-6}, (out,), 4, 4, 0, "")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_text_is_short_and_plain(language):
    text = CONTRACT[language]
    assert tokens(text) < 2800
    assert text.isascii()
    assert max(map(len, text.split("\n"))) <= 100


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_example_is_a_program_for_its_target(language):
    program = read_reply(EXAMPLES[language], language)
    assert len(program.title) <= 120
    assert len(program.variants()) > 1
    for values in program.variants():
        bound = program.bind(spec(language), values, H200 if language == "cuda" else XEON)
        assert bound.steps[0]["args"][-1] == {"type": "float32", "value": 1e-6}


def test_the_cpp_example_is_right_at_every_size(tmp_path):
    text = """
import torch

RANGES = {"rows": (1, 1024)}


def reference(x, weight, eps):
    return torch.rms_norm(x, (4096,), weight, eps)


def inputs(rows=64):
    return torch.randn(rows, 4096), torch.randn(4096), 1e-6
"""
    program = read_reply(EXAMPLES["cpp"], "cpp")
    device = CpuDevice()
    judge = Judge("cpu", run_seconds=10)
    try:
        target = judge.load(1, TaskSource("plain", "rms", "", text, "cpu"), 7)
        bound = program.bind(target, program.defaults(), device.facts()).to_json()
        built = device.build(program.source, program.defaults(), program.kernels(), tmp_path)
        checked = judge.check(1, built.library, bound)
    finally:
        judge.close()
    assert checked.failure is None
    assert len(bound["neighbours"]) > 1


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
def test_the_cuda_example_compiles_as_it_says(tmp_path, arch):
    program = read_reply(EXAMPLES["cuda"], "cuda")
    for values in program.variants():
        try:
            built = open_device("cuda", arch).build(
                program.source, values, program.kernels(), tmp_path
            )
        except MachineError as error:
            pytest.skip(error.message)
        kernel = built.detail["kernels"]["rms_norm"]
        assert kernel["spill_stores"] == kernel["local"] == 0
        assert built.detail["access"]["rms_norm"]["load_bytes"] == 16
        assert built.detail["access"]["rms_norm"]["store_bytes"] == 16


# -- what is named exists --------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_plan_is_one_that_is_read(language):
    grammar = re.findall(r"```toml\n(.*?)```", CONTRACT[language], re.S)[0]
    assert read_plan(language, grammar).steps
    parts = tomllib.loads(grammar)
    known = {"tune", "scratch", "launch"}
    assert set(parts) == known
    if language == "cuda":
        geometry = {"grid", "block", "shared", "cluster", "cooperative"}
        assert set(parts["launch"][0]) == {"kernel", "args", *geometry}
    dtypes = re.search(r'dtype = "float32" +# ([^\n]*)', grammar)
    assert dtypes is not None
    assert set(dtypes[1].split()) == set(ITEM_BYTES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_operations_functions_and_types_are_those_that_there_are(language):
    text = " ".join(CONTRACT[language].split())
    ops = re.search(r"Ops: (.*?), and the views (.*?) to feed", text)
    assert ops is not None
    named = set()
    for word in f"{ops[1]} {ops[2]}".split():
        stem, *dims = word.split("/")
        named |= {stem} | {stem[:-2] + dim for dim in dims}
    assert named == set(OPERATIONS)
    functions = re.search(r"`a if c else b`, (.*?) \(no", text)
    assert functions is not None
    assert set(functions[1].split()) == set(expressions._CALLS)
    assert all(kind in text for kind in SCALAR_TYPES)


def test_facts_are_those_of_the_devices():
    for language, known in (("cuda", limits_of(9, 0)), ("cpp", CpuDevice().facts())):
        line = re.search(r"FACT: ([^\n]*)\.\n", CONTRACT[language])
        assert line is not None
        named = set(re.sub(r"\([^)]*\)", "", line[1]).split())
        assert named <= set(known)
        assert "device.shared" not in CONTRACT[language] or "shared" in named


def test_headers_of_cpp_are_those_that_are_there():
    named = re.search(r"Included already: (.*?)\. There", CONTRACT["cpp"], re.S)
    assert named is not None
    assert set(named[1].split()) < set(HEADERS)


def test_headers_of_cuda_may_be_included():
    named = re.search(r"Headers: (.*?); not", CONTRACT["cuda"], re.S)
    assert named is not None
    for name in named[1].split():
        header = name.replace("*", "reduce.h" if "groups" in name else "barrier")
        assert cuda_source.read_source(f"#include <{header}>\n", False)[1] == [header]
    for host in ("torch/extension.h", "cute/tensor.hpp", "vector"):
        with pytest.raises(BuildError):
            cuda_source.read_source(f"#include <{host}>\n", False)


KNOWN = """
extern "C" __global__ void f(float* out, uint32_t n, const __grid_constant__ CUtensorMap m) {
    static_assert(std::is_same<int64_t, long long>::value);
    asm volatile("" ::: "memory");
    out[0] = std::max(FLT_MAX, INFINITY) + std::numeric_limits<float>::max() + std::min(n, 3u);
}
"""
REFUSED = {
    "printf": 'extern "C" __global__ void f(float* out) { printf("%f", out[0]); }',
    "malloc": 'extern "C" __global__ void f(float** out) { out[0] = (float*)malloc(8); }',
    "%clock": 'extern "C" __global__ void f(long long* out) { out[0] = clock64(); }',
    "__device__": '__device__ int n;\nextern "C" __global__ void f(int* out) { n = out[0]; }',
}


def cuda_build(source, folder):
    try:
        open_device("cuda", "sm_90a").build(source, {}, ["f"], folder)
    except MachineError as error:
        pytest.skip(error.message)


def test_what_is_known_without_headers_is_known(tmp_path):
    cuda_build(KNOWN, tmp_path)


@pytest.mark.parametrize("word", REFUSED)
def test_what_is_said_to_be_refused_is_refused(tmp_path, word):
    assert word in CONTRACT["cuda"]
    with pytest.raises(BuildError):
        cuda_build(REFUSED[word], tmp_path)


CPP_REFUSED = {
    "assembly": 'extern "C" void f(float* out) { asm volatile("nop"); }',
    "malloc": '#include <cstdlib>\nextern "C" void f(float** out) { out[0] = new float[8]; }',
    "static or": 'static int n;\nextern "C" void f(int* out) { n += out[0]; out[0] = n; }',
    "raw": 'extern "C" void f(char* out) { out[0] = R"(x)"[0]; }',
    "_Pragma": '_Pragma("GCC optimize(3)")\nextern "C" void f(float* out) { out[0] = 1; }',
    "target attributes": '__attribute__((target("avx2"))) void g() {}\n'
    'extern "C" void f(float* out) { g(); }',
}
CPP_ALLOWED = """
static const float table[4] = {1, 2, 3, 4};
extern "C" void f(float* out, int64_t n) {
#pragma omp parallel
    { out[omp_get_thread_num()] = table[n % 4] * std::min(1.0f, INFINITY) * omp_get_num_threads(); }
#ifdef __AVX2__
    _mm256_stream_ps(out, _mm256_set1_ps(omp_get_max_threads()));
#endif
}
"""


@pytest.mark.parametrize("word", CPP_REFUSED)
def test_what_cpp_may_not_have_is_refused(tmp_path, word):
    assert word in CONTRACT["cpp"]
    with pytest.raises(BuildError):
        CpuDevice().build(CPP_REFUSED[word], {}, ["f"], tmp_path)


def test_what_cpp_may_have_is_allowed(tmp_path):
    assert CpuDevice().build(CPP_ALLOWED, {}, ["f"], tmp_path).library


def test_sums_are_not_vectorised_unless_asked_for_and_contraction_is_on():
    from agent.devices.cpu_build import FLAGS

    assert not {"-ffast-math", "-fassociative-math", "-ffp-contract=off"} & {*FLAGS}
    said = re.search(r"with (-std=.*?), without", CONTRACT["cpp"], re.S)
    assert said is not None
    assert set(said[1].split()) - {"-fno-exceptions"} == set(FLAGS) - {
        "-fPIC",
        "-fvisibility=default",
    }
