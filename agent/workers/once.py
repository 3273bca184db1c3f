"""Runs one call of one cubin and ends: what NVIDIA's tools look at.

``python -P -m agent.workers.once JOB.json``. No torch here: its kernels and its caching allocator
would drown what is to be seen. Every tensor lies in an allocation of its own of exactly its bytes,
so that a tool sees the first byte that is read or written out of bounds; what the job has no data
for stays uninitialised. The last line of standard output is ``{"ok": true}``, or ``{"error": ..}``
with the fault as JSON.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver

from agent.errors import ForgeError
from agent.judge.gpu_faults import check
from agent.judge.gpu_launch import Cubin
from agent.workers.parent import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Sequence

# A kernel without work, for finding out whether a tool works at all.
_EMPTY = b".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry empty() { ret; }\n\0"
_SPACE = 1 << 16


def main(path: str) -> int:
    """Run a job as :mod:`agent.judge.once_job` wrote it; 0 if all of it ran."""
    try:
        _start()
        job = json.loads(Path(path).read_text())
        if job.get("empty"):
            _run_empty()
        else:
            _run(job)
    except ForgeError as error:
        sys.stdout.write(json.dumps({"error": error.to_json()}) + "\n")
        return 1
    sys.stdout.write(json.dumps({"ok": True}) + "\n")
    return 0


def _start() -> None:
    check(driver.cuInit(0), "starting the driver")
    device = check(driver.cuDeviceGet(0), "the GPU")
    context = check(driver.cuDevicePrimaryCtxRetain(device), "a context")
    check(driver.cuCtxSetCurrent(context), "a context")


def _run_empty() -> None:
    module = check(driver.cuModuleLoadData(_EMPTY), "loading a kernel")
    function = check(driver.cuModuleGetFunction(module, b"empty"), "finding a kernel")
    check(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0), "launching a kernel")
    check(driver.cuCtxSynchronize(), "an empty kernel")


def _run(job: dict[str, Any]) -> None:
    addresses = _place(job["tensors"], job["data"])
    launch = Cubin(job["library"]).bind(job["bound"])
    launch.point(addresses)

    def after(name: str) -> None:
        check(driver.cuStreamSynchronize(0), f"kernel {name}")

    launch.one_by_one(0, after)


def _place(tensors: Sequence[dict[str, Any]], data: str) -> dict[str, int]:
    """Allocate every tensor; copy those that the data file has.

    Between two tensors lies memory that is given back before the program runs: where they would be
    neighbours, what reads beyond one would find another, and no tool could tell.
    """
    addresses: dict[str, int] = {}
    spacers: list[int] = []
    size = Path(data).stat().st_size
    with Path(data).open("rb") as file:
        content = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) if size else None
        base = ctypes.addressof(ctypes.c_char.from_buffer(content)) if content else 0
        for item in tensors:
            place = int(
                check(driver.cuMemAlloc(max(1, item["bytes"])), f"memory of {item['name']}")
            )
            addresses[item["name"]] = place
            spacers.append(int(check(driver.cuMemAlloc(_SPACE), "memory between tensors")))
            if item["at"] is not None and item["bytes"]:
                copied = driver.cuMemcpyHtoD(place, base + item["at"], item["bytes"])
                check(copied, f"copying {item['name']}")
    for spacer in spacers:
        check(driver.cuMemFree(spacer), "memory between tensors")
    return addresses


if __name__ == "__main__":
    die_with_parent()
    sys.exit(main(sys.argv[1]))
