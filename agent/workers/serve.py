"""The worker's side of the line protocol: JSON requests in, JSON answers out.

A request is ``{"id": 1, "verb": "build", "args": {...}}``, an answer ``{"id": 1, "ok": {...}}`` or
``{"id": 1, "error": {...}}``. Standard input and output are moved away first, so that whatever user
code or a library prints lands in the log and cannot forge an answer.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

from agent.errors import ForgeError, WorkerError
from agent.workers.parent import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable

    Handler = Callable[[dict[str, Any]], dict[str, Any]]


def serve(handlers: dict[str, Handler]) -> None:
    """Answer requests until standard input ends; never returns an exception to the caller."""
    die_with_parent()
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for line in requests:
        request = json.loads(line)
        answer = {"id": request["id"], **_answer(handlers, request)}
        try:
            text = json.dumps(answer, allow_nan=False)
        except ValueError:
            fault = WorkerError(f"{request['verb']}: the answer holds a number that is not finite")
            text = json.dumps({"id": request["id"], "error": fault.to_json()})
        answers.write(text + "\n")
        answers.flush()


def _answer(handlers: dict[str, Handler], request: dict[str, Any]) -> dict[str, Any]:
    verb = request["verb"]
    try:
        if verb not in handlers:
            raise WorkerError(f"this worker has no verb {verb}")
        return {"ok": handlers[verb](request["args"])}
    except ForgeError as error:
        return {"error": error.to_json()}
    except Exception as error:  # noqa: BLE001 - the process boundary: a fault becomes an answer
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()
        fault = WorkerError(
            f"{verb} failed: {type(error).__name__}: {str(error)[:500]}",
            "the session's log has the whole story",
            code="worker-fault",
        )
        return {"error": fault.to_json()}
