"""What is kept of the machine: measured values, learned rules, and the device's lease."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from store.errors import FolderError
from store.lease import DeviceLease
from store.machine import MachineStore
from store.paths import network_file_system, read_only_mount

if TYPE_CHECKING:
    from pathlib import Path


def test_values_are_kept_by_kind_machine_and_key(tmp_path: Path) -> None:
    store = MachineStore(tmp_path / "machine.db")
    store.put("sol", "cpu|2", "1024+1024", {"ns": 7})
    store.put("sol", "cpu|2", "1024+1024", {"ns": 8})
    assert store.get("sol", "cpu|2", "1024+1024") == {"ns": 8}
    assert store.get("sol", "cpu|4", "1024+1024") is None
    store.close()
    again = MachineStore(tmp_path / "machine.db")
    assert again.get("sol", "cpu|2", "1024+1024") == {"ns": 8}
    again.close()


def test_many_processes_may_open_it_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from store.machine import MachineStore\n"
        "store = MachineStore(Path(sys.argv[1]))\n"
        "for i in range(50): store.put('rate', 'm', f'{sys.argv[2]}-{i}', {'v': i})\n"
    )
    path = tmp_path / "machine.db"
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), str(n)]) for n in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    store = MachineStore(path)
    assert all(store.get("rate", "m", f"{n}-{i}") == {"v": i} for n in range(4) for i in range(50))
    store.close()


def test_a_rule_is_learned_once_and_counted(tmp_path: Path) -> None:
    store = MachineStore(tmp_path / "machine.db")
    store.learn("gpu", "cuda", "header:mma", "include no mma.h")
    store.learn("gpu", "cuda", "unknown:float5", "there is no float5")
    store.learn("gpu", "cuda", "header:mma", "do not include mma.h")
    store.learn("cpu", "cpp", "header:mma", "use no mma.h")
    first, second = store.rules("gpu", "cuda")
    assert (first.key, first.text, first.count) == ("header:mma", "do not include mma.h", 2)
    assert (second.key, second.count, second.muted) == ("unknown:float5", 1, 0)
    assert first.first_us <= first.last_us
    assert [rule.machine for rule in store.rules(language="cpp")] == ["cpu"]
    assert len(store.rules()) == 3
    store.close()


def test_a_person_mutes_and_forgets_rules(tmp_path: Path) -> None:
    store = MachineStore(tmp_path / "machine.db")
    store.learn("gpu", "cuda", "a", "A")
    store.learn("gpu", "cuda", "b", "B")
    store.learn("other", "cuda", "a", "A")
    assert store.mute("a", "gpu", True)
    store.learn("gpu", "cuda", "a", "A again")
    assert [rule.key for rule in store.rules("gpu")] == ["b"]
    assert [(rule.key, rule.muted, rule.count) for rule in store.rules("gpu", muted=True)] == [
        ("a", 1, 2), ("b", 0, 1),
    ]  # fmt: skip
    assert [rule.key for rule in store.rules("other")] == ["a"]
    assert store.mute("a", "gpu", False)
    assert [rule.key for rule in store.rules("gpu")] == ["a", "b"]
    assert store.forget("a", "gpu")
    assert not store.forget("a", "gpu")
    assert not store.mute("a", "gpu", True)
    assert [rule.key for rule in store.rules("gpu")] == ["b"]
    store.close()


def test_rules_are_one_bounded_printable_line(tmp_path: Path) -> None:
    store = MachineStore(tmp_path / "machine.db")
    store.learn("gpu", "cuda", "k\x1b[2J\n" * 200, "never\x07 \n do\ud800 this " + "x" * 5_000)
    (rule,) = store.rules()
    assert rule.key.isprintable()
    assert rule.text.isprintable()
    assert len(rule.key) <= 200
    assert len(rule.text) <= 500
    assert rule.text.startswith("never do? this xxx")
    store.close()


def test_no_flood_of_rules_pushes_out_the_frequent_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.machine.MAX_RULES", 10)
    store = MachineStore(tmp_path / "machine.db")
    for _ in range(2):
        store.learn("gpu", "cuda", "often", "seen often")
    store.learn("gpu", "cuda", "quiet", "muted")
    store.mute("quiet", "gpu", True)
    store.learn("cpu", "cpp", "other", "of another language")
    for number in range(30):
        store.learn("gpu", "cuda", f"once-{number}", "seen once")
    keys = [rule.key for rule in store.rules("gpu", "cuda", muted=True)]
    assert len(keys) == 11
    assert {"often", "quiet", "once-29"} <= set(keys)
    assert len(store.rules("cpu")) == 1
    store.close()


def test_many_processes_bring_an_older_file_up_to_date_and_count_together(tmp_path: Path) -> None:
    path = tmp_path / "machine.db"
    store = MachineStore(path)
    store.put("sol", "m", "k", {"ns": 7})
    store.close()
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("DROP TABLE rules")
    conn.execute("DELETE FROM _sqlite_migrations WHERE name = 'm002_rules'")
    conn.execute("PRAGMA user_version = 1")
    conn.close()
    code = (
        "import sys; from pathlib import Path; from store.machine import MachineStore\n"
        "store = MachineStore(Path(sys.argv[1]))\n"
        "for i in range(25): store.learn('m', 'cpp', 'same', 'text')\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    store = MachineStore(path)
    assert [rule.count for rule in store.rules("m", "cpp")] == [100]
    assert store.get("sol", "m", "k") == {"ns": 7}
    store.close()


def test_a_damaged_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "machine.db"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(FolderError, match=r"machine\.db"):
        MachineStore(path)


def test_one_holder_of_a_device_at_a_time(tmp_path: Path) -> None:
    one, two = DeviceLease(tmp_path, "cpu"), DeviceLease(tmp_path, "cpu")
    assert one.try_take("first")
    assert not two.try_take("second")
    assert two.holder() == "first"
    one.give_back()
    assert two.try_take("second")
    two.close()
    assert one.try_take("first")
    one.close()


def test_local_folders_are_told_from_network_ones(tmp_path: Path) -> None:
    assert network_file_system(tmp_path) is None
    assert not read_only_mount(tmp_path)


def test_a_fault_of_the_file_names_it_and_not_the_session(tmp_path: Path) -> None:
    store = MachineStore(tmp_path / "machine.db")
    with sqlite3.connect(tmp_path / "machine.db") as other:
        other.execute("DROP TABLE measured")
    with pytest.raises(FolderError, match=r"machine\.db"):
        store.get("sol", "cpu|2", "1024+1024")
    with pytest.raises(FolderError, match=r"machine\.db"):
        store.put("sol", "cpu|2", "1024+1024", {"ns": 7})
    store.close()
