"""What this machine can do, check by check, without loading PyTorch into this process."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psutil

from agent.devices.cpu import find_compiler
from agent.devices.facts import cpu_facts, cpu_model
from agent.errors import ForgeError
from agent.workers.sandbox import obtainable
from store.errors import StoreError
from store.paths import data_home, network_file_system, writable_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST_MEMORY = 4 * 2**30


def checks() -> Iterator[dict[str, Any]]:
    """Each check as ``{"check", "ok": true|false|null, "what", "cure"}``; null is a note."""
    yield _python()
    yield _torch()
    yield _compiler()
    facts = cpu_facts()
    yield _line("cpu", True, f"{cpu_model()}, {facts['cores']} cores, L2 {facts['l2'] >> 10} KiB")
    yield _memory()
    yield from _data_folder()
    yield from _sandbox()


def _line(check: str, ok: bool | None, what: str, cure: str = "") -> dict[str, Any]:
    return {"check": check, "ok": ok, "what": what, "cure": cure}


def _python() -> dict[str, Any]:
    return _line("python", sys.version_info >= (3, 11), sys.version.split()[0])


def _torch() -> dict[str, Any]:
    code = "import torch; print(torch.__version__, torch.cuda.is_available())"
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return _line("torch", False, "import torch took more than two minutes", "check the disk")
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1][:200]
        return _line("torch", False, f"cannot be imported: {last}", "pip install 'torch>=2.11'")
    version, cuda = done.stdout.split()
    gpu = "sees a CUDA device" if cuda == "True" else "no CUDA device"
    return _line("torch", True, f"{version}, {gpu}")


def _compiler() -> dict[str, Any]:
    try:
        compiler = find_compiler()
    except ForgeError as error:
        return _line("compiler", False, error.message, error.cure)
    return _line("compiler", True, f"{compiler.path} ({compiler.version})")


def _memory() -> dict[str, Any]:
    memory = psutil.virtual_memory()
    text = f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free"
    if memory.available < LEAST_MEMORY:
        return _line("memory", None, text, "workers take about 2 GiB; close something")
    return _line("memory", True, text)


def _data_folder() -> Iterator[dict[str, Any]]:
    home = data_home()
    try:
        writable_folder(home)
    except StoreError as error:
        yield _line("data folder", False, error.message, error.cure)
        return
    yield _line("data folder", True, str(home))
    if kind := network_file_system(home):
        what = f"it is on a network file system ({kind}); sessions do without a write-ahead log"
        yield _line("file system", None, what, "set FORGE_HOME to a local disk")


def _sandbox() -> Iterator[dict[str, Any]]:
    for name, ok in obtainable().items():
        what = "available for candidates" if ok else "not available: candidates run without it"
        yield _line(name, True if ok else None, what)
