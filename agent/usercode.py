"""Runs a task's text, and keeps what goes wrong in it apart from what goes wrong in ours."""

from __future__ import annotations

import contextlib
import linecache
import os
import signal
import sys
import threading
import time
import traceback
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from agent import settings
from agent.errors import TaskError, describe
from agent.taskfile import resized

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agent.task import TaskSource


MAX_SECONDS = 60


@contextlib.contextmanager
def user_code(source: TaskSource, doing: str) -> Iterator[None]:
    """Turn whatever the user's code raises into a TaskError that names the line of their file.

    The same for code that does not end, and for code that changes a setting of PyTorch for the
    whole process: other tasks and the times of eager would depend on it.
    """
    before, folder, process = settings.snapshot(), os.getcwd(), os.getpid()
    grad = torch.is_grad_enabled()
    try:
        with _time_limit():
            yield
            _finish(source)
        if name := settings.changed(before, settings.snapshot()):
            settings.put_back(before)
            raise TaskError(
                f"{doing} changes a setting of PyTorch for the whole process: {name}",
                "leave it out; say dtype= and device= where tensors are made",
                code="task-settings",
            )
    except TaskError:
        raise
    except _Endless as error:
        settings.put_back(before)
        line = _line(error, _filename(source))
        raise TaskError(
            f"line {line}: {doing} took longer than {MAX_SECONDS} s",
            "make it end, or use smaller tensors",
            code="task-endless",
            evidence={"line": line},
        ) from None
    except torch.OutOfMemoryError:
        settings.put_back(before)
        raise out_of_memory(doing) from None
    except BaseException as error:  # noqa: BLE001 - a border: their code, any error
        settings.put_back(before)
        line = _line(error, _filename(source))
        where = f"line {line}: " if line else ""
        kind = type(error).__name__[:80]
        raise TaskError(
            f"{where}{doing} raised {describe(error)}",
            "run the file by itself with Python, and correct it",
            code="task-raises",
            evidence={"line": line, "error": kind} | _sticky(source),
        ) from None
    finally:
        torch.set_grad_enabled(grad)  # off in many files, and of no harm there
        if os.getpid() != process:
            os._exit(1)  # the code forked: one of us is enough
        with contextlib.suppress(OSError):
            os.chdir(folder)


def out_of_memory(doing: str) -> TaskError:
    """The error for a GPU whose memory does not suffice."""
    return TaskError(
        f"{doing} ran out of GPU memory",
        "use smaller tensors, or a GPU with more memory free",
        code="task-memory",
    )


def _finish(source: TaskSource) -> None:
    """Wait for what the GPU still has to do, so that its errors come up where they belong."""
    if source.device == "cuda" and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _sticky(source: TaskSource) -> dict[str, bool]:
    """``{"sticky": True}`` if the error has broken this process's use of the GPU for good."""
    try:
        _finish(source)
    except RuntimeError:
        return {"sticky": True}
    return {}


class _Endless(BaseException):
    """The user's code ran past its time."""


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    """Raise _Endless in the user's code after MAX_SECONDS; in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: object) -> None:
        raise _Endless

    handler = signal.signal(signal.SIGALRM, ring)
    started = time.monotonic()
    left, _ = signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)
    try:
        yield
    finally:
        spent = time.monotonic() - started
        signal.setitimer(signal.ITIMER_REAL, max(0.001, left - spent) if left else 0)
        signal.signal(signal.SIGALRM, handler)


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


def execute(source: TaskSource, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Run the text as a module, with other numbers for these names of its top level; its names."""
    filename = _filename(source)
    # Tracebacks and inspect.getsource must show the text that ran, not today's file.
    linecache.cache[filename] = (len(source.text), None, source.text.splitlines(True), filename)
    module = types.ModuleType(f"task_{source.sha[:16]}")
    module.__file__ = filename
    sys.modules[module.__name__] = module  # dataclasses and pickling look their module up
    code = resized(source.text, filename, sizes) if sizes else source.text
    exec(compile(code, filename, "exec"), module.__dict__)
    return module.__dict__


def _line(error: BaseException, filename: str) -> int:
    """The last line of the user's file on the way to the error; 0 if none."""
    if isinstance(error, SyntaxError) and error.filename == filename:
        return error.lineno or 0
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == filename]
    return lines[-1] if lines else 0
