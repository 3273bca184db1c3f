"""What NVRTC and the CUDA driver say of this machine: a process that ``doctor`` can give up on.

``python -P -m agent.workers.probe`` prints a JSON line before and after each stage, so that of a
process that hangs it is known where: ``{"stage"}``, then ``{"stage", "ok": {...}}`` or ``{"stage",
"error", "cure", "code"}``. No context is made and torch is not imported.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.devices import open_device
from agent.devices.cuda import headers, nvrtc
from agent.devices.cuda.arches import arch_of
from agent.devices.cuda.driver import first_gpu
from agent.errors import ForgeError, describe

if TYPE_CHECKING:
    from collections.abc import Callable

KERNEL = """extern "C" __global__ void probe(const float* x, float* out, long long n) {
    const long long i = blockIdx.x * 1ll * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * x[i];
}
"""


def compiler(_: Path) -> dict[str, Any]:
    return {"version": nvrtc.version(), "supported": nvrtc.supported()}


def header_files(cache: Path) -> dict[str, Any]:
    folders, _ = headers.header_folders(cache)
    bundled = folders[0].is_relative_to(cache)
    return {"where": "bundled with NVRTC" if bundled else str(folders[0])}


def driver(_: Path) -> dict[str, Any]:
    gpu = first_gpu()
    major, minor = gpu.facts["major"], gpu.facts["minor"]
    return {
        "name": gpu.name,
        "uuid": gpu.uuid,
        "runs": gpu.driver,
        "capability": [major, minor],
        "arch": arch_of(major, minor),
        "sms": gpu.facts["sms"],
    }


def build(cache: Path) -> dict[str, Any]:
    """Compile a few lines for this GPU; for a common one if there is none."""
    try:
        first_gpu()
        device = open_device("cuda")
    except ForgeError:
        device = open_device("cuda", arch="sm_90a")
    started = time.monotonic()
    device.build(KERNEL, {}, ["probe"], cache)
    return {"seconds": round(time.monotonic() - started, 3)}


STAGES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "nvrtc": compiler,
    "headers": header_files,
    "driver": driver,
    "build": build,
}


def say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="forge-probe-") as folder:
        for name, stage in STAGES.items():
            say(stage=name)
            try:
                say(stage=name, ok=stage(Path(folder)))
            except ForgeError as error:
                say(stage=name, error=error.message, cure=error.cure, code=error.code)
            except Exception as error:  # noqa: BLE001 - a border: a library of NVIDIA's failed
                say(stage=name, error=describe(error), cure="", code="fault")


if __name__ == "__main__":
    main()
