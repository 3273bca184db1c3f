"""Every C++ cheat of the audit, by the real way: it must fall, and where is part of the promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.audit import rows
from agent.audit.ladder import judge_row

if TYPE_CHECKING:
    from agent.audit.ladder import Ladder
    from agent.audit.rows import Row

CHEATS = [row for row in rows("cpp") if row.kind == "cheat"]


@pytest.mark.parametrize("row", CHEATS, ids=[row.name for row in CHEATS])
def test_it_falls_where_it_must(ladder: Ladder, row: Row) -> None:
    line = judge_row(ladder, row)
    assert line["ok"], line
    assert all(char.isprintable() for char in line["message"])
