from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import ProgramError
from agent.judge.plan import call_results, wanted_scratch
from agent.task import ArgSpec, OutputSpec, TargetSpec
from tests.agent.judge.conftest import plan

SPEC = TargetSpec(
    "t", "cpu", (ArgSpec("x", "input", "float32", (4,), (1,)),), {},
    (OutputSpec("out", "float32", (4,), (1,)),), 16, 16, 0, "",
)  # fmt: skip


GPU = replace(SPEC, device="cuda")
X, OUT, SCRATCH = {"tensor": "x"}, {"tensor": "out"}, {"tensor": "s"}
MAP = {
    "name": "m", "tensor": "s", "dtype": "float32", "dims": [64], "strides": [], "box": [64],
    "element_strides": [1], "swizzle": "none", "interleave": "none", "l2": "none", "fill": "zero",
}  # fmt: skip


def scratch(name="s", shape=(8,), dtype="float32", zero=False):
    return {"name": name, "dtype": dtype, "shape": list(shape), "zero": zero}


def steps(*items, scratch=(), maps=()):
    return {"scratch": list(scratch), "tensormaps": list(maps), "steps": list(items)}


def kernel(*args, **changes):
    geometry = {"grid": [1, 1, 1], "block": [32, 1, 1], "shared": 0, "cluster": None}
    step = {"kernel": "k", "args": list(args), **geometry, "cooperative": False, **changes}
    return {name: value for name, value in step.items() if value != "left out"}


def call(op, args, to):
    return {"call": op, "args": args, "to": to}


def test_scratch_is_laid_out_as_asked():
    (item,) = wanted_scratch(SPEC, plan("x", "s", "out", scratch=[scratch(shape=(2, 3))]))
    assert (item.shape, item.strides) == ((2, 3), (3, 1))


def test_results_of_library_steps_are_there_from_then_on():
    made = call("reshape", [X, {"value": [2, 2]}], "y")
    square = call("mm", [{"tensor": "y"}, {"tensor": "y"}], "z")
    bound = steps(made, square, kernel({"tensor": "z"}, OUT))
    assert wanted_scratch(GPU, bound) == []
    assert call_results(GPU, bound) == {"y": ("float32", (2, 2)), "z": ("float32", (2, 2))}
    with pytest.raises(ProgramError, match="no tensor z by then"):
        wanted_scratch(GPU, steps(made, kernel({"tensor": "z"}, OUT), square))


def test_neighbours_are_those_of_the_target():
    near = replace(SPEC, sizes={"n": 3})
    spec = replace(SPEC, sizes={"n": 4}, neighbours=(near,))
    bound = plan("x", "out")
    bound["neighbours"] = [{**plan("x", "out"), "sizes": {"n": 3}}]
    assert wanted_scratch(spec, bound) == []
    bound["neighbours"][0]["sizes"] = {"n": 5}
    with pytest.raises(ProgramError, match="neighbouring sizes"):
        wanted_scratch(spec, bound)
    bound["neighbours"] = [{**plan("y", "out"), "sizes": {"n": 3}}]
    with pytest.raises(ProgramError, match="no tensor y"):
        wanted_scratch(spec, bound)


@pytest.mark.parametrize(
    ("bound", "code"),
    [
        (plan("y", "out"), "plan"),
        (plan("x", "out", scratch=[scratch("x")]), "plan"),
        (plan("x", "out", scratch=[scratch(shape=(-1,))]), "plan"),
        (plan("x", "out", scratch=[scratch(shape=(1 << 40,))]), "scratch-size"),
        (plan("x", "out", scratch=[scratch(zero=1)]), "plan"),
        (plan("x", "out", scratch=[scratch(dtype="complex64")]), "plan"),
        (steps(), "plan"),
        ({"scratch": []}, "plan"),
        (steps({"kernel": "k", "args": [{"type": "str", "value": 1}]}), "plan"),
        (steps({"kernel": "k", "args": [{"type": "int64", "value": "1"}]}), "plan"),
        (steps(kernel(X, OUT)), "plan"),
    ],
)
def test_plans_that_name_what_is_not_there_are_refused(bound, code):
    with pytest.raises(ProgramError) as caught:
        wanted_scratch(SPEC, bound)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        (steps(kernel(X, OUT, grid=[-1, 1, 1])), "grid.x is -1"),
        (steps(kernel(X, OUT, grid=[1])), "not as it must be"),
        (steps(kernel(X, OUT, block="left out")), "not as it must be"),
        (steps(kernel(X, OUT, cooperative=1)), "no bool"),
        (steps(kernel({"tensormap": "m"}, OUT)), "no tensor map m"),
        (steps(kernel({"tensormap": "m"}, OUT), maps=[MAP]), "no float32 tensor"),
        (steps(kernel(X, OUT), maps=[MAP]), "no float32 tensor"),
        (steps(kernel(X, OUT), maps=[MAP, MAP], scratch=[scratch()]), "one name"),
        (
            steps(kernel(X, OUT), maps=[{**MAP, "box": [512]}], scratch=[scratch()]),
            "between 1 and 256",
        ),
        (steps(call("exec", [X], "y")), "no library step"),
        (steps(call("mm", [X, {"value": 1}], "y")), "not as it must be"),
        (steps(call("mm", [X], "y")), "1 arguments"),
        (steps(call("mm", [X, X], "y")), "must have 2 and 2 dimensions"),
        (steps(call("matmul", [X, X], "x")), "x is taken"),
        (steps(call("reshape", [X, {"value": [4]}], "out")), "cannot be the output"),
        (steps(call("matmul", [X, X], "out")), "cannot be the output"),
    ],
)
def test_plans_for_the_gpu_are_checked_again(bound, words):
    with pytest.raises(ProgramError, match=words):
        wanted_scratch(GPU, bound)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["x", "mm", "s", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["tensor", "value", "type", "tensormap", "name"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_plan_from_outside_breaks_the_check(data):
    call = {"call": "reshape", "args": [X, {"value": [2, 2]}], "to": "y"}
    bound = steps(call, kernel({"tensormap": "m"}, SCRATCH), maps=[MAP], scratch=[scratch()])
    bound = json.loads(json.dumps(bound))
    place, key = bound, data.draw(st.sampled_from(sorted(bound)))
    while data.draw(st.booleans()):
        inner = place[key]
        if isinstance(inner, dict) and inner:
            place, key = inner, data.draw(st.sampled_from(sorted(inner)))
        elif isinstance(inner, list) and inner:
            place, key = inner, data.draw(st.integers(0, len(inner) - 1))
        else:
            break
    place[key] = data.draw(JSON)
    with contextlib.suppress(ProgramError):
        wanted_scratch(GPU, bound)


def test_a_whole_plan_for_the_gpu_passes():
    bound = steps(
        kernel({"tensormap": "m"}, SCRATCH, OUT), maps=[MAP], scratch=[scratch("s", (64,))]
    )
    assert [item.name for item in wanted_scratch(GPU, bound)] == ["s"]
