from __future__ import annotations

import pytest

from agent.errors import ProgramError
from agent.judge.plan import wanted_scratch
from agent.task import ArgSpec, OutputSpec, TargetSpec
from tests.agent.judge.conftest import plan

SPEC = TargetSpec(
    "t", "cpu", (ArgSpec("x", "input", "float32", (4,), (1,)),), {},
    (OutputSpec("out", "float32", (4,), (1,)),), 16, 16, 0, "",
)  # fmt: skip


def scratch(name="s", shape=(8,), dtype="float32"):
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def test_scratch_is_laid_out_as_asked():
    (item,) = wanted_scratch(SPEC, plan("x", "s", "out", scratch=[scratch(shape=(2, 3))]))
    assert (item.shape, item.strides) == ((2, 3), (3, 1))


@pytest.mark.parametrize(
    ("bound", "code"),
    [
        (plan("y", "out"), "plan"),
        (plan("x", "out", scratch=[scratch("x")]), "plan"),
        (plan("x", "out", scratch=[scratch(shape=(-1,))]), "plan"),
        (plan("x", "out", scratch=[scratch(shape=(1 << 40,))]), "scratch-size"),
        ({"scratch": [], "launches": []}, "plan"),
        ({"scratch": [], "launches": [{"kernel": "k", "args": [{"type": "str", "value": 1}]}]},
         "plan"),
    ],
)  # fmt: skip
def test_plans_that_name_what_is_not_there_are_refused(bound, code):
    with pytest.raises(ProgramError) as caught:
        wanted_scratch(SPEC, bound)
    assert caught.value.code == code
