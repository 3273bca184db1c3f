"""Session files cut short, with bits turned, or with another's log: damaged or read."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from store.errors import FolderError, SessionDamaged, StoreError
from store.lease import DeviceLease
from store.lock import engine_alive
from store.machine import MachineStore
from store.paths import lock_path
from store.reading import SessionReader
from store.sessions import inspect
from store.spending import ledger
from store.writing import SessionWriter
from tests.store.story import asked, begin, node

pytestmark = pytest.mark.usefixtures("home")


def saved() -> Path:
    path, writer = begin()
    for number in range(6):
        made = node(writer, None, ratio=None if number == 2 else 1.0 + number / 10)
        for state in ("paid", "failed", "lost"):
            asked(writer, made, state=state, cost=None if number == 3 else 900, estimated=True)
    writer.emit("HintGiven", target=1, text="use shared memory", by="person")
    asked(writer, made, state="reserved")
    writer.close()
    return path


def read_all(path: Path) -> None:
    with SessionReader(path) as reader:
        reader.targets(), reader.events(), reader.heartbeat(), reader.node_counts()
        reader.micro_dollars(), reader.pending_commands(), reader.last_seq()
        reader.spending(), ledger(reader)
        for call in reader.calls():
            reader.reply(call.id)
            reader.prompt(call.prompt or "")
        for row in reader.nodes():
            reader.variants(row.id), reader.verdicts(row.id), reader.stream(row.id)
            for verdict in reader.verdicts(row.id):
                reader.samples(verdict.id)


def survive(path: Path) -> None:
    """Every way to open it ends well or in a StoreError of one line."""
    said = [inspect(path).problem]
    for attempt in (read_all, lambda path: SessionWriter(path).close()):
        try:
            attempt(path)
        except StoreError as error:
            said.append(error.message)
    assert all(text.isprintable() and len(text) < 400 for text in said)


def test_files_cut_short_at_any_length() -> None:
    path = saved()
    whole = path.read_bytes()
    lengths = [0, 1, 16, 99, 100, 511, 512, 4095, 4096, 4097, len(whole) // 2, len(whole) - 1]
    for length in [*lengths, *range(5000, len(whole), 17_001)]:
        path.write_bytes(whole[:length])
        survive(path)
        path.with_name(path.name + "-wal").unlink(missing_ok=True)


def test_files_with_bits_turned() -> None:
    path = saved()
    whole, choose = path.read_bytes(), random.Random(5)
    for turn in range(60):
        data = bytearray(whole)
        for _ in range(choose.choice([1, 5, 60, 600])):
            data[choose.randrange(100 if turn % 9 else 0, len(data))] ^= 1 << choose.randrange(8)
        for suffix in ("-wal", "-shm", "-journal"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        path.write_bytes(bytes(data))
        survive(path)


def test_an_empty_file_is_refused_and_stays_empty() -> None:
    path = saved()
    path.write_bytes(b"")
    with pytest.raises(SessionDamaged):
        SessionWriter(path)
    assert path.read_bytes() == b""
    SessionDamaged("x")
    assert not engine_alive(path)


def test_the_log_of_another_session_beside_it() -> None:
    path, (other, writer) = saved(), begin()
    node(writer, None, ratio=2.0)
    log = Path(f"{other}-wal").read_bytes()
    writer.close()
    Path(f"{path}-wal").write_bytes(log)
    survive(path)


def test_folders_in_the_place_of_locks() -> None:
    path = saved()
    lock_path(path).unlink(missing_ok=True)
    lock_path(path).mkdir()
    assert not engine_alive(path)
    with pytest.raises(FolderError):
        SessionWriter(path)
    home = path.parent.parent
    (home / "lease-cpu.lock").mkdir()
    with pytest.raises(FolderError):
        DeviceLease(home, "cpu")


def test_what_is_known_of_the_machine_with_bits_turned(tmp_path: Path) -> None:
    path = tmp_path / "machine.db"
    store = MachineStore(path)
    for number in range(30):
        store.learn("m", "cuda", f"key-{number % 7}", "include nothing")
        store.put("rate", "m", f"{number}", {"v": number})
    store.close()
    whole, choose, said = path.read_bytes(), random.Random(7), []
    for turn in range(40):
        data = bytearray(whole[: None if turn % 8 else choose.randrange(len(whole))])
        for _ in range(choose.choice([1, 5, 60, 600])):
            data[choose.randrange(100 if turn % 9 else 0, len(data))] ^= 1 << choose.randrange(8)
        for suffix in ("-wal", "-shm", "-journal"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        path.write_bytes(bytes(data))
        try:
            store = MachineStore(path)
            store.rules(muted=True)
            store.learn("m", "cuda", "key-1", "again")
            store.close()
        except FolderError as error:
            said.append(error.message)
    assert said
    assert all(text.isprintable() and "machine.db" in text for text in said)
