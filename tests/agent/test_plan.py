"""Plans for the GPU and library steps: what is read, in which order, and what does not fit."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import ProgramError
from agent.plan.binding import Bound
from agent.plan.calls import OPERATIONS, result_shape, split_keywords
from agent.program import Program, parse_reply, read_program
from agent.task import ArgSpec, OutputSpec, TargetSpec

FACTS = {"sms": 132, "shared": 232448, "major": 9, "minor": 0, "warp": 32, "name": "a GPU"}


def target(rows: int = 64, **changes: Any) -> TargetSpec:
    x = ArgSpec("x", "input", "bfloat16", (rows, 256), (256, 1))
    w = ArgSpec("w", "weight", "bfloat16", (256, 512), (512, 1))
    out = OutputSpec("out", "bfloat16", (rows, 512), (512, 1))
    size = 2 * rows * 256
    spec = TargetSpec("t", "cuda", (x, w), {"eps": 0.5}, (out,), size, 2 * size, 0, "")
    return replace(spec, **{"sizes": {"rows": rows}, **changes})


def program(plan: str, language: str = "cuda") -> Program:
    return read_program(language, "__global__ void f() {}", plan, "t")


def bind(plan: str, spec: TargetSpec | None = None, **values: int) -> Bound:
    made = program(plan)
    return made.bind(spec or target(), values or made.defaults(), FACTS)


PLAN = """
[tune]
BLOCK = [256, 128]
[[scratch]]
name = "partial"
dtype = "float32"
shape = ["rows", "device.sms"]
zero = true
[[tensormap]]
name = "xmap"
tensor = "x"
box = [64, "BLOCK // 4"]
swizzle = "128B"
[[launch]]
kernel = "f"
args = ["xmap", "partial", "rows", true]
grid = ["ceil_div(partial.shape[0], 2)", "device.sms"]
block = "BLOCK"
shared = "BLOCK * 4 * device.warp"
cluster = 2
[[call]]
op = "mm"
args = ["x", "w"]
to = "y"
[[launch]]
kernel = "g"
args = ["y", "out", "y.shape[1]", "y.numel"]
grid = 8
block = [32, 4, 2]
cooperative = true
"""


def test_a_plan_for_the_gpu_becomes_numbers() -> None:
    made = program(PLAN)
    assert (made.kernels(), made.calls, made.library_only) == (["f", "g"], ["mm"], False)
    bound = bind(PLAN)
    (partial,) = bound.scratch
    assert partial == {"name": "partial", "dtype": "float32", "shape": [64, 132], "zero": True}
    (xmap,) = bound.tensormaps
    assert xmap == {
        "name": "xmap", "tensor": "x", "dtype": "bfloat16", "dims": [256, 64], "strides": [512],
        "box": [64, 64], "element_strides": [1, 1], "swizzle": "128B", "interleave": "none",
        "l2": "none", "fill": "zero",
    }  # fmt: skip
    first, call, last = bound.steps
    assert first["args"] == [
        {"tensormap": "xmap"},
        {"tensor": "partial"},
        {"type": "int64", "value": 64},
        {"type": "int64", "value": 1},
    ]
    assert (first["grid"], first["block"], first["shared"]) == ([32, 132, 1], [256, 1, 1], 32768)
    assert (first["cluster"], first["cooperative"]) == ([2, 1, 1], False)
    assert call == {"call": "mm", "args": [{"tensor": "x"}, {"tensor": "w"}], "to": "y"}
    assert [arg.get("value") for arg in last["args"][2:]] == [512, 64 * 512]
    assert (last["cluster"], last["cooperative"]) == (None, True)
    assert Bound.from_json(bound.to_json()) == bound


def test_neighbouring_sizes_are_bound_with_their_own_numbers() -> None:
    spec = target(64, neighbours=(target(1), target(100)))
    bound = bind(PLAN.replace("cluster = 2\n", ""), spec)
    assert [near["sizes"]["rows"] for near in bound.neighbours] == [1, 100]
    assert [near["steps"][0]["grid"][0] for near in bound.neighbours] == [1, 50]
    assert "neighbours" not in bound.neighbours[0]
    with pytest.raises(ProgramError, match=r"at rows=1: f: grid .* not a multiple of cluster"):
        bind(PLAN, spec)


LAUNCH = '[[launch]]\nkernel = "f"\nargs = ["out"]\ngrid = 1\nblock = 32\n'
CALL = '[[call]]\nop = "mm"\nargs = ["x", "w"]\nto = "{to}"\n'


def kinds(made: Program) -> str:
    return "".join("c" if hasattr(step, "op") else "l" for step in made.steps)


@pytest.mark.parametrize("order", ["lc", "cl", "llccl", "clcl", "c", "l"])
@pytest.mark.parametrize(
    "noise",
    [
        "",
        "'x',",
        "'''\n[[call]]\n''',",
        "'''\n[[call]]\n''''',",
        '"""\n[[launch]]\\"""\n[[call]]\n"" """",',
        '"a\\"", \'[[launch]]\', """\n[[call]]""",',
        '\'"\', # """\n# [[call]]\n\n',
        '"[[call]]",\n"""\\\\""",\n',
    ],
)
def test_the_order_of_steps_is_that_of_their_headers(order: str, noise: str) -> None:
    text = ""
    for at, kind in enumerate(order):
        step = LAUNCH if kind == "l" else CALL.format(to=f"y{at}")
        text += step.replace("args = [", f"# [[call]]\nargs = [\n{noise}\n")
    assert kinds(program(text)) == order


def test_names_in_texts_do_not_move_steps() -> None:
    text = f"{CALL.format(to='y')}{LAUNCH}".replace('"out"', "'''\n[[call]]\n[[launch]]\n'''", 1)
    assert kinds(program(text)) == "cl"
    inline = 'launch = [{kernel = "f", args = ["out"], grid = 1, block = 1}]\n'
    assert kinds(program(inline)) == "l"
    with pytest.raises(ProgramError, match="its own header"):
        program(inline + CALL.format(to="y"))


def test_order_is_part_of_what_a_program_is() -> None:
    one, other = LAUNCH + CALL.format(to="y"), CALL.format(to="y") + LAUNCH
    assert program(one).key != program(other).key
    assert program(one).key == program(one + "# so\n").key


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ('grid = 1', 'wants grid'),
        ('block = 32', 'wants block'),
    ],
)  # fmt: skip
def test_a_launch_on_the_gpu_has_a_grid_and_a_block(change: str, words: str) -> None:
    with pytest.raises(ProgramError, match=words):
        program(LAUNCH.replace(change + "\n", ""))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("grid = 1", "grid = -1", "grid.x is -1"),
        ("grid = 1", "grid = [1, 65536]", "grid.y is 65536"),
        ("grid = 1", "grid = [1, 1, 1, 1]", "one to three"),
        ("grid = 1", "grid = []", "one to three"),
        ("grid = 1", "grid = 1.5", "one to three"),
        ("block = 32", "block = 2048", "between 1 and 1024"),
        ("block = 32", "block = [32, 64]", "2048 threads"),
        ("block = 32", "block = [1, 1, 128]", "block.z is 128"),
        ("block = 32", "block = 32\nshared = 300000", "this GPU has 232448"),
        ("block = 32", "block = 32\nshared = -1", "dynamic shared"),
        ("block = 32", "block = 32\nshared = []", "shared is"),
        ("block = 32", "block = 32\ncooperative = 1", "true or false"),
        ("grid = 1", "grid = 16\ncluster = 16", "not portable"),
        ("grid = 1", "grid = 9\ncluster = 2", "not a multiple of cluster"),
        ("grid = 1", "grid = 100000\ncooperative = true", "all at once"),
        ("block = 32", "block = 32\nstream = 1", "wants kernel and args"),
    ],
)
def test_launches_that_no_gpu_takes_are_refused(old: str, new: str, words: str) -> None:
    with pytest.raises(ProgramError, match=words):
        bind(LAUNCH.replace(old, new))


def test_clusters_need_the_hardware() -> None:
    made = program(LAUNCH + "cluster = 1\n")
    with pytest.raises(ProgramError, match="compute capability"):
        made.bind(target(), {}, {**FACTS, "major": 8})


MAP = '[[tensormap]]\nname = "m"\ntensor = "x"\nbox = [64, 64]\n' + LAUNCH.replace(
    '["out"]', '["m", "out"]'
)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"m"\ntensor', '"x"\ntensor', "has a tensor's name"),
        ('tensor = "x"', 'tensor = "q"', "no argument, output or scratch q"),
        ("[64, 64]", "[64, 257]", "between 1 and 256"),
        ("[64, 64]", "[64]", "want 1 strides, 2 box sizes"),
        ("[64, 64]", "[3, 64]", "no multiple of 16"),
        ("[64, 64]", '[128, 64]\nswizzle = "128B"', "swizzle 128B allows 128"),
        ("[64, 64]", '[64, 64]\nswizzle = "96B"', "swizzle is one of"),
        ("[64, 64]", "[64, 64]\nelement_strides = [1, 9]", "between 1 and 8"),
        ("[64, 64]", "[64, 64]\nstrides = [24]", "multiples of 16"),
        ("[64, 64]", "[64, 64]\ndims = [256, 65]", "reach 33280 bytes; x has 32768"),
        ("[64, 64]", '[64, 64]\ninterleave = "16B"', "3 dimensions"),
        ('tensor = "x"', 'tensor = "y"', "result of a library step"),
        ("[64, 64]", "[64, 64]\nkeep = 1", "wants name, tensor, box"),
        ("[64, 64]", '[64, 64]\nfill = "one"', "fill is one of"),
    ],
)
def test_tensor_maps_that_the_driver_refuses_are_refused_in_words(
    old: str, new: str, words: str
) -> None:
    plan = CALL.format(to="y") + MAP
    bind(plan)
    with pytest.raises(ProgramError, match=words):
        bind(plan.replace(old, new))


def test_a_tensor_map_needs_an_aligned_tensor_whose_rows_are_whole() -> None:
    x, w = target().args
    for changed, words in (
        (replace(x, alignment=8), "needs 16"),
        (replace(x, strides=(1, 64)), "innermost stride"),
    ):
        with pytest.raises(ProgramError, match=words):
            bind(MAP, target(args=(changed, w)))
    one = ArgSpec("x", "input", "float32", (4096,), (1,))
    bound = bind(MAP.replace("[64, 64]", "[64]"), target(args=(one, w)))
    assert (bound.tensormaps[0]["dims"], bound.tensormaps[0]["strides"]) == ([4096], [])


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (CALL.format(to="x"), "name x is taken"),
        ('[[call]]\nop = "mm"\nargs = ["x", "x"]\nto = "out"', "do not fit: 256 is not 64"),
        ('[[call]]\nop = "mm"\nargs = ["x"]\nto = "out"', "takes a, b"),
        ('[[call]]\nop = "mm"\nargs = ["x", "q"]\nto = "out"', "no tensor q by then"),
        ('[[call]]\nop = "mm"\nargs = ["y", "w"]\nto = "z"\n' + CALL.format(to="y"), "no tensor y"),
        ('[[call]]\nop = "relu_"\nargs = ["x"]\nto = "out"', "no such library step"),
        ('[[call]]\nop = "reshape"\nargs = ["x", [-1, 512]]\nto = "out"', "cannot be a view"),
        ('[[call]]\nop = "transpose"\nargs = ["x", 0, 2]\nto = "y"', "no dimensions"),
        ('[[call]]\nop = "linear"\nargs = ["x", "x"]\nto = "out"', "the output out is"),
        ('[[call]]\nop = "mm"\nargs = ["x", {a = 1}]\nto = "out"', "of no known kind"),
        ('[[call]]\nop = "addmm"\nargs = ["x", "x", "w", [1]]\nto = "out"', "one value, not a"),
        (
            '[[call]]\nop = "scaled_dot_product_attention"\n'
            'args = ["x", "x", "x", "none", 0.5]\nto = "y"',
            "must be 0: a random",
        ),
        (MAP.replace('"x"', '"out"') + CALL.format(to="out"), "taken"),
        (
            MAP.replace('"x"', '"out"').replace('"m", ', "") + CALL.format(to="out"),
            "taken",
        ),
        (
            MAP.replace('"x"', '"out"').replace('"m", "out"', "") + CALL.format(to="out"),
            "cannot have a tensor map",
        ),
        (LAUNCH.replace('"out"', '"w"'), "no launch is given the output out"),
    ],
)
def test_library_steps_that_do_not_fit_are_refused(plan: str, words: str) -> None:
    with pytest.raises(ProgramError, match=words):
        bind(plan)


def test_a_program_of_library_steps_alone_is_known_as_one() -> None:
    made = program(CALL.format(to="out"))
    assert made.library_only
    assert made.kernels() == []
    assert made.bind(target(), {}, FACTS).steps[0]["to"] == "out"


def test_what_the_target_changes_in_place_must_be_given() -> None:
    x, w = target().args
    spec = target(args=(replace(x, mutated=True), w))
    with pytest.raises(ProgramError, match="given x, which the target changes"):
        bind(LAUNCH, spec)
    bind(LAUNCH.replace('"out"', '"out", "x"'), spec)


def test_the_fence_says_the_language_where_nobody_else_does() -> None:
    def reply(label: str, plan: str) -> str:
        return f"Idea\n```{label}\n__global__ void f() {{}}\n```\n```toml\n{plan}\n```\n"

    for label in ("cuda", "cu", "CUDA", "cuda-cpp"):
        assert parse_reply(reply(label, LAUNCH), None).language == "cuda"
    assert parse_reply(reply("cpp", LAUNCH), "cuda").language == "cuda"
    plain = '[[launch]]\nkernel = "f"\nargs = []'
    assert parse_reply(reply("c++", plain), None).language == "cpp"
    both = reply("cuda", LAUNCH) + "\nEarlier:\n```cpp\nvoid g();\n```\n"
    assert "__global__" in parse_reply(both, "cuda").source
    with pytest.raises(ProgramError, match="has 0 and 1"):
        parse_reply(reply("cuda", plain), "cpp")
    with pytest.raises(ProgramError, match="no language"):
        read_program("fortran", "", plain, "t")


CALLS: list[tuple[str, list[Any]]] = [
    ("mm", [(3, 4), (4, 5)]),
    ("bmm", [(2, 3, 4), (2, 4, 5)]),
    ("mv", [(3, 4), (4,)]),
    ("addmm", [(5,), (3, 4), (4, 5), 0.5, 2.0]),
    ("addmv", [(3,), (3, 4), (4,)]),
    ("baddbmm", [(2, 1, 5), (2, 3, 4), (2, 4, 5), 1.0]),
    ("matmul", [(4,), (4,)]),
    ("matmul", [(6, 1, 3, 4), (2, 4, 5)]),
    ("matmul", [(2, 3, 4), (4,)]),
    ("linear", [(2, 3, 4), (5, 4), (5,)]),
    ("linear", [(4,), (5, 4)]),
    ("conv1d", [(2, 3, 9), (4, 3, 3), None, [2], [1]]),
    ("conv2d", [(2, 4, 9, 8), (6, 2, 3, 1), (6,), [2, 1], [1, 0], [1], 2]),
    ("conv3d", [(1, 2, 5, 6, 7), (3, 2, 2, 3, 3)]),
    ("conv_transpose1d", [(2, 4, 9), (4, 3, 3), None, [2], [1], [1], 2]),
    ("conv_transpose2d", [(2, 4, 9, 8), (4, 3, 3, 2), None, [2, 1], [1], [1, 0], 1, [2]]),
    ("conv_transpose3d", [(1, 2, 3, 4, 5), (2, 3, 2, 2, 2)]),
    ("convolution", [(2, 4, 9), (6, 4, 3), None, [2], [1], [1], False, [0], 1]),
    ("convolution", [(2, 4, 9), (4, 6, 3), None, [2], [1], [1], True, [1], 1]),
    ("scaled_dot_product_attention",
     [(2, 4, 7, 8), (2, 4, 9, 8), (2, 4, 9, 5), None, 0.0, True, 0.25]),
    ("scaled_dot_product_attention",
     [(1, 4, 7, 8), (1, 2, 9, 8), (1, 2, 9, 8), None, 0.0, False, None, True]),
    ("reshape", [(2, 6), [3, -1]]),
    ("permute", [(2, 3, 4), [2, 0, -2]]),
    ("transpose", [(2, 3, 4), 0, -1]),
]  # fmt: skip


@pytest.mark.parametrize(("op", "values"), CALLS, ids=[op for op, _ in CALLS])
def test_shapes_of_library_steps_are_those_that_torch_gives(op: str, values: list[Any]) -> None:
    given = [torch.randn(v) if isinstance(v, tuple) else v for v in values]
    args, keywords = split_keywords(op, given)
    got = getattr(torch.ops.aten, op)(*args, **keywords)
    assert tuple(got.shape) == result_shape(op, values)


def test_every_library_step_is_one_of_torch_that_changes_nothing() -> None:
    assert {op for op, _ in CALLS} == OPERATIONS.keys()
    for op, operation in OPERATIONS.items():
        packet = getattr(torch.ops.aten, op)
        schemas = [getattr(packet, name)._schema for name in packet.overloads()]
        assert not schemas[0].is_mutable
        names = [arg.name for arg in schemas[0].arguments]
        assert len(names) == len(operation.params)
        kept = [arg.name for arg in schemas[0].arguments if arg.kwarg_only]
        assert len(kept) == operation.keywords
        assert kept == [name for name, _ in operation.params][len(names) - len(kept) :]


@pytest.mark.parametrize(
    ("op", "values"),
    [
        ("matmul", [(), (4,)]),
        ("matmul", [(2, 3, 4), (3, 4, 5)]),
        ("bmm", [(2, 3, 4), (3, 4, 5)]),
        ("addmm", [(7,), (3, 4), (4, 5)]),
        ("conv2d", [(2, 3, 9), (4, 3, 3)]),
        ("conv1d", [(2, 3, 2), (4, 3, 3)]),
        ("conv1d", [(2, 2, 9), (4, 3, 3)]),
        ("conv2d", [(2, 3, 9, 9), (4, 3, 3, 3), None, [1, 1, 1]]),
        ("conv1d", [(2, 3, 9), (4, 3, 3), None, [0]]),
        ("scaled_dot_product_attention", [(2, 8), (2, 9), (2, 8)]),
        ("reshape", [(2, 6), [-1, -1]]),
        ("reshape", [(2, 6), [5, -1]]),
        ("permute", [(2, 6), [0, 0]]),
        ("conv_transpose1d", [(2, 4, 1), (4, 3, 1), None, [1], [4]]),
    ],
)
def test_misfits_are_refused_as_torch_refuses_them(op: str, values: list[Any]) -> None:
    with pytest.raises(ProgramError, match=op):
        result_shape(op, values)
    given = [torch.randn(v) if isinstance(v, tuple) else v for v in values]
    with pytest.raises((RuntimeError, IndexError)):
        getattr(torch.ops.aten, op)(*given)


@settings(max_examples=200)
@given(st.text(max_size=200), st.sampled_from(["grid", "shared", "cluster", "block"]))
def test_no_text_in_a_launch_escapes_the_binder(text: str, entry: str) -> None:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    plan = LAUNCH.replace(f"{entry} = ", "# ") + f'{entry} = "{quoted}"\n'
    with contextlib.suppress(ProgramError):
        (step,) = bind(plan).steps
        assert step["block"][0] >= 1


@given(st.lists(st.sampled_from("lc"), min_size=1, max_size=12), st.data())
def test_any_mixture_of_steps_keeps_its_order(order: list[str], data: st.DataObject) -> None:
    fillers = st.sampled_from(["", "\n", "# [[launch]]\n", " \n"])
    text = "".join(
        data.draw(fillers) + (LAUNCH if kind == "l" else CALL.format(to=f"y{at}"))
        for at, kind in enumerate(order)
    )
    assert kinds(program(text)) == "".join(order)
