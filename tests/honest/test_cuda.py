"""No honest CUDA program is turned down: each compiles for every GPU, and passes on one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.audit import rows
from agent.audit.ladder import judge_row
from agent.devices import open_device
from agent.program import parse_reply

if TYPE_CHECKING:
    from pathlib import Path

    from agent.audit.ladder import Ladder
    from agent.audit.rows import Row

pytest.importorskip("cuda.core")

HONEST = [row for row in rows("cuda") if row.kind == "honest"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp() / "cuda-cache"


@pytest.fixture(scope="module")
def newest() -> str:
    from cuda.bindings import nvrtc

    error, arches = nvrtc.nvrtcGetSupportedArchs()
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS
    return f"sm_{max(arches)}a"


@pytest.mark.parametrize("row", HONEST, ids=[row.name for row in HONEST])
def test_it_compiles(row: Row, cache: Path, newest: str) -> None:
    program = parse_reply(row.text, "cuda")
    for arch in ["sm_80", "sm_90a", newest]:
        device = open_device("cuda", arch)
        if row.needs <= 10 * device.facts()["major"] + device.facts()["minor"]:
            device.build(program.source, program.defaults(), program.kernels(), cache)


@pytest.mark.gpu
@pytest.mark.parametrize("row", HONEST, ids=[row.name for row in HONEST])
def test_it_passes(gpu_ladder: Ladder, row: Row) -> None:
    if row.needs > gpu_ladder.level:
        pytest.skip(f"needs compute capability {row.needs / 10}")
    line = judge_row(gpu_ladder, row)
    assert line["ok"], line
