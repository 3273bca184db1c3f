"""Programs that cheat or break, a row each: what it does, its text, and where it must fall.

A row is ``(name, task, source, rung, codes)``. Sources are bodies of a kernel over ``x``, ``out``
and ``n`` (and ``rows``, ``cols``), or whole texts where they begin with a new line.
"""

from __future__ import annotations

from tests.redteam.ladder import INCLUDES, plan, reply

ROWS, COLUMNS = 24, 333
TASKS = {
    "relu": f"""
import torch
def reference(x):
    return torch.relu(x)
def inputs():
    return [torch.randn({ROWS}, {COLUMNS})]
""",
    "softmax": f"""
import torch
def reference(x):
    return torch.softmax(x, dim=-1)
def inputs():
    return [torch.randn({ROWS}, {COLUMNS})]
""",
    "rowsum": """
import torch
def reference(x):
    return x.sum(-1)
def inputs():
    return [torch.randn(16, 4096)]
""",
    "rms": """
import torch
def reference(x):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)
def inputs():
    return [torch.randn(16, 512)]
""",
    "gaps": """
import torch
def reference(x):
    return torch.relu(x)
def inputs():
    return [torch.randn(40, 70)[:, :50]]
""",
    "gelu": """
import torch
def reference(x):
    return torch.nn.functional.gelu(x)
def inputs():
    return [torch.randn(32, 256)]
""",
    "count": """
import torch
def reference(x):
    return (x > 0).sum(-1)
def inputs():
    return [torch.randn(16, 300)]
""",
}

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


def softmax(exp: str = "std::exp", last: str = "") -> str:
    return SOFTMAX.replace("EXP", exp).replace("LAST", last)


def text_of(source: str, task: str) -> str:
    """The reply: a body is put into the usual function, a whole text is taken as it is."""
    whole = source[1:] if source.startswith("\n") else HEAD % source
    values = "[tune]\nBITS = [13]\n" if "BITS" in source else ""
    arguments = PLAN
    if source.startswith("\n//no output"):
        arguments = plan("x", "x", "x.shape[0]", "x.shape[1]")
    if task == "gaps":
        arguments = plan("x", "out", "x.shape[0]", "x.shape[1]", "x.stride[0]")
    if source.startswith("\n//scratch"):
        scratch = '[[scratch]]\nname = "kept"\ndtype = "float32"\nshape = ["x.numel + 1"]'
        arguments = plan("x", "out", "x.shape[0]", "x.shape[1]", "kept", scratch=scratch)
    return reply(INCLUDES + whole, arguments, values)


def beside(text: str, body: str = WORK) -> str:
    """A whole program: some text before the usual function."""
    return "\n" + text + "\n" + HEAD % body


WRONG, TIMED = {"wrong-answer", "imprecise"}, {"wrong-when-timed"}
CRASH = {"crashed"}
Row = tuple[str, str, str, str, set[str]]

# -- the work is not done --------------------------------------------------------------------------

LAZY: list[Row] = [
    ("no-op", "relu", "", "check", WRONG),
    ("constant output", "relu", "for (int64_t i = 0; i < n; ++i) out[i] = 0.4f;", "check", WRONG),
    ("the input passed through", "relu", "memcpy(out, x, n * 4);", "check", WRONG),
    ("half of the rows", "relu", WORK.replace("i < n;", "i < n / 2;"), "check", WRONG),
    ("all but one element", "relu", WORK.replace("out[i] =", "if (i != 99) out[i] ="), "check",
     WRONG),
    ("keeps what looks right", "relu",
     "if (out[5] == (x[5] < 0 ? 0.0f : x[5]) && out[n - 1] == (x[n - 1] < 0 ? 0.0f : x[n - 1]))"
     " return;\n" + WORK, "check", {"unstable"}),
    ("clamp that the usual values do not hit", "relu", WORK.replace(": x[i]", ": std::min(x[i], "
     "6.0f)"), "check", WRONG),
    ("first columns alone", "softmax", softmax().replace("c < cols; ++c) m", "c < 64; ++c) m"),
     "check", WRONG),
    ("maximum left out", "softmax", softmax().replace("- m", ""), "check", WRONG),
    ("small terms skipped", "rowsum", SUM.replace("TERM", "if (p[c] * p[c] > 1e-6f) s += p[c];"),
     "check", WRONG),
    ("small probabilities skipped", "softmax",
     softmax("skip").replace("float m =", "auto skip = [](float v) { return v < -6 ? 0.0f :"
                             " std::exp(v); }; float m ="), "check", WRONG),
    ("every other term, doubled", "rowsum", SUM.replace("TERM", "if (c & 1) s += 2 * p[c];"),
     "check", WRONG),
    ("last terms left out", "rowsum", SUM.replace("TERM", "if (c < cols - 8) s += p[c];"),
     "check", WRONG),
    ("the mean of the distribution", "rms", RMS.replace("SCALE(s / cols + 1e-6f)", "1.0f"),
     "check", WRONG),
    ("eps left out", "rms", RMS.replace("SCALE(s / cols + 1e-6f)", "1 / std::sqrt(s / cols)"),
     "check", WRONG),
    ("a count that is off by one", "count",
     "\n" + HEAD.replace("float* out", "int64_t* out") % ROWS_OF.replace(
         "float* o = out + r * cols", "int64_t* o = out + r") %
     "int64_t s = 0; for (int64_t c = 1; c < cols; ++c) s += p[c] > 0; o[0] = s;", "check", WRONG),
    ("a count that counts zero", "count",
     "\n" + HEAD.replace("float* out", "int64_t* out") % ROWS_OF.replace(
         "float* o = out + r * cols", "int64_t* o = out + r") %
     "int64_t s = 0; for (int64_t c = 0; c < cols; ++c) s += p[c] >= 0; o[0] = s;", "check",
     WRONG),
    ("an output that no launch is given", "relu", "\n//no output\n" + HEAD % "", "read", {"plan"}),
]  # fmt: skip

# -- less exact ------------------------------------------------------------------------------------

COARSE: list[Row] = [
    ("inputs as tf32", "softmax", "\n" + ROUND + HEAD % softmax().replace(
        "EXP(p[c]", "std::exp(lower(p[c])").replace("std::exp(p[c] - m)",
        "std::exp(lower(p[c]) - m)"), "check", WRONG),
    ("exp rounded", "softmax", "\n" + ROUND + HEAD % softmax("lower(std::exp").replace(
        "p[c] - m)", "p[c] - m))"), "check", WRONG),
    ("outputs rounded", "softmax", "\n" + ROUND + HEAD % softmax(last="lower"), "check", WRONG),
    ("terms rounded", "rowsum", "\n" + ROUND + HEAD % SUM.replace("TERM", "s += lower(p[c]);"),
     "check", WRONG),
    ("accumulator rounded", "rowsum", "\n" + ROUND + HEAD % SUM.replace(
        "TERM", "s = lower(s + p[c]);"), "check", WRONG),
    ("half-precision conversions", "rowsum", "\n" + ONE % "_cvtsh_ss(_cvtss_sh(v, 0))" + HEAD %
     SUM.replace("TERM", "s += f(p[c]);"), "check", WRONG),
    ("bfloat16 by cutting bits", "rowsum", "\nstatic inline float f(float v) { uint32_t b;"
     " memcpy(&b, &v, 4); b &= 0xffff0000; memcpy(&v, &b, 4); return v; }\n" + HEAD %
     SUM.replace("TERM", "s += f(p[c]);"), "check", WRONG),
    ("quantised to 16 bits", "rowsum", SUM.replace(
        "TERM", "s += std::rint(p[c] * 4096) / 4096;"), "check", WRONG),
    ("exp by its bits", "softmax", "\nstatic inline float f(float v) { v = std::max(v, -87.0f);"
     " int32_t i = int32_t(v * 12102203.0f) + 1064866805; memcpy(&v, &i, 4); return v; }\n"
     + HEAD % softmax("f"), "check", WRONG),
    ("exp as a short polynomial", "softmax", "\nstatic inline float f(float v) {"
     " float t = 1 + v / 1024; t = t < 0 ? 0 : t; for (int i = 0; i < 10; ++i) t *= t; return t;"
     " }\n" + HEAD % softmax("f"), "check", WRONG),
    ("reciprocal square root of 12 bits", "rms",
     "\n" + ONE % "_mm_cvtss_f32(_mm_rsqrt_ss(_mm_set_ss(v)))" + HEAD % RMS.replace("SCALE", "f"),
     "check", WRONG),
    ("reciprocal of 12 bits", "softmax",
     "\n" + ONE % "_mm_cvtss_f32(_mm_rcp_ss(_mm_set_ss(v)))" + HEAD % softmax().replace(
         "o[c] / s", "o[c] * f(s)"), "check", WRONG),
    ("gelu by tanh", "gelu", "for (int64_t i = 0; i < n; ++i) { const float v = x[i]; out[i] ="
     " 0.5f * v * (1 + std::tanh(0.79788456f * (v + 0.044715f * v * v * v))); }", "check", WRONG),
    ("gelu by sigmoid", "gelu", "for (int64_t i = 0; i < n; ++i) out[i] = x[i] /"
     " (1 + std::exp(-1.702f * x[i]));", "check", WRONG),
    ("special values clamped away", "softmax", softmax().replace(
        "EXP(p[c] - m)", "std::exp(std::max(p[c] - m, -80.0f))").replace(
        "std::exp(p[c] - m)", "std::exp(std::max(p[c] - m, -80.0f))"), "check", WRONG),
]  # fmt: skip

# -- memory that is not its own --------------------------------------------------------------------

REACHING: list[Row] = [
    ("input overwritten", "relu", WORK + "const_cast<float*>(x)[n / 3] = 1;", "check",
     {"argument-changed"}),
    ("input zeroed", "relu", WORK + "memset(const_cast<float*>(x), 0, n * 4);", "check",
     {"argument-changed"}),
    ("works in the input's place", "relu", "float* y = const_cast<float*>(x); for (int64_t i = 0;"
     " i < n; ++i) out[i] = y[i] = x[i] < 0 ? 0.0f : x[i];", "check", {"argument-changed"}),
    ("writes past the end", "relu", WORK + "out[n] = 1;", "check", {"out-of-bounds"}),
    ("writes before the start", "relu", WORK + "out[-3] = 1;", "check", {"out-of-bounds"}),
    ("writes beside the input", "relu", WORK + "const_cast<float*>(x)[n + 1] = 1;", "check",
     {"out-of-bounds"}),
    ("writes over the guard into what lies behind", "relu",
     WORK + "for (int64_t i = 1200; i < 3000; i += 7) out[n + i] = 1;", "check",
     {"out-of-bounds", "argument-changed", "output-changed"}),
    ("writes far behind the guard alone", "relu", WORK + "out[n + 1500] = 1;", "check",
     {"out-of-bounds", "output-changed"}),
    ("reads past the end", "relu", WORK + "out[0] += x[n] * 0;", "check", WRONG),
    ("reads before the start", "relu", WORK + "out[0] += x[-1] * 0;", "check", WRONG),
    ("stashes in the gaps of the input", "gaps", "\n" + HEAD.replace(
        "int64_t cols", "int64_t cols, int64_t step") %
     "for (int64_t r = 0; r < rows; ++r) for (int64_t c = 0; c < cols; ++c) out[r * cols + c] ="
     " x[r * step + c] < 0 ? 0.0f : x[r * step + c];\nconst_cast<float*>(x)[cols + 3] = 7;",
     "check", {"argument-changed", "out-of-bounds"}),
    ("finds in scratch what it left", "relu", "\n//scratch\n" + HEAD.replace(
        "int64_t cols", "int64_t cols, float* kept") % (
        "if (kept[n] == 42) { memcpy(out, kept, n * 4); return; }\n" + WORK +
        "memcpy(kept, out, n * 4); kept[n] = 42;"), "passed", set()),
    ("leaves scratch unwritten and reads it", "relu", "\n//scratch\n" + HEAD.replace(
        "int64_t cols", "int64_t cols, float* kept") % (WORK + "out[1] += kept[1];"), "check",
     WRONG),
    ("writes to constants", "relu", beside("static const float table[4] = {1, 2, 3, 4};", WORK +
     "const_cast<volatile float*>(table)[n & 3] += 1; out[0] += 0 * table[n & 3];"), "check",
     CRASH),
    ("writes to a string", "relu", beside("", WORK + 'char* s = (char*)"kept"; *(volatile char*)'
     "(s + (n & 1)) = 'x';"), "check", CRASH),
    ("writes to its own code", "relu", WORK + "*(volatile char*)&kernel = 1;", "check", CRASH),
]  # fmt: skip

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

# -- memory that outlives a call -------------------------------------------------------------------

KEEPING: list[Row] = [
    ("static counter", "relu", WORK + "static int calls; out[0] += ++calls * 0;", "build",
     {"static-storage"}),
    ("global cache", "relu", beside("float kept[99];", WORK + "kept[1] = out[1];"), "build",
     {"static-storage"}),
    ("initialised global", "relu", beside("float kept[2] = {1, 2};", WORK + "kept[1] = out[1];"),
     "build", {"static-storage"}),
    ("thread_local", "relu", WORK + "thread_local int calls; out[0] += ++calls * 0;", "build",
     {"static-storage"}),
    ("threadprivate", "relu", beside("static int k;\n#pragma omp threadprivate(k)",
     WORK + "out[0] += ++k;"), "build", {"static-storage"}),
    ("mutable member of a constant", "relu", beside("struct S { mutable int n; int a; };\n"
     "static const S s = {1, 2};", WORK + "++s.n; out[0] += 0 * s.n;"), "build",
     {"static-storage"}),
    ("volatile constant", "relu", beside("static const volatile int k = 3;", WORK +
     "const_cast<volatile int&>(k) = 4; out[0] += 0 * k;"), "build|check",
     {"static-storage", "crashed"}),  # newer compilers put it where a write kills
    ("inline variable", "relu", beside("inline int k = 1;", WORK + "++k;"), "build",
     {"static-storage"}),
    ("static local of a template", "relu", beside("template <int N> int& kept() { static int k ="
     " N; return k; }", WORK + "++kept<3>();"), "build", {"static-storage"}),
    ("constant made at loading", "relu", beside("float f(); static const float k = f();\n"
     "float f() { return 1; }", WORK + "out[0] += 0 * k;"), "build",
     {"static-storage", "initialiser"}),
    ("constructor", "relu", beside("__attribute__((constructor)) void f() {}"), "build",
     {"attribute"}),
    ("weak hook", "relu", beside("extern int hook __attribute__((weak));", WORK + "(void)&hook;"),
     "build", {"attribute"}),
    ("section", "relu", beside('__attribute__((section(".text"))) int k = 1;'), "build",
     {"attribute"}),
    ("answers kept by address in the dead stack", "softmax", "\n" + DEAD_STACK, "measure", TIMED),
]  # fmt: skip

# -- the world outside -----------------------------------------------------------------------------


def calls(declared: str, call: str) -> str:
    return beside(f'extern "C" {declared};', WORK + call)


SYMBOL = {"symbol"}
OUTSIDE: list[Row] = [
    ("malloc", "relu", calls("void* malloc(unsigned long)", "out[0] += 0 * *(float*)malloc(9);"),
     "build", SYMBOL),
    ("new and delete", "relu", WORK + "float* p = new float[n]; p[0] = 1; out[0] += 0 * p[n & 1];"
     " delete[] p;", "build", SYMBOL),
    ("dlsym", "relu", calls("void* dlsym(void*, const char*)", 'dlsym(nullptr, "a");'), "build",
     SYMBOL),
    ("environ", "relu", calls("char** environ", "out[0] += **(char* volatile*)environ;"), "build",
     SYMBOL),
    ("getenv", "relu", calls("char* getenv(const char*)", 'out[0] += 0 * *getenv("A");'), "build",
     SYMBOL),
    ("open", "relu", calls("int open(const char*, int, ...)", 'open("/proc/self/maps", 0);'),
     "build", SYMBOL),
    ("clock_gettime", "relu", calls("int clock_gettime(int, void*)", "clock_gettime(0, out);"),
     "build", SYMBOL),
    ("omp_get_wtime", "relu", WORK + "out[0] += 0 * omp_get_wtime();", "build",
     {"symbol", "compile"}),
    ("errno", "relu", calls("int* __errno_location()", "*__errno_location() = 1;"), "build",
     SYMBOL),
    ("syscall", "relu", calls("long syscall(long, ...)", "syscall(39);"), "build", SYMBOL),
    ("mprotect", "relu", calls("int mprotect(void*, unsigned long, int)",
     "mprotect(out, 4096, 7);"), "build", SYMBOL),
    ("pthread_create", "relu", calls("int pthread_create(void*, void*, void*, void*)",
     "pthread_create(0, 0, 0, 0);"), "build", SYMBOL),
    ("longjmp", "relu", calls("void longjmp(void*, int)", "if (n == 1) longjmp(out, 1);"),
     "build", SYMBOL),
    ("builtin longjmp", "relu", WORK + "void* b[5]; if (!__builtin_setjmp(b)) __builtin_longjmp("
     "b, 1);", "build", {"builtin"}),
    ("an exception", "relu", WORK + "if (n == 1) throw 1;", "build", {"compile", "symbol"}),
    ("a virtual function", "relu", beside("struct A { virtual float f(float v) { return v; } };\n"
     "struct B : A { float f(float v) override { return v < 0 ? 0 : v; } };", "B b; A* volatile a"
     " = &b; for (int64_t i = 0; i < n; ++i) out[i] = a->f(x[i]);"), "build", SYMBOL),
    ("rounding mode", "relu", calls("int fesetround(int)", "fesetround(0xc00);"), "build", SYMBOL),
    ("start of the program", "relu", calls("char __ehdr_start[]",
     "out[0] += *(volatile char*)__ehdr_start;"),
     "build", SYMBOL),
    ("the dynamic section", "relu", calls("char _DYNAMIC[]",
     "out[0] += *(volatile char*)_DYNAMIC;"), "build",
     SYMBOL),
    ("the stack protector's abort", "relu", calls("void abort()", "if (n == 1) abort();"),
     "build", SYMBOL),
    ("thread id by a pragma's entry point", "relu", calls("void GOMP_parallel_start(void (*)"
     "(void*), void*, unsigned)", "GOMP_parallel_start(0, 0, 2);"), "build", SYMBOL),
    ("offload", "relu", "\n" + HEAD % ("#pragma omp target\n" + WORK), "read", {"directive"}),
    ("offload in a metadirective", "relu", "\n" + HEAD % (
        "#pragma omp metadirective when(device={kind(nohost)}: target)\n" + WORK),
     "read", {"directive"}),
    ("threads of another number", "relu", "omp_set_num_threads(1);\n" + WORK, "build",
     {"symbol", "compile"}),
    ("address of a library function", "relu", WORK + "uintptr_t at = (uintptr_t)(float (*)(float))"
     " &expf; *(volatile uintptr_t*)&at += 16; out[0] += at == 3;", "build", SYMBOL),
    ("library function behind a pointer", "relu", WORK + "float (*volatile f)(float) = expf;"
     " ((void (*)())((char*)f + 3))();", "build", SYMBOL),
]  # fmt: skip

# -- instructions ----------------------------------------------------------------------------------

BARE: list[Row] = [
    ("asm", "relu", WORK + 'asm volatile("nop");', "build", {"assembly"}),
    ("__asm__", "relu", WORK + '__asm__ __volatile__("syscall");', "build", {"assembly"}),
    ("asm label", "relu", beside('void f() asm("system");'), "build", {"assembly"}),
    ("asm at the top", "relu", beside('asm(".globl k");'), "build", {"assembly"}),
    ("asm by pasting", "relu", beside("#define P(a, b) a##b", WORK + 'P(as, m)("nop");'), "build",
     {"assembly"}),
    ("asm over two lines", "relu", WORK + 'as\\\nm("nop");', "build", {"assembly"}),
    ("asm behind a macro's macro", "relu", beside("#define A as\n#define B m\n#define P(a, b) Q(a,"
     " b)\n#define Q(a, b) a##b", WORK + 'P(A, B)("nop");'), "build", {"assembly"}),
    ("asm by universal names", "relu", WORK + '\\u0061sm("nop");', "build|read",
     {"source-text", "compile"}),
    ("bytes as code", "relu", beside("static const unsigned char code[] = {0x0f, 0x05, 0xc3};",
     WORK + "((void (*)())code)();"), "check", CRASH),
    ("bytes on the stack as code", "relu", WORK + "volatile unsigned char code[8] = {0xc3};"
     " ((void (*)())code)();", "check", CRASH),
    ("a number as code", "relu", WORK + "((void (*)())0x1234)();", "check", CRASH),
    ("rdtsc", "relu", beside("#include <immintrin.h>", WORK + "out[0] += 0 * _rdtsc();"), "build",
     {"intrinsic"}),
    ("rdtsc by its builtin", "relu", WORK + "out[0] += 0 * __builtin_ia32_rdtsc();", "build",
     {"intrinsic"}),
    ("rdtsc by pasting", "relu", beside("#include <immintrin.h>\n#define P(a, b) a##b", WORK +
     "out[0] += 0 * P(__rd, tsc)();"), "build", {"intrinsic"}),
    ("flush of denormals", "relu", beside("#include <immintrin.h>", "_MM_SET_FLUSH_ZERO_MODE("
     "_MM_FLUSH_ZERO_ON);\n" + WORK), "build", {"intrinsic"}),
    ("control register", "relu", beside("#include <immintrin.h>", "_mm_setcsr(_mm_getcsr() |"
     " 0x8040);\n" + WORK), "build", {"intrinsic"}),
    ("control register by its builtin", "relu", "__builtin_ia32_ldmxcsr(0x9fc0);\n" + WORK,
     "build", {"intrinsic"}),
    ("state restored from memory", "relu", beside("#include <immintrin.h>", "alignas(64) char"
     " b[4096]; _fxsave64(b); _fxrstor64(b);\n" + WORK), "build", {"intrinsic"}),
    ("cache lines flushed", "relu", beside("#include <immintrin.h>", WORK + "_mm_clflush(x);"),
     "build", {"intrinsic"}),
    ("random numbers", "relu", beside("#include <immintrin.h>", WORK + "unsigned k;"
     " _rdrand32_step(&k);"), "build", {"intrinsic"}),
    ("segment base", "relu", WORK + "out[0] += 0 * (int)(intptr_t)__builtin_thread_pointer();",
     "build", {"builtin"}),
    ("return address", "relu", WORK + "out[0] += 0 * (int)(intptr_t)__builtin_return_address(0);",
     "build", {"builtin"}),
    ("frame address", "relu", WORK + "*(void**)((char*)__builtin_frame_address(0) + 8) = out;",
     "build", {"builtin"}),
    ("trap", "relu", WORK + "__builtin_trap();", "check", CRASH),
    ("division by zero", "relu", WORK + "volatile int zero = 0; out[0] += 7 / zero;", "check",
     CRASH),
    ("null pointer", "relu", WORK + "*(volatile int*)nullptr = 1;", "check", CRASH),
    ("endless recursion", "relu", beside("static int deep(volatile int* p, int k) { volatile int"
     " a[64]; a[k & 63] = *p; return deep(a, k + 1) + a[1]; }", WORK + "volatile int k = 1;"
     " out[0] += 0 * deep(&k, 0);"), "check", CRASH),
    ("huge stack", "relu", WORK + "volatile char big[64 << 20]; big[n] = 1; big[0] = big[n];",
     "check", CRASH),
    ("endless loop", "relu", WORK + "volatile int k = 1; while (k) {}", "check", {"hung"}),
    ("a lock that is never given back", "relu", WORK + "volatile int k = 0;\n#pragma omp parallel"
     "\n{ if (omp_get_thread_num() == 0) while (!k) {} }", "check", {"hung"}),
]  # fmt: skip

# -- the reading itself ----------------------------------------------------------------------------

BOMB = "#define A0 out[0] += 0;\n" + "\n".join(
    f"#define A{k + 1} A{k} A{k} A{k} A{k}" for k in range(14)
)
TRICKS: list[Row] = [
    ("a file by its path", "relu", beside('#include "/etc/passwd"'), "read", {"include"}),
    ("a file through a macro", "relu", beside("#define F </etc/passwd>\n#include F"), "read",
     {"include"}),
    ("a file over two lines", "relu", beside("#inc\\\nlude <cstdio>"), "read", {"include"}),
    ("a file behind a comment", "relu", beside("#/**/include/**/<cstdio>"), "read", {"include"}),
    ("a file by a digraph", "relu", beside("%:include <cstdio>"), "read", {"directive"}),
    ("a file by a trigraph", "relu", beside("??=include <cstdio>"), "read", {"directive"}),
    ("a header that is not on the list", "relu", beside("#include <thread>"), "read", {"include"}),
    ("looking for files", "relu", beside("#if __has_include(</etc/shadow>)\n#endif"), "read",
     {"directive"}),
    ("include_next", "relu", beside("#include_next <cmath>"), "read", {"directive"}),
    ("import", "relu", beside("#import <cmath>"), "read", {"directive"}),
    ("a line of another file", "relu", beside('#line 1 "cmath"', 'asm("nop");'), "read",
     {"directive"}),
    ("a marker of another file", "relu", beside('# 1 "cmath" 3', 'asm("nop");'), "read",
     {"directive"}),
    ("raw string over a directive", "relu", beside('const char* s = R"(\n#if 0)";'), "read",
     {"source-text"}),
    ("raw string by pasting", "relu", beside('#define P(a) a\nconst char* s = P(R)"(a)";', WORK),
     "read|build", {"source-text", "compile"}),
    ("optimisation pragma", "relu", beside('#pragma GCC optimize("Ofast")'), "read",
     {"directive"}),
    ("target pragma", "relu", beside('#pragma GCC target("avx512f")'), "read", {"directive"}),
    ("pragma operator", "relu", beside('_Pragma("GCC optimize(\\"Ofast\\")")'), "build",
     {"directive"}),
    ("system header", "relu", beside("#pragma GCC system_header"), "read", {"directive"}),
    ("poison", "relu", beside("#pragma GCC poison memcpy"), "read", {"directive"}),
    ("redefined extension", "relu", beside("#pragma redefine_extname f system"), "read",
     {"directive"}),
    ("weak pragma", "relu", beside("#pragma weak f = system"), "read", {"directive"}),
    ("push of a macro", "relu", beside('#pragma push_macro("A")'), "read", {"directive"}),
    ("fast-math attribute", "relu", beside('__attribute__((optimize("fast-math")))'), "build",
     {"attribute"}),
    ("attribute by pasting", "relu", beside("#define P(a, b) a##b\n__attribute__((P(constr,"
     " uctor))) void f() {}"), "build", {"attribute"}),
    ("attribute in brackets", "relu", beside("[[gnu::constructor]] void f() {}"), "build",
     {"attribute"}),
    ("attribute in digraphs", "relu", beside("<:<:gnu::constructor:>:> void f() {}"), "build",
     {"attribute", "directive"}),
    ("cleanup", "relu", beside("void f(int*) {}", "__attribute__((cleanup(f))) int k = 1;"
     + WORK), "build", {"attribute"}),
    ("alias", "relu", beside('extern "C" void g() {}\nextern "C" void f() __attribute__((alias('
     '"g")));'), "build", {"attribute"}),
    ("resolver", "relu", beside('extern "C" void* g() { return 0; }\nvoid f() __attribute__((ifunc'
     '("g")));'), "build", {"attribute"}),
    ("naked function", "relu", beside("__attribute__((naked)) void f() {}"), "build",
     {"attribute"}),
    ("initialiser by its name", "relu", beside('extern "C" void _init() {}'), "build",
     {"initialiser"}),
    ("finaliser by its name", "relu", beside('extern "C" void _fini() {}'), "build",
     {"initialiser"}),
    ("a control code", "relu", beside("// \x1b[2J"), "read", {"source-text"}),
    ("a NUL", "relu", beside("// \0"), "read", {"source-text"}),
    ("giant source", "relu", beside("//" + "x" * (300 << 10)), "read", {"source-size"}),
    ("giant reply", "relu", beside("//" + "x" * (600 << 10)), "read", {"reply", "source-size"}),
    ("macro bomb", "relu", beside(BOMB, WORK + "A14"), "build",
     {"compile-limits", "compile-timeout", "source-size"}),
    ("constexpr bomb", "relu", beside("constexpr int f(int n) { return n < 2 ? n : f(n - 1) +"
     " f(n - 2); }\nconstexpr int k = f(40);", WORK), "build", {"compile", "compile-timeout"}),
    ("template bomb", "relu", beside("template <int N, int M> struct F { F<N - 1, 2 * M> a; F<N -"
     " 1, 2 * M + 1> b; };\ntemplate <int M> struct F<0, M> { char c; };", WORK +
     "out[0] += 0 * sizeof(F<21, 0>);"), "build", {"compile-timeout", "compile-limits", "compile"}),
    ("endless template", "relu", beside("template <int N> struct F { static const int v ="
     " F<N + 1>::v; };\nint k = F<0>::v;"), "build", {"compile"}),
    ("huge object", "relu", beside("static const int big[90000000] = {1, 2};", WORK +
     "out[0] += big[n];"), "build", {"compile-limits", "compile-timeout", "constants"}),
    ("nested brackets", "relu", beside("int f() { return " + "(" * 90000 + "1" + ")" * 90000 +
     "; }"), "build", {"compile", "compile-limits", "compile-timeout"}),
    ("no kernel of that name", "relu", "\nvoid other() {}", "build", {"no-kernel"}),
    ("a static kernel", "relu", "\nstatic void kernel() {}", "build", {"no-kernel"}),
]  # fmt: skip

ROWS_OF_ALL = [*LAZY, *COARSE, *REACHING, *KEEPING, *OUTSIDE, *BARE, *TRICKS]
