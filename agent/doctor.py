"""What this machine can do, check by check, without loading PyTorch into this process.

Whatever may hang (a driver, an import from a slow disk) runs in a process of its own, all of them
at once, and is given up after a while.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from agent.devices.cpu import find_compiler
from agent.devices.facts import cpu_facts, cpu_model
from agent.doctor_gpu import Found, after_compiler, before_compiler, line, spare_worker, torch_line
from agent.errors import ForgeError
from agent.workers.sandbox import obtainable
from store.errors import StoreError
from store.paths import data_home, network_file_system, writable_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST_MEMORY = 4 * 2**30
TORCH_SECONDS, SURVEY_SECONDS, PROBE_SECONDS = 120.0, 20.0, 60.0
_TORCH = "import torch; print(torch.__version__, torch.version.cuda or '')"
_PCI = "/sys/bus/pci/devices/*"
_NVIDIA, _DISPLAY = "0x10de", "0x03"
_DRIVER_SETTINGS = Path("/proc/driver/nvidia/params")
_NCU = "/opt/nvidia/nsight-compute/*/ncu"


def checks() -> Iterator[dict[str, Any]]:
    """Each check as ``{"check", "ok": true|false|null, "what", "cure"}``; null is a note."""
    torch = Asked(["-c", _TORCH], TORCH_SECONDS)
    survey = Asked(["-m", "agent.devices.cuda.nvml"], SURVEY_SECONDS)
    probe = Asked(["-m", "agent.workers.probe"], PROBE_SECONDS)
    yield line("python", sys.version_info >= (3, 11), sys.version.split()[0])
    found = gather(survey, probe)
    yield _torch(torch, found)
    yield from before_compiler(found)
    yield _compiler()
    yield from after_compiler(found)
    yield from _sandbox()
    yield spare_worker(found)
    yield _memory()
    facts = cpu_facts()
    yield line("cpu", True, f"{cpu_model()}, {facts['cores']} cores, L2 {facts['l2'] >> 10} KiB")
    yield from _data_folder()


class Asked:
    """A Python process that was asked something, and may never answer.

    Args:
        args: After ``python -P``.
        seconds: From now on; then it is killed, and left alone if even that does not end it.
    """

    def __init__(self, args: list[str], seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        # Files, not pipes: what a hanging process said so far can be read.
        self._out = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - answer() closes
        self._err = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-P", *args], stdin=subprocess.DEVNULL, stdout=self._out,
            stderr=self._err,
        )  # fmt: skip

    def answer(self) -> tuple[int | None, str, str]:
        """Exit code (None if it was given up), standard output, standard error."""
        try:
            code = self._process.wait(max(0.0, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = None
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(2.0)
        texts = []
        for file in (self._out, self._err):
            file.seek(0)
            texts.append(file.read(1 << 20))
            file.close()
        return code, texts[0], texts[1]


def gather(survey: Asked, probe: Asked) -> Found:
    """Put together what can be known of the GPUs."""
    code, said, _ = survey.answer()
    gpus = _parsed(said)
    probed, told, _ = probe.answer()
    stages, last = read_stages(told)
    return Found(
        gpus=None if code is None else gpus if isinstance(gpus, list) else [],
        stages=stages,
        hung=last if probed is None else "",
        card=_card(),
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        sanitizer=_tool("compute-sanitizer"),
        profiler=_tool("ncu", _NCU),
        restricted=_restricted(),
        memory=psutil.virtual_memory().available,
    )


def read_stages(told: str) -> tuple[dict[str, dict[str, Any]], str]:
    """What the probe said of each stage, and the stage that it was in at last."""
    stages: dict[str, dict[str, Any]] = {}
    last = ""
    for text in told.splitlines():
        one = _parsed(text)
        if isinstance(one, dict) and isinstance(one.get("stage"), str):
            last = one["stage"]
            if len(one) > 1:
                stages[last] = one
    return stages, last


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _card() -> bool:
    """Whether an NVIDIA GPU is on the bus."""
    for folder in glob.glob(_PCI):
        try:
            vendor = Path(folder, "vendor").read_text().strip()
            kind = Path(folder, "class").read_text().strip()
        except OSError:
            continue
        if vendor == _NVIDIA and kind.startswith(_DISPLAY):
            return True
    return False


def _tool(name: str, pattern: str = "") -> str:
    """Where one of NVIDIA's programs is: on the path, in the toolkit, or where ``pattern`` says."""
    homes = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    folders = [os.environ.get("PATH", os.defpath), *(f"{home}/bin" for home in homes if home)]
    found = shutil.which(name, path=os.pathsep.join(folders))
    return found or next(iter(sorted(glob.glob(pattern), reverse=True)), "")


def _restricted() -> bool | None:
    """Whether the driver's counters are for the administrator, and we are not that."""
    try:
        text = _DRIVER_SETTINGS.read_text(errors="replace")
    except OSError:
        return None
    if "RmProfilingAdminOnly" not in text:
        return None
    return "RmProfilingAdminOnly: 1" in text and os.geteuid() != 0


def _torch(asked: Asked, found: Found) -> dict[str, Any]:
    code, said, trouble = asked.answer()
    if code is None:
        what = f"import torch took more than {TORCH_SECONDS:.0f} s"
        return line("torch", False, what, "check the disk")
    if code != 0:
        last = (trouble.strip().splitlines() or ["no message"])[-1][:200]
        return line("torch", False, f"cannot be imported: {last}", "pip install 'torch>=2.11'")
    version, _, cuda = said.strip().partition(" ")
    return torch_line(version, cuda, found)


def _compiler() -> dict[str, Any]:
    try:
        compiler = find_compiler()
    except ForgeError as error:
        return line("compiler", False, error.message, error.cure)
    return line("compiler", True, f"{compiler.path} ({compiler.version})")


def _memory() -> dict[str, Any]:
    memory = psutil.virtual_memory()
    text = f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free"
    if memory.available < LEAST_MEMORY:
        return line("memory", None, text, "workers take about 2 GiB; close something")
    return line("memory", True, text)


def _data_folder() -> Iterator[dict[str, Any]]:
    home = data_home()
    try:
        writable_folder(home)
    except StoreError as error:
        yield line("data folder", False, error.message, error.cure)
        return
    yield line("data folder", True, str(home))
    if kind := network_file_system(home):
        what = f"it is on a network file system ({kind}); sessions do without a write-ahead log"
        yield line("file system", None, what, "set FORGE_HOME to a local disk")
    else:
        yield line("file system", True, "local")


def _sandbox() -> Iterator[dict[str, Any]]:
    for name, ok in obtainable().items():
        what = "available for candidates" if ok else "not available: candidates run without it"
        yield line(name, True if ok else None, what)
