"""GPUs as ``nvidia-smi`` tells of them: for machines without the package ``nvidia-ml-py``.

A process at each question, a tenth of a second or more. Source: ``nvidia-smi --help-query-gpu``.
"""

from __future__ import annotations

import csv
import re
import subprocess
from typing import TYPE_CHECKING, Any

from agent.devices.cuda.conditions import clean, conditions

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECONDS = 10.0
_MAX_TEXT = 64 << 10
_NUMBER = re.compile(r"\d+(\.\d+)?")
# What is asked of nvidia-smi, and what each answer is called here.
_FIELDS = {
    "uuid": "uuid",
    "name": "name",
    "driver_version": "driver",
    "compute_cap": "capability",
    "memory.total": "memory_total",
    "memory.free": "memory_free",
    "mig.mode.current": "mig",
    "compute_mode": "compute_mode",
    "clocks.max.sm": "max_sm_mhz",
    "clocks.sm": "sm_mhz",
    "clocks.mem": "mem_mhz",
    "temperature.gpu": "temperature",
    "power.draw": "power_w",
    "utilization.gpu": "utilisation",
    "clocks_event_reasons.active": "throttle",
}
_CONDITIONS = (
    "sm_mhz", "mem_mhz", "temperature", "power_w", "throttle", "utilisation", "processes",
)  # fmt: skip


class Smi:
    """Reads one GPU by nvidia-smi, a process at each sample."""

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid

    def sample(self) -> dict[str, Any]:
        gpu = next((gpu for gpu in ask() if gpu.get("uuid") == self._uuid), {})
        return {name: gpu[name] for name in (*_CONDITIONS, "mig") if name in gpu}

    def close(self) -> None: ...


def ask() -> list[dict[str, Any]]:
    apps = _run("--query-compute-apps=gpu_uuid,pid,used_memory,process_name")
    for old in ("clocks_event_reasons", "clocks_throttle_reasons"):
        fields = ",".join(_FIELDS).replace("clocks_event_reasons", old)
        if found := parse(_run(f"--query-gpu={fields}"), apps):
            return found
    return []


def _run(query: str) -> str:
    try:
        done = subprocess.run(
            ["nvidia-smi", query, "--format=csv,noheader,nounits"], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout[:_MAX_TEXT]


def parse(text: str, apps: str) -> list[dict[str, Any]]:
    """GPUs from nvidia-smi's comma-separated answers; fields that it does not know are left out.

    Args:
        text: One line a GPU, the fields of ``--query-gpu`` in our order, without units.
        apps: Lines of GPU UUID, pid, MiB, process name.
    """
    users: dict[str, list[tuple[int, int | None, str]]] = {}
    for row in csv.reader(apps.splitlines(), skipinitialspace=True):
        if len(row) >= 4 and row[1].isdigit():
            memory = int(row[2]) << 20 if row[2].isdigit() else None
            users.setdefault(row[0], []).append((int(row[1]), memory, row[3]))
    found = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        if len(row) != len(_FIELDS) or not row[0].startswith("GPU-"):
            continue
        pairs = zip(_FIELDS.values(), row, strict=True)
        said = {name: value.strip() for name, value in pairs if not _unknown(value)}
        found.append({**_described(said), **_conditions(said, users.get(row[0], []))})
    return found


def _described(said: Mapping[str, str]) -> dict[str, Any]:
    gpu: dict[str, Any] = {
        name: clean(said[name]) for name in ("uuid", "name", "driver", "capability") if name in said
    }
    for name in ("memory_total", "memory_free"):
        if said.get(name, "").isdigit():
            gpu[name] = int(said[name]) << 20
    gpu["mig"] = said.get("mig") == "Enabled"
    gpu["compute_mode"] = said.get("compute_mode", "Default").lower().replace("_", " ")
    if said.get("max_sm_mhz", "").isdigit():
        gpu["max_sm_mhz"] = int(said["max_sm_mhz"])
    return gpu


def _conditions(
    said: Mapping[str, str], users: list[tuple[int, int | None, str]]
) -> dict[str, Any]:
    raw: dict[str, Any] = {
        name: float(said[name])
        for name in ("sm_mhz", "mem_mhz", "temperature", "utilisation")
        if _NUMBER.fullmatch(said.get(name, ""))
    }
    if _NUMBER.fullmatch(said.get("power_w", "")):
        raw["power_mw"] = 1000 * float(said["power_w"])
    if re.fullmatch(r"0x[0-9a-fA-F]+", said.get("throttle", "")):
        raw["reasons"] = int(said["throttle"], 16)
    return conditions({**raw, "processes": users})


def _unknown(value: str) -> bool:
    return value.strip().strip("[]").lower() in ("n/a", "not supported", "unknown error", "")
