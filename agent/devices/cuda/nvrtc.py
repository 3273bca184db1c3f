"""NVIDIA's run-time compiler: source text to a cubin, and the PTX of the same compilation."""

from __future__ import annotations

import functools
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.devices.cuda.driver import cuda_python
from agent.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_INSTALL = "pip install 'forge-tui[cuda]'; it brings NVRTC"
FILE_NAME = "program.cu"
# CCCL expands its type lists by macro up to this length; its own 16 costs 0.9 s in every program
# that includes any of it, and longer lists are handled by recursion.
_UNROLL = ("_CCCL_META_UNROLL_LIMIT", "8")


@dataclass(frozen=True, slots=True)
class Compiled:
    """What one compilation gave.

    Attributes:
        cubin: The GPU's code, an ELF file.
        ptx: The text that it was assembled from.
        log: What the assembler said of registers and spills.
    """

    cubin: bytes
    ptx: str
    log: str


class CompileError(Exception):
    """NVRTC refused the source; its text is the whole log."""


def version() -> tuple[int, int]:
    """NVRTC's own version, such as (13, 5).

    Raises:
        MachineError: ``no-cuda-python``, ``no-nvrtc``.
    """
    return _version()[0]


def supported() -> list[int]:
    """Compute capabilities that this NVRTC compiles for, times ten, in order."""
    return _version()[1]


@functools.cache
def _version() -> tuple[tuple[int, int], list[int]]:
    nvrtc = cuda_python("cuda.bindings.nvrtc")
    try:
        _, major, minor = nvrtc.nvrtcVersion()
        _, arches = nvrtc.nvrtcGetSupportedArchs()
    except RuntimeError as error:
        raise MachineError(
            f"NVRTC cannot be loaded: {str(error)[:160]}", _INSTALL, code="no-nvrtc"
        ) from None
    return (int(major), int(minor)), sorted(int(arch) for arch in arches)


def flags(arch: str, defines: Sequence[tuple[str, str]], host: bool) -> list[str]:
    """The flags as a person reads them; what :func:`compile_program` sets."""
    more = ["-default-device"] if host else []
    return [f"-arch={arch}", "-std=c++20", *more, *(f"-D{name}={value}" for name, value in defines)]


def compile_program(
    source: str, arch: str, includes: Sequence[Path], prelude: Path, *, host: bool
) -> Compiled:
    """Compile one program.

    Args:
        includes: Folders of the headers; nothing else is searched but the prelude's own.
        prelude: Read before the source.
        host: Whether functions without annotations are taken as device functions, which makes
            headers slower to read.

    Raises:
        CompileError: The source does not compile.
        MachineError: ``nvrtc-broken``, ``no-nvrtc``.
    """
    version()
    core = cuda_python("cuda.core")
    options = core.ProgramOptions(
        # Beside the source is searched too: so it stands beside the prelude, not in our folder.
        name=str(prelude.with_name(FILE_NAME)), arch=arch, std="c++20",
        include_path=[str(folder) for folder in includes], pre_include=str(prelude),
        define_macro=[_UNROLL], device_as_default_execution_space=host or None,
        disable_warnings=True, ptxas_options=["-v"],
    )  # fmt: skip
    program = core.Program(source, "c++", options)
    log = io.StringIO()
    try:
        cubin = bytes(program.compile("cubin", logs=log).code)
        ptx = _ptx(program)
    except (core_error(), RuntimeError) as error:
        text = str(error)
        if "NVRTC_ERROR_COMPILATION" in text[:200]:
            raise CompileError(text.partition("compilation log:")[2].strip() or text) from None
        raise MachineError(
            f"NVRTC failed: {text[:200]}",
            "free some memory, or install another version of NVRTC",
            code="nvrtc-broken",
        ) from None
    finally:
        program.close()
        # An error's traceback holds this frame; a program that the collector finds there has
        # lost its parts and complains.
        del program
    return Compiled(cubin, ptx, re.sub(r"\0", "", log.getvalue()))


def core_error() -> type[Exception]:
    """The exception that ``cuda.core`` raises for NVRTC's errors."""
    kind: type[Exception] = cuda_python("cuda.core._utils.cuda_utils").CUDAError
    return kind


def _ptx(program: Any) -> str:
    """The PTX of a compilation to a cubin; ``cuda.core`` hands out only one of the two."""
    nvrtc = cuda_python("cuda.bindings.nvrtc")
    failed, size = nvrtc.nvrtcGetPTXSize(program.handle)
    text = b" " * int(size)
    if not int(failed):
        (failed,) = nvrtc.nvrtcGetPTX(program.handle, text)
    if int(failed):
        raise MachineError(
            "this NVRTC gives no PTX beside the cubin", _INSTALL, code="nvrtc-broken"
        )
    return text.rstrip(b"\0").decode(errors="replace")
