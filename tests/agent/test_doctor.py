"""What doctor says in every state that a machine can be in; the states are made up."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from agent import doctor
from agent.doctor import Asked, gather, read_stages
from agent.doctor_gpu import Found, after_compiler, before_compiler, spare_worker, torch_line

if TYPE_CHECKING:
    from pathlib import Path

UUID = "GPU-5e3d1c6a-0000-1111-2222-333344445555"
H200: dict[str, Any] = {
    "uuid": UUID, "name": "NVIDIA H200", "driver": "580.95.05", "cuda": 13000,
    "capability": "9.0", "memory_total": 150 << 30, "memory_free": 149 << 30,
    "compute_mode": "default", "max_sm_mhz": 1980, "sm_mhz": 345, "mem_mhz": 3201,
    "temperature": 31, "power_w": 77.4, "throttle": ["idle"], "processes": [], "mig": False,
}  # fmt: skip
STAGES: dict[str, dict[str, Any]] = {
    "nvrtc": {"ok": {"version": [13, 0], "supported": [80, 90, 100]}},
    "headers": {"ok": {"where": "/usr/local/cuda/include"}},
    "driver": {"ok": {"name": "NVIDIA H200", "uuid": UUID, "runs": [13, 0],
                      "capability": [9, 0], "arch": "sm_90a", "sms": 132}},
    "build": {"ok": {"seconds": 0.11}},
}  # fmt: skip
GOOD = Found(
    gpus=[H200], stages=STAGES, card=True, sanitizer="/cuda/bin/compute-sanitizer",
    profiler="/cuda/bin/ncu", restricted=False,
)  # fmt: skip
NO_DRIVER = {
    "error": "this machine has no NVIDIA driver",
    "cure": "install it",
    "code": "no-driver",
}
NOTHING = Found(stages={**STAGES, "driver": NO_DRIVER})


def lines(found: Found) -> dict[str, dict[str, Any]]:
    said = [*before_compiler(found), *after_compiler(found), spare_worker(found)]
    assert all(set(one) == {"check", "ok", "what", "cure"} for one in said)
    assert all("\n" not in one["what"] + one["cure"] for one in said)
    # Whatever is wrong says what to do.
    assert all(one["cure"] for one in said if one["ok"] is False), said
    return {one["check"]: one for one in said}


def with_gpu(**changes: Any) -> Found:
    return replace(GOOD, gpus=[{**H200, **changes}])


def with_stage(name: str, **stage: Any) -> Found:
    return replace(GOOD, stages={**STAGES, name: stage})


def test_a_good_machine_is_fine_in_every_line() -> None:
    said = lines(GOOD)
    assert list(said) == [
        "gpu", "driver", "nvrtc", "headers", "build", "gpu memory", "clocks", "compute mode",
        "other processes", "sanitizer", "counters", "spare worker",
    ]  # fmt: skip
    assert {one["ok"] for one in said.values()} == {True}
    assert "H200, 150 GiB, compute capability 9.0" in said["gpu"]["what"]
    assert "580.95.05" in said["driver"]["what"]
    assert "sm_90a" in said["nvrtc"]["what"]
    assert "0.11 s" in said["build"]["what"]
    assert said["clocks"]["what"] == "345 of 1980 MHz (idle), 31 °C, 77 W"


def test_without_a_gpu_there_are_few_lines_and_no_failure() -> None:
    said = lines(NOTHING)
    assert list(said) == ["gpu", "driver", "nvrtc", "headers", "build", "spare worker"]
    assert all(one["ok"] is None for name, one in said.items() if name != "spare worker")
    bare = {
        "error": "NVIDIA's Python packages are missing",
        "cure": "pip",
        "code": "no-cuda-python",
    }
    said = lines(Found(stages=dict.fromkeys(STAGES, bare)))
    assert all(one["ok"] is None for name, one in said.items() if name != "spare worker")


def test_a_card_without_a_driver_is_a_failure() -> None:
    said = lines(replace(NOTHING, card=True))
    assert (said["gpu"]["ok"], said["driver"]["ok"]) == (False, False)
    assert "on the bus" in said["gpu"]["what"]
    assert "driver" in said["gpu"]["cure"]


def test_a_driver_older_than_the_compiler_cannot_load_its_code() -> None:
    old = {"ok": {**STAGES["driver"]["ok"], "runs": [12, 8]}}
    said = lines(with_stage("driver", **old))["driver"]
    assert said["ok"] is False
    assert "runs CUDA 12.8: older than NVRTC 13.0" in said["what"]
    assert "580.65" in said["cure"]
    assert "cuda-core[cu12]" in said["cure"]
    newer = {"ok": {"version": [13, 5], "supported": [90]}}
    assert lines(with_stage("nvrtc", **newer))["driver"]["ok"] is True


def test_a_compiler_older_than_the_gpu_does_not_know_it() -> None:
    said = lines(with_stage("nvrtc", ok={"version": [12, 0], "supported": [70, 80]}))["nvrtc"]
    assert (said["ok"], "does not know" in said["what"]) == (False, True)


def test_a_gpu_that_is_too_old() -> None:
    old = {**STAGES["driver"]["ok"], "capability": [7, 0], "arch": "sm_70"}
    assert lines(with_stage("driver", ok=old))["gpu"]["ok"] is False


@pytest.mark.parametrize("name", ["nvrtc", "headers", "build"])
def test_a_stage_that_fails_fails_where_a_gpu_is(name: str) -> None:
    fault = {"error": "the CUDA headers are missing", "cure": "set CUDA_HOME", "code": "x"}
    said = lines(with_stage(name, **fault))[name]
    assert (said["ok"], said["what"], said["cure"]) == (False, fault["error"], fault["cure"])
    without = replace(NOTHING, stages={**NOTHING.stages, name: fault})
    assert lines(without)[name]["ok"] is None


def test_mig_is_a_note_with_a_cure() -> None:
    said = lines(with_gpu(mig=True))["gpu"]
    assert said["ok"] is None
    assert "MIG is on" in said["what"]
    assert "-mig 0" in said["cure"]
    part = {**STAGES["driver"]["ok"], "uuid": "MIG-1"}
    assert "MIG is on" in lines(with_stage("driver", ok=part))["gpu"]["what"]


@pytest.mark.parametrize("mode", ["exclusive process", "prohibited"])
def test_an_exclusive_gpu_says_what_will_not_work(mode: str) -> None:
    said = lines(with_gpu(compute_mode=mode))
    assert said["compute mode"]["ok"] is False
    assert mode in said["compute mode"]["what"]
    assert "judge" in said["compute mode"]["what"]
    assert "nvidia-smi -c DEFAULT" in said["compute mode"]["cure"]
    assert said["spare worker"]["ok"] is None


def test_clocks_that_are_held_or_slowed_down_are_notes() -> None:
    hot = lines(with_gpu(throttle=["power cap", "hardware thermal"]))["clocks"]
    assert hot["ok"] is None
    assert "slowed down by hardware thermal" in hot["what"]
    held = lines(with_gpu(held_sm_mhz=1500))["clocks"]
    assert (held["ok"], "set to 1500 MHz" in held["what"]) == (None, True)


def test_others_on_the_gpu_are_named_and_bounded() -> None:
    users = [{"pid": at, "name": "python", "memory": 3 << 30, "busy": 0} for at in range(20)]
    said = lines(with_gpu(processes=users))["other processes"]
    assert said["ok"] is None
    assert said["what"].startswith("0 python 3.0 GiB, 1 python")
    assert said["what"].endswith("and 14 more")


def test_a_full_gpu_or_a_full_machine_has_no_room_for_a_spare() -> None:
    said = lines(with_gpu(memory_free=1 << 30))
    assert said["gpu memory"]["ok"] is None
    assert "GPU memory" in said["spare worker"]["what"]
    assert "of memory are free" in lines(replace(GOOD, memory=1 << 30))["spare worker"]["what"]


def test_counters_need_the_tool_and_the_right() -> None:
    said = lines(replace(GOOD, restricted=True))["counters"]
    assert said["ok"] is None
    assert "options nvidia NVreg_RestrictProfilingToAdminUsers=0" in said["cure"]
    assert lines(replace(GOOD, restricted=None))["counters"]["ok"] is None
    said = lines(replace(GOOD, profiler="", sanitizer=""))
    assert (said["counters"]["ok"], said["sanitizer"]["ok"]) == (None, None)


def test_gpus_that_cuda_does_not_see() -> None:
    unseen = {"error": "the driver sees no GPU", "cure": "check", "code": "no-gpu"}
    hidden = replace(with_stage("driver", **unseen), visible="")
    said = lines(hidden)
    assert said["gpu"]["ok"] is False
    assert "CUDA_VISIBLE_DEVICES is empty" in said["gpu"]["what"]
    assert "unset" in said["gpu"]["cure"]
    assert "compute mode" not in said
    missing = {"error": "packages are missing", "cure": "pip install", "code": "no-cuda-python"}
    said = lines(with_stage("driver", **missing))
    assert (said["gpu"]["ok"], said["gpu"]["cure"]) == (False, "pip install")


def test_the_gpu_in_use_is_told_apart_by_its_uuid() -> None:
    other = {**H200, "uuid": "GPU-other", "memory_free": 0, "compute_mode": "prohibited"}
    said = lines(replace(GOOD, gpus=[other, H200]))
    assert said["compute mode"]["ok"] is True
    assert "one of 2 GPUs" in said["gpu"]["what"]


def test_a_gpu_without_nvml_is_used_all_the_same() -> None:
    said = lines(replace(GOOD, gpus=[]))
    assert said["gpu"]["ok"] is True
    assert said["clocks"]["what"] == "not known"
    assert False not in {one["ok"] for one in said.values()}


def test_a_driver_that_hangs_is_a_failure() -> None:
    stages = {name: STAGES[name] for name in ("nvrtc", "headers")}
    said = lines(Found(gpus=None, stages=stages, hung="driver"))
    assert (said["gpu"]["ok"], said["driver"]["ok"], said["build"]["ok"]) == (False, False, None)
    assert "does not come back" in said["gpu"]["what"]
    assert "driver did not come back" in said["build"]["what"]


def test_torch_must_fit_the_gpu_and_the_driver() -> None:
    assert torch_line("2.13+cpu", "", NOTHING)["ok"] is True
    wrong = torch_line("2.13+cpu", "", GOOD)
    assert (wrong["ok"], bool(wrong["cure"])) == (False, True)
    assert torch_line("2.11", "13.0", GOOD)["ok"] is True
    assert torch_line("2.11", "13.0", NOTHING)["ok"] is True
    old = with_stage("driver", ok={**STAGES["driver"]["ok"], "runs": [12, 4]})
    assert torch_line("2.11", "12.8", old)["ok"] is True
    late = torch_line("2.11", "13.0", old)
    assert (late["ok"], "12.4" in late["what"], "580.65" in late["cure"]) == (False, True, True)


def test_reads_what_the_probe_said_before_it_hung() -> None:
    told = '{"stage": "nvrtc"}\n{"stage": "nvrtc", "ok": {"version": [13, 5]}}\nnoise\n7\n'
    stages, last = read_stages(told + '{"stage": "driver"}\n{"stage')
    assert stages == {"nvrtc": {"stage": "nvrtc", "ok": {"version": [13, 5]}}}
    assert last == "driver"


def test_a_process_that_never_answers_is_given_up() -> None:
    talk = 'import sys, time; print(\'{"stage": "driver"}\', flush=True); time.sleep(60)'
    started = time.monotonic()
    hanging = Asked(["-c", talk], 1.5)
    silent = Asked(["-c", "import time; time.sleep(60)"], 0.1)
    found = gather(silent, hanging)
    assert time.monotonic() - started < 20
    assert (found.gpus, found.hung) == (None, "driver")


def test_a_process_that_breaks_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_card", lambda: False)
    found = gather(Asked(["-c", "raise SystemExit(3)"], 20), Asked(["-c", "print('[1')"], 20))
    assert (found.gpus, found.stages, found.hung) == ([], {}, "")
    assert found.expected is False


def test_the_rights_to_counters_are_the_drivers_word(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "_DRIVER_SETTINGS", tmp_path / "params")
    assert doctor._restricted() is None
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    (tmp_path / "params").write_text("ResmanDebugLevel: 4\nRmProfilingAdminOnly: 1\n")
    assert doctor._restricted() is True
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert doctor._restricted() is False
    (tmp_path / "params").write_text("RmProfilingAdminOnly: 0\n")
    assert doctor._restricted() is False


def test_a_card_is_seen_on_the_bus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "_PCI", f"{tmp_path}/*")
    for name, vendor, kind in (("a", "0x10de", "0x040300"), ("b", "0x1002", "0x030000")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(vendor + "\n")
        (tmp_path / name / "class").write_text(kind + "\n")
    (tmp_path / "c").mkdir()
    assert doctor._card() is False
    (tmp_path / "a" / "class").write_text("0x030200\n")
    assert doctor._card() is True


@pytest.mark.usefixtures("home")
def test_the_whole_examination_keeps_its_order_and_loads_no_torch() -> None:
    torch_loaded = "torch" in sys.modules
    names = [check["check"] for check in doctor.checks()]
    for earlier, later in (
        ("python", "torch"), ("torch", "gpu"), ("gpu", "driver"), ("driver", "nvrtc"),
        ("nvrtc", "headers"), ("headers", "build"), ("build", "compiler"),
        ("compiler", "landlock"), ("landlock", "spare worker"), ("spare worker", "memory"),
        ("memory", "cpu"), ("cpu", "data folder"), ("data folder", "file system"),
    ):  # fmt: skip
        assert names.index(earlier) < names.index(later)
    assert ("torch" in sys.modules) == torch_loaded


@pytest.mark.gpu
def test_this_gpu_is_described(home: Path) -> None:
    found = {check["check"]: check for check in doctor.checks()}
    for name in ("torch", "gpu", "driver", "nvrtc", "headers", "build"):
        assert found[name]["ok"] is not False, found[name]
    assert "sm_" in found["nvrtc"]["what"]
    assert {"gpu memory", "clocks", "compute mode", "sanitizer", "counters"} <= set(found)
