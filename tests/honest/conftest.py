from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from agent.audit.ladder import Ladder

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ladder]:
    made = Ladder("cpu", tmp_path_factory.getbasetemp() / "cache")
    yield made
    made.close()


@pytest.fixture(scope="module")
def gpu_ladder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ladder]:
    os.environ.pop("OMP_NUM_THREADS", None)
    made = Ladder("cuda", tmp_path_factory.getbasetemp() / "cache")
    yield made
    made.close()
