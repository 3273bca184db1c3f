"""Sessions as files: created, found, listed, locked, read anywhere, rebuilt from events."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from store import commands, sessions
from store.errors import (
    EventError,
    FolderError,
    SessionBusy,
    SessionDamaged,
    SessionNotFound,
    SessionTooNew,
)
from store.events import EVENTS, encode
from store.lock import engine_alive
from store.reading import SessionReader
from store.rebuild import reader_at, rebuild
from store.rules import RULES
from store.sessions import create, find, inspect, list_sessions, liveness, remove
from store.writing import SessionWriter
from tests.store import story

pytestmark = pytest.mark.usefixtures("home")


def table(conn: sqlite3.Connection, name: str) -> list[tuple[object, ...]]:
    return conn.execute(f"SELECT * FROM {name} ORDER BY id").fetchall()


PROJECTED = ["session", "targets", "nodes", "variants", "verdicts", "model_calls"]


def test_rows_at_every_event_follow_from_the_events_alone() -> None:
    path, writer = story.begin()
    root = story.node(writer, None, ratio=1.5, action="draft")
    story.node(writer, root, ratio=None)
    child = story.node(writer, root, ratio=2.0)
    writer.emit("BestImproved", target=1, node=child, variant=3, ratio=2.0, time_ns=5, of_nodes=3)
    writer.emit("BranchPruned", target=1, node=child, nodes=1, by="person", reason="")
    writer.emit("CallReserved", target=1, node=root, call=1, micro_dollars=900, model="m")
    writer.emit("CallSettled", target=1, node=root, call=1, state="lost", micro_dollars=900,
                tokens_in=1, tokens_out=0)  # fmt: skip
    writer.emit("BranchUnpruned", target=1, node=child, nodes=1, by="person")
    with SessionReader(path) as reader:
        events = reader.events()
    snapshots = {}
    replay = sqlite3.connect(":memory:")
    writer.conn.backup(replay)
    for seq in range(1, len(events) + 1):
        snapshots[seq] = rebuild(events[:seq])
    final = snapshots[len(events)]
    for name in PROJECTED:
        assert table(final, name) == table(writer.conn, name), name
    assert snapshots[1].execute("SELECT state FROM session").fetchone() == ("new",)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    writer.close()


def test_rows_while_running_equal_the_rebuilt_ones() -> None:
    path, writer = story.begin()
    live = {}
    for ratio in (1.2, None, 0.7, 3.0):
        story.node(writer, None if ratio == 1.2 else 1, ratio=ratio)
        (seq,) = writer.conn.execute("SELECT max(seq) FROM events").fetchone()
        live[seq] = {name: table(writer.conn, name) for name in PROJECTED}
    with SessionReader(path) as reader:
        for seq, rows in live.items():
            past = reader_at(reader, seq)
            for name, expected in rows.items():
                assert table(past.conn, name) == expected
            assert past.last_seq() == seq
            assert past.program("hash1") is not None
    writer.close()


def test_backup_carries_the_best_of_a_branch_and_leaves_pruned_ones_out() -> None:
    path, writer = story.begin()
    root = story.node(writer, None, ratio=1.0, action="draft")
    child = story.node(writer, root, ratio=2.0)
    story.node(writer, child, ratio=3.0)
    story.node(writer, child, ratio=None)
    reader = SessionReader(path)
    before = {n.id: (n.visits, n.value) for n in reader.nodes()}
    assert before[root] == (4, pytest.approx(0.3))
    assert before[child] == (3, pytest.approx(0.3))
    writer.emit("BranchPruned", target=1, node=child, nodes=3, by="person", reason="")
    assert {n.id: n.value for n in reader.nodes()}[root] == pytest.approx(0.1)
    writer.emit("BranchUnpruned", target=1, node=child, nodes=3, by="person")
    assert {n.id: (n.visits, n.value) for n in reader.nodes()} == before
    writer.close()


def test_a_reader_sees_only_what_is_new() -> None:
    path, writer = story.begin()
    reader = SessionReader(path)
    assert reader.changed()
    assert not reader.changed()
    story.node(writer, None, ratio=1.1)
    assert reader.changed()
    seen = reader.last_seq()
    story.node(writer, 1, ratio=1.2)
    assert [n.id for n in reader.nodes(after_rev=seen)] == [1, 2]
    assert {event.node for event in reader.events(after=seen)} == {2}
    assert reader.samples(1) == [(4_000_000, int(4e6 / 1.1)), (4_100_000, int(4e6 / 1.1) + 5)]
    writer.close()


def test_one_engine_at_a_time_and_the_lock_tells_a_crash() -> None:
    path, writer = story.begin()
    with pytest.raises(SessionBusy):
        SessionWriter(path)
    assert engine_alive(path)
    assert inspect(path).state == "running"
    writer._lock.release()
    assert not engine_alive(path)
    assert inspect(path).state == "crashed"


def test_kill_minus_nine_frees_the_lock_and_keeps_every_event() -> None:
    code = (
        "import os, signal\n"
        "from tests.store import story\n"
        "path, writer = story.begin()\n"
        "story.node(writer, None, ratio=1.5)\n"
        "print(path, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    path = Path(done.stdout.strip())
    assert inspect(path).state == "crashed"
    writer = SessionWriter(path)
    assert [n.ratio for n in SessionReader(path).nodes()] == [1.5]
    writer.close()


def test_a_stopped_session_is_one_file_that_opens_in_a_read_only_folder(tmp_path: Path) -> None:
    path, writer = story.begin()
    story.node(writer, None, ratio=1.5)
    writer.emit("EngineStopped", state="finished", reason="done")
    writer.close()
    assert not Path(f"{path}-wal").exists()
    assert path.read_bytes()[18:20] == b"\x01\x01"  # no longer in WAL mode
    folder = tmp_path / "saved"
    folder.mkdir()
    copy = shutil.copy(path, folder)
    os.chmod(folder, 0o500)
    try:
        with SessionReader(Path(copy)) as reader:
            assert reader.session().state == "finished"
    finally:
        os.chmod(folder, 0o700)


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_a_crashed_session_opens_from_a_read_only_mount(tmp_path: Path) -> None:
    path, writer = story.begin()
    story.node(writer, None, ratio=1.5)
    folder = tmp_path / "saved"
    folder.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", folder)
    writer.close()
    code = f"from store.sessions import inspect; from pathlib import Path; print(inspect(Path('{folder}/{path.name}')))"  # noqa: E501
    mount = f'mount --bind {folder} {folder} && mount -o remount,ro,bind {folder} && {sys.executable} -c "{code}"'  # noqa: E501
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount], capture_output=True, text=True, check=False
    )
    if "mount" in done.stderr and "Permission" in done.stderr:
        pytest.skip("mounting is not allowed here")
    assert "state='crashed'" in done.stdout, done.stderr


@pytest.mark.parametrize("content", [b"", b"not a database at all, only text" * 50])
def test_a_damaged_file_is_listed_and_named(home: Path, content: bytes) -> None:
    path = create("suite:softmax", {})
    path.write_bytes(content)
    with pytest.raises(SessionDamaged):
        SessionReader(path)
    (info,) = list_sessions(home)
    assert info.state == "damaged"
    assert path.name in info.problem


def test_a_file_of_a_newer_version_is_refused() -> None:
    path = create("suite:softmax", {})
    conn = sqlite3.connect(path)
    conn.execute("PRAGMA user_version = 99")
    conn.close()
    with pytest.raises(SessionTooNew):
        SessionReader(path)
    with pytest.raises(SessionTooNew):
        SessionWriter(path)
    assert not engine_alive(path)


def test_find_by_beginning_and_newest() -> None:
    with pytest.raises(SessionNotFound):
        find(None)
    first, second = create("suite:softmax", {}), create("suite:softmax", {})
    assert find(None) == second
    assert find(first.name.removesuffix(".forge.db")) == first
    assert find(first.name) == find(str(first)) == first
    with pytest.raises(SessionNotFound, match="several"):
        find("soft")
    with pytest.raises(SessionNotFound):
        find("nothing")


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session that came with the package."""
    folder = tmp_path / "samples"
    folder.mkdir()
    for module in ("store.paths", "store.sessions"):
        monkeypatch.setattr(f"{module}.samples_folder", lambda: folder)
    path, writer = story.begin()
    story.node(writer, None, ratio=1.5)
    writer.close()
    return path.rename(folder / "rmsnorm.forge.db")


def test_samples_are_found_by_their_name_and_changed_by_nobody(sample: Path) -> None:
    assert sessions.samples() == [sample]
    assert find("sample:rmsnorm") == sample
    assert SessionReader(sample).node_counts() == {"scored": 1}
    assert inspect(sample).state == "crashed"
    assert list_sessions() == []
    with pytest.raises(SessionNotFound, match="nothing") as caught:
        find("sample:nothing")
    assert "sample:rmsnorm" in caught.value.cure
    before = sample.read_bytes()
    for change in (SessionWriter, remove, lambda path: commands.send(path, "pause")):
        with pytest.raises(FolderError, match="sample"):
            change(sample)
    assert sample.read_bytes() == before
    assert list(sample.parent.iterdir()) == [sample]


def test_a_package_without_samples_says_so(sample: Path) -> None:
    sample.unlink()
    with pytest.raises(SessionNotFound) as caught:
        find("sample:rmsnorm")
    assert caught.value.cure.endswith(": none")


def test_an_unwritable_data_folder_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("FORGE_HOME", str(tmp_path / "file"))
    with pytest.raises(FolderError, match=r"in the way|cannot make"):
        create("suite:softmax", {})


def test_commands_reach_the_engine_and_are_answered_once() -> None:
    path, writer = story.begin()
    number = commands.send(path, "prune", node=3)
    assert writer.new_commands() == [(number, "prune", {"node": 3})]
    assert commands.answer_to(path, number, 0) is None
    writer.answer(number, "prune", False, "there is no node 3")
    assert commands.answer_to(path, number, 0) == (False, "there is no node 3")
    assert writer.new_commands() == []
    writer.close()


def test_remove_refuses_a_running_session() -> None:
    path, writer = story.begin()
    with pytest.raises(SessionBusy):
        remove(path)
    writer.close()
    remove(path)
    assert list(path.parent.iterdir()) == []


def test_liveness_of_a_session_being_taken_up() -> None:
    path = create("suite:softmax", {})
    row = SessionReader(path).session()
    assert liveness(row, path) == "new"
    writer = SessionWriter(path)
    assert liveness(row, path) == "starting"
    # An engine that has said its last word lives on for a moment, and is not starting.
    writer.emit("EngineStopped", state="finished", reason="")
    assert liveness(SessionReader(path).session(), path) == "finished"
    writer.close()


def test_a_name_for_several_names_them() -> None:
    for _ in range(2):
        create("suite:softmax", {})
    with pytest.raises(SessionNotFound) as caught:
        find("softmax")
    assert all(info.session in caught.value.message for info in list_sessions())


def test_every_rule_is_for_a_kind_of_the_catalogue() -> None:
    assert set(RULES) <= set(EVENTS)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("Nonsense", {}),
        ("NodeStage", {}),
        ("NodeStage", {"stage": 3}),
        ("NodeStage", {"stage": "x", "more": 1}),
        ("BudgetReached", {"which": "nodes", "spent": float("nan"), "cap": 1.0}),
        ("VariantScreened", {"variant": True, "time_ns": 1, "ratio": 1.0}),
    ],
)
def test_events_that_do_not_fit_the_catalogue_are_refused(
    kind: str, payload: dict[str, object]
) -> None:
    with pytest.raises(EventError):
        encode(kind, payload)


def test_a_failing_transaction_leaves_no_trace() -> None:
    path, writer = story.begin()
    seq = SessionReader(path).last_seq()

    def both() -> None:
        with writer.together():
            writer.emit("SearchPausing")
            writer.emit("NodeStage", stage=1)

    with pytest.raises(EventError):
        both()
    assert SessionReader(path).last_seq() == seq
    assert SessionReader(path).session().state == "running"
    writer.close()


def test_active_time_survives_a_restart() -> None:
    path, writer = story.begin()
    writer.active_us = 5_000_000
    writer.beat(1, {"stage": "x"}, {})
    writer.close()
    again = SessionWriter(path)
    assert again.active_us == 5_000_000
    again.close()
