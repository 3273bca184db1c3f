"""Clocks, heat, power, throttling and other users of a GPU, while something is measured on it.

By NVML (package ``nvidia-ml-py``) where it can be imported, else by ``nvidia-smi``, else nothing is
known and every answer is empty. A GPU is named by its UUID: NVML counts all GPUs by bus, CUDA only
those that ``CUDA_VISIBLE_DEVICES`` leaves, so their numbers differ. A driver that goes away
meanwhile makes an answer empty, never an error. No context is made and no setting is changed.

Source: NVML API reference (nvmlDeviceGetCurrentClocksEventReasons, ...GetProcessUtilization).
"""

from __future__ import annotations

import contextlib
import importlib
import json
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent.devices.cuda import smi
from agent.devices.cuda.conditions import clean, conditions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

# Those that come and go with heat and supply, so that times before and after do not compare.
HARMFUL = ("hardware slowdown", "software thermal", "hardware thermal", "power brake")
COMPUTE_MODES = ("default", "exclusive thread", "prohibited", "exclusive process")
# Per cent of the GPU that another process may use unnoticed.
BUSY = 5


def disturbed(
    before: Mapping[str, Any], after: Mapping[str, Any], own_pids: Collection[int]
) -> str:
    """What made times taken between two samples doubtful; ``""`` when nothing is known to have.

    A process that only holds memory disturbs nobody. In a container NVML may number processes as
    the host does: then none of ours is among them, and only a newcomer can be told.

    Args:
        own_pids: The processes whose work was measured.
    """
    for sample in (after, before):
        bad = [name for name in sample.get("throttle", ()) if name in HARMFUL]
        if bad:
            return f"the GPU is slowed down: {', '.join(bad)}"
    listed = list(after.get("processes", ()))
    known = {process["pid"] for process in before.get("processes", ())}
    ours_listed = any(process["pid"] in own_pids for process in listed)
    for process in listed:
        if process["pid"] in own_pids:
            continue
        who = f"process {process['pid']} ({process['name'] or 'no name'})"
        if process["busy"] is None or not ours_listed:
            if "processes" in before and process["pid"] not in known:
                return f"{who} came onto the GPU"
        elif process["busy"] > BUSY:
            return f"{who} uses {process['busy']} % of the GPU"
    return ""


class _Source(Protocol):
    def sample(self) -> dict[str, Any]: ...
    def close(self) -> None: ...


class Conditions:
    """Samples one GPU; well under a millisecond by NVML once made, a tenth of a second without.

    Args:
        uuid: As CUDA gives it, with or without ``GPU-`` in front, or a MIG device's.
    """

    def __init__(self, uuid: str) -> None:
        self._source: _Source | None = None
        self._source = _open(_uuid(uuid))

    def sample(self) -> dict[str, Any]:
        """Conditions now as :func:`conditions` returns them, with ``mig`` where that is known.

        ``busy`` of a process covers the time since the sample before. ``{}``: nothing is known.
        """
        if self._source is None:
            return {}
        found = self._source.sample()
        if not found:
            self.close()
        return found

    def close(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()


def _uuid(text: str) -> str:
    return text if text.startswith(("GPU-", "MIG-")) else f"GPU-{text}"


def _open(uuid: str) -> _Source | None:
    nvml = _load_nvml()
    if nvml is not None:
        with contextlib.suppress(nvml.NVMLError):
            return _Nvml(nvml, uuid)
        return None
    if uuid.startswith("GPU-") and shutil.which("nvidia-smi"):
        return smi.Smi(uuid)
    return None


def _load_nvml() -> Any:
    """The NVML module, initialised; None where there is none or no driver answers."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    return nvml


class _Nvml:
    """Reads one GPU by NVML. A field that the GPU does not have is left out."""

    def __init__(self, nvml: Any, uuid: str) -> None:
        self._nvml = nvml
        try:
            handle = self._find(uuid)
        except nvml.NVMLError:
            nvml.nvmlShutdown()
            raise
        self._handle = handle
        self._seen_us = time.time_ns() // 1000

    def _find(self, uuid: str) -> Any:
        """The GPU; of a part of one (MIG) the whole, whose clocks and heat are the part's too."""
        nvml = self._nvml
        if uuid.startswith("GPU-"):
            with contextlib.suppress(nvml.NVMLError):
                return nvml.nvmlDeviceGetHandleByUUID(uuid)
        # CUDA gives a part's UUID without saying that it is one.
        part = nvml.nvmlDeviceGetHandleByUUID(
            "MIG-" + uuid.removeprefix("GPU-").removeprefix("MIG-")
        )
        return nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part)

    def _ask(self, *reads: Callable[[], Any]) -> Any:
        """The first answer that the driver gives; None if it gives none."""
        for read in reads:
            with contextlib.suppress(self._nvml.NVMLError, AttributeError):
                return read()
        return None

    def sample(self) -> dict[str, Any]:
        nvml, gpu = self._nvml, self._handle
        used = self._ask(lambda: nvml.nvmlDeviceGetUtilizationRates(gpu))
        users = self._ask(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(gpu))
        found = conditions({
            "sm_mhz": self._ask(lambda: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
            "mem_mhz": self._ask(lambda: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM)),
            "temperature": self._ask(
                lambda: nvml.nvmlDeviceGetTemperatureV(gpu, nvml.NVML_TEMPERATURE_GPU),
                lambda: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
            ),
            "power_mw": self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(gpu)),
            "reasons": self._ask(
                lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu),
                lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
            ),
            "utilisation": None if used is None else used.gpu,
            "processes": None if users is None else [
                (user.pid, user.usedGpuMemory, _command(user.pid)) for user in users
            ],
            "busy": self._busy() if users is not None and len(users) > 1 else None,
        })  # fmt: skip
        if not found:
            return {}
        mig = self._ask(lambda: nvml.nvmlDeviceGetMigMode(gpu))
        return {**found, "mig": bool(mig and mig[0])}

    def _busy(self) -> list[tuple[int, int]] | None:
        """(pid, per cent) since the last sample; None if the driver cannot tell (MIG)."""
        nvml, since = self._nvml, self._seen_us
        self._seen_us = time.time_ns() // 1000
        try:
            samples = nvml.nvmlDeviceGetProcessUtilization(self._handle, since)
        except nvml.NVMLError as error:
            return [] if error.value == nvml.NVML_ERROR_NOT_FOUND else None
        return [(int(one.pid), int(one.smUtil)) for one in samples]

    def describe(self) -> dict[str, Any]:
        """What stays the same: ``uuid``, ``name``, ``driver``, ``capability``, memory, modes."""
        nvml, gpu = self._nvml, self._handle
        memory = self._ask(lambda: nvml.nvmlDeviceGetMemoryInfo(gpu))
        capability = self._ask(lambda: nvml.nvmlDeviceGetCudaComputeCapability(gpu))
        mode = self._ask(lambda: nvml.nvmlDeviceGetComputeMode(gpu)) or 0
        known = {
            "uuid": self._ask(lambda: nvml.nvmlDeviceGetUUID(gpu)),
            "name": self._ask(lambda: clean(nvml.nvmlDeviceGetName(gpu))),
            "driver": self._ask(nvml.nvmlSystemGetDriverVersion),
            "cuda": self._ask(nvml.nvmlSystemGetCudaDriverVersion),
            "capability": None if capability is None else ".".join(map(str, capability)),
            "memory_total": None if memory is None else int(memory.total),
            "memory_free": None if memory is None else int(memory.free),
            "compute_mode": COMPUTE_MODES[mode] if mode < len(COMPUTE_MODES) else str(mode),
            "max_sm_mhz": self._ask(
                lambda: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM)
            ),
            "held_sm_mhz": self._held(),
        }
        return {name: value for name, value in known.items() if value is not None}

    def _held(self) -> int | None:
        """The clock that somebody set for applications; None if it is the usual one."""
        nvml, gpu = self._nvml, self._handle
        held = self._ask(lambda: nvml.nvmlDeviceGetApplicationsClock(gpu, nvml.NVML_CLOCK_SM))
        usual = self._ask(
            lambda: nvml.nvmlDeviceGetDefaultApplicationsClock(gpu, nvml.NVML_CLOCK_SM)
        )
        return None if held is None or held == usual else int(held)

    def close(self) -> None:
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def survey() -> list[dict[str, Any]]:
    """All GPUs of this machine: what each is, with its conditions now. ``[]`` without a driver."""
    nvml = _load_nvml()
    if nvml is None:
        return smi.ask() if shutil.which("nvidia-smi") else []
    found = []
    with contextlib.suppress(nvml.NVMLError):
        for uuid in _uuids(nvml):
            nvml.nvmlInit()  # each reader gives one back
            source = _Nvml(nvml, uuid)
            found.append({**source.describe(), **source.sample()})
            source.close()
    with contextlib.suppress(nvml.NVMLError):
        nvml.nvmlShutdown()
    return found


def _uuids(nvml: Any) -> Iterable[str]:
    for index in range(nvml.nvmlDeviceGetCount()):
        yield str(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(index)))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(survey()))
