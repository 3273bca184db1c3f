"""The runner's side on the CPU: shared libraries, and wall-clock times of calls."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from agent.judge.arena import Memory
from agent.judge.launch import Library, load_openmp
from agent.judge.stopwatch import Bench

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from agent.judge.launch import Caller


class CpuSide:
    """Maps the shared file ``memory`` and calls C++ functions."""

    def __init__(self, memory: int) -> None:
        self._fd = memory
        self._mapped: Memory | None = None
        self._size = 0
        self._libraries: dict[str, Library] = {}

    def warm_up(self) -> dict[str, Any]:
        """Whatever a first use costs; says what times depend on."""
        openmp = load_openmp()
        # The pool exists from here on, and a first use's costs are behind us.
        torch.ones(1 << 20).sum()
        return {"openmp": os.path.basename(openmp), "threads": torch.get_num_threads()}

    def mapped(self, description: dict[str, Any]) -> Memory:
        """The shared memory as it is described now."""
        if self._mapped is None or description["size"] != self._size:
            self._size = description["size"]
            self._mapped = Memory(self._fd, self._size)
        return self._mapped

    def unmap(self) -> None:
        self._mapped = None

    def settle(self) -> None:
        """Nothing is under way when a call has returned."""

    @contextmanager
    def faults(self, what: str) -> Iterator[None]:
        """A fault of a C++ function ends the process, so there is nothing to translate."""
        del what
        yield

    def _library(self, path: str) -> Library:
        if path not in self._libraries:
            self._libraries[path] = Library(path)
        return self._libraries[path]

    def run(
        self,
        library: str,
        bound: dict[str, Any],
        tensors: Mapping[str, torch.Tensor],
        outputs: Sequence[str],
    ) -> None:
        self._library(library).run(bound, tensors, outputs)

    def caller(
        self,
        library: str,
        names: Sequence[str],
        outputs: Sequence[dict[str, Any]],
        bound: dict[str, Any],
    ) -> Caller:
        return self._library(library).caller(names, outputs, bound)

    def bench(
        self, cases: Sequence[Sequence[torch.Tensor]], copies: int, mutated: Sequence[int]
    ) -> Bench:
        return Bench(cases, copies, mutated)
