"""Replies as models write them: what is read from them, what is refused, and with which words."""

from __future__ import annotations

import contextlib
import html
import json
import textwrap
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import ProgramError
from agent.program import MAX_REPLY, Program, parse_reply
from agent.replies import read_reply
from agent.task import ArgSpec, OutputSpec, TargetSpec

if TYPE_CHECKING:
    from collections.abc import Callable

X = ArgSpec("x", "input", "float32", (8, 4), (4, 1))
SPEC = TargetSpec(
    "toy", "cpu", (X,), {"eps": 1e-5}, (OutputSpec("out", "float32", (8, 4), (4, 1)),),
    128, 128, 0, "sha", {"rows": 8}, {"rows": (1, 64)},
)  # fmt: skip
SOURCE = """#include <cstdint>
extern "C" void f(const float* x, float* out) {
    for (int i = 0; i < 32 && x; ++i) out[i] = x[i];
}
"""
PLAN = '[[launch]]\nkernel = "f"\nargs = ["x", "out"]\n'
WHOLE = f"Rows in registers\n\n```cpp\n{SOURCE}```\n\n```toml\n{PLAN}```\n"
KEY = parse_reply(WHOLE, "cpp").key
THOUGHT = f"Let me think.\n```cpp\n{SOURCE.replace('32', '31')}```\n```toml\n{PLAN}```\n"


def read(text: str, language: str | None = "cpp", spec: TargetSpec | None = SPEC) -> Program:
    return read_reply(text, language, spec)


def test_a_reply_in_order_is_the_program_that_it_says_and_needs_no_note() -> None:
    program = read(WHOLE)
    assert (program.key, program.title, program.notes) == (KEY, "Rows in registers", ())
    assert (program.source, program.plan) == (SOURCE, PLAN)
    assert read(WHOLE, None).language == "cpp"
    assert program == parse_reply(WHOLE, "cpp")


def escaped(text: str) -> str:
    return html.escape(text)


FORMS: dict[str, str] = {
    "thinking": f"<think>\n{THOUGHT}</think>\n\n{WHOLE}",
    "reasoning, upper case": f"<REASONING>\n{THOUGHT}</REASONING>\n{WHOLE}",
    "the opening mark left to the template": f"{THOUGHT}\n</think>\n{WHOLE}",
    "thinking by another mark": f"[THINK]{THOUGHT}[/THINK]\n{WHOLE}",
    "a channel": f"<|channel|>analysis<|message|>{THOUGHT}<|end|>\n{WHOLE}",
    "carriage returns": WHOLE.replace("\n", "\r\n"),
    "c++": WHOLE.replace("```cpp", "```c++"),
    "C": WHOLE.replace("```cpp", "``` C"),
    "with a standard": WHOLE.replace("```cpp", "```c++17"),
    "cuda label": WHOLE.replace("```cpp", "```cuda"),
    "a file's name": WHOLE.replace("```cpp", '```cpp title="f.cpp"'),
    "text": WHOLE.replace("```cpp", "```text").replace("```toml", "```text"),
    "no labels": WHOLE.replace("```cpp", "```").replace("```toml", "```"),
    "ini": WHOLE.replace("```toml", "```ini"),
    "yaml": WHOLE.replace("```toml", "```yaml"),
    "plan in a source's fence": WHOLE.replace("```toml", "```cpp"),
    "tildes": WHOLE.replace("```", "~~~"),
    "long fences": WHOLE.replace("```", "`````"),
    "indented": "Rows in registers\n1. Code:\n" + textwrap.indent(WHOLE[18:], "   "),
    "quoted": "Rows in registers\n" + textwrap.indent(WHOLE[18:], "> ", lambda _: True),
    "in markdown": f"```markdown\n{WHOLE}```\n",
    "in a longer fence": f"````\n{WHOLE}````\n",
    "in a longer markdown fence": f"````md\n{WHOLE}````\nThat is all.",
    "code on the fence": WHOLE.replace("```cpp\n", "```cpp "),
    "fence behind the code": WHOLE.replace("}\n```", "}```").replace("]\n```", "]```"),
    "fence behind words": WHOLE.replace("```cpp", "Here: ```cpp"),
    "never closed between": WHOLE.replace("}\n```\n", "}\n"),
    "both in one": f"Rows in registers\n```cpp\n{SOURCE}\n# plan\n{PLAN}```\n",
    "both in one, plan first": f"Rows in registers\n```\n{PLAN}\n{SOURCE}```\n",
    "plan first": f"Rows in registers\n```toml\n{PLAN}```\n```cpp\n{SOURCE}```\n",
    "plan in prose": f"Rows in registers\n```cpp\n{SOURCE}```\nPlan:\n{PLAN}\nThat is all.\n",
    "no fences": f"Rows in registers\n{SOURCE}\n{PLAN}",
    "escaped": f"Rows in registers\n```cpp\n{escaped(SOURCE)}```\n```toml\n{escaped(PLAN)}```\n",
    "a page": f"Rows in registers\n<pre><code class='language-cpp'>{escaped(SOURCE)}</code></pre>"
    f"\n<pre><code>{escaped(PLAN)}</code></pre>",
    "JSON": json.dumps({"idea": "Rows in registers", "source": SOURCE, "plan": PLAN}),
    "JSON in a fence": "Rows in registers\n```json\n"
    + json.dumps({"source": f"```cpp\n{SOURCE}```", "plan": f"```toml\n{PLAN}```"})
    + "\n```\n",
    "an earlier draft": f"Rows in registers\n{THOUGHT}\nBetter:\n{WHOLE}",
    "a second source": WHOLE.replace("32", "31") + f"\nCorrected:\n```cpp\n{SOURCE}```\n",
    "a use of it": f"{WHOLE}\nUse:\n```cpp\nf(x, out);\n```\n```python\nimport torch\n```\n",
    "last fence missing": WHOLE.removesuffix("```\n"),
    "a cut second draft": f"{WHOLE}\nBetter:\n```cpp\n{SOURCE[:60]}",
    "invisible signs": WHOLE.replace("extern", "\ufeffextern\u200b"),
    "quotes of a typesetter": WHOLE.replace('"f"', "\u201cf\u201d"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=list(FORMS))
def test_the_same_program_is_read_whatever_it_is_wrapped_in(form: str) -> None:
    program = read(FORMS[form])
    assert program.key == KEY, program.source + program.plan
    assert program.title == "Rows in registers"
    assert program.language == "cpp"


def test_what_was_mended_or_passed_over_is_noted() -> None:
    assert read(FORMS["last fence missing"]).notes == ("the last fence was missing",)
    assert "last complete program" in read(FORMS["a cut second draft"]).notes[0]
    assert "mended" in read(FORMS["quotes of a typesetter"]).notes[0]
    assert "Python" in " ".join(read(FORMS["a use of it"]).notes)


def test_a_program_in_the_thinking_is_better_than_none() -> None:
    for text in (f"<think>\n{WHOLE}", f"<think>\n{WHOLE}</think>\nDone."):
        program = read(text)
        assert program.key == KEY
        assert "thinking" in program.notes[0]
    assert (
        read(f"<think>\n{THOUGHT}</think>\nNew\n```cpp\n{SOURCE}```\n```toml\n{PLAN}```").key == KEY
    )


def test_kernels_in_blocks_of_their_own_are_joined() -> None:
    plan = PLAN + PLAN.replace('"f"', '"g"')
    other = SOURCE.replace(" f(", " g(")
    program = read(f"Two\n```cpp\n{SOURCE}```\nand\n```cpp\n{other}```\n```toml\n{plan}```\n")
    assert program.kernels() == ["f", "g"]
    assert program.source.count('extern "C"') == 2
    assert "joined" in program.notes[0]


def test_a_plan_of_library_steps_needs_no_source() -> None:
    plan = '[[call]]\nop = "mm"\nargs = ["x", "x"]\nto = "out"\n'
    program = read(f"A product\n```toml\n{plan}```\n")
    assert program.library_only


CUT = WHOLE.index("```toml")
REFUSED: list[tuple[str, str, str, str]] = [
    ("", "reply", "no ```cpp block", "whole source"),
    ("I cannot do that.", "reply", "no ```cpp block", "one ```toml block"),
    (f"An idea\n```toml\n{PLAN}```\n", "reply", "it has a plan", "whole source"),
    (WHOLE[:100], "reply-cut", "^the reply ends inside the source block$", "shorter"),
    (WHOLE[: CUT + 40], "reply-cut", "^the reply ends inside the plan$", "shorter"),
    (f"<think>\n{WHOLE[:100]}", "reply-cut", "inside the source block", "shorter"),
    (WHOLE.replace('"f"', '"g"'), "plan", "launches g, .* it has f$", "of the source"),
    (WHOLE.replace("kernel =", "kernel"), "plan", "not TOML", ""),
    (WHOLE.replace(PLAN, ""), "plan", "no \\[\\[launch\\]\\]", ""),
    (WHOLE.replace('extern "C"', "__global__"), "reply", "source is CUDA", "OpenMP"),
    (WHOLE.replace(PLAN, PLAN + "# " + "x" * 70_000 + "\n"), "plan", "plan is longer", "only"),
    ("x" * (MAX_REPLY + 1), "reply", "longer than 524288 characters", "nothing else"),
    ('{"source": "void', "reply", "JSON that cannot be read", "one ```cpp block"),
    ("A\n```diff\n- a\n+ b\n```", "reply", "a diff, not the whole source", "whole source"),
    (WHOLE[:CUT].replace("float* x", "float* input"), "reply",
     "none can be inferred: no tensor is named input", 'kernel = "f", args'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "message", "cure"), REFUSED)
def test_what_is_refused_says_what_is_wrong_and_what_to_do(
    text: str, code: str, message: str, cure: str
) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        read(text)
    assert caught.value.code == code
    assert cure in caught.value.cure


TORCH = """#include <torch/extension.h>
// cudaMalloc is not used
__global__ void f(const float* x, float* out) { out[0] = x[0]; }
at::Tensor run(at::Tensor x) { auto out = at::empty_like(x); f<<<1, 32>>>(x, out); return out; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""
HOST: list[tuple[str, str, str]] = [
    (f"A\n```cuda\n{TORCH}```\n", "cuda", "#include <torch/extension.h>; line 4: at::Tensor"),
    (f"A\n```cuda\n{TORCH}```\n```toml\n{PLAN}grid = 1\nblock = 32\n```", "cuda", "extension.h"),
    ("A\n```cuda\n__global__ void f() {}\nint main() { f<<<1, 1>>>(); }\n```", "cuda", "int main"),
    ("A\n```cuda\n__global__ void f() {}\nvoid g() { cudaFree(0); }\n```", "cuda", "cudaFree"),
    ("A\n```cpp\n#include \"torch/all.h\"\n```", "cpp", "torch/all.h"),
    ("A\n```python\nimport torch\nload_inline(name='a')\n```", "cuda", "Python: import torch"),
    ("import triton\n@triton.jit\ndef f(x):\n    pass", "cuda", "Python: import triton"),
    ("A\n```\nfrom torch import nn\nclass New(nn.Module):\n    pass\n```", "cuda", "from torch"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "language", "found"), HOST)
def test_host_code_is_refused_with_what_was_found(text: str, language: str, found: str) -> None:
    with pytest.raises(ProgramError) as caught:
        read(text, language)
    assert caught.value.code == "host-code"
    assert found in caught.value.message
    assert "host code is not accepted: give the kernel alone and a plan" in caught.value.message


def test_words_of_host_code_in_comments_and_texts_are_none() -> None:
    source = SOURCE + '// f<<<1, 2>>>() int main() {}\n/* at::Tensor */ static_assert(1, "<<<");\n'
    assert read(WHOLE.replace(SOURCE, source)).kernels() == ["f"]


TITLES = [
    ("**Idea:** fuse *both* passes", "fuse *both* passes"),
    ("# Approach: `float4` loads", "float4 loads"),
    ("Sure! Here it is.\n\n- Online softmax", "Online softmax"),
    ("Here is the kernel:\n\nOne pass over x", "One pass over x"),
    ("Kernel fusion with wide loads\nMore words.", "Kernel fusion with wide loads"),
    ("\x1b[31mRed\x1b[0m \u202eidea\x07", "Red idea"),
    ("y" * 900, "y" * 200),
    ("## Idea\n\nSplit rows", "Split rows"),
]


@pytest.mark.parametrize(("prose", "title"), TITLES)
def test_titles_are_plain_lines(prose: str, title: str) -> None:
    assert read(f"{prose}\n```cpp\n{SOURCE}```\n```toml\n{PLAN}```\n").title == title


def test_without_prose_the_first_comment_is_the_title() -> None:
    blocks = f"```cpp\n// Row by row\n{SOURCE}```\n```toml\n{PLAN}```\n"
    assert read(blocks).title == "Row by row"
    assert read(f"<think>no title</think>\n{blocks}").title == "Row by row"
    assert read(blocks.replace("// Row by row", "")).title == "untitled"


# -- a plan that is missing ------------------------------------------------------------------------


def cuda(
    body: str = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) out[i] = x[i];",
    params: str = "const float* __restrict__ x, float* out, int n",
    head: str = 'extern "C" __global__ void f',
    before: str = "",
) -> str:
    return f"An idea\n```cuda\n{before}\n{head}({params}) {{\n    {body}\n}}\n```\n"


AT = "int i = blockIdx.x * blockDim.x + threadIdx.x; "
WIDE = "const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;\n if (i >= n) return;\n"
LOOP = (
    "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += blockDim.x * gridDim.x) {}"
)
INFERRED: list[tuple[str, list[int], int]] = [
    (cuda(), [1, 1, 1], 256),
    (cuda(head="__global__ void __launch_bounds__(16) f"), [2, 1, 1], 16),
    (cuda(head="__global__ void __launch_bounds__(B, 2) f", before="#define B 16"), [2, 1, 1], 16),
    (cuda(before="constexpr int BLOCK = 8; // threads"), [4, 1, 1], 8),
    (cuda(WIDE + "out[i] = x[i];", "const float* x, float* out, int64_t n"), [1, 1, 1], 256),
    (cuda(LOOP, "const float* x, float* out, int rows, float eps"), [1, 1, 1], 256),
    (cuda("int i = threadIdx.x + blockIdx.x * blockDim.x; if (i < 32) out[i] = x[i];",
          "const float* x, float* out"), [1, 1, 1], 256),
]  # fmt: skip


@pytest.mark.parametrize(("text", "grid", "block"), INFERRED)
def test_a_cuda_plan_is_inferred_where_it_is_certain(
    text: str, grid: list[int], block: int
) -> None:
    program = read(text, "cuda")
    assert program.notes == ("the plan was missing; it was inferred from the kernel's parameters",)
    assert program.title == "An idea"
    facts = {"shared": 49152, "major": 8, "sms": 10}
    step = program.bind(replace(SPEC, device="cuda"), {}, facts).steps[0]
    assert (step["grid"], step["block"]) == (grid, [block, 1, 1])
    assert step["args"][:2] == [{"tensor": "x"}, {"tensor": "out"}]


UNCERTAIN: list[tuple[str, str]] = [
    (cuda(params="const float* in, float* out, int n"), "no tensor is named in"),
    (cuda(params="const double* x, float* out, int n"), "x is float32, the parameter is double"),
    (cuda(params="const float* x, const float* out, int n"), "an output, the parameter is const"),
    (cuda(params="const float* x, int n"), "no parameter named out"),
    (cuda(params="const float* x, float* out, int m"), "nothing of the target is named m"),
    (cuda(params="const float* x, float* out, int n, int eps"), "eps is 1e-05"),
    (cuda(params="const float4* x, float* out, int n"), "float4"),
    (cuda(params="Tensor<float> x, float* out"), "more than pointers and numbers"),
    (cuda(head="template <int N> __global__ void f"), "more than pointers and numbers"),
    (cuda("int i = blockIdx.x; out[i] = x[i];"), "the grid is not plain"),
    (cuda(AT + "out[i] = x[i];"), "how far i goes"),
    (cuda(AT + "if (i * 4 < n) out[i] = x[i];"), "how far"),
    (cuda("__shared__ float s[256]; " + WIDE), "work together"),
    (cuda(AT + "if (i < n) out[blockIdx.x] = 1;"), "grid"),
    (cuda(head="__global__ void __launch_bounds__(SIZE) f"), "size of a block"),
    (cuda(before="__global__ void g(float* x) { x[0] = 1; }"), "2 kernels"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), UNCERTAIN)
def test_a_plan_is_not_guessed(text: str, reason: str) -> None:
    with pytest.raises(ProgramError, match="no ```toml block") as caught:
        read(text, "cuda")
    assert caught.value.code == "reply"
    assert reason in caught.value.message
    assert "grid" in caught.value.cure


def test_a_cpp_plan_is_inferred_with_numbers_of_their_types() -> None:
    source = SOURCE.replace("float* out)", "float* out, int64_t rows, float eps, int n)")
    program = read(f"An idea\n```cpp\n{source}```\n")
    assert program.bind(SPEC, {}, {}).steps[0]["args"][2:] == [
        {"type": "int64", "value": 8},
        {"type": "float32", "value": 1e-5},
        {"type": "int32", "value": 32},
    ]
    with pytest.raises(ProgramError, match=r"block with a plan$"):
        read(f"An idea\n```cpp\n{source}```\n", "cpp", None)


# -- hostile texts ---------------------------------------------------------------------------------

PIECES = st.sampled_from(
    ["```", "```cpp\n", "```toml\n", "~~~", "\n", "<think>", "</think>", "{", "}", '"', "\\", "/*",
     "*/", "//", "[[launch]]\n", "[tune]\n", 'kernel = "f"\n', "args = []\n", "__global__ ", 
     "void ",
     "f", "(", ")", 'extern "C" ', "float* x", ",", "&lt;", "\x1b[", "\ud800", "\0",
     "import torch\n",
     "<<<", "template <", "#include <", "<pre><code>", "</code></pre>", '{"source": "', SOURCE,
     PLAN,
     "blockIdx.x * blockDim.x + threadIdx.x;", "````", "'", "=", "\r", "- ", "> "]
)  # fmt: skip
HOSTILE = st.lists(PIECES | st.text(max_size=8), max_size=60).map("".join)


@given(HOSTILE, st.sampled_from(["cpp", "cuda", None]))
@settings(deadline=None)
def test_any_text_is_a_program_or_an_error_with_words(text: str, language: str | None) -> None:
    shown = []
    try:
        program = read(text, language)
        (program.source + program.plan).encode()
        shown = [program.title, *program.notes]
    except ProgramError as error:
        shown = [error.message, error.cure or "-"]
    assert all(line and line.isprintable() and len(line) < 1000 for line in shown)


@given(st.lists(PIECES, min_size=1, max_size=3).map("".join), st.integers(0, 3))
@settings(deadline=None, max_examples=12)
def test_a_text_of_the_largest_size_ends(piece: str, place: int) -> None:
    room = MAX_REPLY - len(WHOLE) - 100
    much = piece * (room // len(piece))
    frames: list[Callable[[str], str]] = [
        lambda text: text,
        lambda text: f"{text}\n{WHOLE}",
        lambda text: WHOLE.replace(SOURCE, f"{SOURCE}{text}\n"),
        lambda text: WHOLE.replace(PLAN, f"{PLAN}{text}\n"),
    ]
    begun = time.process_time()
    with contextlib.suppress(ProgramError):
        read(frames[place](much))
    # Minutes if anything were quadratic; a second or two on a slow machine otherwise.
    assert time.process_time() - begun < 60
