"""What this machine is, without PyTorch: cores, caches, memory, model."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil

_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def cpu_facts() -> dict[str, int]:
    """Facts that plans may use as ``device.NAME``: cores (that we may run on), l1, l2 (bytes)."""
    facts = {"cores": len(os.sched_getaffinity(0)), "l1": 32 * 2**10, "l2": 2**20}
    for index in sorted(_CACHE.glob("index*")) if _CACHE.is_dir() else []:
        try:
            level = (index / "level").read_text().strip()
            kind = (index / "type").read_text().strip()
            size = (index / "size").read_text().strip()
        except OSError:
            continue
        if kind != "Instruction" and f"l{level}" in facts and size[:-1].isdigit():
            facts[f"l{level}"] = int(size[:-1]) * _UNITS.get(size[-1], 1)
    return facts


def cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine() -> dict[str, object]:
    """The machine as a session records it."""
    return {
        "cpu": cpu_model(),
        "memory": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **cpu_facts(),
    }


def load_sample() -> dict[str, float]:
    """Load now: ``cpu`` and ``memory`` in percent, ``available`` in bytes."""
    memory = psutil.virtual_memory()
    return {
        "cpu": psutil.cpu_percent(None),
        "memory": memory.percent,
        "available": float(memory.available),
    }
