"""Which device a search or a job runs on: ``cpu``, ``cuda``, or ``cuda:N`` of several GPUs."""

from __future__ import annotations

import hashlib
import os
import re

from agent.errors import MachineError

_NAME = re.compile(r"(cpu|cuda)(?::(\d{1,3}))?\Z")
_UUID = re.compile(r"\b(?:GPU|MIG)-[0-9A-Fa-f-]{36}\b")


def choose_device(name: str) -> str:
    """Have this process and its children see one device alone, and return its kind.

    A GPU's number counts among those that ``CUDA_VISIBLE_DEVICES`` names already.

    Raises:
        MachineError: ``device-unknown``, ``no-gpu``.
    """
    found = _NAME.match(name)
    if found is None or (found[1] == "cpu" and found[2]):
        raise MachineError(
            f"there is no device {name[:40]}", "use cpu, cuda or cuda:N", code="device-unknown"
        )
    kind, number = found[1], found[2]
    if number is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = _numbered(int(number))
    return kind


def _numbered(number: int) -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        # By default CUDA sorts by speed; people count as nvidia-smi does.
        os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        return str(number)
    there = [entry.strip() for entry in visible.split(",") if entry.strip()]
    if number >= len(there):
        raise MachineError(
            f"there is no GPU {number} among CUDA_VISIBLE_DEVICES={visible[:80]}",
            "choose a smaller number, or unset CUDA_VISIBLE_DEVICES",
            code="no-gpu",
        )
    return there[number]


def lease_name(kind: str, key: str) -> str:
    """What a device's lease is called: one for each GPU, whatever the toolchain that uses it."""
    if kind == "cpu":
        return kind
    uuid = _UUID.search(key)
    return uuid[0] if uuid else f"{kind}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
