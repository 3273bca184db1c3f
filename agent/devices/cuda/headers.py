"""Where the compiler finds CUDA's headers: NVRTC's own copy, or a toolkit's folder."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agent.devices.cuda import nvrtc
from agent.devices.cuda.driver import cuda_python
from agent.devices.folders import making
from agent.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK, _RUNTIME = "cuda_fp16.h", "cuda_runtime_api.h"
_CURE = (
    "install NVRTC 13.5 or newer (it brings them), or set CUDA_HOME to a CUDA toolkit "
    "that has include/cuda_fp16.h"
)


def header_folders(cache: Path) -> tuple[list[Path], str]:
    """The folders to search, in order, and words that name what they hold.

    NVRTC's own copy is written into ``cache`` once. It is preferred, because it fits the compiler;
    but CUTLASS includes the run-time's headers, which only a toolkit has.

    Raises:
        MachineError: ``no-cuda-headers``.
    """
    cutlass = cutlass_folder()
    folder = None if cutlass else _bundled(cache)
    named = "bundled"
    if folder is None:
        mark = _RUNTIME if cutlass else _MARK
        folder = next((place for place in _toolkits() if (place / mark).is_file()), None)
        if folder is None:
            raise MachineError("the CUDA headers are missing", _CURE, code="no-cuda-headers")
        named = f"{folder} {(folder / mark).stat().st_size}"
    folders = [folder, *([folder / "cccl"] if (folder / "cccl").is_dir() else [])]
    return [*folders, *([cutlass] if cutlass else [])], f"{named} {cutlass or ''}"


def cutlass_folder() -> Path | None:
    """The include folder of CUTLASS that ``FORGE_CUTLASS`` names, or None.

    Raises:
        MachineError: ``no-cutlass``: the variable is set, but CUTLASS is not there.
    """
    named = os.environ.get("FORGE_CUTLASS", "")
    if not named:
        return None
    for folder in (Path(named), Path(named) / "include"):
        if (folder / "cute" / "tensor.hpp").is_file():
            return folder.resolve()
    raise MachineError(
        f"FORGE_CUTLASS names {named[:120]}, which has no cute/tensor.hpp",
        "let it name CUTLASS's include folder, or unset it",
        code="no-cutlass",
    )


# The first NVRTC that carries its headers with it.
_BUNDLING = (13, 5)


def _bundled(cache: Path) -> Path | None:
    """NVRTC's own headers, unpacked once; None for a version that has none."""
    major, minor = nvrtc.version()
    if (major, minor) < _BUNDLING:
        return None
    bindings = cuda_python("cuda.bindings.nvrtc")
    # A bound function may exist for a library that has none behind it: that is a RuntimeError;
    # and some bindings cannot make the structure that it fills: that is a TypeError.
    try:
        about = bindings.nvrtcGetBundledHeadersInfo()
    except (AttributeError, RuntimeError, TypeError):
        return None
    if int(about[0]) or not about[1].available:
        return None
    folder = cache / f"cuda-headers-{major}.{minor}"
    if (folder / _MARK).is_file():
        return folder
    with making(cache) as fresh:
        answer = bindings.nvrtcInstallBundledHeaders(str(fresh).encode(), 0)
        if int(answer[0]):
            return None
        try:
            fresh.rename(folder)
        except OSError:
            # Another builder was first; its folder has the same content.
            if not (folder / _MARK).is_file():
                raise
    return folder


def _toolkits() -> Iterator[Path]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield Path(os.environ[name]) / "include"
    yield Path("/usr/local/cuda/include")
    compiler = shutil.which("nvcc")
    if compiler:
        yield Path(compiler).resolve().parent.parent / "include"
    for entry in sys.path:
        packages = Path(entry) / "nvidia"
        if packages.is_dir():
            yield from sorted(packages.glob("cu*/include"))
            yield from sorted(packages.glob("cuda_runtime/include"))
