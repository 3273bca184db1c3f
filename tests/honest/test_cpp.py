"""No honest C++ program is turned down: other styles than the drafter's, checked and timed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.audit import rows
from agent.audit.ladder import judge_row

if TYPE_CHECKING:
    from agent.audit.ladder import Ladder
    from agent.audit.rows import Row

HONEST = [row for row in rows("cpp") if row.kind == "honest"]


@pytest.mark.parametrize("row", HONEST, ids=[row.name for row in HONEST])
def test_it_passes(ladder: Ladder, row: Row) -> None:
    line = judge_row(ladder, row)
    assert line["ok"], line
