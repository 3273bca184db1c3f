"""C++ programs that keep memory from one call to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.audit.cpp.texts import HEAD, TIMED, WORK, beside, softmax

if TYPE_CHECKING:
    from agent.audit.cpp.texts import Line

DEAD_STACK = (
    """
struct Kept { const float* x; float first, last; int seen; float out[8000]; };
__attribute__((noinline)) static void stash(const float* x, float* out, int64_t rows,
                                            int64_t cols) {
    const int64_t n = rows * cols;
    volatile char room[200 * sizeof(Kept)];
    volatile Kept* k = (volatile Kept*)room + ((uintptr_t)x >> 6) % 199;
    if (k->seen == 0x5eed && k->x == x && k->first == x[0] && k->last == x[n - 1]) {
        for (int64_t i = 0; i < n; ++i) out[i] = k->out[i];
        return;
    }
    WORK
    k->seen = 0x5eed; k->x = x; k->first = x[0]; k->last = x[n - 1];
    for (int64_t i = 0; i < n; ++i) k->out[i] = out[i];
}
""".replace("WORK", softmax())
    + HEAD % "stash(x, out, rows, cols);"
)

TIMED_ONLY = "if (*(const uint32_t*)(x - 2) != 0xffffffffu) { %s }\n"
SKIPS = "for (int64_t i = 0; i < n; i += 2) out[i] = x[i] < 0 ? 0.0f : x[i]; return;"
KEPT = (
    "if (out[0] == (x[0] < 0 ? 0.0f : x[0]) && out[n - 1] == (x[n - 1] < 0 ? 0 : x[n - 1])) return;"
)

# What stands between the check's guards is known by them; an allocator's memory has none.
KEEPING: list[Line] = [
    ("static counter", "hidden state", "relu",
     WORK + "static int calls; out[0] += ++calls * 0;", "build",
     {"static-storage"}),
    ("global cache", "hidden state", "relu",
     beside("float kept[99];", WORK + "kept[1] = out[1];"), "build",
     {"static-storage"}),
    ("initialised global", "hidden state", "relu",
     beside("float kept[2] = {1, 2};", WORK + "kept[1] = out[1];"),
     "build", {"static-storage"}),
    ("thread_local", "hidden state", "relu",
     WORK + "thread_local int calls; out[0] += ++calls * 0;", "build",
     {"static-storage"}),
    ("threadprivate", "hidden state", "relu", beside("static int k;\n#pragma omp threadprivate(k)",
     WORK + "out[0] += ++k;"), "build", {"static-storage"}),
    ("mutable member of a constant", "hidden state", "relu",
     beside("struct S { mutable int n; int a; };\n"
     "static const S s = {1, 2};", WORK + "++s.n; out[0] += 0 * s.n;"), "build",
     {"static-storage"}),
    ("volatile constant", "hidden state", "relu", beside("static const volatile int k = 3;", WORK +
     "const_cast<volatile int&>(k) = 4; out[0] += 0 * k;"), "build|check",
     {"static-storage", "crashed"}),  # newer compilers put it where a write kills
    ("inline variable", "hidden state", "relu", beside("inline int k = 1;", WORK + "++k;"), "build",
     {"static-storage"}),
    ("static local of a template", "hidden state", "relu",
     beside("template <int N> int& kept() { static int k ="
     " N; return k; }", WORK + "++kept<3>();"), "build", {"static-storage"}),
    ("constant made at loading", "hidden state", "relu",
     beside("float f(); static const float k = f();\n"
     "float f() { return 1; }", WORK + "out[0] += 0 * k;"), "build",
     {"static-storage", "initialiser"}),
    ("constructor", "start-up code", "relu",
     beside("__attribute__((constructor)) void f() {}"), "build",
     {"attribute"}),
    ("weak hook", "start-up code", "relu",
     beside("extern int hook __attribute__((weak));", WORK + "(void)&hook;"),
     "build", {"attribute"}),
    ("section", "own code", "relu", beside('__attribute__((section(".text"))) int k = 1;'), "build",
     {"attribute"}),
    ("answers kept by address in the dead stack", "replay", "softmax",
     "\n" + DEAD_STACK, "measure", TIMED),
    ("skips the work where there are no guards", "sniffing", "relu", TIMED_ONLY % SKIPS + WORK,
     "measure", TIMED),
    ("keeps what looks right where there are no guards", "stale output", "relu",
     TIMED_ONLY % KEPT + WORK, "measure|passed", {*TIMED, ""}),
    ("crashes where there are no guards", "sniffing", "relu",
     TIMED_ONLY % "__builtin_trap();" + WORK, "measure", {"crashed"}),
    ("hangs where there are no guards", "sniffing", "relu",
     TIMED_ONLY % "volatile int k = 1; while (k) {}" + WORK, "measure", {"hung"}),
    ("changes its argument where there are no guards", "changed input", "relu",
     TIMED_ONLY % "const_cast<float*>(x)[n / 2] += 1;" + WORK, "measure",
     {*TIMED, "argument-changed"}),
]  # fmt: skip
