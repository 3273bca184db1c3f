from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.redteam.catalogue import TASKS
from tests.redteam.ladder import Ladder

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ladder]:
    made = Ladder(tmp_path_factory.getbasetemp() / "cache", TASKS)
    yield made
    made.judge.close()
