from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from agent.audit import rows
from agent.audit.ladder import Ladder

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ladder]:
    # A cheat that is right takes as long as an honest program: its times are not looked at.
    made = Ladder("cpu", tmp_path_factory.getbasetemp() / "cache", rows("cpp"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def gpu_ladder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ladder]:
    os.environ.pop("OMP_NUM_THREADS", None)
    made = Ladder("cuda", tmp_path_factory.getbasetemp() / "cache", rows("cuda"))
    yield made
    made.close()
