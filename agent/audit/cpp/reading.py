"""C++ sources made to be misread, or never to finish compiling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.audit.cpp.texts import WORK, beside

if TYPE_CHECKING:
    from agent.audit.cpp.texts import Line

BOMB = "#define A0 out[0] += 0;\n" + "\n".join(
    f"#define A{k + 1} A{k} A{k} A{k} A{k}" for k in range(14)
)
READING: list[Line] = [
    ("a file by its path", "foreign files", "relu",
     beside('#include "/etc/passwd"'), "read", {"include"}),
    ("a file through a macro", "foreign files", "relu",
     beside("#define F </etc/passwd>\n#include F"), "read",
     {"include"}),
    ("a file over two lines", "foreign files", "relu",
     beside("#inc\\\nlude <cstdio>"), "read", {"include"}),
    ("a file behind a comment", "foreign files", "relu",
     beside("#/**/include/**/<cstdio>"), "read", {"include"}),
    ("a file by a digraph", "foreign files", "relu",
     beside("%:include <cstdio>"), "read", {"directive"}),
    ("a file by a trigraph", "foreign files", "relu",
     beside("??=include <cstdio>"), "read", {"directive"}),
    ("a header that is not on the list", "foreign files", "relu",
     beside("#include <thread>"), "read", {"include"}),
    ("looking for files", "foreign files", "relu",
     beside("#if __has_include(</etc/shadow>)\n#endif"), "read",
     {"directive"}),
    ("include_next", "foreign files", "relu",
     beside("#include_next <cmath>"), "read", {"directive"}),
    ("import", "foreign files", "relu", beside("#import <cmath>"), "read", {"directive"}),
    ("a line of another file", "misread source", "relu",
     beside('#line 1 "cmath"', 'asm("nop");'), "read",
     {"directive"}),
    ("a marker of another file", "misread source", "relu",
     beside('# 1 "cmath" 3', 'asm("nop");'), "read",
     {"directive"}),
    ("raw string over a directive", "misread source", "relu",
     beside('const char* s = R"(\n#if 0)";'), "read",
     {"source-text"}),
    ("raw string by pasting", "misread source", "relu",
     beside('#define P(a) a\nconst char* s = P(R)"(a)";', WORK),
     "read|build", {"source-text", "compile"}),
    ("optimisation pragma", "fast math", "relu", beside('#pragma GCC optimize("Ofast")'), "read",
     {"directive"}),
    ("target pragma", "misread source", "relu",
     beside('#pragma GCC target("avx512f")'), "read", {"directive"}),
    ("pragma operator", "fast math", "relu",
     beside('_Pragma("GCC optimize(\\"Ofast\\")")'), "build",
     {"directive"}),
    ("system header", "misread source", "relu",
     beside("#pragma GCC system_header"), "read", {"directive"}),
    ("poison", "misread source", "relu",
     beside("#pragma GCC poison memcpy"), "read", {"directive"}),
    ("redefined extension", "outside", "relu", beside("#pragma redefine_extname f system"), "read",
     {"directive"}),
    ("weak pragma", "outside", "relu", beside("#pragma weak f = system"), "read", {"directive"}),
    ("push of a macro", "misread source", "relu",
     beside('#pragma push_macro("A")'), "read", {"directive"}),
    ("fast-math attribute", "fast math", "relu",
     beside('__attribute__((optimize("fast-math")))'), "build",
     {"attribute"}),
    ("attribute by pasting", "start-up code", "relu",
     beside("#define P(a, b) a##b\n__attribute__((P(constr,"
     " uctor))) void f() {}"), "build", {"attribute"}),
    ("attribute in brackets", "start-up code", "relu",
     beside("[[gnu::constructor]] void f() {}"), "build",
     {"attribute"}),
    ("attribute in digraphs", "start-up code", "relu",
     beside("<:<:gnu::constructor:>:> void f() {}"), "build",
     {"attribute", "directive"}),
    ("cleanup", "start-up code", "relu",
     beside("void f(int*) {}", "__attribute__((cleanup(f))) int k = 1;"
     + WORK), "build", {"attribute"}),
    ("alias", "start-up code", "relu",
     beside('extern "C" void g() {}\nextern "C" void f() __attribute__((alias('
     '"g")));'), "build", {"attribute"}),
    ("resolver", "start-up code", "relu",
     beside('extern "C" void* g() { return 0; }\nvoid f() __attribute__((ifunc'
     '("g")));'), "build", {"attribute"}),
    ("naked function", "own code", "relu", beside("__attribute__((naked)) void f() {}"), "build",
     {"attribute"}),
    ("initialiser by its name", "start-up code", "relu",
     beside('extern "C" void _init() {}'), "build",
     {"initialiser"}),
    ("finaliser by its name", "start-up code", "relu",
     beside('extern "C" void _fini() {}'), "build",
     {"initialiser"}),
    ("a control code", "misread source", "relu", beside("// \x1b[2J"), "read", {"source-text"}),
    ("a NUL", "misread source", "relu", beside("// \0"), "read", {"source-text"}),
    ("giant source", "bombs", "relu", beside("//" + "x" * (300 << 10)), "read", {"source-size"}),
    ("giant reply", "bombs", "relu",
     beside("//" + "x" * (600 << 10)), "read", {"reply", "source-size"}),
    ("macro bomb", "bombs", "relu", beside(BOMB, WORK + "A14"), "build",
     {"compile-limits", "compile-timeout", "source-size"}),
    ("constexpr bomb", "bombs", "relu",
     beside("constexpr int f(int n) { return n < 2 ? n : f(n - 1) +"
     " f(n - 2); }\nconstexpr int k = f(40);", WORK), "build", {"compile", "compile-timeout"}),
    ("template bomb", "bombs", "relu",
     beside("template <int N, int M> struct F { F<N - 1, 2 * M> a; F<N -"
     " 1, 2 * M + 1> b; };\ntemplate <int M> struct F<0, M> { char c; };", WORK +
     "out[0] += 0 * sizeof(F<21, 0>);"), "build", {"compile-timeout", "compile-limits", "compile"}),
    ("endless template", "bombs", "relu", beside("template <int N> struct F { static const int v ="
     " F<N + 1>::v; };\nint k = F<0>::v;"), "build", {"compile"}),
    ("huge object", "bombs", "relu", beside("static const int big[90000000] = {1, 2};", WORK +
     "out[0] += big[n];"), "build", {"compile-limits", "compile-timeout", "constants"}),
    ("nested brackets", "bombs", "relu",
     beside("int f() { return " + "(" * 90000 + "1" + ")" * 90000 +
     "; }"), "build", {"compile", "compile-limits", "compile-timeout"}),
    ("no kernel of that name", "plan", "relu", "\nvoid other() {}", "build", {"no-kernel"}),
    ("a static kernel", "plan", "relu", "\nstatic void kernel() {}", "build", {"no-kernel"}),
]  # fmt: skip
