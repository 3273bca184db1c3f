"""What is read from PTX: widths of accesses, and that a kernel keeps nothing."""

from __future__ import annotations

import pytest

from agent.devices.cuda.ptx import accesses, parse
from agent.devices.cuda.pure import check_module
from agent.errors import BuildError

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"
ENTRY = ".visible .entry kernel(\n.param .u64 kernel_param_0\n)\n{\n%s\n}\n"
TABLE = ".global .align 4 .b8 table[16] = {1, 2};\n"


def module(body, before=""):
    return parse(HEAD + before + ENTRY % body)


def refused(body, before, code, source=""):
    with pytest.raises(BuildError) as caught:
        check_module(module(body, before), source)
    assert caught.value.code == code
    assert caught.value.evidence["rung"] == "build"
    assert caught.value.cure


def test_widths_are_those_of_one_thread():
    found = accesses(
        module(
            "ld.global.nc.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1];\nld.global.v2.b64 {%a,%b}, [%rd1];\n"
            "ld.global.u16 %rs1, [%rd1+2]; ld.shared.v4.f32 {%f1,%f2,%f3,%f4}, [%r1];\n"
            "ld.param.u64 %rd1, [kernel_param_0]; st.global.v8.b32 [%rd2], {%r1,%r2};\n"
            "@%p1 st.f32 [%rd2], %f1; cp.async.ca.shared.global [%r1], [%rd1], 8;\n"
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile [%r1], [%rd1, {%r2, %r3}];\n"
            "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64;\n"
            "atom.global.add.f32 %f1, [%rd1], %f2; red.shared.add.u32 [%r1], 1;\n"
            "red.add.f32 [%rd1], %f1;"
            "call.uni (retval0), helper, (param0);",
            ".func (.param .b32 func_retval0) helper(\n.param .b64 helper_param_0\n)\n"
            "{ ld.global.f64 %fd1, [%rd1]; ret; }\n",
        )
    )["kernel"]
    assert found["loads"] == {"16": 2, "2": 1, "8": 2, "bulk": 1}
    assert found["stores"] == {"32": 1, "4": 1, "bulk": 1}
    assert (found["load_bytes"], found["store_bytes"], found["atomics"]) == (16, 32, 2)


def test_entries_variables_and_open_functions_are_found_past_comments():
    found = parse(
        HEAD + "// .global .u32 not_this;\n/* .func nor(); */\n"
        ".extern .func  (.param .b32 func_retval0) vprintf\n(\n.param .b64 vprintf_param_0\n)\n;\n"
        ".visible .global .align 8 .u64 first, second[4] = {0};\n.const .f32 c = 0f3F800000;\n"
        + ENTRY
        % ".global .u32 inner;\nld.global.u32 %r1, [inner];"
    )
    assert found.entries == ["kernel"]
    assert found.outside == {"vprintf"}
    assert {v.name for v in found.variables} == {"first", "second", "c", "inner"}


@pytest.mark.parametrize(
    "body",
    [
        "mov.u64 %rd1, table; ld.global.f32 %f1, [%rd1+4]; st.global.f32 [%rd9], %f1;",
        "mov.u64 %rd1, table;\ncvta.global.u64 %rd2, %rd1;\nmad.lo.s64 %rd3, %rd8, 4, %rd2;\n"
        "ld.f32 %f1, [%rd3]; @%p1 bra L1;",
        "ld.global.u32 %r1, [table+8]; add.s32 %r2, %r1, 1; st.global.u32 [%rd9], %r2;",
        "mov.u64 %rd1, table; cp.async.ca.shared.global [%r1], [%rd1], 16;",
        "mov.u64 %rd1, table; { .param .b64 param0; st.param.b64 [param0+0], %rd1;\n"
        "call.uni __assertfail, (param0); }",
        "mov.u64 %rd1, table; selp.b64 %rd2, %rd1, %rd5, %p1; ld.global.f32 %f1, [%rd2];",
    ],
)
def test_a_table_that_is_only_read_is_allowed(body):
    check_module(module(body, ".extern .func __assertfail(.param .b64 p0);\n" + TABLE), "")


@pytest.mark.parametrize(
    "body",
    [
        "st.global.u32 [table], %r1;",
        "atom.global.add.u32 %r1, [table+4], 1;",
        "red.global.add.u32 [table], 1;",
        "mov.u64 %rd1, table; st.global.u32 [%rd1], %r1;",
        "L1: st.global.u32 [%rd2], %r1; mov.u64 %rd2, table; bra L1;",
        "mov.u64 %rd1, table; cvta.global.u64 %rd2, %rd1; add.s64 %rd3, %rd2, %rd7;"
        " st.u32 [%rd3], %r1;",
        "mov.u64 %rd1, table; st.local.u64 [%rd4], %rd1;",
        "mov.u64 %rd1, table; st.shared.u64 [%r4], %rd1;",
        "mov.u64 %rd1, table; mov.b64 {%r1, %r2}, %rd1; mov.b64 %rd2, {%r1, %r2};"
        " st.global.u32 [%rd2], %r3;",
        "mov.u64 %rd1, table; shfl.sync.idx.b32 %r1|%p1, %rd1, 0, 31, -1; st.global.u32 [%r1], 1;",
        "mov.u64 %rd1, table; and.b64 %rd2, %rd1, 1; setp.eq.s64 %p1, %rd2, 0; @%p1 bra L1;",
        "mov.u64 %rd1, table; setp.eq.s64 %p1, %rd1, 0; @%p1 mov.u64 %rd2, 1;"
        " st.global.u32 [%rd2], 1;",
        "mov.u64 %rd1, table; cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 16;",
        "mov.u64 %rd1, table; cp.reduce.async.bulk.global.shared::cta.add.u32 [%rd1], [%r1], 16;",
        "{ .reg .b64 mine; mov.b64 mine, table; st.global.b32 [mine], 7; }",
        "mov.u64 %rd1, table; { st.param.b64 [param0], %rd1; call.uni writer, (param0); }",
        "call.uni (retval0), finder, (); ld.param.b64 %rd1, [retval0]; st.global.u32 [%rd1], 1;",
        "call.uni (retval0), ghost, (); ld.param.b64 %rd1, [retval0]; st.global.u32 [%rd1], 1;",
    ],
)
@pytest.mark.parametrize("kind", ["global", "const"])
def test_a_variable_that_may_be_written_is_refused(body, kind):
    functions = (
        ".func writer(.param .b64 writer_param_0)\n{ ld.param.u64 %rd1, [writer_param_0];"
        " st.global.u32 [%rd1], 1; ret; }\n"
        ".func (.param .b64 func_retval0) finder()\n{ mov.u64 %rd1, table;"
        " st.param.b64 [func_retval0], %rd1; ret; }\n"
        ".func (.param .b64 func_retval0) ghost()\n{ call.uni (retval0), finder, ();"
        " ld.param.b64 %rd1, [retval0]; st.param.b64 [func_retval0], %rd1; ret; }\n"
    )
    refused(body, functions + TABLE.replace(".global", "." + kind), "static-storage")


@pytest.mark.parametrize(
    "escape",
    [
        '} .visible .entry second() .pragma "nounroll"; { st.global.u32 [table], 1; ',
        "} .visible .entry second(.param .u64 p) .maxntid 1,1,1 { st.global.u32 [table], 1; ",
        '.pragma "x\\"; st.global.u32 [table], 1; .pragma "y";',
        "} .func second() .noreturn { st.global.u32 [table], 1; ",
        '/* " */ st.global.u32 [table], 1; // "',
        "} } { {",
        "} .visible .entry second() ; { st.global.u32 [table], 1; ",
    ],
)
def test_assembly_cannot_hide_code(escape):
    with pytest.raises(BuildError) as caught:
        check_module(module(escape, TABLE), "")
    assert caught.value.code in ("static-storage", "assembly")


def test_variables_of_other_kinds_are_refused():
    refused("", ".global .attribute(.managed) .u32 m;\n", "static-storage")
    refused("", ".global .texref t;\n", "static-storage")
    refused("", TABLE + ".global .u64 p = generic(table);\n", "static-storage")
    refused("", TABLE + ".global .u64 p[2] = {table, 0};\n", "static-storage")
    check_module(
        module("ret;", ".func v() { ret; }\n.global .align 8 .u64 _ZTV1B[2] = {0, v};\n"), ""
    )


def test_functions_of_the_system_are_refused():
    for name, code in (
        ("vprintf", "printf"), ("malloc", "heap"), ("free", "heap"), ("other", "symbol"),
        ("cudaLaunchDeviceV2", "dynamic-parallelism"),
    ):  # fmt: skip
        refused("ret;", f".extern .func (.param .b32 r) {name}(.param .b64 p);\n", code)


def test_clocks_are_refused_but_for_a_barriers_back_off():
    for name in ("clock", "clock64", "clock_hi", "globaltimer", "globaltimer_lo", "gridid"):
        refused(f"mov.u64 %rd1, %{name};", "", "clock")
    poll = "mov.u64 %rd1, %globaltimer;"
    check_module(module(poll), "#include <cuda/barrier>\n")
    refused(poll, "", "clock", "#include <cuda/barrier>\nasm")
    refused(poll, "", "clock", "#include <cuda/barrier>\na ## sm")
    refused(poll, "", "clock", "#include <cuda/barrier>\ncuda::std::chrono::system_clock::now();")
    refused("mov.u64 %rd1, %clock64;", "", "clock", "#include <cuda/barrier>\n")
