"""Random chains of pointwise operations, layouts and reductions agree with PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agent.writers.drafter import Schedule

from .harness import build, faults, reference, write

if TYPE_CHECKING:
    from pathlib import Path

SCHEDULES = [
    Schedule(),
    Schedule(passes="one", keep="row", vector="lanes", divide="exact"),
    Schedule(launches="chunks", passes="one", store="stream"),
    Schedule(keep="output", threads="dynamic"),
]
SMALL = {"CHUNK": 8, "BLOCK": 8, "LANES": 4, "WIDTH": 4, "TASK": 2}
UNARY = [
    "{a}.tanh()", "{a}.sigmoid()", "F.relu({a})", "{a} * 0.5 + 1", "-{a}", "{a}.abs()",
    "1 / (1 + {a} * {a})", "{a}.clamp(-3, 3).exp()", "({a} * {a} + 0.5).sqrt()", "F.silu({a})",
    "(1 + {a}.abs()).log()", "{a}.float()", "F.gelu({a})",
]  # fmt: skip
BINARY = ["{a} + {b}", "{a} * {b}", "{a} - {b}", "torch.maximum({a}, {b})", "{a} / (2 + {b}.abs())"]
REDUCE = [
    "{a}.sum({d}, keepdim=True)", "{a}.mean({d}, keepdim=True)", "{a}.amax({d}, keepdim=True)",
    "{a}.var({d}, keepdim=True, correction=0)", "torch.softmax({a}, {d})",
    "{a}.float().logsumexp({d}, keepdim=True)", "{a} - {a}.mean({d}, keepdim=True)",
]  # fmt: skip
LAYOUT = [
    "{a}.flip(-1)", "torch.cat(({a}, -{a}), -1)[..., ::2]", "{a}.transpose(0, -1)",
    "{a}.reshape({a}.shape[0], -1)", "{a}.unsqueeze(1)", "{a}[..., 1:] * {a}[..., :-1]",
]  # fmt: skip
SHAPES = ["(3, 10)", "(2, 3, 8)", "(1, 17)", "(5, 2)", "(2, 2, 3, 4)"]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[str, str]:
    """The text of a reference, and its inputs."""
    shape, dtype = draw(st.sampled_from(SHAPES)), draw(st.sampled_from(["float", "bfloat16"]))
    lines = ["def reference(x, w):", "    v0 = x * w"]
    count = draw(st.integers(2, 6))
    for place in range(1, count + 1):
        a, b = (f"v{draw(st.integers(max(0, place - 3), place - 1))}" for _ in range(2))
        kind = draw(st.sampled_from([UNARY, UNARY, BINARY, REDUCE, REDUCE, LAYOUT]))
        step = draw(st.sampled_from(kind)).format(a=a, b=b, d=draw(st.sampled_from([-1, 0])))
        if kind is BINARY:
            # Shapes that do not fit fall back to one operand.
            step = f"({step}) if {a}.shape == {b}.shape else {a} * 1.5"
        lines.append(f"    v{place} = {step}")
    lines.append(f"    return v{count}.contiguous() + 0, v{count - 1}.abs().sum()")
    inputs = f"(torch.randn{shape}.{dtype}(), torch.randn({shape}[-1]).{dtype}())"
    return "\n".join(lines), inputs


@pytest.mark.filterwarnings("ignore::hypothesis.errors.NonInteractiveExampleWarning")
@settings(
    max_examples=4,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(graphs(), min_size=8, max_size=8, unique=True))
def test_random_graphs(
    tmp_path_factory: pytest.TempPathFactory, texts: list[tuple[str, str]]
) -> None:
    folder: Path = tmp_path_factory.mktemp("graphs")
    written = []
    for number, (body, inputs) in enumerate(texts):
        ref = reference(body, inputs, f"graph{number}")
        written += write(ref, SCHEDULES, **SMALL)
    for one in build(written, folder):
        number = int(one.reference.spec.name.removeprefix("graph"))
        assert not faults(one, one.reference.sample(1)), texts[number][0]
