"""CUDA programs to cubins: what compiles, what is refused, what is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agent.devices import open_device
from agent.devices.cuda import nvrtc
from agent.devices.cuda.build import build, toolchain
from agent.errors import BuildError, MachineError
from agent.workers import builder
from tests.agent.devices.cuda_programs import HALVES, PLAIN, PROGRAMS

BODY = 'extern "C" __global__ void kernel(const float* x, float* out, int n) {\n%s\n}\n'
COPY = BODY % "out[threadIdx.x] = x[threadIdx.x] * SCALE;"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.getbasetemp() / "cuda-cache"


def make(cache, source, values=None, kernels=("kernel",), arch="sm_90a"):
    return build(arch, source, values or {}, kernels, cache)


def refused(cache, source, code, **more):
    with pytest.raises(BuildError) as caught:
        make(cache, source, **more)
    error = caught.value
    assert error.code == code, error.evidence
    assert error.evidence["rung"] in ("read", "build")
    assert error.evidence["log"]
    assert error.cure
    return error


def newest():
    number = nvrtc.supported()[-1]
    return f"sm_{number}a"


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compile_for_every_architecture_that_has_what_they_use(cache, name):
    source, values, oldest = PROGRAMS[name]
    arches = ["sm_90a"] if oldest != "80" else ["sm_80", newest()]
    if name == "plain":
        arches.append("sm_90a")
    for arch in arches:
        built = make(cache, source, values, arch=arch)
        assert Path(built.library).suffix == ".cubin"
        kernel = built.detail["kernels"]["kernel"]
        assert 8 <= kernel["registers"] <= 255
        assert kernel["spill_stores"] == kernel["spill_loads"] == 0
        assert arch in built.flags
        for tunable, value in values.items():
            assert f"-D{tunable}={value}" in built.flags


def test_the_facts_of_a_build(cache):
    source, values, _ = PROGRAMS["habits"]
    habits = make(cache, source, values)
    kernel = habits.detail["kernels"]["kernel"]
    assert (kernel["shared"], kernel["constant"], kernel["max_threads"]) == (512, 16, 128)
    assert habits.detail["access"]["kernel"]["atomics"] == 1
    assert len(habits.detail["notes"]) == 2
    assert "-default-device" in habits.flags
    plain = make(cache, PLAIN, {"SCALE": 2}).detail
    assert plain["access"]["kernel"]["load_bytes"] == 16
    assert plain["notes"] == []
    hopper = make(cache, PROGRAMS["wgmma, TMA"][0]).detail
    assert hopper["access"]["kernel"]["loads"] == {"bulk": 1}
    assert hopper["kernels"]["kernel"]["shared"] == 64 * 64 * 2 + 8


def test_spills_and_local_memory_are_told(cache):
    source = (
        'extern "C" __global__ void __launch_bounds__(1024) kernel(float* x, int n) {\n'
        "float a[96];\n#pragma unroll\nfor (int i = 0; i < 96; ++i) a[i] = x[i * n];\n"
        "#pragma unroll 1\nfor (int k = 0; k < n; ++k) {\n#pragma unroll\n"
        "for (int i = 0; i < 96; ++i) a[i] = a[i] * a[(i + 7) % 96] + x[k]; }\n"
        "#pragma unroll\nfor (int i = 0; i < 96; ++i) x[i * n] = a[i];\n}\n"
    )
    detail = make(cache, source).detail
    kernel = detail["kernels"]["kernel"]
    assert kernel["local"] > 0
    assert kernel["spill_stores"] > 0
    assert kernel["spill_loads"] > 0
    assert any("spills" in note for note in detail["notes"])


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("__device__ int count = 3;\n" + BODY % "out[0] = atomicAdd(&count, 1);", "static-storage"),
        ("__device__ float kept[4];\n" + BODY % "out[0] = kept[n]; kept[n] = x[0];",
         "static-storage"),
        ("static constexpr float t[4] = {1, 2, 3, 4};\n"
         + BODY % "const_cast<float*>(t)[n] = 1; out[0] = t[n + 1];", "static-storage"),
        ("__constant__ float t[4] = {1, 2, 3, 4};\n"
         + BODY % 'asm("{.reg .b64 p; mov.b64 p, t; cvta.const.u64 p, p; st.b32 [p], 7;}");'
         "out[0] = t[n + 1];", "static-storage"),
        ("struct A { __device__ virtual float f(float v) { return v; } };\n"
         "struct B : A { __device__ float f(float v) override { return v * 2; } };\n"
         + BODY % "A a; B b; A* one = n > 3 ? &a : &b; out[0] = one->f(x[0]);", "static-storage"),
        ("__managed__ int count;\n" + BODY % "out[0] = count++;", "static-storage"),
        (BODY % 'asm(".global .u32 kept; st.global.u32 [kept], 4;");', "static-storage"),
        (BODY % 'printf("%f", x[n]);', "printf"),
        (BODY % "float* p = (float*)malloc(n); p[n] = 1; out[0] = p[0]; free(p);", "heap"),
        (BODY % "float* p = new float[n]; p[n] = 1; out[0] = p[0]; delete[] p;", "heap"),
        (BODY % "out[0] = clock64();", "clock"),
        (BODY % 'uint64_t t; asm volatile("mov.u64 %0, %%global" "timer;" : "=l"(t)); out[0] = t;',
         "clock"),
        ("__device__ float other(float);\n" + BODY % "out[0] = other(x[0]);", "compile"),
        ("__global__ void child() {}\n" + BODY % "child<<<1, 1>>>();", "compile"),
        (BODY % 'asm(".include \\"/etc/passwd\\"");', "compile"),
        (BODY % 'asm("\\n#include \\"/etc/passwd\\"\\n");', "compile"),
        ('extern "C" __global__ void others(float* x) {}\n', "no-kernel"),
        ("template <int N> __global__ void kernel(float* x) { x[0] = N; }\n", "no-kernel"),
        ("template <int N> __global__ void kernel(float* x) { x[0] = N; }\n"
         "template __global__ void kernel<4>(float*);\n", "no-kernel"),
        ("", "no-kernel"),
    ],
)  # fmt: skip
def test_code_that_is_more_than_pure_kernels_is_refused(cache, source, code):
    error = refused(cache, source, code)
    assert "root:" not in json.dumps(error.to_json())
    if "others" in source:
        assert "others" in error.message


def test_tables_and_asserts_are_allowed(cache):
    source = (
        "static constexpr float a[4] = {1, 2, 3, 4};\n__device__ const int b[3] = {3, 2, 1};\n"
        "__constant__ float c[2] = {1, 2};\n"
        "__device__ __noinline__ float pick(const float* from, int i) { return from[i]; }\n"
        + BODY
        % "if (n < 0) __trap(); assert(n != 1); float sum = pick(a, n & 3) + pick(x, n);\n"
        "for (const float* p = a; p != a + 4; ++p) sum += *p;\n"
        "out[0] = b[n % 3] + c[n & 1] + sum;"
    )
    make(cache, source)


def test_the_first_error_comes_with_its_line_and_no_path(cache):
    before = HALVES.replace("kernel(", "first(")
    error = refused(cache, before + BODY % "out[0] = y;\nout[1] = z;", "compile")
    line = HALVES.count("\n") + 2
    assert error.message.startswith(f'line {line}: identifier "y" is undefined')
    log = error.evidence["log"]
    assert log.startswith(f"program.cu:{line}: error: ")
    assert "out[0] = y;" in log
    assert '"z"' not in log
    headers = refused(cache, "#include <cub/no_such_header.cuh>\n" + BODY % "", "compile")
    deep = refused(cache, "#include <cuda/std/no_such>\n#define X __half\n" + BODY % "", "compile")
    static = refused(
        cache, "#include <cuda_fp16.h>\n" + BODY % "out[0] = __hadd(x[0], Q(3));", "compile"
    )
    for found in (error, headers, deep, static):
        text = json.dumps(found.to_json())
        assert str(cache) not in text
        assert "/cuda-headers" not in text
        assert len(found.evidence["log"]) <= 4000


def test_a_header_cannot_be_bent_by_the_program(cache):
    source = "#define half float\n#define N 3\n#include <cuda_fp16.h>\n" + BODY % (
        "#undef half\nout[0] = __half2float(half(x[0])) + VALUE + N;"
    )
    make(cache, source, {"VALUE": 3})


def test_nothing_beside_the_source_is_searched(cache, tmp_path, monkeypatch):
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "mine").write_text("#error found beside")
    (tmp_path / "cuda_fp16.h").write_text("#error found beside")
    monkeypatch.chdir(tmp_path)
    make(cache, '#include "cuda_fp16.h"\n' + BODY % "out[0] = __half2float(__half(x[0]));")
    error = refused(cache, '#include "cuda/mine"\n' + BODY % "", "compile")
    assert "found beside" not in error.evidence["log"]


def test_names_and_values_must_be_plain(cache):
    for values in ({"A B": 1}, {"__CUDA_ARCH__": 1}, {"X": "1;"}):
        refused(cache, COPY, "tunable", values=values)
    refused(cache, COPY, "no-kernel", values={"SCALE": 1}, kernels=["kernel;"])


def test_an_architecture_that_the_compiler_does_not_know(cache):
    with pytest.raises(MachineError) as caught:
        make(cache, COPY, {"SCALE": 1}, arch="sm_999a")
    assert caught.value.code == "nvrtc-too-old"


def test_a_build_is_kept_by_content(cache):
    first = make(cache, COPY, {"SCALE": 2})
    again = make(cache, COPY.replace("\n", "\r\n"), {"SCALE": 2})
    assert (first.cached, again.cached) == (False, True)
    assert again.to_json() == {**first.to_json(), "cached": True}
    libraries = {
        make(cache, COPY, {"SCALE": 3}).library,
        make(cache, COPY, {"SCALE": 2}, arch="sm_80").library,
        make(cache, COPY + "\n", {"SCALE": 2}).library,
        first.library,
    }
    assert len(libraries) == 4


@pytest.mark.parametrize("harm", ["cut", "changed", "gone", "entry"])
def test_a_damaged_entry_is_built_again(cache, harm):
    built = make(cache, COPY, {"SCALE": 4})
    library = Path(built.library)
    whole = library.read_bytes()
    if harm == "cut":
        library.write_bytes(whole[:100])
    elif harm == "changed":
        library.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    elif harm == "gone":
        library.unlink()
    else:
        library.with_suffix(".json").write_text('{"seconds": 1}')
    again = make(cache, COPY, {"SCALE": 4})
    assert not again.cached
    assert Path(again.library).read_bytes() == whole
    assert make(cache, COPY, {"SCALE": 4}).cached


def test_builders_at_once_agree_from_an_empty_cache(tmp_path):
    results, workers = [], []
    for _ in range(3):
        work = threading.Thread(target=lambda: results.append(make(tmp_path, COPY, {"SCALE": 5})))
        workers.append(work)
        work.start()
    for work in workers:
        work.join()
    assert len({built.library for built in results}) == 1
    assert len(list(tmp_path.glob("cuda-headers-*"))) <= 1
    assert len(list(tmp_path.glob("cuda-prelude-*"))) == 1
    assert not list(tmp_path.glob("making-*"))


def test_a_killed_builder_leaves_nothing_behind_a_name(tmp_path):
    toolchain(tmp_path)
    code = (
        "import sys, pathlib; from agent.devices.cuda.build import build\n"
        "source = pathlib.Path(sys.argv[1]).read_text()\n"
        "for n in range(1000):\n"
        "    build('sm_90a', source, {'SCALE': n}, ['kernel'], pathlib.Path(sys.argv[2]))\n"
    )
    source = tmp_path / "source.cu"
    source.write_text(COPY)
    process = subprocess.Popen([sys.executable, "-c", code, str(source), str(tmp_path)])
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.003)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    for entry in tmp_path.glob("*.json"):
        assert json.loads(entry.read_text())["sha256"]
        assert entry.with_suffix(".cubin").is_file()
    assert make(tmp_path, COPY, {"SCALE": 0}).cached
    assert make(tmp_path, COPY, {"SCALE": 1}).cached
    assert not make(tmp_path, COPY, {"SCALE": 2000}).cached


def test_a_program_that_takes_all_memory_is_the_programs_fault(tmp_path):
    toolchain(tmp_path)
    code = (
        "import resource, sys, pathlib; from agent.devices.cuda.build import build\n"
        "from agent.errors import BuildError\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (200 << 20, 200 << 20))\n"
        "try: build('sm_90a', sys.argv[1], {}, ['kernel'], pathlib.Path(sys.argv[2]))\n"
        "except BuildError as error: print(error.code)\n"
    )
    bomb = "#define A(x) x x x x x x x x\n#define B(x) A(A(A(A(A(A(x))))))\n" + BODY % (
        "B(B(out[0] += 1;))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, bomb, str(tmp_path)], capture_output=True, text=True
    )
    assert done.stdout.strip() == "compile-limits", done.stderr


def test_the_worker_builds_for_an_architecture(cache):
    made = builder.build(
        {
            "source": COPY, "values": {"SCALE": 2}, "kernels": ["kernel"], "cache": str(cache),
            "device": "cuda", "arch": "sm_90a",
        }
    )  # fmt: skip
    assert made["detail"]["arch"] == "sm_90a"
    assert set(made) == {"library", "seconds", "cached", "flags", "detail"}


@pytest.mark.gpu
def test_the_driver_agrees_with_what_was_read_from_the_cubin(cache):
    from cuda.core import Device, ObjectCode

    device = open_device("cuda")
    Device().set_current()
    source, values, _ = PROGRAMS["habits"]
    built = device.build(source, values, ["kernel"], cache)
    kernel = ObjectCode.from_cubin(built.library).get_kernel("kernel")
    told = built.detail["kernels"]["kernel"]

    def attribute(name):
        value = getattr(kernel.attributes, name)  # a method once, a property now
        return value() if callable(value) else value

    assert attribute("num_regs") == told["registers"]
    assert attribute("shared_size_bytes") == told["shared"]
    assert attribute("const_size_bytes") == told["constant"]
    assert attribute("local_size_bytes") == told["local"]
    assert attribute("max_threads_per_block") == told["max_threads"]
