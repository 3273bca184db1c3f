"""Building in a worker of its own, as a search does: a compiler that never ends is killed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent.errors import BuildError, WorkerError
from agent.workers.client import Worker
from agent.workers.workshop import worker_environment

if TYPE_CHECKING:
    from pathlib import Path

    from agent.program import Program

SECONDS = 60.0
# For sources that are made to take for ever.
BOMB_SECONDS = 5.0


class Builder:
    """One builder process for a device.

    Args:
        device, arch: As the builder's requests name them.
        cache: Where libraries are built; the builder's standard error goes to a file in it.
    """

    def __init__(self, device: str, cache: Path, arch: str = "") -> None:
        cache.mkdir(parents=True, exist_ok=True)
        self._device = {"device": device, "arch": arch}
        self._cache = cache
        self._loop = asyncio.Runner()
        self._worker = Worker("agent.workers.builder", cache / "builder.log", worker_environment())

    def build(self, program: Program, seconds: float = SECONDS) -> str:
        """Path of the library for the default tunables.

        Raises:
            BuildError: The source is refused, does not compile, or is not done in time.
            MachineError: This machine cannot build.
        """
        request = {
            "source": program.source,
            "values": program.defaults(),
            "kernels": program.kernels(),
            "cache": str(self._cache),
            **self._device,
        }
        try:
            built = self._loop.run(self._worker.call("build", request, seconds))
        except WorkerError as error:
            late = error.code == "worker-timeout"
            code = "compile-timeout" if late else "compile-limits"
            raise BuildError(error.message, code=code, evidence={"rung": "build"}) from None
        return str(built["library"])

    def close(self) -> None:
        self._loop.run(self._worker.kill())
        self._loop.close()
