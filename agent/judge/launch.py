"""Calls a built library: pointers and sizes bound beforehand, outputs allocated at each call.

Used in the runner only.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from agent.errors import MachineError
from agent.judge.arena import GUARD_BYTE, contiguous_strides, torch_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_TYPES = {
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}


def load_openmp() -> str:
    """Make torch's own OpenMP runtime answer for every library loaded later; its path.

    One runtime means one pool of threads, for eager and candidates alike.

    Raises:
        MachineError: ``no-openmp``.
    """
    maps = Path("/proc/self/maps").read_text()
    found = re.findall(r"(/\S*libgomp[^/\s]*\.so[^/\s]*)$", maps, re.MULTILINE)
    for path in [*dict.fromkeys(found), "libgomp.so.1"]:
        try:
            ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        return str(path)
    raise MachineError(
        "there is no OpenMP runtime (libgomp.so.1)",
        "install it (Debian, Ubuntu: apt install libgomp1)",
        code="no-openmp",
    )


class Launch:
    """The launches of one plan, in order, over pointers that can be moved."""

    def __init__(self, steps: list[tuple[Any, list[Any]]], pointers: dict[str, Any]) -> None:
        self._steps = [(function, tuple(args)) for function, args in steps]
        self.pointers = pointers

    def point(self, addresses: Mapping[str, int]) -> None:
        for name, pointer in self.pointers.items():
            pointer.value = addresses[name]

    def __call__(self) -> None:
        for function, args in self._steps:
            function(*args)


class Library:
    """A candidate's shared library."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)

    def bind(self, launches: Sequence[dict[str, Any]]) -> Launch:
        """Resolve the kernels and make their arguments; pointers are set later."""
        pointers: dict[str, Any] = {}
        steps = []
        for launch in launches:
            args: list[Any] = []
            for arg in launch["args"]:
                if "tensor" in arg:
                    args.append(pointers.setdefault(arg["tensor"], ctypes.c_void_p()))
                else:
                    kind: Any = _TYPES[arg["type"]]
                    args.append(kind(arg["value"]))
            function = getattr(self._library, launch["kernel"])
            function.restype = None
            steps.append((function, args))
        return Launch(steps, pointers)

    def caller(
        self, names: Sequence[str], outputs: Sequence[dict[str, Any]], bound: dict[str, Any]
    ) -> Caller:
        return Caller(self.bind(bound["launches"]), names, outputs, bound["scratch"])


class Caller:
    """Calls a plan on ordinary tensors as eager is called: fresh outputs each time.

    Scratch memory is allocated at each call too, so its cost counts; but the program is handed
    blocks that were spoilt beforehand, so that it cannot find there what an earlier call left.
    """

    def __init__(
        self,
        launch: Launch,
        names: Sequence[str],
        outputs: Sequence[dict[str, Any]],
        scratch: Sequence[dict[str, Any]],
    ) -> None:
        self._launch = launch
        pointers = launch.pointers
        self._inputs = [(at, pointers[name]) for at, name in enumerate(names) if name in pointers]
        self._makers: list[tuple[Callable[[], torch.Tensor], Any]] = []
        for item in outputs:
            self._makers.append((_maker(item), pointers.get(item["name"])))
        self._scratch = [
            (_maker({**item, "strides": None}), pointers[item["name"]])
            for item in scratch
            if item["name"] in pointers
        ]
        self._blocks: list[list[torch.Tensor]] = []
        self._next = 0

    def prepare(self, calls: int) -> None:
        """Before a timed batch of so many calls: spoil a set of scratch blocks for each."""
        if not self._scratch:
            return
        while len(self._blocks) < calls:
            self._blocks.append([make() for make, _ in self._scratch])
        for block in self._blocks[:calls]:
            for value in block:
                value.view(-1).view(torch.uint8).fill_(GUARD_BYTE)
        self._next = 0

    @property
    def scratch_bytes(self) -> int:
        return sum(make().nbytes for make, _ in self._scratch)

    def __call__(self, *args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        for at, pointer in self._inputs:
            pointer.value = args[at].data_ptr()
        results = []
        for make, pointer in self._makers:
            value = make()
            results.append(value)
            if pointer is not None:
                pointer.value = value.data_ptr()
        if self._scratch:
            block = self._blocks[self._next]
            self._next += 1
            for (make, pointer), value in zip(self._scratch, block, strict=True):
                make()
                pointer.value = value.data_ptr()
        self._launch()
        return tuple(results)


def _maker(item: dict[str, Any]) -> Callable[[], torch.Tensor]:
    shape, dtype = tuple(item["shape"]), torch_dtype(item["dtype"])
    strides = item["strides"] and tuple(item["strides"])
    if strides is None or strides == contiguous_strides(shape):
        return lambda: torch.empty(shape, dtype=dtype)
    return lambda: torch.empty_strided(shape, strides, dtype=dtype)
