"""Conditions of a GPU: what is made of a driver's numbers, and of a driver that goes away."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import Any

import pytest

from agent.devices.cuda import nvml, smi
from agent.devices.cuda.conditions import MAX_PROCESSES, clean, conditions, reasons
from agent.devices.cuda.nvml import Conditions, disturbed

UUID = "GPU-5e3d1c6a-0000-1111-2222-333344445555"
OWN = 4242
IDLE = {
    "sm_mhz": 345, "mem_mhz": 3201, "temperature": 31, "power_mw": 77_412, "reasons": 0x1,
    "utilisation": 0, "processes": [], "busy": None,
}  # fmt: skip
LOADED = {
    "sm_mhz": 1980, "mem_mhz": 3201, "temperature": 58, "power_mw": 602_000, "reasons": 0x4,
    "utilisation": 97, "processes": [(OWN, 3 << 30, "python"), (7, 1 << 30, "/usr/bin/jupyter")],
    "busy": [(OWN, 90), (OWN, 95), (7, 0)],
}  # fmt: skip


class FakeError(Exception):
    def __init__(self, value: int = 999) -> None:
        super().__init__(value)
        self.value = value


class FakeNvml:
    """A driver with two GPUs that can be taken away, or lack what is asked."""

    NVMLError = FakeError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU, NVML_ERROR_NOT_FOUND = 1, 2, 0, 6

    def __init__(self, lacks: tuple[str, ...] = ()) -> None:
        self.gone = False
        self.opened = 0
        self.lacks = lacks
        self.busy: list[tuple[int, int]] | None = [(OWN, 80)]
        self.answers: dict[str, Any] = {
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=12, memory=3),
            "nvmlDeviceGetComputeRunningProcesses": [
                SimpleNamespace(pid=pid, usedGpuMemory=1 << 30) for pid in (OWN, 7)
            ],
            "nvmlDeviceGetTemperatureV": 40,
            "nvmlDeviceGetTemperature": 41,
            "nvmlDeviceGetPowerUsage": 77_412,
            "nvmlDeviceGetCurrentClocksEventReasons": 0x5,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x9,
            "nvmlDeviceGetMigMode": [0, 0],
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=150 << 30, free=149 << 30),
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetComputeMode": 3,
            "nvmlDeviceGetName": "NVIDIA H200",
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetApplicationsClock": 1500,
            "nvmlDeviceGetDefaultApplicationsClock": 1980,
            "nvmlSystemGetDriverVersion": "580.95.05",
            "nvmlSystemGetCudaDriverVersion": 13000,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetUUID": UUID,
        }

    def nvmlInit(self) -> None:
        if self.gone:
            raise FakeError
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1
        if self.gone:
            raise FakeError

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in (UUID, "MIG-part"):
            raise FakeError
        return uuid

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return UUID

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: str) -> str:
        assert handle == "MIG-part"
        return UUID

    def nvmlDeviceGetClockInfo(self, handle: str, clock: int) -> int:
        if self.gone:
            raise FakeError
        assert handle == UUID
        return 345 if clock == self.NVML_CLOCK_SM else 3201

    def nvmlDeviceGetProcessUtilization(self, handle: str, since: int) -> list[Any]:
        assert abs(time.time_ns() // 1000 - since) < 60_000_000
        if self.busy is None:
            raise FakeError(3)
        if not self.busy:
            raise FakeError(self.NVML_ERROR_NOT_FOUND)
        return [SimpleNamespace(pid=pid, smUtil=share) for pid, share in self.busy]

    def __getattr__(self, name: str) -> Any:
        if name in self.lacks or name not in self.answers:
            raise AttributeError(name)

        def answer(*_: Any) -> Any:
            if self.gone:
                raise FakeError
            return self.answers[name]

        return answer


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setattr(nvml, "_load_nvml", lambda: fake if fake.nvmlInit() is None else None)
    return fake


def test_a_sample_is_in_plain_units_and_leaves_out_what_is_not_known() -> None:
    found = conditions(LOADED)
    assert (found["power_w"], found["throttle"], found["sm_mhz"]) == (602.0, ["power cap"], 1980)
    own, other = found["processes"]
    assert (own["busy"], own["memory"]) == (95, 3 << 30)
    assert (other["name"], other["busy"]) == ("jupyter", 0)
    assert conditions({"sm_mhz": None}) == {}
    assert conditions({"processes": [(1, None, "x")]})["processes"][0]["busy"] is None


def test_reasons_have_names_and_heat_is_apart_from_idling() -> None:
    assert reasons(0) == []
    assert reasons(0x1 | 0x2) == ["idle", "application clocks"]
    assert reasons(0x40 | 0x80 | 0x4000) == ["hardware thermal", "power brake", "0x4000"]
    assert not {"idle", "application clocks", "power cap"} & set(nvml.HARMFUL)


def test_names_and_numbers_of_processes_are_bounded() -> None:
    many = [(pid, None, "/bin/" + "x" * 500 + "\x1b[2J") for pid in range(1000)]
    found = conditions({"processes": many})["processes"]
    assert len(found) == MAX_PROCESSES
    assert len(found[0]["name"]) <= 60
    assert clean("a\x1b]0;b") == "a?]0;b"


def test_a_quiet_measurement_is_not_disturbed() -> None:
    assert disturbed({}, {}, [OWN]) == ""
    assert disturbed(conditions(IDLE), conditions(LOADED), [OWN]) == ""


def test_heat_and_another_busy_process_disturb() -> None:
    quiet = conditions(LOADED)
    hot = conditions({**LOADED, "reasons": 0x40 | 0x4})
    assert "hardware thermal" in disturbed(quiet, hot, [OWN])
    assert "hardware thermal" in disturbed(hot, quiet, [OWN])
    busy = conditions({**LOADED, "busy": [(OWN, 50), (7, 48)]})
    assert disturbed(quiet, busy, [OWN]) == "process 7 (jupyter) uses 48 % of the GPU"
    assert disturbed(quiet, busy, [OWN, 7]) == ""


def test_a_newcomer_disturbs_where_shares_are_not_known() -> None:
    before = conditions({**LOADED, "processes": LOADED["processes"][:1], "busy": None})
    after = conditions({**LOADED, "busy": None})
    assert "came onto the GPU" in disturbed(before, after, [OWN])
    assert disturbed(after, after, [OWN]) == ""


def test_processes_numbered_by_the_host_are_not_taken_for_others() -> None:
    sample = conditions({**LOADED, "busy": [(OWN, 90), (7, 60)]})
    assert disturbed(sample, sample, [1]) == ""


def test_reads_by_uuid_and_gives_the_driver_back(driver: FakeNvml) -> None:
    with_prefix = Conditions(UUID)
    sample = with_prefix.sample()
    assert (sample["sm_mhz"], sample["mem_mhz"], sample["temperature"]) == (345, 3201, 40)
    assert sample["throttle"] == ["idle", "power cap"]
    assert {p["pid"]: p["busy"] for p in sample["processes"]} == {OWN: 80, 7: 0}
    assert sample["mig"] is False
    bare = Conditions(UUID.removeprefix("GPU-"))
    assert bare.sample()["power_w"] == 77.4
    part = Conditions("MIG-part")
    assert part.sample()["sm_mhz"] == 345
    unnamed = Conditions("part")
    assert unnamed.sample()["sm_mhz"] == 345
    assert driver.opened == 4
    for made in (with_prefix, bare, part, unnamed):
        made.close()
        made.close()
    assert driver.opened == 0
    assert Conditions("GPU-unknown").sample() == {}
    assert driver.opened == 0


def test_an_old_driver_is_asked_in_the_old_way(
    driver: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons")
    monkeypatch.setattr(driver, "lacks", new)
    sample = Conditions(UUID).sample()
    assert (sample["temperature"], sample["throttle"]) == (41, ["idle", "hardware slowdown"])


def test_shares_nobody_can_tell_are_unknown_and_none_are_zero(driver: FakeNvml) -> None:
    reader = Conditions(UUID)
    driver.busy = None
    assert [p["busy"] for p in reader.sample()["processes"]] == [None, None]
    driver.busy = []
    assert [p["busy"] for p in reader.sample()["processes"]] == [0, 0]


def test_a_driver_that_goes_away_is_an_empty_answer(driver: FakeNvml) -> None:
    reader = Conditions(UUID)
    assert reader.sample()
    driver.gone = True
    assert reader.sample() == {}
    driver.gone = False
    assert reader.sample() == {}
    reader.close()


def test_the_survey_says_what_a_gpu_is(driver: FakeNvml) -> None:
    (gpu,) = nvml.survey()
    assert (gpu["uuid"], gpu["name"], gpu["capability"]) == (UUID, "NVIDIA H200", "9.0")
    assert (gpu["driver"], gpu["cuda"], gpu["memory_total"]) == ("580.95.05", 13000, 150 << 30)
    assert (gpu["compute_mode"], gpu["held_sm_mhz"]) == ("exclusive process", 1500)
    assert gpu["sm_mhz"] == 345
    assert driver.opened == 0


def test_without_a_driver_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_load_nvml", lambda: None)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert nvml.survey() == []
    assert Conditions(UUID).sample() == {}


SMI = (
    f"{UUID}, NVIDIA H200, 580.95.05, 9.0, 143771, 143167, Disabled, Exclusive_Process, 1980, "
    "345, 3201, 31, 77.41, 0, 0x0000000000000001\n"
    "GPU-other, NVIDIA A100, 580.95.05, 8.0, 40960, 100, Enabled, Default, 1410, "
    "[N/A], 1215, 30, [Not Supported], [N/A], 0x0000000000000060\n"
)
APPS = (
    f"{UUID}, 4242, 512, /usr/bin/python3\n{UUID}, 7, [N/A], [Insufficient Permissions]\nnonsense\n"
)


def test_reads_what_nvidia_smi_prints() -> None:
    first, second = smi.parse(SMI, APPS)
    assert (first["memory_total"], first["compute_mode"]) == (143771 << 20, "exclusive process")
    assert (first["power_w"], first["throttle"], first["mig"]) == (77.4, ["idle"], False)
    assert [(p["pid"], p["memory"]) for p in first["processes"]] == [(4242, 512 << 20), (7, None)]
    assert second["mig"] is True
    assert "power_w" not in second
    assert "sm_mhz" not in second
    assert second["throttle"] == ["software thermal", "hardware thermal"]
    assert smi.parse('Field "x" is not a valid field to query.\n', "") == []


def test_falls_back_to_nvidia_smi_and_to_its_old_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    script = tmp_path / "nvidia-smi"
    script.write_text(
        '#!/bin/sh\ncase "$1" in *event_reasons*) exit 2;; '
        f"*throttle_reasons*) cat <<'END'\n{SMI}END\n;; *) cat <<'END'\n{APPS}END\n;; esac\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(nvml, "_load_nvml", lambda: None)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    reader = Conditions(UUID)
    sample = reader.sample()
    assert (sample["sm_mhz"], sample["mig"]) == (345, False)
    assert "name" not in sample
    script.write_text("#!/bin/sh\nexit 9\n")
    assert reader.sample() == {}


@pytest.mark.gpu
def test_samples_this_gpu() -> None:
    import torch

    reader = Conditions(str(torch.cuda.get_device_properties(0).uuid))
    sample = reader.sample()
    assert sample["sm_mhz"] > 0
    assert 0 < sample["temperature"] < 120
    assert isinstance(sample["throttle"], list)
    taken = []
    for _ in range(20):
        start = time.perf_counter()
        reader.sample()
        taken.append(time.perf_counter() - start)
    print(f"a sample takes {sorted(taken)[10] * 1e3:.2f} ms")
    assert isinstance(disturbed(sample, reader.sample(), [os.getpid()]), str)
