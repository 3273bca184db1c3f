"""C++ programs that use instructions and machine state, or end badly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.audit.cpp.texts import CRASH, WORK, beside

if TYPE_CHECKING:
    from agent.audit.cpp.texts import Line

BARE: list[Line] = [
    ("asm", "outside", "relu", WORK + 'asm volatile("nop");', "build", {"assembly"}),
    ("__asm__", "outside", "relu",
     WORK + '__asm__ __volatile__("syscall");', "build", {"assembly"}),
    ("asm label", "outside", "relu", beside('void f() asm("system");'), "build", {"assembly"}),
    ("asm at the top", "outside", "relu", beside('asm(".globl k");'), "build", {"assembly"}),
    ("asm by pasting", "outside", "relu",
     beside("#define P(a, b) a##b", WORK + 'P(as, m)("nop");'), "build",
     {"assembly"}),
    ("asm over two lines", "outside", "relu", WORK + 'as\\\nm("nop");', "build", {"assembly"}),
    ("asm behind a macro's macro", "outside", "relu",
     beside("#define A as\n#define B m\n#define P(a, b) Q(a,"
     " b)\n#define Q(a, b) a##b", WORK + 'P(A, B)("nop");'), "build", {"assembly"}),
    ("asm by universal names", "outside", "relu", WORK + '\\u0061sm("nop");', "build|read",
     {"source-text", "compile"}),
    ("bytes as code", "own code", "relu",
     beside("static const unsigned char code[] = {0x0f, 0x05, 0xc3};",
     WORK + "((void (*)())code)();"), "check", CRASH),
    ("bytes on the stack as code", "own code", "relu",
     WORK + "volatile unsigned char code[8] = {0xc3};"
     " ((void (*)())code)();", "check", CRASH),
    ("a number as code", "own code", "relu", WORK + "((void (*)())0x1234)();", "check", CRASH),
    ("rdtsc", "clock", "relu",
     beside("#include <immintrin.h>", WORK + "out[0] += 0 * _rdtsc();"), "build",
     {"intrinsic"}),
    ("rdtsc by its builtin", "clock", "relu",
     WORK + "out[0] += 0 * __builtin_ia32_rdtsc();", "build",
     {"intrinsic"}),
    ("rdtsc by pasting", "clock", "relu",
     beside("#include <immintrin.h>\n#define P(a, b) a##b", WORK +
     "out[0] += 0 * P(__rd, tsc)();"), "build", {"intrinsic"}),
    ("flush of denormals", "fast math", "relu",
     beside("#include <immintrin.h>", "_MM_SET_FLUSH_ZERO_MODE("
     "_MM_FLUSH_ZERO_ON);\n" + WORK), "build", {"intrinsic"}),
    ("control register", "global flags", "relu",
     beside("#include <immintrin.h>", "_mm_setcsr(_mm_getcsr() |"
     " 0x8040);\n" + WORK), "build", {"intrinsic"}),
    ("control register by its builtin", "global flags", "relu",
     "__builtin_ia32_ldmxcsr(0x9fc0);\n" + WORK,
     "build", {"intrinsic"}),
    ("state restored from memory", "global flags", "relu",
     beside("#include <immintrin.h>", "alignas(64) char"
     " b[4096]; _fxsave64(b); _fxrstor64(b);\n" + WORK), "build", {"intrinsic"}),
    ("cache lines flushed", "warm cache", "relu",
     beside("#include <immintrin.h>", WORK + "_mm_clflush(x);"),
     "build", {"intrinsic"}),
    ("random numbers", "sniffing", "relu", beside("#include <immintrin.h>", WORK + "unsigned k;"
     " _rdrand32_step(&k);"), "build", {"intrinsic"}),
    ("segment base", "sniffing", "relu",
     WORK + "out[0] += 0 * (int)(intptr_t)__builtin_thread_pointer();",
     "build", {"builtin"}),
    ("return address", "sniffing", "relu",
     WORK + "out[0] += 0 * (int)(intptr_t)__builtin_return_address(0);",
     "build", {"builtin"}),
    ("frame address", "own code", "relu",
     WORK + "*(void**)((char*)__builtin_frame_address(0) + 8) = out;",
     "build", {"builtin"}),
    ("trap", "crash", "relu", WORK + "__builtin_trap();", "check", CRASH),
    ("division by zero", "crash", "relu",
     WORK + "volatile int zero = 0; out[0] += 7 / zero;", "check",
     CRASH),
    ("null pointer", "crash", "relu", WORK + "*(volatile int*)nullptr = 1;", "check", CRASH),
    ("endless recursion", "crash", "relu",
     beside("static int deep(volatile int* p, int k) { volatile int"
     " a[64]; a[k & 63] = *p; return deep(a, k + 1) + a[1]; }", WORK + "volatile int k = 1;"
     " out[0] += 0 * deep(&k, 0);"), "check", CRASH),
    ("huge stack", "crash", "relu",
     WORK + "volatile char big[64 << 20]; big[n] = 1; big[0] = big[n];",
     "check", CRASH),
    ("endless loop", "hang", "relu", WORK + "volatile int k = 1; while (k) {}", "check", {"hung"}),
    ("a lock that is never given back", "hang", "relu",
     WORK + "volatile int k = 0;\n#pragma omp parallel"
     "\n{ if (omp_get_thread_num() == 0) while (!k) {} }", "check", {"hung"}),
]  # fmt: skip
