"""C++ programs that call what lies outside of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.audit.cpp.texts import HEAD, WORK, beside

if TYPE_CHECKING:
    from agent.audit.cpp.texts import Line


def calls(declared: str, call: str) -> str:
    return beside(f'extern "C" {declared};', WORK + call)


SYMBOL = {"symbol"}
OUTSIDE: list[Line] = [
    ("malloc", "own heap", "relu",
     calls("void* malloc(unsigned long)", "out[0] += 0 * *(float*)malloc(9);"),
     "build", SYMBOL),
    ("new and delete", "own heap", "relu",
     WORK + "float* p = new float[n]; p[0] = 1; out[0] += 0 * p[n & 1];"
     " delete[] p;", "build", SYMBOL),
    ("dlsym", "outside", "relu",
     calls("void* dlsym(void*, const char*)", 'dlsym(nullptr, "a");'), "build",
     SYMBOL),
    ("environ", "sniffing", "relu",
     calls("char** environ", "out[0] += **(char* volatile*)environ;"), "build",
     SYMBOL),
    ("getenv", "sniffing", "relu",
     calls("char* getenv(const char*)", 'out[0] += 0 * *getenv("A");'), "build",
     SYMBOL),
    ("open", "outside", "relu",
     calls("int open(const char*, int, ...)", 'open("/proc/self/maps", 0);'),
     "build", SYMBOL),
    ("clock_gettime", "clock", "relu",
     calls("int clock_gettime(int, void*)", "clock_gettime(0, out);"),
     "build", SYMBOL),
    ("omp_get_wtime", "clock", "relu", WORK + "out[0] += 0 * omp_get_wtime();", "build",
     {"symbol", "compile"}),
    ("errno", "outside", "relu",
     calls("int* __errno_location()", "*__errno_location() = 1;"), "build",
     SYMBOL),
    ("syscall", "outside", "relu",
     calls("long syscall(long, ...)", "syscall(39);"), "build", SYMBOL),
    ("mprotect", "outside", "relu", calls("int mprotect(void*, unsigned long, int)",
     "mprotect(out, 4096, 7);"), "build", SYMBOL),
    ("pthread_create", "threads", "relu", calls("int pthread_create(void*, void*, void*, void*)",
     "pthread_create(0, 0, 0, 0);"), "build", SYMBOL),
    ("longjmp", "outside", "relu",
     calls("void longjmp(void*, int)", "if (n == 1) longjmp(out, 1);"),
     "build", SYMBOL),
    ("builtin longjmp", "outside", "relu",
     WORK + "void* b[5]; if (!__builtin_setjmp(b)) __builtin_longjmp("
     "b, 1);", "build", {"builtin"}),
    ("an exception", "outside", "relu",
     WORK + "if (n == 1) throw 1;", "build", {"compile", "symbol"}),
    ("a virtual function", "outside", "relu",
     beside("struct A { virtual float f(float v) { return v; } };\n"
     "struct B : A { float f(float v) override { return v < 0 ? 0 : v; } };", "B b; A* volatile a"
     " = &b; for (int64_t i = 0; i < n; ++i) out[i] = a->f(x[i]);"), "build", SYMBOL),
    ("rounding mode", "global flags", "relu",
     calls("int fesetround(int)", "fesetround(0xc00);"), "build", SYMBOL),
    ("start of the program", "outside", "relu", calls("char __ehdr_start[]",
     "out[0] += *(volatile char*)__ehdr_start;"),
     "build", SYMBOL),
    ("the dynamic section", "outside", "relu", calls("char _DYNAMIC[]",
     "out[0] += *(volatile char*)_DYNAMIC;"), "build",
     SYMBOL),
    ("the stack protector's abort", "outside", "relu",
     calls("void abort()", "if (n == 1) abort();"),
     "build", SYMBOL),
    ("thread id by a pragma's entry point", "threads", "relu",
     calls("void GOMP_parallel_start(void (*)"
     "(void*), void*, unsigned)", "GOMP_parallel_start(0, 0, 2);"), "build", SYMBOL),
    ("offload", "threads", "relu",
     "\n" + HEAD % ("#pragma omp target\n" + WORK), "read", {"directive"}),
    ("offload in a metadirective", "threads", "relu", "\n" + HEAD % (
        "#pragma omp metadirective when(device={kind(nohost)}: target)\n" + WORK),
     "read", {"directive"}),
    ("threads of another number", "threads", "relu", "omp_set_num_threads(1);\n" + WORK, "build",
     {"symbol", "compile"}),
    ("address of a library function", "outside", "relu",
     WORK + "uintptr_t at = (uintptr_t)(float (*)(float))"
     " &expf; *(volatile uintptr_t*)&at += 16; out[0] += at == 3;", "build", SYMBOL),
    ("library function behind a pointer", "outside", "relu",
     WORK + "float (*volatile f)(float) = expf;"
     " ((void (*)())((char*)f + 3))();", "build", SYMBOL),
]  # fmt: skip
