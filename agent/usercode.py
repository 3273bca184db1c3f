"""Runs a task's text, and keeps what goes wrong in it apart from what goes wrong in ours."""

from __future__ import annotations

import contextlib
import linecache
import sys
import traceback
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import TaskError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.task import TaskSource


@contextlib.contextmanager
def user_code(source: TaskSource, doing: str) -> Iterator[None]:
    """Turn whatever the user's code raises into a TaskError that names the line of their file."""
    try:
        yield
    except TaskError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a border: their code, any error
        line = _line(error, _filename(source))
        where = f"line {line}: " if line else ""
        kind = type(error).__name__
        raise TaskError(
            f"{where}{doing} raised {kind}: {one_line(str(error))}",
            "run the file by itself with Python, and correct it",
            code="task-raises",
            evidence={"line": line, "error": kind},
        ) from None


def one_line(text: str, limit: int = 300) -> str:
    """Hostile text for a message: one line, no control codes, bounded."""
    clean = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * limit]).split())
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def _filename(source: TaskSource) -> str:
    return source.path or f"<{source.name}>"


@contextlib.contextmanager
def importable(source: TaskSource) -> Iterator[None]:
    """The file's folder first on sys.path, for as long as the file is being loaded."""
    folder = str(Path(source.path).parent) if source.path else ""
    if not folder or not Path(folder).is_dir():
        yield
        return
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def execute(source: TaskSource) -> dict[str, Any]:
    """Run the text as a module; its names."""
    filename = _filename(source)
    # Tracebacks and inspect.getsource must show the text that ran, not today's file.
    linecache.cache[filename] = (len(source.text), None, source.text.splitlines(True), filename)
    module = types.ModuleType(f"task_{source.sha[:16]}")
    module.__file__ = filename
    sys.modules[module.__name__] = module  # dataclasses and pickling look their module up
    exec(compile(source.text, filename, "exec"), module.__dict__)
    return module.__dict__


def _line(error: BaseException, filename: str) -> int:
    """The last line of the user's file on the way to the error; 0 if none."""
    if isinstance(error, SyntaxError) and error.filename == filename:
        return error.lineno or 0
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == filename]
    return lines[-1] if lines else 0
