"""CUDA source to a cubin: read, compile, read what came out, keep it by content.

The result is found again by source, tunable values, architecture, compiler version, flags,
headers and prelude. It is made in a folder of its own and renamed into place with a hash of the
cubin beside it: a builder that is killed leaves nothing, and a damaged entry is built again.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from agent.devices import Built
from agent.devices.cuda import nvrtc, prelude
from agent.devices.cuda.arches import parse_arch
from agent.devices.cuda.cubin import read_cubin
from agent.devices.cuda.headers import cutlass_folder, header_folders
from agent.devices.cuda.nvrtc import FILE_NAME, CompileError
from agent.devices.cuda.ptx import accesses, parse
from agent.devices.cuda.pure import check_module, refuse
from agent.devices.cuda.source import read_source
from agent.devices.folders import check_names, content_key, making, sweep
from agent.errors import BuildError, MachineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from agent.devices.cuda.ptx import Module

# Part of the key: to be raised when what is read from a build, or how it is refused, changes.
RULES = 1
_LOG_BYTES = 4000
_MAX_PTX = 32 << 20
_HOST = "considered a host function"
_ERROR = re.compile(
    r"(?P<file>[^\n(]*)\((?P<line>\d+)\): (?:catastrophic )?error: (?P<text>[^\n]*)"
)

_ASSEMBLER = re.compile(r"ptxas[^\n]*?(?:error|fatal)\s*: (?P<text>[^\n]*)")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """What compiles on this machine: header folders, the prelude's file, and a key for all."""

    folders: tuple[Path, ...]
    prelude: Path
    key: str


def build(
    arch: str, source: str, values: Mapping[str, int], kernels: Sequence[str], cache: Path
) -> Built:
    """Build one variant, or find it in ``cache``.

    Args:
        arch: ``sm_90a`` and the like.
        source: The program's CUDA text.
        values: Tunables; each becomes a macro.
        kernels: The kernels that the plan launches.

    Raises:
        BuildError: The source is refused or does not compile; its evidence has ``rung``
            (``read`` or ``build``) and ``log``, the first error with its line.
        MachineError: The compiler or its headers are missing, or the cache cannot be written.
    """
    started = time.monotonic()
    source = source.replace("\r\n", "\n")
    check_names(values, kernels)
    text, headers = read_source(source, cutlass_folder() is not None)
    _check_arch(arch)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        tools = toolchain(cache)
        defines = [(name, str(value)) for name, value in sorted(values.items())]
        key = content_key(RULES, tools.key, arch, source, defines, sorted(set(kernels)))
        ready = _ready(cache, key)
        if ready is not None:
            return ready
        text = _head(headers, defines) + text
        cubin, flags, detail = _make(arch, tools, text, source, defines, kernels)
        spent = round(time.monotonic() - started, 3)
        digest = hashlib.sha256(cubin).hexdigest()
        entry = {"seconds": spent, "flags": flags, "detail": detail, "sha256": digest}
        library = cache / f"{key}.cubin"
        with making(cache) as folder:
            (folder / "program.cubin").write_bytes(cubin)
            (folder / "built.json").write_text(json.dumps(entry))
            (folder / "program.cubin").replace(library)
            (folder / "built.json").replace(cache / f"{key}.json")
        return Built(str(library), spent, False, flags, detail)
    except OSError as error:
        raise MachineError(
            f"cannot build in {cache}: {error.strerror or error}",
            "free some disk space, or choose another data folder",
            code="cache-unusable",
        ) from None


def toolchain(cache: Path) -> Toolchain:
    """Headers and prelude, made once per cache.

    Raises:
        MachineError: ``no-cuda-python``, ``no-nvrtc``, ``no-cuda-headers``.
    """
    major, minor = nvrtc.version()
    digest = hashlib.sha256(prelude.TEXT.encode()).hexdigest()[:16]
    home = cache / f"cuda-prelude-{digest}"
    if not (home / "prelude.h").is_file():
        sweep(cache)
        with making(cache) as folder:
            (folder / "prelude.h").write_text(prelude.TEXT)
            try:
                folder.rename(home)
            except OSError:
                # Another builder was first; its folder has the same content.
                if not (home / "prelude.h").is_file():
                    raise
    folders, named = header_folders(cache)
    key = content_key(major, minor, digest, named, nvrtc.flags("", [], False))
    return Toolchain(tuple(folders), home / "prelude.h", key)


def _head(headers: Sequence[str], defines: Sequence[tuple[str, str]]) -> str:
    """What stands before a program: its headers, then its tunables, and the lines count anew.

    Headers are read first, so that neither a tunable named N nor a macro of the program's changes
    what they mean.
    """
    lines = [f"#include <{name}>" for name in headers]
    lines += [f"#define {name} {value}" for name, value in defines]
    return "\n".join([*lines, f'#line 1 "{FILE_NAME}"', ""])


def _check_arch(arch: str) -> None:
    """Raises ``MachineError`` where NVRTC knows no such architecture."""
    major, minor = parse_arch(arch)
    if 10 * major + minor not in nvrtc.supported():
        shown = ".".join(str(part) for part in nvrtc.version())
        raise MachineError(
            f"NVRTC {shown} cannot compile for {arch}",
            "install a newer NVRTC: pip install -U 'forge-tui[cuda]'",
            code="nvrtc-too-old",
        )


def _ready(cache: Path, key: str) -> Built | None:
    library = cache / f"{key}.cubin"
    try:
        entry = json.loads((cache / f"{key}.json").read_text())
        if hashlib.sha256(library.read_bytes()).hexdigest() != entry["sha256"]:
            return None
        return Built(str(library), entry["seconds"], True, entry["flags"], entry["detail"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _make(
    arch: str,
    tools: Toolchain,
    text: str,
    source: str,
    defines: Sequence[tuple[str, str]],
    kernels: Sequence[str],
) -> tuple[bytes, str, dict[str, Any]]:
    """The cubin, its flags, and the facts about it."""
    notes = []
    compiled, host = _compile(arch, tools, text, False)
    module = _read(compiled, source)
    mangled = _mangled(module, kernels)
    if mangled:
        text = _c_linkage(text, mangled)
        compiled, host = _compile(arch, tools, text, host)
        module = _read(compiled, source)
        notes.append(f'extern "C" was added to {", ".join(mangled)}')
    missing = [name for name in kernels if name not in module.entries]
    if missing:
        raise _no_kernel(missing[0], module)
    resources = read_cubin(compiled.cubin, compiled.log, parse_arch(arch)[0])
    if host:
        notes.append("functions without __device__ were taken as device functions")
    for name, found in resources.items():
        if found.spill_stores or found.spill_loads:
            notes.append(f"{name} spills {found.spill_stores + found.spill_loads} bytes")
    detail = {
        "arch": arch,
        "kernels": {name: asdict(found) for name, found in resources.items()},
        "access": accesses(module),
        "notes": notes,
    }
    major, minor = nvrtc.version()
    flags = f"nvrtc {major}.{minor} {' '.join(nvrtc.flags(arch, defines, host))}"
    return compiled.cubin, flags, detail


def _compile(arch: str, tools: Toolchain, text: str, host: bool) -> tuple[nvrtc.Compiled, bool]:
    """Compile, and once more where unannotated functions are all that is wrong.

    To take them as device functions from the start would make every header slower to read.
    """
    while True:
        try:
            made = nvrtc.compile_program(text, arch, tools.folders, tools.prelude, host=host)
        except CompileError as error:
            log = str(error)
            if _HOST in log and not host:
                host = True
                continue
            raise _failed(log, tools) from None
        return made, host


def _read(compiled: nvrtc.Compiled, source: str) -> Module:
    if len(compiled.ptx) > _MAX_PTX:
        raise refuse("source-size", "the program makes too much code", "write a smaller program")
    module = parse(compiled.ptx)
    check_module(module, source)
    return module


def _mangled(module: Module, kernels: Sequence[str]) -> list[str]:
    """Kernels of the plan that are there once, under a C++ name and not a C one."""
    found = []
    for name in kernels:
        if name in module.entries:
            continue
        alike = [e for e in module.entries if e.startswith(f"_Z{len(name)}{name}")]
        if len(alike) == 1 and not alike[0].startswith(f"_Z{len(name)}{name}I"):
            found.append(name)
    return found


def _c_linkage(text: str, names: Sequence[str]) -> str:
    """The text with ``extern "C"`` before the kernels of these names; lines stay."""
    for name in names:
        text = re.sub(
            rf"(?<![\w\"])((?:static\s+)?__global__\b(?:[^;{{}}()]|\([^;{{}}]*?\))*?\b{name}\s*\()",
            lambda match: 'extern "C" ' + re.sub(r"^static\s+", "", match.group(1)),
            text,
        )
    return text


def _no_kernel(name: str, module: Module) -> BuildError:
    entries = module.entries
    there = f"it defines {', '.join(e[:60] for e in entries[:6])}" if entries else "it defines none"
    return BuildError(
        f"the source defines no kernel {name[:80]}; {there}",
        'define it as extern "C" __global__ void, not a template, with the name that the plan '
        "launches; tunables are macros",
        code="no-kernel",
        evidence={"rung": "build", "log": f"error: no kernel {name[:80]}; {there}"},
    )


def _failed(log: str, tools: Toolchain) -> BuildError:
    message, shown = first_error(log, tools)
    if "out of memory" in message:
        return BuildError(
            "the compiler ran out of memory",
            "write a smaller program: less unrolling, fewer instances of templates",
            code="compile-limits",
            evidence={"rung": "build", "log": shown},
        )
    cure = "correct the source at that line"
    if "Unresolved extern" in message:
        cure = "define every function that is called"
    return BuildError(
        message, cure, code="compile", evidence={"rung": "build", "log": shown or "error"}
    )


def first_error(log: str, tools: Toolchain) -> tuple[str, str]:
    """The first error's message, and it with its place and source line, bounded and printable.

    Folders of this machine are taken out; the program's own file is ``program.cu``.
    """
    log = log.replace(str(tools.prelude.parent) + "/", "")
    for folder in sorted(tools.folders, key=lambda path: -len(str(path))):
        log = log.replace(f"{folder}/", "")
    log = "".join(c if c.isprintable() or c == "\n" else " " for c in log)
    match = _ERROR.search(log)
    if match is None:
        assembler = _ASSEMBLER.search(log)
        message = assembler.group("text").strip() if assembler else log.strip().partition("\n")[0]
        return message[:300], log[:_LOG_BYTES]
    following = _ERROR.search(log, match.end())
    rest = log[match.end() : following.start() if following else len(log)]
    place = match["file"].strip().rpartition("/")[2]
    text = match["text"].strip()[:300]
    kept = re.split(r"\n\d+ (?:catastrophic )?errors? detected", rest)[0].rstrip()
    shown = f"{place}:{match['line']}: error: {match['text']}{kept}"[:_LOG_BYTES]
    own = place == FILE_NAME
    message = f"line {match['line']}: {text}" if own else f"{place}: {text}"
    return message, shown
