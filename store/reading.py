"""A viewer's side of a session: read-only, incremental, with the standard sqlite3 alone."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from store.errors import SessionDamaged, SessionTooNew
from store.events import Event, complete
from store.lock import engine_alive
from store.older import SCHEMA_OF_CALLS, SPENDING, stand_ins
from store.paths import read_only_mount
from store.rows import (
    CallRow,
    Heartbeat,
    NodeRow,
    Program,
    PromptText,
    ReplyText,
    Row,
    SessionRow,
    Spending,
    StreamPiece,
    TargetRow,
    VariantRow,
    VerdictRow,
    eager_as_record,
)
from store.version import SESSION_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

R = TypeVar("R", bound=Row)


class SessionReader:
    """Reads a session that may be growing; every call sees what was committed by then.

    A viewer polls ``changed()``, then asks for events past the last ``seq`` and rows past the last
    ``rev`` that it has. Opens anywhere: beside a running engine, in a read-only folder
    (``immutable``), and after a crash in a read-only folder (from a private copy). A session of an
    older schema reads as if it had been written today; only an engine brings the file up to date.

    Raises:
        SessionDamaged: The file is not a session, or SQLite cannot read it.
        SessionTooNew: A newer forge-tui wrote it.
    """

    def __init__(self, path: Path, conn: sqlite3.Connection | None = None) -> None:
        self.path = path
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._data_version = -1
        self._schema = 0
        with sound(path):
            self.conn = conn if conn is not None else self._open()
            if self._written_as() > SESSION_SCHEMA:
                raise SessionTooNew(
                    f"{path.name} was written by a newer forge-tui", "update forge-tui"
                )
            self.session()

    def _open(self) -> sqlite3.Connection:
        path = self.path
        if not path.is_file():
            raise SessionDamaged(f"{path} is no file", "list the sessions with `forge-tui ls`")
        frozen = not os.access(path.parent, os.W_OK) or read_only_mount(path.parent)
        alive = engine_alive(path)
        has_wal = path.with_name(path.name + "-wal").exists()
        if frozen and not alive and has_wal:
            self._copy = tempfile.TemporaryDirectory(prefix="forge-tui-")
            for suffix in ("", "-wal"):
                shutil.copyfile(str(path) + suffix, f"{self._copy.name}/{path.name}{suffix}")
            path = Path(self._copy.name) / path.name
        mode = "immutable=1" if frozen and not alive and not has_wal else "mode=ro"
        return sqlite3.connect(
            f"{path.as_uri()}?{mode}", uri=True, isolation_level=None, timeout=5.0,
            check_same_thread=False,
        )  # fmt: skip

    def close(self) -> None:
        self.conn.close()
        if self._copy is not None:
            self._copy.cleanup()

    def __enter__(self) -> SessionReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def changed(self) -> bool:
        """Whether another connection has committed since the last call (3 microseconds)."""
        (version,) = self.conn.execute("PRAGMA data_version").fetchone()
        changed = bool(version != self._data_version)
        self._data_version = version
        return changed

    # -- rows --------------------------------------------------------------------------------------

    def _written_as(self) -> int:
        """The file's schema; an engine may bring it up to date while we have it open."""
        if self._schema < SESSION_SCHEMA:
            (self._schema,) = self.conn.execute("PRAGMA user_version").fetchone()
        return self._schema

    def _rows(self, kind: type[R], rest: str, values: Sequence[object] = ()) -> list[R]:
        table = _TABLES[kind]
        with sound(self.path):
            missing = stand_ins(kind, self._written_as())
            found = self.conn.execute(f"SELECT {kind.columns(missing)} FROM {table} {rest}", values)
            return [kind.make(row) for row in found]

    def _ask(
        self, query: str, values: Sequence[object] | Mapping[str, object] = ()
    ) -> list[tuple[Any, ...]]:
        with sound(self.path):
            return self.conn.execute(query, values).fetchall()

    def session(self) -> SessionRow:
        rows = self._rows(SessionRow, "WHERE id = 1")
        if not rows:
            raise _damaged(self.path, "it holds no session")
        return rows[0]

    def heartbeat(self) -> Heartbeat | None:
        rows = self._rows(Heartbeat, "WHERE id = 1")
        return rows[0] if rows else None

    def targets(self, after_rev: int = 0) -> list[TargetRow]:
        rows = self._rows(TargetRow, "WHERE rev > ? ORDER BY id", [after_rev])
        if self._schema > 1:
            return rows
        return [replace(row, baselines=eager_as_record(row.baselines or {})) for row in rows]

    def nodes(self, after_rev: int = 0) -> list[NodeRow]:
        """Nodes touched after an event, in order of their ids (a parent before its children)."""
        return self._rows(NodeRow, "WHERE rev > ? ORDER BY id", [after_rev])

    def node(self, node: int) -> NodeRow | None:
        rows = self._rows(NodeRow, "WHERE id = ?", [node])
        return rows[0] if rows else None

    def standing(self, node: NodeRow) -> NodeRow:
        """The node with the figures that count: those of its confirmation, once it was judged.

        A confirmation that did not hold leaves the figures and gives the outcome.
        """
        last = [v for v in self.verdicts(node.id) if v.confirm] if node.confirmed else []
        if not last:
            return node
        again = last[-1]
        if node.confirmed < 0:
            return replace(node, outcome=again.outcome)
        part, gain = node.sol_fraction, node.gain
        scale = again.ratio / node.ratio if node.ratio else 1.0
        return replace(
            node, outcome=again.outcome, time_ns=again.time_ns, call_ns=again.call_ns,
            ratio=again.ratio, low=again.low, high=again.high,
            sol_fraction=None if part is None else part * scale,
            gain=None if gain is None else gain * scale,
        )  # fmt: skip

    def variants(self, node: int) -> list[VariantRow]:
        return self._rows(VariantRow, "WHERE node = ? ORDER BY id", [node])

    def verdicts(self, node: int) -> list[VerdictRow]:
        return self._rows(VerdictRow, "WHERE node = ? ORDER BY id", [node])

    def program(self, key: str) -> Program | None:
        rows = self._rows(Program, "WHERE hash = ?", [key])
        return rows[0] if rows else None

    def samples(self, verdict: int) -> list[tuple[int, int]]:
        """A verdict's raw samples: pairs of (eager, candidate) nanoseconds."""
        with sound(self.path):
            found = self._ask("SELECT pairs FROM samples WHERE verdict = ?", [verdict])
            return [(pair[0], pair[1]) for row in found for pair in json.loads(row[0])]

    def stream(self, node: int, after: int = 0, limit: int = 1000) -> list[StreamPiece]:
        """Streamed text of a node past a piece, oldest first; node 0 is the engine's log."""
        return self._rows(
            StreamPiece, "WHERE node = ? AND id > ? ORDER BY id LIMIT ?", [node, after, limit]
        )

    def events(self, after: int = 0, limit: int = 100_000) -> list[Event]:
        """Events past ``after``, in order."""
        with sound(self.path):
            found = self._ask(
                "SELECT seq, at_us, active_us, kind, version, target, node, payload FROM events "
                "WHERE seq > ? ORDER BY seq LIMIT ?",
                [after, limit],
            )
            return [
                Event(
                    seq, at_us, active, kind, version, target, node, complete(kind, json.loads(p))
                )
                for seq, at_us, active, kind, version, target, node, p in found
            ]

    def last_events(self, count: int) -> list[Event]:
        """The newest ``count`` events, oldest of them first."""
        return self.events(self.last_seq() - count, count)

    def last_seq(self) -> int:
        ((last,),) = self._ask("SELECT max(seq) FROM events")
        return last or 0

    def node_counts(self) -> dict[str, int]:
        """How many nodes are in each state: live, scored, failed, dropped."""
        found = self._ask("SELECT state, count(*) FROM nodes GROUP BY state")
        return {str(state): int(count) for state, count in found}

    def judged_on(self, target: int) -> str:
        """The machine that the target's newest verdict names; "" without one."""
        found = self._ask(
            "SELECT json_extract(evidence, '$.machine') FROM verdicts JOIN nodes "
            "ON nodes.id = verdicts.node WHERE nodes.target = ? ORDER BY verdicts.id DESC LIMIT 1",
            [target],
        )
        return str(found[0][0] or "") if found else ""

    def judged_again(self, target: int) -> int:
        """How many nodes came to a new end since the target's verdicts were last made foreign."""
        ends = "kind IN ('NodeScored', 'NodeFailed') AND target = :target"
        ((count,),) = self._ask(
            "WITH mark AS (SELECT max(seq) AS seq FROM events "
            "WHERE kind = 'VerdictsForeign' AND target = :target) "
            f"SELECT count(DISTINCT node) FROM events, mark WHERE {ends} AND events.seq > mark.seq "
            f"AND node IN (SELECT node FROM events, mark WHERE {ends} AND events.seq < mark.seq)",
            {"target": target},
        )
        return int(count)

    # -- calls -------------------------------------------------------------------------------------

    def calls(self, node: int | None = None, after_rev: int = 0) -> list[CallRow]:
        """Calls touched after an event, of one node or of all, oldest first."""
        if node is None:
            return self._rows(CallRow, "WHERE rev > ? ORDER BY id", [after_rev])
        return self._rows(CallRow, "WHERE node = ? AND rev > ? ORDER BY id", [node, after_rev])

    def prompt(self, key: str) -> PromptText | None:
        """What a writer was asked, by its hash."""
        rows = self._contents(PromptText, "WHERE hash = ?", key)
        return rows[0] if rows else None

    def reply(self, call: int) -> ReplyText | None:
        """What a call was answered; None while it is in flight, or when nothing came."""
        rows = self._contents(ReplyText, "WHERE call = ?", call)
        return rows[0] if rows else None

    def _contents(self, kind: type[R], rest: str, key: object) -> list[R]:
        with sound(self.path):
            if self._written_as() < SCHEMA_OF_CALLS:
                return []
        return self._rows(kind, rest, [key])

    def spending(self) -> Spending:
        """What the calls come to, those in flight apart."""
        with sound(self.path):
            schema = self._written_as()
        (found,) = self._ask(SPENDING[schema >= SCHEMA_OF_CALLS])
        with sound(self.path):
            return Spending(*(int(value or 0) for value in found))

    def micro_dollars(self) -> int:
        """What was paid for model calls, and what is set aside for those in flight.

        Calls without a known price count for nothing; ``spending`` says how many there are.
        """
        ((paid,),) = self._ask(
            "SELECT sum(CASE state WHEN 'reserved' THEN reserved ELSE micro_dollars END) "
            "FROM model_calls"
        )
        return paid or 0

    def pending_commands(self) -> list[tuple[int, str]]:
        """Commands that no engine has answered yet: (id, verb)."""
        found = self._ask(
            "SELECT id, CAST(verb AS BLOB) FROM commands WHERE answered = 0 ORDER BY id"
        )
        return [(int(command), verb.decode(errors="replace")) for command, verb in found]


@contextmanager
def sound(path: Path) -> Iterator[None]:
    """Turn what a broken file leads to into SessionDamaged; a file that is merely busy is not."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if "locked" in str(error):
            raise
        raise _damaged(path, str(error)) from None
    except (ValueError, TypeError, OverflowError) as error:
        # Text that is no UTF-8 or no JSON, or a value of another type than its column's.
        raise _damaged(path, f"a row is broken: {error}") from None


def _damaged(path: Path, why: str) -> SessionDamaged:
    shown = "".join(char if char.isprintable() else "?" for char in why)[:200]
    return SessionDamaged(
        f"{path.name} cannot be read: {shown}", "restore it from a copy, or remove the file"
    )


_TABLES: dict[type[Row], str] = {
    SessionRow: "session",
    TargetRow: "targets",
    NodeRow: "nodes",
    VariantRow: "variants",
    VerdictRow: "verdicts",
    Heartbeat: "heartbeat",
    StreamPiece: "streams",
    Program: "programs",
    CallRow: "model_calls",
    PromptText: "prompts",
    ReplyText: "replies",
}
