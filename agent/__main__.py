"""``python -P -m agent VERB``: how the command line reaches the engine.

``search SESSION`` runs a session's engine. Standard output carries JSON lines: any number of
``{"stage": ...}``, then one ``{"started": true, "pid": N}`` or ``{"error": {...}}``.
``verify TASK FILE`` judges one program without a session, ``audit`` judges the judge, ``doctor``
says what this machine can do, ``models`` which language models can be reached: JSON lines as well.
The first two take ``--device DEVICE``.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ForgeError
from store.errors import StoreError

if TYPE_CHECKING:
    from agent.context import Place
    from agent.writers.offline import Offline
    from store.rows import SessionRow
    from store.writing import SessionWriter

USAGE = "search SESSION | verify TASK FILE [--device D] | audit [--device D] | models | doctor"


def say(line: dict[str, Any]) -> None:
    """One JSON line to whoever started us; they may be gone by now."""
    try:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _hang_up()


def _hang_up() -> None:
    """From here on standard output is the log, like standard error."""
    os.dup2(2, 1)


def _place(device: str) -> Place:
    """The device of that name, opened; from then on this process and its children see no other.

    Raises:
        MachineError: It is not there, or cannot be used.
    """
    from agent.context import Place
    from agent.devices import open_device
    from agent.devices.cpu import find_compiler
    from agent.places import choose_device

    kind = choose_device(device)
    if kind == "cpu":
        find_compiler()
    return Place.of(open_device(kind))


def search(path: Path) -> int:
    """Run a session's engine until it ends; the exit code says whether it ended in order."""
    from agent.engine import Engine
    from agent.places import lease_name
    from agent.workers.workshop import LocalWorkshop
    from agent.writers.llm.quiet import hide_memory
    from store.lease import DeviceLease
    from store.machine import MachineStore
    from store.paths import log_path
    from store.reading import SessionReader
    from store.writing import SessionWriter, explain

    hide_memory()  # keys lie in our environment, and nobody else is to read them there
    session = SessionWriter(path)
    try:
        row = SessionReader(path, session.conn).session()
        place = _place(str(row.config.get("device", "cpu")))
        home = path.parent.parent
        cores = len(os.sched_getaffinity(0))
        seed = int(row.config.get("seed", 0))
        workshop = LocalWorkshop(home, log_path(path), place.device, cores, seed, place.arch)
        lease = DeviceLease(home, lease_name(place.device, place.key))
        records = MachineStore(home / "machine.db")
        offline = _offline(row, session)
        engine = Engine(session, row, workshop, place, lease, offline, records)
        return asyncio.run(_live(engine, workshop))
    except sqlite3.Error as error:
        traceback.print_exc()
        raise explain(path, error) from None
    finally:
        session.close()


def _offline(row: SessionRow, session: SessionWriter) -> Offline | None:
    """The session's writer without a model, if its config names one."""
    from agent.writers.inbox import Inbox
    from agent.writers.offline import Posted, Recorded
    from agent.writers.replay import Replay

    if recorded := row.config.get("replay"):
        return Recorded(Replay(recorded["replies"]), session)
    if folder := row.config.get("inbox"):
        # Beside the session, so that both can be taken to another machine.
        own = f"inbox/{row.session}" if folder == "inbox" else str(folder)
        return Posted(Inbox(session.path.parent / own, row.session))
    return None


def verify(task: str, file: Path, device: str) -> int:
    """Judge one program; the exit code is 0 if it passed every rung."""
    from agent.task import open_task
    from agent.verify import verify as judge

    place = _place(device)
    return asyncio.run(judge(open_task(task, place.device), file, place, say))


def audit(device: str) -> int:
    """Judge the judge; the exit code is 0 if it was right everywhere."""
    from agent.audit import run

    return run(device, say)


def models(args: list[str]) -> int:
    """List the language models that can be reached, or try one; the exit code is that of a try."""
    from agent.writers.llm import models as reachable
    from agent.writers.llm import quiet

    quiet.hide_memory()
    return reachable.models(args, say)


def doctor() -> int:
    from agent.doctor import checks

    for check in checks():
        say(check)
    return 0


async def _live(engine: Any, workshop: Any) -> int:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, engine.stop, f"it got {number.name}")
    try:
        await engine.prepare(lambda stage: say({"stage": stage}))
        say({"started": True, "pid": os.getpid()})
        _hang_up()
        state = await engine.run()
    except Exception as error:
        # No orderly end: viewers see a crash, and what was in work is taken up at the next start.
        if not isinstance(error, ForgeError | StoreError | sqlite3.Error):
            text = f"the engine failed: {type(error).__name__}: {error}"[:500]
            engine.say("Noted", level="error", text=text)
        raise
    finally:
        await workshop.close()
    return 0 if state in ("finished", "stopped") else 1


def main(argv: list[str]) -> int:
    """Run a verb; faults that a person can act on become one JSON line."""
    try:
        match argv:
            case ["search", session]:
                return search(Path(session))
            case ["verify", task, file]:
                return verify(task, Path(file), "cpu")
            case ["verify", task, file, "--device", device]:
                return verify(task, Path(file), device)
            case ["audit"]:
                return audit("cpu")
            case ["audit", "--device", device]:
                return audit(device)
            case ["models", *args]:
                return models(args)
            case ["doctor"]:
                return doctor()
            case _:
                say({"error": {"message": f"usage: python -m agent {USAGE}"}})
                return 2
    except ForgeError as error:
        say({"error": error.to_json()})
    except StoreError as error:
        say({"error": {"type": type(error).__name__, "code": error.code,
                       "message": error.message, "cure": error.cure}})  # fmt: skip
    except Exception as error:  # noqa: BLE001 - the process boundary
        traceback.print_exc()
        message = f"the engine failed: {type(error).__name__}: {error}"[:500]
        say({"error": {"type": "Fault", "code": "fault", "message": message,
                       "cure": "the session's log has the whole story"}})  # fmt: skip
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
