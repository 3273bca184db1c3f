"""Calls a built library: pointers and sizes bound beforehand, outputs allocated at each call.

Used in the runner only.
"""

from __future__ import annotations

import ctypes
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from agent.errors import MachineError
from agent.judge.arena import GUARD_BYTE, contiguous_strides, span_bytes, torch_dtype
from agent.judge.library_steps import Environment, same_kind

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
    """The steps of one plan, in order, over pointers that can be moved."""

    def __init__(self, steps: list[Callable[[], Any]], pointers: dict[str, Any]) -> None:
        self._steps = steps
        self.pointers = pointers

    def point(self, addresses: Mapping[str, int]) -> None:
        """Set the pointers of all tensors but those that library steps bind."""
        for name, pointer in self.pointers.items():
            if name in addresses:
                pointer.value = addresses[name]

    def __call__(self) -> None:
        for step in self._steps:
            step()


class Library:
    """A candidate's shared library."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)

    def bind(self, bound: dict[str, Any], environment: Environment) -> Launch:
        """Resolve the kernels and make their arguments; pointers are set later.

        Args:
            bound: As ``Bound.to_json`` gives it.
            environment: The tensors of library steps.
        """
        pointers: dict[str, Any] = {}
        steps: list[Callable[[], Any]] = []
        for item in bound["scratch"]:
            pointer = pointers.setdefault(item["name"], ctypes.c_void_p())
            if item.get("zero"):
                size = span_bytes(item["dtype"], item["shape"], contiguous_strides(item["shape"]))
                steps.append(partial(_clear, pointer, size))
        for step in bound["steps"]:
            if "call" in step:
                steps.append(partial(environment.make_call(step, pointers), 0))
                continue
            args: list[Any] = []
            for arg in step["args"]:
                if "tensor" in arg:
                    args.append(pointers.setdefault(arg["tensor"], ctypes.c_void_p()))
                else:
                    kind: Any = _TYPES[arg["type"]]
                    args.append(kind(arg["value"]))
            function = getattr(self._library, step["kernel"])
            function.restype = None
            steps.append(partial(function, *args))
        return Launch(steps, pointers)

    def run(
        self, bound: dict[str, Any], tensors: Mapping[str, torch.Tensor], outputs: Sequence[str]
    ) -> None:
        """One call on given tensors; library steps write into outputs that exist.

        Raises:
            ProgramError: ``call``: a library step fails.
        """
        environment = Environment()
        environment.tensors = {name: tensors[name] for name in tensors if name not in outputs}
        environment.places = {name: tensors[name] for name in outputs}
        launch = self.bind(bound, environment)
        launch.point({name: value.data_ptr() for name, value in tensors.items()})
        launch()

    def caller(
        self, names: Sequence[str], outputs: Sequence[dict[str, Any]], bound: dict[str, Any]
    ) -> Caller:
        environment = Environment()
        return Caller(self.bind(bound, environment), environment, names, outputs, bound)


def _clear(pointer: Any, size: int) -> None:
    if size:
        ctypes.memset(pointer, 0, size)


class Caller:
    """Calls a plan on ordinary tensors as eager is called: fresh outputs each time.

    Scratch memory is allocated at each call too, so its cost counts; but the program is handed
    blocks that were spoilt beforehand, so that it cannot find there what an earlier call left.
    """

    def __init__(
        self,
        launch: Launch,
        environment: Environment,
        names: Sequence[str],
        outputs: Sequence[dict[str, Any]],
        bound: dict[str, Any],
    ) -> None:
        self._launch = launch
        self._environment = environment
        self._names = list(names)
        pointers = launch.pointers
        self._inputs = [(at, pointers[name]) for at, name in enumerate(names) if name in pointers]
        self._called = {step["to"] for step in bound["steps"] if "call" in step}
        self._outputs = list(outputs)
        self._makers = [
            (item["name"], _maker(item), pointers.get(item["name"]))
            for item in outputs
            if item["name"] not in self._called
        ]
        self._scratch = [
            (item["name"], _maker({**item, "strides": None}), pointers[item["name"]])
            for item in bound["scratch"]
        ]
        self._blocks: list[list[torch.Tensor]] = []
        self._next = 0

    def prepare(self, calls: int) -> None:
        """Before a timed batch of so many calls: spoil a set of scratch blocks for each."""
        if not self._scratch:
            return
        while len(self._blocks) < calls:
            self._blocks.append([make() for _, make, _ in self._scratch])
        for block in self._blocks[:calls]:
            for value in block:
                value.view(-1).view(torch.uint8).fill_(GUARD_BYTE)
        self._next = 0

    @property
    def scratch_bytes(self) -> int:
        return sum(make().nbytes for _, make, _ in self._scratch)

    def __call__(self, *args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        for at, pointer in self._inputs:
            pointer.value = args[at].data_ptr()
        made: dict[str, torch.Tensor] = {}
        for name, make, pointer in self._makers:
            value = made[name] = make()
            if pointer is not None:
                pointer.value = value.data_ptr()
        if self._scratch:
            block = self._blocks[self._next]
            self._next += 1
            for (name, make, pointer), value in zip(self._scratch, block, strict=True):
                make()
                made[name] = value
                pointer.value = value.data_ptr()
        if self._called:
            self._environment.tensors = {**dict(zip(self._names, args, strict=True)), **made}
            made = self._environment.tensors
        self._launch()
        return tuple(
            _as_output(made[item["name"]], item) if item["name"] in self._called
            else made[item["name"]]
            for item in self._outputs
        )  # fmt: skip


def _as_output(value: torch.Tensor, item: dict[str, Any]) -> torch.Tensor:
    """A library step's result as the output that it is bound to."""
    same_kind("the library", value, torch_dtype(item["dtype"]), tuple(item["shape"]))
    if value.stride() == tuple(item["strides"]):
        return value
    fresh = torch.empty_strided(value.shape, item["strides"], dtype=value.dtype)
    return fresh.copy_(value)


def _maker(item: dict[str, Any]) -> Callable[[], torch.Tensor]:
    shape, dtype = tuple(item["shape"]), torch_dtype(item["dtype"])
    strides = item["strides"] and tuple(item["strides"])
    if strides is None or strides == contiguous_strides(shape):
        return lambda: torch.empty(shape, dtype=dtype)
    return lambda: torch.empty_strided(shape, strides, dtype=dtype)
