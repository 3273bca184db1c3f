"""No honest program is turned down: other styles than the drafter's, checked and timed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.honest.programs import PROGRAMS, TASKS
from tests.redteam.ladder import INCLUDES, Ladder, reply

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ladder]:
    made = Ladder(tmp_path_factory.getbasetemp() / "cache", TASKS)
    yield made
    made.judge.close()


@pytest.mark.parametrize(("name", "task", "source", "plan"), PROGRAMS,
                         ids=[row[0] for row in PROGRAMS])  # fmt: skip
def test_it_passes(honest: Ladder, name: str, task: str, source: str, plan: str) -> None:
    assert honest.climb(task, reply(INCLUDES + source, plan), timed=True) == ("passed", "", "")
