"""Replies, plans and expressions: what is read, and what is refused with which words."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ProgramError
from agent.expressions import Scope, evaluate, evaluate_int
from agent.program import Bound, normalise, parse_reply
from agent.task import TargetSpec
from tests.agent.landscape import SPEC

TOY = TargetSpec.from_json({**SPEC, "scalars": {"eps": 1e-5, "flag": True, "n": 3}})
SOURCE = 'extern "C" void f(const float* x, float* out, int64_t n) { out[0] = x[n]; }'


def reply(plan: str, source: str = SOURCE) -> str:
    return f"Row in registers\n\n```cpp\n{source}\n```\n```toml\n{plan}\n```\n"


PLAN = """
[tune]
UNROLL = [4, 8]
TILE = [16]
[[scratch]]
name = "partial"
dtype = "float32"
shape = ["x.shape[0]", "device.cores * TILE"]
[[launch]]
kernel = "f"
args = ["x", "partial", "x.numel // UNROLL", {expr = "eps", type = "float32"}, 7, 0.5]
[[launch]]
kernel = "g"
args = ["partial", "out", "ceil_div(x.shape[0], 3) if x.stride[0] == 1 else 0"]
"""
FACTS = {"cores": 2, "l2": 2**20}


def test_a_whole_reply_becomes_plain_launches() -> None:
    program = parse_reply(reply(PLAN), "cpp")
    assert program.title == "Row in registers"
    assert program.tune == {"UNROLL": (4, 8), "TILE": (16,)}
    assert program.defaults() == {"UNROLL": 4, "TILE": 16}
    assert program.variants() == [{"UNROLL": 4, "TILE": 16}, {"UNROLL": 8, "TILE": 16}]
    assert program.kernels() == ["f", "g"]
    bound = program.bind(TOY, {"UNROLL": 8, "TILE": 16}, FACTS)
    partial = {"name": "partial", "dtype": "float32", "shape": [8, 32], "zero": False}
    assert bound.scratch == (partial,)
    assert bound.steps[0]["args"] == [
        {"tensor": "x"},
        {"tensor": "partial"},
        {"type": "int64", "value": 1},
        {"type": "float32", "value": 1e-5},
        {"type": "int64", "value": 7},
        {"type": "float64", "value": 0.5},
    ]
    assert bound.steps[1]["args"][-1] == {"type": "int64", "value": 3}
    assert Bound.from_json(bound.to_json()) == bound


def test_keys_of_stored_programs_stay() -> None:
    stored = "03cf85055aae804f2a20dee0793954b9f7e0d3b910da186b434b75341201a4af"
    assert parse_reply(reply(PLAN), "cpp").key == stored


def test_programs_that_differ_in_comments_blanks_and_plan_order_are_the_same() -> None:
    one = parse_reply(reply(PLAN), "cpp")
    other = SOURCE.replace("{", "{ /* why */  ") + " // done"
    reordered = PLAN.replace("UNROLL = [4, 8]\nTILE = [16]", "TILE=[16]\nUNROLL = [4,8]")
    assert parse_reply(reply(reordered, other), "cpp").key == one.key
    assert parse_reply(reply(PLAN, SOURCE.replace("x[n]", "x[n+1]")), "cpp").key != one.key
    assert normalise('a = "// not a comment";') == 'a = "// not a comment";'
    assert normalise("a /* never closed\nb") == "a"


def test_the_largest_texts_are_read_in_one_pass() -> None:
    for piece in ("/* ", '\\"', "\\'", "'\"", "// ", "\\\n"):
        assert normalise(piece * 100_000) is not None
    for piece in ("```x\n", "```\n", "``` "):
        with pytest.raises(ProgramError, match=r"has [0-9]+ and 0"):
            parse_reply(piece * 100_000, "cpp")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no blocks at all", "has 0 and 0"),
        (reply(PLAN) + reply(PLAN), "has 2 and 2"),
        (reply("[[launch]"), "not TOML"),
        (reply(""), "no \\[\\[launch\\]\\]"),
        (reply('[[launch]]\nkernel = "f"\nargs = []\n[host]\nrun = 1'), "unknown entries: host"),
        (reply('[[launch]]\nkernel = "f; rm"\nargs = []'), "wants kernel and args"),
        (reply('[[launch]]\nkernel = "f"\nargs = [[1]]'), "neither a name"),
        (reply('[[launch]]\nkernel = "f"\nargs = []\ngrid = 1'), "grid in a plan for cpp"),
        (reply('tensormap = []\n[[launch]]\nkernel = "f"\nargs = []'), "unknown entries: tensor"),
        (reply('[tune]\nA = []\n[[launch]]\nkernel = "f"\nargs = []'), "whole numbers"),
        (reply('[tune]\nA = [true]\n[[launch]]\nkernel = "f"\nargs = []'), "whole numbers"),
        (reply('[tune]\nA = [1, 1]\n[[launch]]\nkernel = "f"\nargs = []'), "repeat"),
        (reply('[tune]\n"A=1 -x" = [1]\n[[launch]]\nkernel = "f"\nargs = []'), "whole numbers"),
        (reply('scratch = 3\n[[launch]]\nkernel = "f"\nargs = []'), "\\[\\[scratch\\]\\]"),
        (
            reply('[[scratch]]\nname="s"\ndtype="complex64"\nshape=[1]\n[[launch]]\nkernel="f"\nargs=[]'),
            "wants name, dtype, shape",
        ),
        (reply("[tune]\nA = [" + "9" * 5000 + "]"), "not TOML"),
        (reply("[tune]\nA = [0x" + "f" * 5000 + "]"), "not TOML"),
        ("x" * 600_000, "longer than"),
    ],
)  # fmt: skip
def test_replies_that_break_the_contract_are_refused_with_words(text: str, words: str) -> None:
    with pytest.raises(ProgramError, match=words):
        parse_reply(text, "cpp")


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ('[[launch]]\nkernel = "f"\nargs = ["x"]', "no launch is given the output out"),
        ('[[launch]]\nkernel = "f"\nargs = ["out", "y.shape[0]"]', "unknown tensor y"),
        ('[[launch]]\nkernel = "f"\nargs = ["out", "eps"]', "not a whole number"),
        ('[[launch]]\nkernel = "f"\nargs = ["out", "x.shape[3]"]', "no dimension 3"),
        (
            '[[launch]]\nkernel = "f"\nargs = ["out", {expr = "2147483648", type = "int32"}]',
            "too large for int32",
        ),
        (
            '[[scratch]]\nname="s"\ndtype="float32"\nshape=[-1]\n[[launch]]\nkernel="f"\nargs=["out"]',
            "has shape",
        ),
        (
            '[[scratch]]\nname="x"\ndtype="float32"\nshape=[1]\n[[launch]]\nkernel="f"\nargs=["out"]',
            "has a tensor's name",
        ),
        (
            '[[scratch]]\nname="s"\ndtype="float32"\nshape=["1000000 * 1000000"]\n'
            '[[launch]]\nkernel="f"\nargs=["out"]',
            "bytes of scratch",
        ),
    ],
)  # fmt: skip
def test_plans_that_do_not_fit_the_target_are_refused(plan: str, words: str) -> None:
    program = parse_reply(reply(plan), "cpp")
    with pytest.raises(ProgramError, match=words):
        program.bind(TOY, {}, FACTS)


SCOPE = Scope(
    {"x": ((4, 0), (1, 4)), "y": ((4,), None)},
    {"N": 5, "eps": 0.5},
    {"cores": 2, "name": "a processor"},
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 - -4", 11),
        ("7 // 2 % 2", 1),
        ("ceil_div(7, 2)", 4),
        ("min(N, 3, 9) + max(1, 2)", 5),
        ("min(N)", 5),
        ("round_up(7, 4) + next_pow2(N) + next_pow2(8) + next_pow2(0)", 25),
        ("1 / sqrt(x.shape[0])", 0.5),
        ("N if eps > 0.25 and not (N == 4) else 0", 5),
        ("x.numel", 0),
        ("x.shape[-2]", 4),
        ("device.cores", 2),
        ("eps * 2", 1.0),
        ("N / 2", 2.5),
    ],
)
def test_expressions(text: str, value: float) -> None:
    assert evaluate(text, SCOPE) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "x", "x.__class__", "N ** 99999", "1 << 99999", "[1][0]", "'a' * 9",
        "lambda: 1", "N if", "1 // 0", "1 % 0", "x.shape['a']", "x.shape[0.5]", "open('f')",
        "9" * 400, "(" * 400 + "1" + ")" * 400, "N.bit_length()", "device.secret", "min()",
        "ceil_div(1)", "sqrt(-1)", "sqrt(1, 2)", "device.name", "y.stride[0]",
        "1e308 * 1e308", "True < x", "1 < 2 < 3", "f'{N}'", "max(*x)", "\0",
    ],
)  # fmt: skip
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(ProgramError):
        evaluate(text, SCOPE)


def test_a_size_is_a_whole_number() -> None:
    with pytest.raises(ProgramError, match="whole number"):
        evaluate_int("N / 2", SCOPE)


@given(st.text(max_size=60))
def test_no_text_escapes_the_evaluator(text: str) -> None:
    with contextlib.suppress(ProgramError):
        assert isinstance(evaluate(text, SCOPE), int | float)


@given(st.text(max_size=300))
def test_no_plan_escapes_the_reader(text: str) -> None:
    with contextlib.suppress(ProgramError):
        parse_reply(reply(text), "cpp")
