"""What all tests share: a data folder of their own, one thread each, GPU tests on a GPU only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

# Tests run side by side; OpenMP threads that wait for a core take ten times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked ``gpu`` where torch sees none; torch is imported only to find out."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder that ``FORGE_HOME`` names."""
    monkeypatch.setenv("FORGE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
