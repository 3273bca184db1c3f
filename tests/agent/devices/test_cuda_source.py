"""What the text of a CUDA program may say, before any compiler sees it."""

from __future__ import annotations

import pytest

from agent.devices.cuda.source import MAX_SOURCE, read_source
from agent.errors import BuildError


def refused(source, *codes):
    with pytest.raises(BuildError) as caught:
        read_source(source, cutlass=False)
    error = caught.value
    assert error.code in codes
    assert error.evidence["rung"] == "read"
    assert error.evidence["log"].startswith("program.cu:")
    assert error.cure
    return error


@pytest.mark.parametrize(
    "line",
    [
        '#include "/etc/passwd"',
        "#include </etc/passwd>",
        '#include "../secret.h"',
        "#include <cuda/../../../etc/passwd>",
        "#include <cub/./block/block_reduce.cuh>",
        "#include <cuda//std/limits>",
        "#include <cuda/std/.hidden>",
        "#include <cub/block block.cuh>",
        "#include <vector>",
        "#include <torch/extension.h>",
        "#include <cutlass/cutlass.h>",
        "#include <cublas_v2.h>",
        "#define FILE <cuda_fp16.h>\n#include FILE",
        '#define FILE "/etc/passwd"\n#include FILE',
        "#  include /* <cuda_fp16.h> */ </etc/passwd>",
        "# /* a comment\n over lines */ include </etc/passwd>",
        "#inc\\\nlude </etc/passwd>",
        "#include \\\n</etc/passwd>",
        "#include <cuda_fp16.h\\\n/../../../etc/passwd>",
        "/* c */ #include </etc/passwd>",
        "%:include </etc/passwd>",
        "??=include </etc/passwd>",
        "// ??/\n#include </etc/passwd>",
        "// spliced \\ \n#include </etc/passwd>",
        "\ufeff#include </etc/passwd>",
        "#include_next <cuda_fp16.h>",
        '#import "/etc/passwd"',
        "#embed </etc/passwd>",
        '#line 1 "other.cu"',
        '# 1 "other.h" 3',
        '#pragma GCC dependency "/etc/passwd"',
        "#pragma nv_hdrstop",
        "#pragma system_header",
        '_Pragma("GCC dependency \\"/etc/passwd\\"")',
        "#define DO(x) _Pragma(#x)\nDO(system_header)",
        "#if __has_include(</root/.ssh/id_rsa>)\n#endif",
        "#define HAS __has_include(</root/.ssh/id_rsa>)\n#if HAS\n#endif",
        "#ifdef __has_embed\n#if __has_embed(</etc/passwd>)\n#endif\n#endif",
        "#define _CCCL_ANY 1",
        "#define __THRUST_HOST_SYSTEM_ALGORITH_DETAIL_HEADER_INCLUDE(x) </etc/passwd>",
        "#define CUB_NS_PREFIX x",
        "#undef __CUDA_ARCH__",
        "import <cuda_fp16.h>;",
        'import "/etc/passwd";',
        "export module kernels;",
    ],
)
def test_directives_off_the_list_are_refused(line):
    refused(f"#include <cuda_fp16.h>\n{line}\n", "include", "directive", "source-text")


def test_text_that_could_hide_a_directive_is_refused():
    refused("int a;\0", "source-text")
    refused("int a;\r#include <cuda_fp16.h>", "source-text")
    refused("//" + "x" * MAX_SOURCE, "source-size")
    refused('const char* s = R"(\n#include </etc/passwd>\n)";', "source-text")
    refused('auto s = R"x(\n)x";\n// #include </etc/passwd>\n', "source-text")
    read_source('const char* s = R"(\n{ .reg .pred p; }\n)";', cutlass=False)


def test_the_error_names_the_programs_own_line_and_a_way_out():
    error = refused("int a; /* one\ntwo */ \\\n\n#include <cstdfoo>\n", "include")
    assert "line 4" in error.message
    assert "cuda_fp16.h" in error.cure
    assert "plan" in refused("#include <torch/extension.h>", "include").cure


def test_allowed_includes_are_made_plain_and_lines_stay():
    source = (
        "#include <stdint.h> // all there\n"
        '#include "cuda_fp16.h"\n'
        "  #  include <cub/warp/warp.cuh>\n"
        "#if __CUDA_ARCH__ >= 900\n#include <cuda/ptx>\n#endif\n"
    )
    text, headers = read_source(source, cutlass=False)
    assert text.split("\n")[0].strip() == "// all there"
    assert text.split("\n")[1] == "#include <cuda_fp16.h>"
    assert text.count("\n") == source.count("\n")
    assert headers == ["cuda_fp16.h", "cub/warp/warp.cuh"]


def test_plain_text_passes():
    read_source(
        "#pragma once\n#ifndef MY_KERNEL_H_\n#define MY_KERNEL_H_\n#define TILE 4\n#endif\n"
        "#pragma unroll 4\n#pragma unroll(TILE)\n#pragma unroll (TILE / 2 + 1)\n#pragma nounroll\n"
        "#pragma nv_diag_suppress 177\n#pragma diag_suppress 20012\n#pragma nv_diagnostic push\n"
        '_Pragma("unroll") for (;;) {}\n#define UNROLL _Pragma("unroll 8")\n'
        "/* #include <vector> */\n// #include <vector>\n#error not here\n"
        "const int big = 1'000'000; const char c = '\"'; // it's fine\n",
        cutlass=False,
    )


def test_cutlass_only_where_it_is():
    assert read_source("#include <cute/tensor.hpp>\n", cutlass=True)[1] == ["cute/tensor.hpp"]
    refused("#include <cute/tensor.hpp>\n", "include")
