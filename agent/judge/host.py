"""Keeps a runner at hand: its memory, what it may read, spares for when a candidate breaks it."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from agent.errors import ForgeError
from agent.judge.process import Runner, sweep_scratch, task_places
from agent.judge.shared import SharedFile

if TYPE_CHECKING:
    from agent.judge.arena import Arena, Layout
    from agent.judge.gpu_memory import SharedDevice
    from agent.task import TaskSource

_LOAD_SECONDS = 120.0
# A GPU runner takes seconds to come up and about half a gigabyte of the card.
_GPU_SPARES = 2
_SPARE_ROOM = 4 << 30


class Host:
    """One runner at a time, replaced when it dies or must be allowed more.

    Args:
        device: ``cpu``: a spare starts when a runner has died; ``cuda``: spares are kept warm
            from the first call on, while the card has room for them.

    Attributes:
        filled: What the runner's copies for timing were made from; None when it has none.
        replaced: Runners that a candidate broke so far.
    """

    def __init__(self, log: IO[bytes] | None, device: str = "cpu") -> None:
        sweep_scratch()
        self._log = log
        self._device = device
        self._shared: SharedFile | SharedDevice = _shared(device)
        self._memory: Arena | None = None
        self._size = 0
        self._runner: Runner | None = None
        self._spares: list[Runner] = []
        self._read: set[str] = set()
        self._folders: set[str] = set()
        self._tasks: dict[int, TaskSource] = {}
        self.filled: tuple[int, int] | None = None
        self.replaced = 0

    def close(self) -> None:
        self._end_all()
        self._memory = None
        self._shared.close()

    def _end_all(self) -> None:
        for runner in self._spares + ([self._runner] if self._runner else []):
            runner.kill()
        self._runner, self._spares = None, []

    def add_task(self, target: int, task: TaskSource) -> None:
        read, folders = task_places(task.path if task.kind != "suite" else "")
        self._read.update(read)
        self._folders.update(folders)
        self._tasks[target] = task
        self.filled = None
        for runner in (self._runner, *self._spares):
            if runner is not None:
                runner.loaded.discard(target)

    @property
    def pids(self) -> list[int]:
        """Of all runners that live."""
        return [r.pid for r in (self._runner, *self._spares) if r is not None and r.alive]

    def space(self, layout: Layout) -> Arena:
        """Shared memory of at least the layout's size, as this process sees it."""
        if layout.size > self._size or self._memory is None:
            self._memory = None
            for runner in (self._runner, *self._spares):
                # Memory of a GPU must not be freed while another process has it mapped.
                if self._device != "cpu" and runner is not None and runner.mapped:
                    self._unmap(runner)
            self._memory = self._shared.grow(layout.size)
            self._size = layout.size
        return self._memory

    @staticmethod
    def _unmap(runner: Runner) -> None:
        try:
            runner.call("unmap", {}, _LOAD_SECONDS)
        except ForgeError:
            runner.kill()
        runner.mapped = False

    def allow(self, library: str) -> None:
        """The runner may read the folder that this library lies in."""
        self._read.add(str(Path(library).resolve().parent))

    def ready(self) -> Runner:
        """A runner that lives and may read all that it needs.

        Raises:
            WorkerError: ``runner-failed``.
        """
        for runner in [r for r in self._spares if not self._fit(r)]:
            runner.kill()
            self._spares.remove(runner)
        if self._runner is not None and not self._fit(self._runner):
            self._runner.kill()
            self._runner = None
        if self._runner is None:
            self._runner = self._spares.pop(0) if self._spares else self._start()
            self.filled = None
        self._runner.greet()
        if self._device != "cpu" and len(self._spares) < _GPU_SPARES and _room_for_spare():
            self._spares.append(self._start())
        return self._runner

    def with_task(self, target: int) -> Runner:
        """A runner that has the target's reference, and no spare just starting beside it."""
        runner = self.ready()
        if self._device == "cpu":
            for spare in self._spares:
                spare.greet()
        if target not in runner.loaded:
            request = {"target": target, "task": self._tasks[target].to_json()}
            runner.call("load", request, _LOAD_SECONDS)
            runner.loaded.add(target)
        return runner

    def ask(self, verb: str, args: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Ask the runner; one that breaks over it is replaced, and the next warms up meanwhile.

        The request is told where the shared memory is.

        Raises:
            WorkerError: ``crashed``, ``hung``, ``runner-failed``.
        """
        runner = self.ready()
        runner.mapped = True
        try:
            return runner.call(verb, {**args, "memory": self._shared.describe()}, seconds)
        except ForgeError as error:
            # A kernel's fault leaves a process that answers, and is of no use.
            if not runner.alive or error.code == "crashed":
                runner.kill()
                self.replaced += 1
                self._runner = None
                self.filled = None
                if not self._spares:
                    self._spares.append(self._start())
            raise

    def _start(self) -> Runner:
        return Runner(self._shared.fds, self._read, self._folders, self._log, self._device)

    def _fit(self, runner: Runner) -> bool:
        return runner.alive and runner.read >= self._read


def _shared(device: str) -> SharedFile | SharedDevice:
    if device == "cpu":
        return SharedFile()
    from agent.judge.gpu_memory import SharedDevice

    return SharedDevice()


def _room_for_spare() -> bool:
    import torch

    return bool(torch.cuda.mem_get_info()[0] > _SPARE_ROOM)
