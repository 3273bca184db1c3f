"""The sessions of a data folder: make, find, list, and say whether one is alive.

Reading imports neither sqlite-utils nor anything heavy, so that ``forge-tui ls`` is instant.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from store.errors import SessionNotFound, StoreError
from store.lock import engine_alive
from store.paths import (
    SUFFIX,
    data_home,
    lock_path,
    log_path,
    refuse_sample,
    samples_folder,
    sessions_folder,
    writable_folder,
)
from store.reading import SessionReader

if TYPE_CHECKING:
    from store.rows import SessionRow

ACTIVE = frozenset({"running", "pausing", "paused"})
SAMPLE = "sample:"
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A line of ``forge-tui ls``.

    Attributes:
        state: As stored, or ``crashed`` (an engine was at work and is gone), or ``damaged``.
        best: Best speedup against eager over all targets, and that target's name.
        counts: Nodes by state.
        micro_dollars: What is known to have been paid, and what is set aside.
        unpriced: Calls that cost nobody knows what.
        problem: Why a damaged file cannot be read.
    """

    path: Path
    session: str
    name: str
    task: str
    state: str
    created_us: int
    best: tuple[float, str] | None
    counts: dict[str, int]
    micro_dollars: int
    unpriced: int = 0
    problem: str = ""


def create(task: str, config: dict[str, Any], home: Path | None = None, *, name: str = "") -> Path:
    """Make a session for a task and return its file; ``name`` is what its id begins with.

    Raises:
        FolderError: The data folder cannot be written.
    """
    from store.writing import append_event, fold_back, open_database

    folder = writable_folder(sessions_folder(home))
    stem = name or Path(task.split(":")[-1]).stem
    slug = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:24]
    suffix = "".join(secrets.choice(_ALPHABET) for _ in range(4))
    session = f"{slug or 'session'}-{suffix}"
    path = folder / f"{session}{SUFFIX}"
    unfinished = folder / f".{session}.new"  # nobody must find it before it is a session
    database = open_database(unfinished)
    with database.atomic():
        payload = {"session": session, "name": slug or "session", "task": task, "config": config}
        append_event(database.conn, "SessionCreated", payload)
    fold_back(database.conn)
    database.close()
    unfinished.rename(path)
    return path


def paths(home: Path | None = None) -> list[Path]:
    """The session files of the data folder."""
    folder = sessions_folder(home or data_home())
    return sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []


def samples() -> list[Path]:
    """The session files that come with the package."""
    return sorted(samples_folder().glob(f"*{SUFFIX}"))


def _sample(name: str) -> Path:
    there = {path.name.removesuffix(SUFFIX): path for path in samples()}
    if name not in there:
        known = ", ".join(f"{SAMPLE}{known}" for known in there) or "none"
        raise SessionNotFound(f"there is no sample {name!r}", f"those that there are: {known}")
    return there[name]


def find(name: str | None, home: Path | None = None) -> Path:
    """A session by its file, its id, or the beginning of one; without a name the newest.

    ``sample:NAME`` is one that came with the package.

    Raises:
        SessionNotFound: None, or several, answer to the name.
    """
    if name is not None and name.startswith(SAMPLE):
        return _sample(name.removeprefix(SAMPLE))
    if name is not None and (name.endswith(SUFFIX) or "/" in name):
        path = Path(name).expanduser().absolute()
        if path.is_file():
            return path
        if "/" in name:
            raise SessionNotFound(f"no session file {name}", "list the sessions: forge-tui ls")
        name = name.removesuffix(SUFFIX)
    there = paths(home)
    if not there:
        raise SessionNotFound(
            "there is no session yet", "start one: forge-tui demo, or forge-tui run TASK"
        )
    if name is None:
        return max(there, key=lambda path: (_created(path), path.name))
    ids = {path.name.removesuffix(SUFFIX): path for path in there}
    if name in ids:
        return ids[name]
    fitting = [path for session, path in ids.items() if name and session.startswith(name)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise SessionNotFound(
            f"several sessions begin with {name!r}: " + ", ".join(_some(fitting)),
            "give more letters",
        )
    raise SessionNotFound(f"no session {name!r}", "list the sessions: forge-tui ls")


def _some(found: list[Path], most: int = 4) -> list[str]:
    names = [path.name.removesuffix(SUFFIX) for path in found]
    return names if len(names) <= most else [*names[: most - 1], "..."]


def _created(path: Path) -> int:
    try:
        with SessionReader(path) as reader:
            return reader.session().created_us
    except StoreError:
        return 0


def liveness(row: SessionRow, path: Path) -> str:
    """The session's state as a viewer must show it; ``crashed`` when its engine is gone."""
    if engine_alive(path):
        # An engine lives on for a moment after its last word, with that word already written.
        return "starting" if row.state == "new" else row.state
    return "crashed" if row.state in ACTIVE else row.state


def inspect(path: Path) -> SessionInfo:
    """One session's line; a file that cannot be read is ``damaged``, never an error."""
    try:
        with SessionReader(path) as reader:
            row = reader.session()
            best = []
            for target in reader.targets():
                node = reader.node(target.best_node) if target.best_node else None
                ratio = reader.standing(node).ratio if node else target.best_ratio
                if ratio is not None:
                    best.append((ratio, target.name))
            spent = reader.spending()
            return SessionInfo(
                path=path,
                session=row.session,
                name=row.name,
                task=row.task,
                state=liveness(row, path),
                created_us=row.created_us,
                best=max(best) if best else None,
                counts=reader.node_counts(),
                micro_dollars=spent.micro_dollars + spent.reserved,
                unpriced=spent.unpriced,
            )
    except StoreError as error:
        session = path.name.removesuffix(SUFFIX)
        return SessionInfo(
            path, session, session, "", "damaged", 0, None, {}, 0, problem=error.message
        )


def list_sessions(home: Path | None = None) -> list[SessionInfo]:
    """All sessions, newest first."""
    infos = [inspect(path) for path in paths(home)]
    return sorted(infos, key=lambda info: (-info.created_us, info.session))


def remove(path: Path) -> None:
    """Delete a session with its log and lock.

    Raises:
        SessionBusy: Its engine is alive.
        FolderError: It came with the package.
    """
    from store.lock import EngineLock

    refuse_sample(path)
    lock = EngineLock(path)
    lock.acquire()
    try:
        for suffix in ("", "-wal", "-shm"):
            Path(str(path) + suffix).unlink(missing_ok=True)
        log_path(path).unlink(missing_ok=True)
        lock_path(path).unlink(missing_ok=True)
    finally:
        lock.release()
