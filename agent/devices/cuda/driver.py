"""What the CUDA driver says of the GPU: initialised, asked for attributes, never a context."""

from __future__ import annotations

import functools
import os
import uuid
from dataclasses import dataclass
from typing import Any

from agent.errors import MachineError

_INSTALL = "install NVIDIA's driver; nvidia-smi shows whether it works"
_PYTHON = "pip install 'forge-tui[cuda]'"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        name: As the driver has it, such as ``NVIDIA H200``.
        uuid: As nvidia-smi shows it, ``GPU-...``.
        driver: The newest CUDA version that the driver runs: (13, 0).
        facts: Attributes by our names; bytes and counts.
    """

    name: str
    uuid: str
    driver: tuple[int, int]
    facts: dict[str, int]


def first_gpu() -> Gpu:
    """The first GPU that ``CUDA_VISIBLE_DEVICES`` leaves visible.

    Raises:
        MachineError: ``no-cuda-python``, ``no-driver``, ``no-gpu``.
    """
    return _first_gpu(os.environ.get("CUDA_VISIBLE_DEVICES"))


@functools.cache
def _first_gpu(visible: str | None) -> Gpu:
    driver = cuda_python("cuda.bindings.driver")
    try:
        failed = int(driver.cuInit(0)[0])
    except RuntimeError:
        raise MachineError(
            "this machine has no NVIDIA driver", _INSTALL, code="no-driver"
        ) from None
    if failed:
        name = str(driver.CUresult(failed).name)
        if "NO_DEVICE" in name:
            hint = f" (CUDA_VISIBLE_DEVICES is {visible!r:.60})" if visible is not None else ""
            raise MachineError(
                f"the NVIDIA driver sees no GPU{hint}",
                "check nvidia-smi and CUDA_VISIBLE_DEVICES",
                code="no-gpu",
            )
        raise MachineError(f"the NVIDIA driver does not start: {name}", _INSTALL, code="no-driver")
    device = _checked(driver.cuDeviceGet(0))
    version = int(_checked(driver.cuDriverGetVersion()))
    name = _checked(driver.cuDeviceGetName(100, device)).split(b"\0")[0].decode(errors="replace")
    raw = _checked(driver.cuDeviceGetUuid(device)).bytes
    facts = _facts(driver, device)
    gpu = f"GPU-{uuid.UUID(bytes=bytes(raw))}"
    return Gpu(name, gpu, (version // 1000, version % 1000 // 10), facts)


def _facts(driver: Any, device: Any) -> dict[str, int]:
    kinds = driver.CUdevice_attribute
    prefix = "CU_DEVICE_ATTRIBUTE_"
    names = {
        "sms": "MULTIPROCESSOR_COUNT",
        "shared": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
        "shared_sm": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
        "shared_reserved": "RESERVED_SHARED_MEMORY_PER_BLOCK",
        "l2": "L2_CACHE_SIZE",
        "warp": "WARP_SIZE",
        "max_threads": "MAX_THREADS_PER_BLOCK",
        "threads_sm": "MAX_THREADS_PER_MULTIPROCESSOR",
        "blocks_sm": "MAX_BLOCKS_PER_MULTIPROCESSOR",
        "registers": "MAX_REGISTERS_PER_MULTIPROCESSOR",
        "major": "COMPUTE_CAPABILITY_MAJOR",
        "minor": "COMPUTE_CAPABILITY_MINOR",
    }
    facts = {
        ours: int(_checked(driver.cuDeviceGetAttribute(getattr(kinds, prefix + theirs), device)))
        for ours, theirs in names.items()
    }
    return {**facts, "cluster": 8 if facts["major"] >= 9 else 1}


def _checked(answer: tuple[Any, ...]) -> Any:
    if int(answer[0]):
        raise MachineError(
            f"the NVIDIA driver failed: {answer[0].name}", _INSTALL, code="no-driver"
        )
    return answer[1]


def cuda_python(module: str) -> Any:
    """One of NVIDIA's Python modules, imported when first needed.

    Raises:
        MachineError: ``no-cuda-python``.
    """
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MachineError(
            f"NVIDIA's Python packages are missing: {str(error)[:120]}",
            _PYTHON,
            code="no-cuda-python",
        ) from None
