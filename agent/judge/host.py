"""Keeps a runner at hand: its memory, what it may read, a spare for when a candidate breaks it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from agent.errors import ForgeError
from agent.judge.arena import Memory
from agent.judge.process import Runner, sweep_scratch, task_places

if TYPE_CHECKING:
    from agent.judge.arena import Layout
    from agent.task import TaskSource

_LOAD_SECONDS = 120.0


class Host:
    """One runner at a time, replaced when it dies or must be allowed more.

    Attributes:
        filled: What the runner's copies for timing were made from; None when it has none.
    """

    def __init__(self, log: IO[bytes] | None) -> None:
        sweep_scratch()
        self._log = log
        self._fd = os.memfd_create("forge-judge", os.MFD_CLOEXEC)
        self._memory: Memory | None = None
        self._size = 0
        self._runner: Runner | None = None
        self._spare: Runner | None = None
        self._read: set[str] = set()
        self._folders: set[str] = set()
        self._tasks: dict[int, TaskSource] = {}
        self.filled: tuple[int, int] | None = None

    def close(self) -> None:
        for runner in (self._runner, self._spare):
            if runner is not None:
                runner.kill()
        self._runner = self._spare = self._memory = None
        os.close(self._fd)

    def add_task(self, target: int, task: TaskSource) -> None:
        read, folders = task_places(task.path if task.kind != "suite" else "")
        self._read.update(read)
        self._folders.update(folders)
        self._tasks[target] = task
        self.filled = None
        for runner in (self._runner, self._spare):
            if runner is not None:
                runner.loaded.discard(target)

    def space(self, layout: Layout) -> Memory:
        """Shared memory of at least the layout's size, as this process sees it."""
        if layout.size > self._size or self._memory is None:
            self._memory = None
            os.ftruncate(self._fd, layout.size)
            self._size = layout.size
            self._memory = Memory(self._fd, self._size)
        return self._memory

    def allow(self, library: str) -> None:
        """The runner may read the folder that this library lies in."""
        self._read.add(str(Path(library).resolve().parent))

    def ready(self) -> Runner:
        """A runner that lives and may read all that it needs.

        Raises:
            WorkerError: ``runner-failed``.
        """
        if self._runner is not None and not self._fit(self._runner):
            self._runner.kill()
            self._runner = None
        if self._spare is not None and not self._fit(self._spare):
            self._spare.kill()
            self._spare = None
        if self._runner is None:
            self._runner, self._spare = self._spare or self._start(), None
            self.filled = None
        self._runner.greet()
        return self._runner

    def with_task(self, target: int) -> Runner:
        """A runner that has the target's reference, and no spare just starting beside it."""
        runner = self.ready()
        if self._spare is not None:
            self._spare.greet()
        if target not in runner.loaded:
            request = {"target": target, "task": self._tasks[target].to_json()}
            runner.call("load", request, _LOAD_SECONDS)
            runner.loaded.add(target)
        return runner

    def ask(self, verb: str, args: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Ask the runner; one that dies over it is replaced, and the next warms up meanwhile.

        Raises:
            WorkerError: ``crashed``, ``hung``, ``runner-failed``.
        """
        runner = self.ready()
        try:
            return runner.call(verb, args, seconds)
        except ForgeError:
            if not runner.alive:
                self._runner = None
                self.filled = None
                self._spare = self._spare or self._start()
            raise

    def _start(self) -> Runner:
        return Runner(self._fd, self._read, self._folders, self._log)

    def _fit(self, runner: Runner) -> bool:
        return runner.alive and runner.read >= self._read
