"""What both builders share: folders that appear whole, keys by content, names that are plain."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@contextlib.contextmanager
def making(cache: Path) -> Iterator[Path]:
    """A new folder in ``cache`` to build in; gone afterwards, unless it was renamed."""
    folder = Path(tempfile.mkdtemp(prefix="making-", dir=cache))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(cache: Path) -> None:
    """Remove what builders that were killed left behind, once it is an hour old."""
    for folder in cache.glob("making-*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - folder.stat().st_mtime > 3600:
                shutil.rmtree(folder, ignore_errors=True)


def content_key(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def check_names(values: Mapping[str, int], kernels: Sequence[str]) -> None:
    """Refuse tunables and kernel names that could be more than names and numbers.

    Raises:
        BuildError: ``tunable``, ``no-kernel``; rung ``read``.
    """
    for name, value in values.items():
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", name) or "__" in name:
            raise BuildError(
                f"{name[:40]!r} cannot be a tunable's name",
                "use capital letters, digits and single underscores",
                code="tunable",
                evidence={"rung": "read", "log": f"error: tunable {name[:40]!r}"},
            )
        if not isinstance(value, int):
            raise BuildError(
                f"the value of {name} is not an integer",
                "tunables are integers",
                code="tunable",
                evidence={"rung": "read", "log": f"error: value of {name}"},
            )
    for name in kernels:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,127}", name):
            raise BuildError(
                f"{name[:40]!r} cannot be a kernel's name",
                "use letters, digits and underscores",
                code="no-kernel",
                evidence={"rung": "read", "log": f"error: kernel {name[:40]!r}"},
            )
