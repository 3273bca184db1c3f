"""Fixtures of the screen's tests: a told session, and a stand-in for the engine."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from store.writing import SessionWriter
from tests.forge_tui.saga import Saga, told

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
FAKE = Path(__file__).with_name("fake_engine.py")


@pytest.fixture(scope="session")
def saga_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The saga's file, told once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORGE_HOME", str(tmp_path_factory.mktemp("saga")))
        made = told()
        made.close()
    return made.path


@pytest.fixture
def saga(home: Path, saga_file: Path) -> Iterator[Saga]:
    """Forty nodes over three targets; this process is the engine."""
    path = home / "sessions" / saga_file.name
    path.parent.mkdir(parents=True)
    shutil.copyfile(saga_file, path)
    made = Saga(path, SessionWriter(path), clock_s=76.2)
    made.writer.active_us = 76_200_000
    made.writer.beat(4242, {"stage": "timing"}, {})
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a stand-in engine's process find the tests."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("NO_COLOR", raising=False)


def engine(mode: str) -> tuple[str, ...]:
    return (sys.executable, str(FAKE), mode)


def environment(home: Path, **more: str) -> dict[str, str]:
    """For a real process of ours."""
    return {**os.environ, "FORGE_HOME": str(home), "PYTHONPATH": str(ROOT), **more}
