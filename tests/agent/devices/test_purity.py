from __future__ import annotations

import pytest

from agent.devices.cpu import find_compiler
from agent.devices.cpu_build import build
from agent.devices.purity import MAX_SOURCE, scan_directives, scan_tokens
from agent.errors import BuildError

KERNEL = 'extern "C" void kernel(const float* x, float* out, int64_t n) {\n%s\n}\n'


def refused(source, code):
    with pytest.raises(BuildError) as caught:
        scan_directives(source)
    assert caught.value.code == code
    assert caught.value.evidence["rung"] == "read"


@pytest.mark.parametrize(
    "line",
    [
        '#include "/etc/passwd"',
        "#include </etc/passwd>",
        "#include <cstdlib>",
        "#include <unistd.h>",
        "#include <thread>",
        "#define FILE <cmath>\n#include FILE",
        "#  include /* <cmath> */ <cstdio>",
        "# /* a comment\n over lines */ include <cstdio>",
        "#inc\\\nlude <cstdio>",
        "#include \\  \n<cstdio>",
        "%:include <cmath>",
        "#include_next <cmath>",
        "#embed </etc/passwd>",
        '#line 1 "other.cpp"',
        '# 1 "other.h" 3',
        "#pragma GCC optimize(\"Ofast\")",
        "#pragma GCC system_header",
        "#pragma omp declare target",
        "#if __has_include(</root/.ssh/id_rsa>)\n#endif",
        "#define _OMP_H",
        "#undef __GNUC__",
        "#warning text",
    ],
)  # fmt: skip
def test_directives_off_the_list_are_refused(line):
    with pytest.raises(BuildError) as caught:
        scan_directives(f"#include <cmath>\n{line}\n")
    assert caught.value.code in ("include", "directive")
    assert caught.value.evidence["log"].startswith("program.cpp:")


def test_the_line_in_the_error_is_the_programs_own():
    with pytest.raises(BuildError) as caught:
        scan_directives("int a; /* one\ntwo */ \\\n\n#include <cstdio>\n")
    assert "line 4" in caught.value.message


def test_text_that_could_hide_a_directive_is_refused():
    refused('const char* s = R"(\n)";', "source-text")
    refused("int a;\0", "source-text")
    refused("int a;\r#include <cstdio>", "source-text")
    refused("//" + "x" * MAX_SOURCE, "source-size")


def test_plain_directives_and_comments_pass():
    scan_directives(
        "#pragma once\n#include <cmath>\n#include <immintrin.h> // all of it\n"
        "/* #include <cstdio> */\n// #include <cstdio>\n#define _GNU_SOURCE\n"
        "#ifndef N\n#define N 4\n#else\n#endif\n"
        "#pragma omp parallel for simd reduction(+ : s)\n#pragma GCC unroll 8\n#pragma GCC ivdep\n"
        "const int big = 1'000'000; const char c = '\"'; // it's fine\n"
        "#if N > 3 && defined(__AVX2__)\n#endif\n"
    )


def own(text):
    return f'# 1 "/usr/include/x.h" 1 3\nasm("nop");\n# 1 "program.cpp" 2\n{text}\n'


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('void f() { asm("nop"); }', "assembly"),
        ('void f() { __asm__ volatile("" ::: "memory"); }', "assembly"),
        ("__attribute__((constructor)) void f() {}", "attribute"),
        ("__attribute__ ((noinline, __constructor__)) void f() {}", "attribute"),
        ('__attribute__((section(".text"))) const int f = 1;', "attribute"),
        ('__attribute__((optimize("fast-math"))) void f() {}', "attribute"),
        ("[[gnu::constructor]] void f() {}", "attribute"),
        ("[ [gnu::destructor]] void f() {}", "attribute"),
        ("<:<:gnu::constructor]] void f() {}", "attribute"),
        ("[[using gnu: constructor]] void f() {}", "attribute"),
        ("thread_local int n;", "static-storage"),
        ("auto t = _rdtsc();", "intrinsic"),
        ("auto t = __builtin_ia32_rdtsc();", "intrinsic"),
        ("unsigned a; auto t = __rdtscp(&a);", "intrinsic"),
        ("void f() { _mm_clflush(0); }", "intrinsic"),
        ("void f() { _mm_setcsr(0); }", "intrinsic"),
        ("void f(unsigned* n) { _rdrand32_step(n); }", "intrinsic"),
        ("void f() { _xbegin(); }", "intrinsic"),
        ("void f() { GOMP_parallel_start(g, 0, 2); }", "symbol"),
        ("auto p = _GLOBAL_OFFSET_TABLE_;", "symbol"),
        ("auto p = __builtin_frame_address(0);", "builtin"),
        ("auto p = __builtin_return_address(0);", "builtin"),
        ("void f() { __builtin_apply(0, 0, 0); }", "builtin"),
        ("#pragma GCC optimize(\"Ofast\")", "directive"),
    ],
)  # fmt: skip
def test_words_of_the_program_are_refused(text, code):
    with pytest.raises(BuildError) as caught:
        scan_tokens(own("\n" + text))
    assert caught.value.code == code
    assert caught.value.evidence["log"].startswith("program.cpp:2:")


def test_ordinary_words_pass():
    scan_tokens(
        own(
            "__attribute__((always_inline)) inline int serialize(int halt) { return halt; }\n"
            "typedef float v8 __attribute__((vector_size(32), aligned(4)));\n"
            '[[maybe_unused]] const char* text = "asm __attribute__((constructor))";\n'
            "float f(float x) { return __builtin_fmaf(x, x, __builtin_inff()) + a[b[0]]; }\n"
            "void g() { _mm256_stream_ps(p, _mm256_set1_ps(1)); _mm_prefetch(p, _MM_HINT_T0); }\n"
        )
    )


def test_macros_cannot_hide_a_word(tmp_path_factory):
    cache = tmp_path_factory.getbasetemp() / "cache"
    source = "#define GLUE(a, b) a##b\n" + KERNEL % 'GLUE(as, m)("nop");'
    with pytest.raises(BuildError) as caught:
        build(find_compiler(), source, {}, ["kernel"], cache)
    assert caught.value.code == "assembly"
    source = KERNEL % '_Pragma("GCC optimize (\\"Ofast\\")") out[0] = x[0];'
    with pytest.raises(BuildError) as caught:
        build(find_compiler(), source, {}, ["kernel"], cache)
    assert caught.value.code == "directive"
