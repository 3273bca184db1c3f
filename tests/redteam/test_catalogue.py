"""Every cheat of the catalogue, by the real way: it must fall, and where is part of the promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.redteam.catalogue import ROWS_OF_ALL, text_of

if TYPE_CHECKING:
    from tests.redteam.ladder import Ladder


@pytest.mark.parametrize(("name", "task", "source", "rung", "codes"), ROWS_OF_ALL,
                         ids=[row[0] for row in ROWS_OF_ALL])  # fmt: skip
def test_it_falls_where_it_must(
    ladder: Ladder, name: str, task: str, source: str, rung: str, codes: set[str]
) -> None:
    timed = rung in ("measure", "passed")
    fell, code, message = ladder.climb(task, text_of(source, task), timed=timed)
    assert fell in rung.split("|"), (code, message)
    assert code in (codes or {""}), message
    assert len(message) < 1000
    assert all(char.isprintable() for char in message)


def test_names_are_unique() -> None:
    names = [row[0] for row in ROWS_OF_ALL]
    assert len(names) == len(set(names))
