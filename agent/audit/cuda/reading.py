"""CUDA sources made to be misread, to have files shown, or never to finish compiling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.audit.cuda.texts import RELU, cheat, relu

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent.audit.rows import Row

_HOST = "/etc/hostname"


def _all(trick: str, rungs: str, lines: Iterable[tuple[str, str]]) -> list[Row]:
    """A row for each text that goes before the usual kernel."""
    return [cheat(name, trick, "relu", relu(before=text + "\n"), rungs) for name, text in lines]


def _inside(name: str, trick: str, code: str, rungs: str = "build", before: str = "") -> Row:
    return cheat(name, trick, "relu", relu(f"{code}\n    {RELU}", before), rungs)


FILES = _all("foreign files", "read", [
    ("a file by its path", f'#include "{_HOST}"'),
    ("a file by its path in brackets", f"#include <{_HOST}>"),
    ("a file from the parent folder", '#include "../../../../../../../etc/hostname"'),
    ("a file behind an allowed name", '#include "cuda_fp16.h/../../../../../etc/hostname"'),
    ("a file of the process", "#include </proc/self/environ>"),
    ("a device", '#include "/dev/zero"'),
    ("a file through a macro", f"#define F <{_HOST}>\n#include F"),
    ("a file through a macro's text", "#define T(a) #a\n#define F T(/etc/hostname)\n#include F"),
    ("a file over two lines", f'#inc\\\nlude "{_HOST}"'),
    ("a file behind a comment", f'#/**/include/**/"{_HOST}"'),
    ("a file behind a comment of two lines", f'/*\n*/ # /*\n*/ include "{_HOST}"'),
    ("a file by a digraph", f'%:include "{_HOST}"'),
    ("a file by a trigraph", f'??=include "{_HOST}"'),
    ("a file after a carriage return", f'int a;\r#include "{_HOST}"'),
    ("a file after a form feed", f'\f#include "{_HOST}"'),
    ("looking for files", f"#if __has_include(<{_HOST}>)\n#endif"),
    ("looking for files by a macro", "#define H __has_include\n#if H(</etc/hostname>)\n#endif"),
    ("include_next", "#include_next <cuda_fp16.h>"),
    ("import", f'#import "{_HOST}"'),
    ("embedding a file", f'const unsigned char kept[] = {{\n#embed "{_HOST}"\n}};'),
    ("a header of the host", "#include <unistd.h>"),
    ("a library's header", "#include <cublas_v2.h>"),
    ("PyTorch's headers", "#include <torch/extension.h>"),
    ("streams of the host", "#include <thread>"),
])  # fmt: skip
FILES += _all("foreign files", "read|build", [
    ("a line of another file", f'#line 1 "{_HOST}"\nerror here;'),
    ("a marker of another file", f'# 1 "{_HOST}"\nerror here;'),
])  # fmt: skip
# NVRTC drops assembly outside of functions; were it not to, the assembler would read the file.
FILES += _all("foreign files", "read|build|harmless", [
    ("a file by the assembler", f'asm(".include \\"{_HOST}\\"");'),
    ("a file by the assembler in two strings", f'asm(".incl" "ude \\"{_HOST}\\"");'),
    ("a file in the assembler's debug lines", f'asm(".file 7 \\"{_HOST}\\"");'),
])  # fmt: skip
FILES += [
    _inside("a file by the assembler inside", "foreign files",
            f'asm volatile(".include \\"{_HOST}\\"");', "read|build"),
    _inside("a binary file by the assembler", "foreign files",
            f'asm volatile(".incbin \\"{_HOST}\\"");', "read|build"),
]  # fmt: skip

BOMB = "#define A0 v += 1.0f;\n" + "\n".join(
    f"#define A{k + 1} A{k} A{k} A{k} A{k} A{k} A{k} A{k} A{k}" for k in range(9)
)
BOMBS = [
    *_all("bombs", "read", [
        ("giant reply", "//" + "x" * (600 << 10)),
        ("a NUL", "// \0"),
        ("a control code", "// \x1b[2J"),
    ]),
    *_all("bombs", "read|build", [
        ("a raw string over a directive", 'const char* s = R"(\n#if 0)";'),
        ("endless template", "template <int N> struct F { static const int v = F<N + 1>::v; };\n"
         "__device__ int k() { return F<0>::v; }"),
        ("constexpr bomb", "constexpr int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n"
         "constexpr int k = f(45);"),
        ("a file that includes itself", '#include "program.cu"\n#include "default_program"'),
    ]),
    _inside("macro bomb", "bombs", "float v = 0.0f; A9 out[0] = v;", "read|build", BOMB + "\n"),
]  # fmt: skip

CODE = [
    *_all("misread source", "read|build", [
        ("the reader's macro taken", "#define __global__"),
        ("a linkage taken", "#define extern static"),
        ("the kernel's name taken", "#define kernel other"),
        ("the map's name taken", "#define CUtensorMap float\n#define __grid_constant__\n"
         "#define __global__ __device__"),
        ("a pragma of the compiler", "#pragma nv_diag_suppress 1\n#pragma once\n#error stop"),
        ("another file's line", '#line 1 "cuda_fp16.h"\nbroken'),
        ("the kernel in a namespace", "namespace hidden {"),
    ]),
    _inside("the word for single precision taken", "misread source",
            "", "build|check", "#include <cuda_fp16.h>\n#define float half\n"),
    cheat("no kernel of that name", "plan", "relu", relu().replace("kernel(", "other("),
          "read|build"),
    cheat("a kernel that is no kernel", "plan", "relu", relu().replace("__global__", "__device__"),
          "read|build"),
    cheat("a kernel with another's parameters", "plan", "relu", relu().replace(
          "const float* x, float* out, long long n",
          "const float* x, float* out, long long n, int more, float* kept"),
          "read|build|check"),
    cheat("a kernel with fewer parameters", "plan", "relu", relu().replace(
          "const float* x, float* out, long long n", "const float* x, float* out").replace(
          "i < n", "i < 7992"), "read|build|check|harmless"),
]  # fmt: skip

CALLS = [
    _inside("printing", "printing", 'printf("%d\\n", (int)i);', "read|build"),
    _inside("printing without end", "printing",
            'for (int k = 0; k < 1 << 30; ++k) printf("PASS %d\\n", k);', "read|build"),
    _inside("printing by its inner name", "printing", "vprintf(\"PASS\", nullptr);", "read|build",
            'extern "C" __device__ int vprintf(const char*, void*);\n'),
    _inside("a launch of its own", "child launch", "if (i == 0) child<<<1, 1>>>(out);",
            "read|build", "__global__ void child(float* out) { out[0] = 1.0f; }\n"),
    _inside("a launch by the device runtime", "child launch",
            "if (i == 0) cudaLaunchDeviceV2(nullptr, 0);", "read|build",
            'extern "C" __device__ int cudaLaunchDeviceV2(void*, void*);\n'),
    _inside("a graph launched from the device", "child launch",
            "if (i == 0) cudaGraphLaunch(0, 0);", "read|build",
            'extern "C" __device__ int cudaGraphLaunch(void*, void*);\n'),
    _inside("waits for the device", "side stream", "cudaDeviceSynchronize();", "read|build"),
    _inside("a stream of its own", "side stream",
            "cudaStream_t s; cudaStreamCreateWithFlags(&s, 1);", "read|build"),
    _inside("events of its own", "patched Python",
            "cudaEvent_t e; cudaEventRecord(e);", "read|build"),
    _inside("memory of the runtime", "own heap", "void* p; cudaMalloc(&p, 64);", "read|build"),
    _inside("a function that nobody has", "outside", "missing(out);", "read|build",
            'extern "C" __device__ void missing(float*);\n'),
    _inside("a library by its symbol", "library", "cublasSgemm_v2(nullptr);", "read|build",
            'extern "C" __device__ int cublasSgemm_v2(void*);\n'),
    _inside("a system call", "outside", 'asm volatile("call vprintf, (0, 0);");', "read|build"),
    _inside("host code beside the kernel", "host code", "", "read|build",
            "#include <cstdlib>\nint main() { return std::system(\"true\"); }\n"),
    _inside("a breakpoint", "crash", 'if (i == 0) asm volatile("brkpt;");', "read|build|check"),
    _inside("a trigger for the profiler", "forged result",
            'if (i == 0) asm volatile("pmevent 7;");', "harmless|read|build"),
]  # fmt: skip
