"""Starts the engine's side: a search that goes on by itself, or a job that answers in JSON lines.

A search is detached; its pipe carries any number of ``{"stage": ...}``, then one of
``{"started": true}`` or ``{"error": {"message", "cure", ...}}``. After that the engine and this
process share nothing but the session. Other jobs end with us.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from typing import IO, TYPE_CHECKING, Any

from forge_tui.text import one_line
from store.errors import StoreError
from store.paths import log_path, refuse_sample

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
    try:
        refuse_sample(session)  # before anything is written beside what came with the package
    except StoreError as error:
        raise LaunchError(error.message, error.cure) from None
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
    with log.open("rb") as said:
        why = _last_words(said, start)
    raise LaunchError(f"the engine died while starting ({_how(code)}){why}", log=log)


def spoken(
    args: Sequence[str],
    engine: Sequence[str] = ENGINE,
    patience_s: float | None = None,
    *,
    may_be_silent: bool = False,
) -> Iterator[dict[str, Any]]:
    """The JSON lines of a job such as ``verify``, as they come; the job ends when nobody listens.

    With ``may_be_silent`` a job that ends in order has done its work even if it said nothing.

    Raises:
        LaunchError: It could not do its work (its own words and cure), died, or took longer than
            ``patience_s``.
    """
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            [*engine, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr
        )
        late = threading.Timer(patience_s or threading.TIMEOUT_MAX, process.kill)
        late.daemon = True
        late.start()
        heard = False
        assert process.stdout is not None
        try:
            with process.stdout:
                for line in _json_lines(process.stdout):
                    if "error" in line:
                        raise _refused(line["error"])
                    heard = True
                    yield line
            code = process.wait()
        finally:
            over = not late.is_alive()
            late.cancel()
            _end(process)
        if over:
            raise LaunchError(f"{args[0]} took more than {patience_s:.0f} s")
        # A job that has answered may say by its code how the answer turned out.
        if code not in {0, 1} or not (heard or (may_be_silent and code == 0)):
            raise LaunchError(f"{args[0]} failed ({_how(code)}){_last_words(stderr, 0)}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let a job end in order, or kill it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


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


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _last_words(said: IO[bytes], start: int) -> str:
    """What a dead process left on its standard error, past ``start``."""
    said.seek(max(start, said.seek(0, 2) - 4096))
    told = [line for line in said.read().decode(errors="replace").splitlines() if line.strip()]
    # The frames of a traceback help nobody here; its last line does.
    words = [one_line(line, 300) for line in told if not line.startswith(("Traceback", " "))][-3:]
    return ": " + " / ".join(words) if words else ", without a word"
