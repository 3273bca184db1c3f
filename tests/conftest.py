"""What all tests share: a data folder of their own, and one thread each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

# Tests run side by side; OpenMP threads that wait for a core take ten times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder that ``FORGE_HOME`` names."""
    monkeypatch.setenv("FORGE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
