from __future__ import annotations

import threading
from pathlib import Path

import pytest

from agent.devices import open_device
from agent.devices.cpu import Compiler, find_compiler
from agent.devices.cpu_build import build, first_error
from agent.errors import BuildError, MachineError

BODY = 'extern "C" void kernel(const float* x, float* out, int64_t n) {\n%s\n}\n'
COPY = BODY % "for (int64_t i = 0; i < n; ++i) out[i] = x[i] * SCALE;"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.getbasetemp() / "cache"


def make(cache, source, values=None, kernels=("kernel",), **more):
    return build(find_compiler(), source, values or {}, kernels, cache, **more)


def test_a_kernel_builds_once_per_content(cache):
    first = make(cache, COPY, {"SCALE": 2})
    again = make(cache, COPY, {"SCALE": 2})
    other = make(cache, COPY, {"SCALE": 3})
    assert Path(first.library).exists()
    assert not first.cached
    assert again.cached
    assert again.library == first.library
    assert other.library != first.library
    assert "-DSCALE=2" in first.flags
    assert first.detail["code_bytes"] > 0


def test_what_a_killed_builder_leaves_is_no_result(tmp_path):
    cache = tmp_path  # of its own: elsewhere builders are killed for the time they take
    built = make(cache, COPY, {"SCALE": 4})
    Path(built.library).with_suffix(".json").unlink()
    assert not make(cache, COPY, {"SCALE": 4}).cached
    assert not list(cache.glob("making-*"))


def test_two_builders_at_once_agree(tmp_path):
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(make(tmp_path, COPY, {"SCALE": 5})))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({built.library for built in results}) == 1
    assert len(list(tmp_path.glob("toolchain-*"))) == 1


def test_the_first_error_comes_with_its_line(cache):
    with pytest.raises(BuildError) as caught:
        make(cache, BODY % "out[0] = y;\nout[1] = z;")
    error = caught.value
    assert error.code == "compile"
    assert error.message.startswith("line 2: 'y' was not declared")
    assert error.evidence["rung"] == "build"
    assert "out[0] = y;" in error.evidence["log"]
    assert "'z'" not in error.evidence["log"]


def test_control_codes_and_length_of_an_error_are_tamed():
    log = "program.cpp:3:1: error: \x1b[31mbad\x07\n" + "x" * 10_000
    message, text = first_error(log)
    assert message == "line 3:  [31mbad "
    assert len(text) <= 4000
    assert "\x1b" not in text
    assert first_error("no such thing") is None


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("static int count;\n" + BODY % "out[0] = ++count;", "static-storage"),
        (BODY % "static float kept[4] = {1}; out[0] = kept[n]++;", "static-storage"),
        ("int count;\n" + BODY % "out[0] = ++count;", "static-storage"),
        ("static float f();\nstatic const float c = f();\nfloat f() { return 1; }\n" + BODY
         % "out[0] = c;", "static-storage"),
        ("struct S { S(); };\nS::S() {}\nstatic S s;\n" + BODY % "", "initialiser"),
        ('extern "C" void* dlopen(const char*, int);\n' + BODY % 'dlopen("x", 1);', "symbol"),
        ('extern "C" int system(const char*);\n' + BODY % 'system("true");', "symbol"),
        ('extern "C" char* getenv(const char*);\n' + BODY % 'out[0] = *getenv("A");', "symbol"),
        ('extern "C" void* fopen(const char*, const char*);\n' + BODY % 'fopen("a", "w");',
         "symbol"),
        ('extern "C" int pthread_create(void*, void*, void* (*)(void*), void*);\n'
         + BODY % "pthread_create(0, 0, 0, 0);", "symbol"),
        ('extern "C" long syscall(long, ...);\n' + BODY % "syscall(39);", "symbol"),
        ('extern "C" void* malloc(unsigned long);\n' + BODY % "out[0] = *(float*)malloc(8);",
         "symbol"),
        (BODY % "omp_set_num_threads(1);", "symbol"),
        (BODY % "out[0] = omp_get_wtime();", "symbol"),
        (BODY % "float* p = new float[n]; out[0] = p[0]; delete[] p;", "symbol"),
        ('extern "C" void other() {}\n', "no-kernel"),
        ("static " + BODY.replace('extern "C" ', "") % "", "no-kernel"),
        (BODY.replace('extern "C" ', "") % "", "no-kernel"),
    ],
)  # fmt: skip
def test_objects_that_are_more_than_pure_functions_are_refused(cache, source, code):
    with pytest.raises(BuildError) as caught:
        make(cache, source)
    # A static object with a constructor is both; which is seen first is no matter.
    wanted = {code, "static-storage"} if code == "initialiser" else {code}
    assert caught.value.code in wanted
    assert caught.value.evidence["rung"] == "build"


def test_an_ifunc_is_refused(cache):
    source = (
        'extern "C" void pick() {}\nextern "C" void* choose() { return (void*)pick; }\n'
        'void f() __attribute__((ifunc("choose")));\n' + BODY % "f();"
    )
    with pytest.raises(BuildError) as caught:
        make(cache, source)
    assert caught.value.code == "attribute"


def test_what_kernels_need_is_allowed(cache):
    source = """
#include <algorithm>
#include <cmath>
#include <immintrin.h>
static const float table[4] = {1, 2, 3, 4};
template <typename T> static inline T square(T v) { return v * v; }
extern "C" void kernel(const float* x, float* out, int64_t n) {
    float sum = 0, local[8] = {};
    #pragma omp parallel for reduction(+ : sum) schedule(dynamic, 4)
    for (int64_t i = 0; i < n; ++i) {
        sum += std::exp(x[i]) + erff(x[i]) + std::pow(square(x[i]), table[i & 3]);
    }
    #pragma omp parallel
    {
        #pragma omp single
        std::memset(local, 0, sizeof local);
        #pragma omp critical
        local[omp_get_thread_num() & 7] += omp_get_max_threads();
        #pragma omp for simd nowait
        for (int64_t i = 0; i < n; ++i) out[i] = std::max(x[i], sum) + local[i & 7];
    }
    std::memcpy(out, x, n & 3);
}
"""
    detail = make(cache, source).detail
    assert "expf" in detail["calls"]
    assert "GOMP_parallel" in detail["calls"]


def test_names_and_values_must_be_plain(cache):
    for values in ({"A B": 1}, {"__GNUC__": 1}, {"_X": 1}, {"X": "1;"}):
        with pytest.raises(BuildError) as caught:
            make(cache, COPY, values)
        assert caught.value.code == "tunable"
    with pytest.raises(BuildError):
        make(cache, COPY, {"SCALE": 1}, ["kernel;"])


def test_a_compiler_that_takes_too_long_is_killed(cache):
    make(cache, COPY, {"SCALE": 1})
    source = (
        "template <int N, int M> struct F { F<N - 1, 2 * M> a; F<N - 1, 2 * M + 1> b; };\n"
        "template <int M> struct F<0, M> { char c; };\n" + BODY % "out[0] = sizeof(F<19, 0>);"
    )
    with pytest.raises(BuildError) as caught:
        make(cache, source, seconds=1)
    assert caught.value.code == "compile-timeout"


def test_a_machine_without_a_working_compiler_says_so(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(MachineError) as caught:
        find_compiler()
    assert caught.value.code == "no-compiler"
    assert "install" in caught.value.cure
    fake = Compiler(("/bin/false",), "false", False)
    with pytest.raises(MachineError) as caught:
        build(fake, COPY, {"SCALE": 1}, ["kernel"], tmp_path)
    assert caught.value.code == "compiler-broken"


def test_the_device_knows_itself():
    device = open_device("cpu")
    facts = device.facts()
    assert facts["cores"] >= 1
    assert facts["l2"] > 0
    assert "cores" in device.key()
    with pytest.raises(MachineError):
        open_device("tpu")
