"""Starts an engine: a detached process that says on a pipe how its start goes, then writes a log.

The pipe carries JSON lines: any number of ``{"stage": ...}``, then one of ``{"started": true}`` or
``{"error": {"message", "cure", ...}}``. After that the engine and this process share nothing but
the session.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import IO, TYPE_CHECKING, Any

from forge_tui.text import one_line
from store.paths import log_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

ENGINE = (sys.executable, "-P", "-m", "agent")
MAX_HANDSHAKE_LINE = 64 * 1024


class LaunchError(Exception):
    """An engine did not start.

    Args:
        message: What happened, in one line.
        cure: What to do about it; may be empty.
        log: Where the whole of an engine's last words is, if it died without a handshake.
    """

    def __init__(self, message: str, cure: str = "", log: Path | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure
        self.log = log


def launch(
    session: Path,
    on_stage: Callable[[str], None] = lambda stage: None,
    engine: Sequence[str] = ENGINE,
) -> int:
    """Start the session's engine, wait until it works, and return its process id.

    Raises:
        LaunchError: It refused (its own words and cure), or died without a word.
    """
    log = log_path(session)
    try:
        stderr = log.open("ab")
    except OSError as error:
        raise LaunchError(
            f"cannot write {log}: {error.strerror}", "copy the session to a folder you may write"
        ) from None
    with stderr:
        start = stderr.tell()
        process = subprocess.Popen(
            [*engine, "search", str(session)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
    assert process.stdout is not None
    with process.stdout:
        for line in _json_lines(process.stdout):
            if "stage" in line:
                on_stage(one_line(line["stage"], 200))
            elif line.get("started"):
                # The engine outlives us and is reaped by init; do not warn about it.
                process.returncode = 0
                return int(line.get("pid") or process.pid)
            elif "error" in line:
                process.wait()
                raise _refused(line["error"])
    code = process.wait()
    raise LaunchError(_last_words(log, start, code), log=log)


def _json_lines(pipe: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The objects on a pipe; anything else on it is passed over."""
    while raw := pipe.readline(MAX_HANDSHAKE_LINE):
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        if isinstance(line, dict):
            yield line


def _refused(error: Any) -> LaunchError:
    if not isinstance(error, dict):
        return LaunchError(one_line(error, 500) or "the engine refused to start")
    message = one_line(error.get("message") or "the engine refused to start", 1000)
    return LaunchError(message, one_line(error.get("cure") or "", 500))


def _last_words(log: Path, start: int, code: int) -> str:
    """What a dead engine left in its log."""
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    try:
        with log.open("rb") as file:
            file.seek(max(start, file.seek(0, 2) - 4096))
            text = file.read().decode(errors="replace")
    except OSError:
        text = ""
    told = [line for line in text.splitlines() if line.strip()]
    # The frames of a traceback help nobody here; its last line does.
    said = [one_line(line, 300) for line in told if not line.startswith(("Traceback", " "))][-3:]
    words = ": " + " / ".join(said) if said else ", without a word"
    return f"the engine died while starting ({how}){words}"
