from __future__ import annotations

import re
import runpy

import pytest
import torch

from agent.reference import load
from agent.task import SUITE, open_task, suite_index

NAMES = list(suite_index())
# What eager may be off by, in parts of the largest value: a few roundings of the output.
PRECISION = {"float32": 1e-5, "bfloat16": 2e-2}
DTYPES = {"f32": "float32", "bf16": "bfloat16"}


def written(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def test_index_and_files_match() -> None:
    files = {path.name for path in SUITE.glob("*.py")}
    assert {entry["file"] for entry in suite_index().values()} == files
    assert len(files) == len(NAMES) == 20
    for name, entry in suite_index().items():
        assert set(entry) == {"name", "title", "family", "gpu", "cpu", "file"}, name
        assert all(entry.values())
        assert len(entry["title"]) <= 30


@pytest.mark.parametrize("name", NAMES)
def test_loads_and_is_right_on_the_cpu(name: str) -> None:
    reference = load(open_task(f"suite:{name}", "cpu"))
    spec = reference.spec
    assert spec.name == name
    assert spec.flops == 0
    bytes_moved = spec.read_bytes + spec.write_bytes
    assert bytes_moved < 17 << 20
    assert bytes_moved > 2 << 20 or name == "softmax_decode"
    args = reference.sample(7)
    for eager, exact in zip(reference.function(*args), reference.float64(args), strict=True):
        assert exact.dtype is torch.float64
        error = (eager.double() - exact).abs().max() / exact.abs().max()
        assert error < PRECISION[spec.outputs[0].dtype]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_shapes_are_those_of_the_index(name: str, device: str) -> None:
    entry = suite_index()[name]
    given = runpy.run_path(str(SUITE / entry["file"]))["inputs"](
        "cpu" if device == "cpu" else "meta"
    )
    tensors = given if isinstance(given, tuple) else (given,)
    first = tensors[0]
    if name == "embedding":
        tokens, first = tensors
        rows, table = re.fullmatch(r"bf16 (\d+) of (\S+)", entry[device]).groups()
        assert written(tokens.shape) == rows
        assert written(first.shape) == table
    else:
        assert re.match(rf"\w+ {written(first.shape)}(,|$)", entry[device])
    assert str(first.dtype) == f"torch.{DTYPES[entry[device].split()[0]]}"


def test_gathered_table_counts_the_rows_read() -> None:
    spec = load(open_task("suite:embedding", "cpu")).spec
    tokens, rows = 2048 * 8, 2048 * 1024 * 2
    assert spec.read_bytes == tokens + rows
    assert spec.write_bytes == rows
