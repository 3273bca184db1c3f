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

from agent.errors import TaskError, describe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.task import TaskSource


MAX_SECONDS = 60


@contextlib.contextmanager
def user_code(source: TaskSource, doing: str) -> Iterator[None]:
    """Turn whatever the user's code raises into a TaskError that names the line of their file.

    The same for code that does not end, and for code that changes a setting of PyTorch for the
    whole process: other tasks and the times of eager would depend on it.
    """
    before, folder, process = _settings(), os.getcwd(), os.getpid()
    try:
        with _time_limit():
            yield
        if changed := [name for name, value in _settings().items() if before[name] != value]:
            _put_back(before)
            raise TaskError(
                f"{doing} changes a setting of PyTorch for the whole process: {changed[0]}",
                "leave it out; say dtype= and device= where tensors are made",
                code="task-settings",
            )
    except TaskError:
        raise
    except _Endless as error:
        line = _line(error, _filename(source))
        raise TaskError(
            f"line {line}: {doing} took longer than {MAX_SECONDS} s",
            "make it end, or use smaller tensors",
            code="task-endless",
            evidence={"line": line},
        ) from None
    except BaseException as error:  # noqa: BLE001 - a border: their code, any error
        _put_back(before)
        line = _line(error, _filename(source))
        where = f"line {line}: " if line else ""
        kind = type(error).__name__[:80]
        raise TaskError(
            f"{where}{doing} raised {describe(error)}",
            "run the file by itself with Python, and correct it",
            code="task-raises",
            evidence={"line": line, "error": kind},
        ) from None
    finally:
        if os.getpid() != process:
            os._exit(1)  # the code forked: one of us is enough
        with contextlib.suppress(OSError):
            os.chdir(folder)


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


def _settings() -> dict[str, Any]:
    """What a file may not change, by the name that its author knows."""
    denormal = torch.full((1,), 1e-40)
    return {
        "set_default_dtype": torch.get_default_dtype(),
        "set_num_threads": torch.get_num_threads(),
        "set_default_device": str(torch.get_default_device()),
        "use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "set_float32_matmul_precision": torch.get_float32_matmul_precision(),
        "set_flush_denormal": bool((denormal * 0.5 == 0).item()),
    }


def _put_back(settings: dict[str, Any]) -> None:
    torch.set_default_dtype(settings["set_default_dtype"])
    torch.set_num_threads(settings["set_num_threads"])
    torch.set_default_device(settings["set_default_device"])
    torch.use_deterministic_algorithms(settings["use_deterministic_algorithms"])
    torch.set_float32_matmul_precision(settings["set_float32_matmul_precision"])
    torch.set_flush_denormal(settings["set_flush_denormal"])


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
