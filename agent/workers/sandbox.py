"""What a candidate's process may do, taken away before it starts any thread.

A candidate makes no system calls by construction (:mod:`agent.devices.purity`); this is the
second wall. Every part is best effort, because kernels and containers differ, and
:func:`enter` says what was obtained, so that ``doctor`` can tell.

Sources of the numbers: Linux's ``landlock.h``, ``seccomp.h``, ``capability.h``, ``sched.h`` and
system-call tables.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import resource
import stat
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_libc = ctypes.CDLL(None, use_errno=True)

_NEWUSER, _NEWNET, _NEWIPC = 0x10000000, 0x40000000, 0x08000000
_CLONE_THREAD = 0x00010000
_AF_UNIX = 1
_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 4, 22, 38

_EXECUTE, _WRITE, _READ, _LIST = 1, 2, 4, 8
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
# Rights on files that each version of Landlock added to those before it.
_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_DEVICE_CONTROL = 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE | _READ | (1 << 14) | _DEVICE_CONTROL

_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime",
           "/etc/timezone", "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat",
           "/proc/sys", "/proc/filesystems", "/proc/version", "/sys/devices/system",
           "/sys/kernel/mm/transparent_hugepage", "/sys/fs/cgroup", "/dev/urandom", "/dev/random",
           "/dev/zero")  # fmt: skip

# What NVIDIA's user-mode driver opens (its open-source kernel module documents the nodes).
_GPU_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps")
_GPU_READ = ("/proc/driver/nvidia", "/proc/devices", "/proc/modules", "/sys/module",
             "/sys/bus/pci", "/sys/devices", "/sys/class", "/etc/nvidia", "/etc/ld.so.conf",
             "/opt", "/run/nvidia-persistenced")  # fmt: skip

# Calls that no kernel and no part of PyTorch's eager mode needs: (x86_64, aarch64).
_CALLS = {
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "connect": (42, 203), "unshare": (272, 97), "setns": (308, 268),
    "mount": (165, 40), "umount2": (166, 39), "bpf": (321, 280), "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425), "userfaultfd": (323, 282), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "keyctl": (250, 219), "add_key": (248, 217),
    "kill": (62, 129), "pidfd_send_signal": (424, 424),
}  # fmt: skip
_CLONE, _CLONE3, _SOCKET = (56, 220), (435, 435), (41, 198)
_ARCHES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def enter(
    read: Iterable[str], write: Iterable[str], *, dirs: Iterable[str] = (), gpu: bool = False
) -> dict[str, Any]:
    """Shut this process in. Call before importing torch: threads inherit, but do not follow.

    Args:
        read: Files and folders that may be read, besides the system's and Python's.
        write: Folders that may be written.
        dirs: Folders whose list of names may be read, but no file in them.
        gpu: Whether NVIDIA's device nodes may be used.

    Returns:
        What was obtained: ``namespaces`` and ``seccomp`` as booleans, ``landlock`` as the
        version in force (0 if none).
    """
    obtained: dict[str, Any] = {"namespaces": _namespaces()}
    _limits(gpu=gpu)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    seen = [*_SYSTEM, *_python(), *read, *(_GPU_READ if gpu else ())]
    nodes = _gpu_nodes() if gpu else []
    # The driver names its threads through /proc/self/task.
    places = [*write, *(("/proc/self",) if gpu else ())]
    obtained["landlock"] = _landlock(seen, places, list(dirs), nodes)
    obtained["seccomp"] = _seccomp(local_sockets=gpu)
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    return obtained


def obtainable() -> dict[str, bool]:
    """Which parts this machine grants, found out in a process of its own."""
    command = [sys.executable, "-P", "-m", "agent.workers.sandbox"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=30, check=True)
        found = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        found = {}
    return {name: bool(found.get(name)) for name in ("namespaces", "landlock", "seccomp")}


def _namespaces() -> bool:
    """A user namespace, in it a network without devices, and none of its capabilities kept."""
    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(_NEWUSER | _NEWNET | _NEWIPC) != 0:
        return False
    # Without the maps every file would look like nobody's.
    with contextlib.suppress(OSError):
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    header = struct.pack("Ii", 0x20080522, 0)
    _libc.capset(header, bytes(24))
    return True


def _gpu_nodes() -> list[str]:
    numbered = [str(node) for node in Path("/dev").glob("nvidia[0-9]*")]
    return [*numbered, *(f"/dev/{name}" for name in _GPU_NODES)]


def _limits(*, gpu: bool) -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 64 << 20,
        resource.RLIMIT_NOFILE: 512,
    }
    if not gpu:  # CUDA reserves address space for all memory of all devices
        wanted[resource.RLIMIT_AS] = max(32 << 30, 2 * memory)
    for kind, value in wanted.items():
        _, hard = resource.getrlimit(kind)
        limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (limit, limit))


def _python() -> list[str]:
    places = {sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path(__file__).parents[1])}
    return [*places, *(path for path in sys.path if path and Path(path).exists())]


def _landlock(read: list[str], write: list[str], dirs: list[str], nodes: list[str]) -> int:
    version = int(_libc.syscall(_LANDLOCK_CREATE, None, 0, 1))
    if version < 1:
        return 0
    handled = sum(bits for since, bits in _RIGHTS.items() if version >= since)
    # Fields came with versions: files (1), TCP bind and connect (4), signals and sockets (6).
    fields = [handled, 3, 3][: 3 if version >= 6 else 2 if version >= 4 else 1]
    attributes = struct.pack(f"{len(fields)}Q", *fields)
    rules = int(_libc.syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0))
    if rules < 0:
        return 0
    try:
        for path in read:
            _allow(rules, path, _READ | _LIST | _EXECUTE, handled)
        for path in dirs:
            _allow(rules, path, _LIST, handled)
        for path in write:
            _allow(rules, path, handled & ~_EXECUTE, handled)
        for path in nodes:
            _allow(rules, path, _READ | _WRITE | _LIST | _DEVICE_CONTROL, handled)
        _allow(rules, "/dev/null", _READ | _WRITE, handled)
        done = _libc.syscall(_LANDLOCK_RESTRICT, rules, 0) == 0
    finally:
        os.close(rules)
    return version if done else 0


def _allow(rules: int, path: str, rights: int, handled: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _FILE_RIGHTS
        rule = struct.pack("=Qi", rights & handled, place)
        _libc.syscall(_LANDLOCK_ADD, rules, 1, rule, 0)
    finally:
        os.close(place)


def _seccomp(*, local_sockets: bool) -> bool:
    """No new processes, programs, sockets, or looks into others; threads stay possible.

    With ``local_sockets`` a socket of the family AF_UNIX may be made, which NVIDIA's driver does
    when it starts; connecting it stays forbidden.
    """
    arch = _ARCHES.get(platform.machine())
    if arch is None:
        return False
    column, audit = arch
    load, equal, ret, bits = 0x20, 0x15, 0x06, 0x45
    allow, deny, absent, kill = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
    denied = [_SOCKET[column]]
    denied += [number for numbers in _CALLS.values() if (number := numbers[column]) is not None]
    code = [(load, 0, 0, 4), (equal, 1, 0, audit), (ret, 0, 0, kill), (load, 0, 0, 0)]
    if local_sockets:
        code += [(equal, 0, 3, _SOCKET[column]), (load, 0, 0, 16)]
        code += [(equal, 0, 1, _AF_UNIX), (ret, 0, 0, allow), (load, 0, 0, 0)]
    for number in denied:
        code += [(equal, 0, 1, number), (ret, 0, 0, deny)]
    # clone3 hides its flags in memory: report it absent, so that libc falls back to clone.
    code += [(equal, 0, 1, _CLONE3[column]), (ret, 0, 0, absent)]
    code += [(equal, 0, 3, _CLONE[column]), (load, 0, 0, 16)]
    code += [(bits, 1, 0, _CLONE_THREAD), (ret, 0, 0, deny), (ret, 0, 0, allow)]
    packed = b"".join(struct.pack("HBBI", *line) for line in code)
    buffer = ctypes.create_string_buffer(packed)
    program = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(buffer))
    return bool(_libc.prctl(_PR_SET_SECCOMP, 2, program, 0, 0) == 0)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(enter([], [])))
