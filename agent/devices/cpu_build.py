"""C++ source to a shared library: read, preprocess, read again, compile, read the object, link.

The allowed headers are read before the program, from a precompiled prelude: a program's macros
then cannot change what a header means, and a build takes about 0.1 s where reading the headers
takes four times that. The result is found again by content: source, tunable values, compiler,
flags and processor. A build happens in its own folder and is renamed into place, so a builder
that is killed leaves nothing half-written behind a name.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from agent.devices import Built
from agent.devices.cpu import feature_key
from agent.devices.folders import check_names, content_key, making, sweep
from agent.devices.objects import check_library, check_object
from agent.devices.purity import FILE_NAME, HEADERS, scan_directives, scan_tokens
from agent.errors import BuildError, MachineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent.devices.cpu import Compiler

FLAGS = (
    "-std=gnu++17", "-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math",
    "-fPIC", "-fvisibility=default",
)  # fmt: skip
# Without exceptions OpenMP regions need no unwinder; the linker's start-up code, the only
# user of initialisers and static storage here, is left out.
_COMPILE = (*FLAGS, "-fno-exceptions", "-fdiagnostics-color=never", "-fmax-errors=3")
_LINK = (
    "-shared", "-nostartfiles", "-nodefaultlibs",
    "-Wl,-z,separate-code,-z,noexecstack,-z,now,-z,relro",
)  # fmt: skip
_LIBRARIES = ("-lm", "-lgcc", "-lc")
_PROBE = """extern "C" void probe(float* x, int64_t n) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) x[i] = std::exp(x[i]);
}
"""
SECONDS = 60
_MEMORY_KIB = 4 << 20
_MAX_FILE = 256 << 20
# Macros can turn a page into gigabytes, and what the preprocessor makes is read word by word.
_MAX_PREPROCESSED = 16 << 20
_LOG_BYTES = 4000
_OVER_LIMITS = re.compile(r"signal terminated program|memory exhausted|out of memory")


def build(
    compiler: Compiler,
    source: str,
    values: Mapping[str, int],
    kernels: Sequence[str],
    cache: Path,
    *,
    seconds: int = SECONDS,
) -> Built:
    """Build one variant, or find it in ``cache``.

    Args:
        source: The program's C++ text.
        values: Tunables; each becomes a macro.
        kernels: The functions that the plan launches.
        seconds: After this long the compiler and its children are killed.

    Raises:
        BuildError: The source is refused, does not compile or takes too long; its evidence has
            ``rung`` (``read`` or ``build``) and ``log``, the first error with its line.
        MachineError: The compiler does not work at all, or the cache cannot be written.
    """
    started = time.monotonic()
    source = source.replace("\r\n", "\n")
    check_names(values, kernels)
    scan_directives(source)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        tools = _toolchain(compiler, cache)
        key = content_key(tools.name, source, sorted(values.items()), sorted(set(kernels)))
        ready = _ready(cache, key)
        if ready is not None:
            return ready
        with making(cache) as folder:
            defines = [f"-D{name}={value}" for name, value in sorted(values.items())]
            detail = _make(compiler, tools, folder, source, defines, kernels, seconds)
            flags = f"{Path(compiler.command[-1]).name} {' '.join((*FLAGS, *defines))}"
            spent = round(time.monotonic() - started, 3)
            entry = {"seconds": spent, "flags": flags, "detail": detail}
            (folder / "built.json").write_text(json.dumps(entry))
            library = cache / f"{key}.so"
            (folder / "program.so").replace(library)
            (folder / "built.json").replace(cache / f"{key}.json")
            return Built(str(library), spent, False, flags, detail)
    except OSError as error:
        raise MachineError(
            f"cannot build in {cache}: {error.strerror or error}",
            "free some disk space, or choose another data folder",
            code="cache-unusable",
        ) from None


def _ready(cache: Path, key: str) -> Built | None:
    library = cache / f"{key}.so"
    try:
        entry = json.loads((cache / f"{key}.json").read_text())
        if not library.is_file():
            return None
        return Built(str(library), entry["seconds"], True, entry["flags"], entry["detail"])
    except (OSError, ValueError, KeyError):
        return None


def _make(
    compiler: Compiler,
    tools: Path,
    folder: Path,
    source: str,
    defines: Sequence[str],
    kernels: Sequence[str],
    seconds: int,
) -> dict[str, Any]:
    """All steps in one folder; leaves ``program.so`` there and returns facts about it."""
    (folder / FILE_NAME).write_text(source)
    common = [*compiler.command, *_COMPILE, *defines, "-include", str(tools / "prelude.h")]
    look = () if compiler.is_clang else ("-fpch-preprocess",)
    deadline = time.monotonic() + seconds
    expand = [*common, *look, "-E", FILE_NAME, "-o", "program.ii"]
    _run(expand, folder, deadline, _MAX_PREPROCESSED)
    scan_tokens((folder / "program.ii").read_text(errors="replace"))
    _run([*common, "-c", FILE_NAME, "-o", "program.o"], folder, deadline)
    detail = check_object(folder / "program.o", kernels)
    link = [*compiler.command, *_LINK, "program.o", *_LIBRARIES, "-o", "program.so"]
    _run(link, folder, deadline)
    check_library(folder / "program.so")
    return detail


def _toolchain(compiler: Compiler, cache: Path) -> Path:
    """The folder with the prelude, made once per compiler, flags and processor.

    Raises:
        MachineError: ``compiler-broken``: not even a probe of ours compiles.
    """
    prelude = "".join(f"#include <{name}>\n" for name in HEADERS)
    key = content_key(compiler.command, compiler.version, _COMPILE, _LINK, feature_key(), prelude)
    tools = cache / f"toolchain-{key[:24]}"
    if (tools / "prelude.h").exists():
        return tools
    sweep(cache)
    with making(cache) as folder:
        (folder / "prelude.h").write_text(prelude)
        deadline = time.monotonic() + SECONDS
        try:
            if not compiler.is_clang:
                header = [*compiler.command, *_COMPILE, "-x", "c++-header", "prelude.h"]
                _run([*header, "-o", "prelude.h.gch"], folder, deadline)
            with making(cache) as trial:
                _make(compiler, folder, trial, _PROBE, [], ["probe"], SECONDS)
        except BuildError as error:
            log = str(error.evidence.get("log", ""))
            raise MachineError(
                f"the compiler {compiler.command[0]} cannot build for torch's OpenMP: {log[:300]}",
                "install g++ with OpenMP, or name another compiler in CXX",
                code="compiler-broken",
                evidence={"log": log},
            ) from None
        try:
            folder.rename(tools)
        except OSError:
            # Another builder was first; its folder has the same content.
            if not (tools / "prelude.h").exists():
                raise
    return tools


def _run(command: Sequence[str], folder: Path, deadline: float, largest: int = _MAX_FILE) -> None:
    """Run one compiler step under limits; its children die with it.

    Args:
        deadline: On the monotonic clock.
        largest: Bytes that any file it writes may have.

    Raises:
        BuildError: ``compile``, ``compile-timeout``, ``compile-limits``.
    """
    limits = (
        f"ulimit -t {SECONDS}; ulimit -v {_MEMORY_KIB}; ulimit -f {largest // 512}; ulimit -c 0;"
    )
    env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TMPDIR": str(folder)}
    with (folder / "log").open("wb") as log:
        # The shell sets the limits: they hold before the compiler starts its own children.
        process = subprocess.Popen(
            ["/bin/sh", "-c", f'{limits} exec "$@"', "sh", *command],
            cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            _kill_tree(process)
            raise _failed("compile-timeout", "the compiler took too long", "") from None
    if process.returncode:
        with (folder / "log").open("rb") as log_file:
            text = log_file.read(256 << 10).decode(errors="replace")
        error = first_error(text)
        if error is None or _OVER_LIMITS.search(error[0]):
            raise _failed("compile-limits", "the compiler was stopped or broke down", text)
        message, shown = error
        raise _failed("compile", message, shown)


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill the compiler and what it started.

    It stays in our process group, so that it also ends when the builder's group is killed.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
    process.wait()


def first_error(log: str) -> tuple[str, str] | None:
    """The first error's message, and it with its place and source line, bounded and printable."""
    lines = ["".join(c if c.isprintable() else " " for c in line) for line in log.split("\n")]
    for index, line in enumerate(lines):
        match = re.search(
            r"(?:fatal |internal compiler )?error: (.*)|undefined reference to.*", line
        )
        if match is None:
            continue
        kept = [line]
        for following in lines[index + 1 : index + 16]:
            if re.search(r": (fatal )?error: |^compilation terminated", following):
                break
            kept.append(following)
        place = re.match(r"program\.cpp:(\d+)", line)
        message = (match.group(1) or match.group())[:300]
        text = "\n".join(kept)[:_LOG_BYTES]
        return (f"line {place.group(1)}: {message}" if place else message), text
    return None


def _failed(code: str, message: str, log: str) -> BuildError:
    clean = "".join(c if c.isprintable() or c == "\n" else " " for c in log)[:_LOG_BYTES]
    return BuildError(
        message,
        "correct the source at that line" if code == "compile" else "write a smaller program",
        code=code,
        evidence={"rung": "build", "log": clean or f"error: {message}"},
    )
