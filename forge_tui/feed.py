"""Reads a session in a thread of its own and hands over what is new; the screen never waits.

The thread polls each half second, reads the detail of the node that is looked at, and writes the
commands that a person gives. ``take`` hands over everything since the last call, so a slow screen
misses nothing and gets it in one piece.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from forge_tui.code import code
from forge_tui.model import KEPT_EVENTS, NOTHING, Detail, Update
from store import commands
from store.errors import StoreError
from store.lock import EngineLock, engine_alive
from store.reading import SessionReader
from store.sessions import liveness

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from forge_tui.view import Line
    from store.events import Event
    from store.rows import Heartbeat, NodeRow, SessionRow, TargetRow

INTERVAL_S = 0.5
_KEPT_CODE = 24


class Feed:
    """One session's reader thread.

    Args:
        path: The session file.
        on_news: Called (in the thread) when ``take`` has something.
        on_detail: Called with a node's detail and the lines of the tab that is looked at, if
            making them takes long.
        on_sent: Called with (verb, command id, problem) once a command was written or failed.
    """

    def __init__(
        self,
        path: Path,
        on_news: Callable[[], None],
        on_detail: Callable[[Detail, list[Line] | None], None],
        on_sent: Callable[[str, int, str], None],
        interval_s: float = INTERVAL_S,
    ) -> None:
        self.path = path
        self._on_news, self._on_detail, self._on_sent = on_news, on_detail, on_sent
        self._interval_s = interval_s
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._wake = threading.Event()
        self._guard = threading.Lock()
        self._stopped = False
        self._reader: SessionReader | None = None
        self._rev = 0
        self._session: SessionRow | None = None
        self._state = "opening"
        self._problem = ""
        self._heartbeat: Heartbeat | None = None
        self._targets: dict[int, TargetRow] = {}
        self._nodes: dict[int, NodeRow] = {}
        self._events: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._spending = NOTHING
        self._watched = (0, "")
        self._seen: tuple[int, str, int, int] | None = None
        self._commands: deque[tuple[str, dict[str, int | str]]] = deque()
        self._codes: OrderedDict[str, list[Line]] = OrderedDict()

    # -- called by the screen ----------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def take(self) -> Update:
        """Everything since the last call."""
        with self._guard:
            update = Update(
                self._session, self._state, self._heartbeat, tuple(self._targets.values()),
                tuple(self._nodes[key] for key in sorted(self._nodes)), tuple(self._events),
                self._spending, self._problem,
            )  # fmt: skip
            self._targets, self._nodes = {}, {}
            self._events.clear()
        return update

    def watch(self, node: int, tab: str) -> None:
        """Read this node's detail for a tab, now and whenever it changes; 0 for none."""
        self._watched = (node, tab)
        self._wake.set()

    def command(self, verb: str, **args: int | str) -> None:
        self._commands.append((verb, args))
        self._wake.set()

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopped:
            self._wake.clear()
            self._send_commands()
            try:
                self._poll()
            except (StoreError, sqlite3.Error) as error:
                self._fail(getattr(error, "message", str(error)))
            # With no engine at work there is nothing to be quick for.
            resting = self._state in {"finished", "stopped", "failed", "crashed"}
            self._wake.wait(self._interval_s * (2 if resting else 1))
        if self._reader is not None:
            self._reader.close()

    def _send_commands(self) -> None:
        while self._commands:
            verb, args = self._commands.popleft()
            try:
                self._on_sent(verb, commands.send(self.path, verb, **args), "")
            except (StoreError, sqlite3.Error) as error:
                self._on_sent(verb, 0, str(getattr(error, "message", error)))

    def _fail(self, problem: str) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if problem != self._problem:
            self._problem = problem
            self._on_news()

    def _poll(self) -> None:
        if self._reader is None:
            self._reader = SessionReader(self.path)
        elif not self.path.exists():
            self._fail("the session file is gone")
            return
        news = self._reader.changed() or bool(self._problem)
        if news:
            self._read(self._reader)
        state = liveness(self._session, self.path) if self._session else "opening"
        if news or state != self._state:
            self._state = state
            self._on_news()
        self._read_detail(self._reader)

    def _read(self, reader: SessionReader) -> None:
        """Rows and events past those we have, all from one moment."""
        reader.conn.execute("BEGIN")
        try:
            last = reader.last_seq()
            session, beat = reader.session(), reader.heartbeat()
            targets = reader.targets(self._rev)
            nodes = [reader.standing(node) for node in reader.nodes(self._rev)]
            behind = min(last - self._rev, KEPT_EVENTS)
            events = reader.last_events(behind) if behind > 0 else []
            spending = reader.spending()
        finally:
            reader.conn.execute("COMMIT")
        with self._guard:
            self._session, self._heartbeat = session, beat
            self._targets.update((row.id, row) for row in targets)
            self._nodes.update((row.id, row) for row in nodes)
            self._events.extend(events)
            self._spending, self._problem = spending, ""
        self._rev = last

    def _read_detail(self, reader: SessionReader) -> None:
        number, tab = self._watched
        if number <= 0:
            self._seen = None
            return
        row = reader.node(number)
        if row is None:
            return
        node = reader.standing(row)
        (last_piece,) = reader.conn.execute(
            "SELECT max(id) FROM streams WHERE node = ?", [number]
        ).fetchone()
        seen = (number, tab, node.rev, last_piece or 0)
        if seen == self._seen:
            return
        self._seen = seen
        verdicts = tuple(reader.verdicts(number))
        calls = tuple(reader.calls(number)) if node.calls else ()
        looked = tab == "prompt"
        told = calls if looked else ()
        prompts = {key: reader.prompt(key) for key in {call.prompt for call in told} if key}
        replies = {call.id: reader.reply(call.id) for call in told}
        detail = Detail(
            node=node,
            program=reader.program(node.program) if node.program else None,
            variants=tuple(reader.variants(number)),
            verdicts=verdicts,
            stream=tuple(reader.stream(number, max(0, (last_piece or 0) - 500), 500)),
            samples={verdict.id: len(reader.samples(verdict.id)) for verdict in verdicts},
            calls=calls,
            prompts={key: text for key, text in prompts.items() if text} if looked else None,
            replies={call: text for call, text in replies.items() if text},
        )
        self._on_detail(detail, self._code(detail) if tab == "code" else None)

    def _code(self, detail: Detail) -> list[Line]:
        if detail.program is None:
            return code(detail)
        key = detail.program.hash
        if key not in self._codes:
            self._codes[key] = code(detail)
            while len(self._codes) > _KEPT_CODE:
                self._codes.popitem(last=False)
        self._codes.move_to_end(key)
        return self._codes[key]


def tidy(path: Path) -> None:
    """Fold back a write-ahead log that no engine will: a session at rest is one plain file."""
    if not path.with_name(path.name + "-wal").exists() or engine_alive(path):
        return
    from store.writing import fold_back

    lock = EngineLock(path)
    try:
        lock.acquire(0.2)
        try:
            conn = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None)
            fold_back(conn)
            conn.close()
        finally:
            lock.release()
    except (StoreError, sqlite3.Error):
        return  # another engine took over, or the folder is read-only: nothing is lost
