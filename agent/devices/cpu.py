"""The CPU as a device: its facts, its compiler, and the key that measured figures depend on."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from agent.devices.facts import cpu_facts, cpu_model
from agent.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent.devices import Built

_INSTALL = "install g++ (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++)"


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler.

    Attributes:
        command: Program and leading words, such as ``("ccache", "g++")``.
        version: First line of ``--version``.
        is_clang: Whether it is clang under whatever name.
    """

    command: tuple[str, ...]
    version: str
    is_clang: bool

    @property
    def path(self) -> str:
        return self.command[0]


class CpuDevice:
    """The processor of this machine; programs are C++ functions with OpenMP inside."""

    name = "cpu"
    language = "cpp"

    def key(self) -> str:
        try:
            version = find_compiler().version
        except MachineError:
            version = "no compiler"
        return f"{cpu_model()} | {cores()} cores | {version}"

    def facts(self) -> dict[str, int]:
        """Those of :func:`cpu_facts`, and ``l3`` (bytes), ``vector`` (bytes of the widest vector
        register), ``line`` (bytes of a cache line)."""
        return {**cpu_facts(), "l3": _third_level(), "vector": _vector_bytes(), "line": 64}

    def build(
        self, source: str, values: Mapping[str, int], kernels: Sequence[str], cache: Path
    ) -> Built:
        from agent.devices.cpu_build import build

        return build(find_compiler(), source, values, kernels, cache)


def find_compiler() -> Compiler:
    """The compiler that ``$CXX`` names, else the first of g++, c++, clang++ on the path.

    Raises:
        MachineError: ``no-compiler``.
    """
    return _find_compiler(os.environ.get("CXX", ""), os.environ.get("PATH", ""))


@functools.cache
def _find_compiler(chosen: str, path: str) -> Compiler:
    names = [shlex.split(chosen)] if chosen.strip() else [["g++"], ["c++"], ["clang++"]]
    for words in names:
        program = shutil.which(words[0], path=path)
        if program is None:
            continue
        command = (program, *words[1:])
        try:
            done = subprocess.run(
                [*command, "--version"], capture_output=True, text=True, timeout=20, check=True
            )
        except (OSError, subprocess.SubprocessError):
            continue
        version = done.stdout.partition("\n")[0].strip()[:200]
        return Compiler(command, version, "clang" in done.stdout.lower())
    if chosen.strip():
        raise MachineError(
            f"the compiler in CXX does not run: {chosen[:80]}",
            f"unset CXX, or {_INSTALL}",
            code="no-compiler",
        )
    raise MachineError("this machine has no C++ compiler", _INSTALL, code="no-compiler")


@functools.cache
def cores() -> int:
    """Physical cores that this process may use: torch's own default number of threads."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    physical = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    return max(1, min(physical, allowed or physical))


@functools.cache
def feature_key() -> str:
    """A short hash of model and instruction sets: what ``-march=native`` depends on."""
    lines = re.findall(
        r"^(?:flags|Features|model|model name|cpu family|CPU part)\s*:.*$", _cpuinfo(), re.M
    )
    text = "\n".join(sorted(set(lines))) + platform.machine()
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _third_level() -> int:
    """Bytes of the third-level cache; 0 where the system does not say."""
    try:
        size = Path("/sys/devices/system/cpu/cpu0/cache/index3/size").read_text().strip()
    except OSError:
        return 0
    return int(size[:-1]) << {"K": 10, "M": 20}.get(size[-1], 0) if size[:-1].isdigit() else 0


def _vector_bytes() -> int:
    info = _cpuinfo()
    return 64 if " avx512f" in info else 32 if " avx2" in info else 16


@functools.cache
def _cpuinfo() -> str:
    """The first processor's block of /proc/cpuinfo."""
    try:
        return Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return ""
