"""The worker's side of the line protocol: JSON requests in, JSON answers out.

A request is ``{"id": 1, "verb": "build", "args": {...}}``, an answer ``{"id": 1, "ok": {...}}`` or
``{"id": 1, "error": {...}}``. Standard input and output are moved away first, so that whatever user
code or a library prints lands in the log and cannot forge an answer.
"""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

from agent.errors import ForgeError, WorkerError, describe
from agent.workers.parent import die_with_parent, guard_group

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO, TextIO

    Handler = Callable[[dict[str, Any]], dict[str, Any]]


MAX_PRINTED = 256 << 10


def serve(handlers: dict[str, Handler]) -> None:
    """Answer requests until standard input ends; never returns an exception to the caller."""
    die_with_parent()
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    sys.stdout, sys.stderr = _Quota(sys.stderr), _Quota(sys.stderr)
    guard_group()
    own = os.getpid()
    for line in requests:
        request = json.loads(line)
        answer = {"id": request["id"], **_answer(handlers, request)}
        if os.getpid() != own:
            os._exit(1)  # user code forked: the copy must not answer too
        try:
            text = json.dumps(answer, allow_nan=False)
        except ValueError:
            fault = WorkerError(f"{request['verb']}: the answer holds a number that is not finite")
            text = json.dumps({"id": request["id"], "error": fault.to_json()})
        answers.write(text + "\n")
        answers.flush()


class _Quota(io.TextIOBase):
    """What user code prints, kept up to a limit: a log must not fill the disk."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._left = MAX_PRINTED

    def write(self, text: str) -> int:
        if self._left > 0:
            self._stream.write(text[: self._left])
            self._left -= len(text)
            if self._left <= 0:
                self._stream.write("\n... more was printed, and left out\n")
            self._stream.flush()
        return len(text)

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def buffer(self) -> BinaryIO:
        return self._stream.buffer


def _answer(handlers: dict[str, Handler], request: dict[str, Any]) -> dict[str, Any]:
    verb = request["verb"]
    try:
        if verb not in handlers:
            raise WorkerError(f"this worker has no verb {verb}")
        return {"ok": handlers[verb](request["args"])}
    except ForgeError as error:
        return {"error": error.to_json()}
    except BaseException as error:  # noqa: BLE001 - the process boundary: a fault is an answer
        traceback.print_exc(file=sys.__stderr__)
        fault = WorkerError(
            f"{verb} failed: {describe(error)}",
            "the session's log has the whole story",
            code="worker-fault",
        )
        return {"error": fault.to_json()}
