"""Every CUDA cheat: those that reading or building must catch fall without a GPU, all with one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.audit import rows
from agent.audit.building import BOMB_SECONDS, Builder
from agent.audit.ladder import judge_row
from agent.audit.targets import TASKS
from agent.devices import open_device
from agent.errors import BuildError, ProgramError
from agent.program import parse_reply
from agent.reference import load
from agent.task import TaskSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agent.audit.ladder import Ladder
    from agent.audit.rows import Row
    from agent.task import TargetSpec

pytest.importorskip("cuda.core")

ARCH = "sm_90a"
CHEATS = [row for row in rows("cuda") if row.kind == "cheat"]
EARLY = [row for row in CHEATS if set(row.rungs) <= {"read", "build"}]


class Early:
    """The rungs that need no GPU."""

    def __init__(self, cache: Path) -> None:
        self._builder = Builder("cuda", cache, ARCH)
        self._facts = open_device("cuda", ARCH).facts()
        self._specs: dict[str, TargetSpec] = {}

    def close(self) -> None:
        self._builder.close()

    def fall(self, row: Row) -> tuple[str, str, str]:
        """Rung, code and message; all empty if it would be run."""
        if row.target not in self._specs:
            task = TaskSource("plain", row.target, "", TASKS[row.target], "cpu")
            self._specs[row.target] = load(task).spec
        try:
            program = parse_reply(row.text, "cuda")
            program.bind(self._specs[row.target], program.defaults(), self._facts)
            if program.kernels():
                self._builder.build(program, BOMB_SECONDS if row.trick == "bombs" else 60.0)
        except ProgramError as error:
            return "read", error.code, error.message
        except BuildError as error:
            return str(error.evidence["rung"]), error.code, error.message
        return "", "", ""


@pytest.fixture(scope="module")
def early(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Early]:
    made = Early(tmp_path_factory.getbasetemp() / "cuda-cache")
    yield made
    made.close()


@pytest.mark.parametrize("row", EARLY, ids=[row.name for row in EARLY])
def test_it_falls_before_it_runs(early: Early, row: Row) -> None:
    rung, code, message = early.fall(row)
    assert rung in row.rungs, (code, message)
    assert not row.codes or code in row.codes, message
    assert all(char.isprintable() for char in message)


@pytest.mark.gpu
@pytest.mark.parametrize("row", CHEATS, ids=[row.name for row in CHEATS])
def test_it_falls_where_it_must(gpu_ladder: Ladder, row: Row) -> None:
    if row.needs > gpu_ladder.level:
        pytest.skip(f"needs compute capability {row.needs / 10}")
    line = judge_row(gpu_ladder, row)
    assert line["ok"], line
