"""What is kept of the machine: measured values and the device's lease."""

from __future__ import annotations

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
