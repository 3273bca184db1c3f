"""The judge: holds the references and the answers, and has the runner call the candidates."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from agent.devices import open_device
from agent.errors import WorkerError
from agent.judge import sol
from agent.judge.cases import Cases
from agent.judge.check import Check, slots_json
from agent.judge.host import Host
from agent.judge.measure import LEAST, QUIET, SCREEN_LEAST, Arguments, Load, copies_needed, measured
from agent.judge.plan import wanted_scratch
from agent.judge.process import KILLED
from agent.judge.rates import Rates, machine_records
from agent.judge.verdict import Calibration, Checked, Failure, Measured
from agent.reference import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.judge.arena import Layout, Slot
    from agent.task import TargetSpec, TaskSource

_ROUNDS = 2
_TRIES = 3
_FILL_SECONDS = 120.0
_LARGE = 256 << 20


_Result = TypeVar("_Result", Checked, Measured)


def _unless_killed(judge: Callable[[], _Result]) -> _Result:
    """Judge, and once more if the runner was killed from outside, which no program can do.

    For memory it can be the program's doing: then it happens again, and counts.
    """
    result = judge()
    if result.failure is not None and result.failure.message == KILLED:
        return judge()
    return result


class Judge:
    """Judges programs for any number of targets on the CPU.

    Args:
        run_seconds: A call that takes longer (and longer than 50 times eager) has hung.
        log: Where the runner's standard error goes.
    """

    def __init__(self, *, run_seconds: float = 10.0, log: IO[bytes] | None = None) -> None:
        self._device = open_device("cpu")
        self._run_seconds = run_seconds
        self._host = Host(log)
        self._cases: dict[int, Cases] = {}
        self._floors: dict[int, int] = {}
        self._cache: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        self._host.close()
        if self._cache is not None:
            self._cache.cleanup()

    def load(self, target: int, task: TaskSource, seed: int) -> TargetSpec:
        """Take a target up. ``seed`` is the session's secret: it decides every input.

        Raises:
            TaskError: The task cannot be a target.
        """
        reference = load(task)
        self._host.add_task(target, task)
        self._cases[target] = Cases(reference, seed)
        return reference.spec

    def calibrate(self, target: int, machine: str = "", cache: str = "") -> Calibration:
        """Eager's time, SOL and floor of a target.

        Args:
            machine: Path of ``machine.db``, where SOL and rates are kept; "" to measure anew.
            cache: Where libraries are built; "" for a folder that goes with the judge.

        Raises:
            MachineError: This machine cannot build.
        """
        spec = self._spec(target)
        with machine_records(machine) as records:
            rates = Rates(self._device, self._host, Path(cache or self._own_cache()), records)
            read = rates.cache_read()
            moved = rates.moved(spec.read_bytes, spec.write_bytes)
            sol_ns = int(moved["ns"])
            detail: dict[str, Any] = {"stream": moved, "cache_read": read}
            if spec.flops:
                detail["products"] = rates.products(spec)
                rate = float(detail["products"]["flops_per_s"])
                sol_ns = max(sol_ns, round(spec.flops / rate * 1e9))
        size = spec.read_bytes + spec.write_bytes
        # A rate taken on a busy machine is too low, and its floor would refuse honest programs.
        quiet = float(read.get("others", 0.0)) < QUIET
        floor = round(sol.MARGIN * size / read["bytes_per_ns"]) if quiet else 0
        floor = min(floor, round(sol.MARGIN * sol_ns))
        self._floors[target] = floor
        same = self._quiet_identity(target)
        detail |= {
            "identity": {"ratio": same.ratio, "low": same.low, "high": same.high},
            "others": same.others,
            "facts": self._device.facts(),
            "sandbox": self._host.ready().sandbox,
        }
        return Calibration(same.eager_ns, sol_ns, floor, detail)

    def check(self, target: int, library: str, bound: dict[str, Any]) -> Checked:
        """The check rung; a failing program is a result, not an exception.

        Args:
            library: What the builder built.
            bound: The plan as ``Bound.to_json`` gives it.

        Raises:
            ProgramError: The plan names what does not exist, or wants too much.
        """
        cases = self._cases[target]
        scratch = wanted_scratch(self._spec(target), bound)
        self._host.allow(library)

        def call(layout: Layout, slots: dict[str, Slot]) -> None:
            request = {
                "size": layout.size,
                "slots": slots_json(slots),
                "library": library,
                "launches": bound["launches"],
            }
            self._host.ask("run", request, self._patience(target))

        return _unless_killed(lambda: Check(cases, scratch, self._host.space, call).run())

    def measure(
        self, target: int, library: str, bound: dict[str, Any], budget_ms: float = 900
    ) -> Measured:
        """The measure rung; the program must have passed the check.

        Raises:
            ProgramError: The plan names what does not exist, or wants too much.
        """
        side = self._side(target, library, bound)
        return _unless_killed(
            lambda: self._time(target, side, budget_ms, _ROUNDS, LEAST, verify=True)
        )

    def screen(
        self, target: int, library: str, bound: dict[str, Any], budget_ms: float = 120
    ) -> Measured:
        """A short measurement without proof, to choose between variants."""
        side = self._side(target, library, bound)
        return _unless_killed(
            lambda: self._time(target, side, budget_ms, 1, SCREEN_LEAST, verify=False)
        )

    def identity(self, target: int, budget_ms: float = 300) -> Measured:
        """Eager against itself: must come out as 1."""
        return self._time(target, {"eager": target}, budget_ms, 1, LEAST, verify=False)

    def _quiet_identity(self, target: int) -> Measured:
        """Eager's own time, taken again while others use much of the machine; the least counts."""
        best = self.identity(target)
        for _ in range(_TRIES - 1):
            if best.others < QUIET:
                break
            best = min(best, self.identity(target), key=lambda found: found.eager_ns)
        return best

    def _spec(self, target: int) -> TargetSpec:
        return self._cases[target].reference.spec

    def _side(self, target: int, library: str, bound: dict[str, Any]) -> dict[str, Any]:
        spec = self._spec(target)
        wanted_scratch(spec, bound)
        self._host.allow(library)
        return {"library": library, "bound": bound, "names": [arg.name for arg in spec.args]}

    def _time(
        self, target: int, side: dict[str, Any], budget_ms: float, rounds: int, least: int,
        *, verify: bool,
    ) -> Measured:  # fmt: skip
        started = time.monotonic()
        samples: list[tuple[float, float]] = []
        inner, others = 1, 0.0
        failure: Failure | None = None
        outputs = [
            {"name": out.name, "dtype": out.dtype, "shape": out.shape, "strides": out.strides}
            for out in self._spec(target).outputs
        ]
        try:
            self._host.with_task(target)
            for part in range(rounds):
                arguments = self._fill(target, part if verify else None)
                request = {
                    "sides": [{"eager": target}, side],
                    "outputs": outputs,
                    "budget_ms": budget_ms / rounds,
                    "least": -(-least // rounds),
                }
                answer, busy = self._quietest(target, request, arguments if verify else None)
                samples += [(first, second) for first, second in answer["samples"]]
                inner, others = answer["inner"], max(others, busy)
                failure = arguments.verify(answer["copy"]) if verify else None
                if failure is not None:
                    break
        except WorkerError as error:
            if error.code not in ("crashed", "hung"):
                raise
            failure = Failure("measure", error.code, error.message, {"pairs": len(samples)})
        floor = 0 if "eager" in side else self._floors.get(target, 0)
        seconds = time.monotonic() - started
        return measured(samples, inner, floor, self._device.key(), others, seconds, failure)

    def _quietest(
        self, target: int, request: dict[str, Any], arguments: Arguments | None
    ) -> tuple[dict[str, Any], float]:
        """One round of timing, and the share of the machine that others used meanwhile.

        A round that is to count is taken again while others use much: with a core gone, every
        meeting of threads waits for the scheduler, and that drowns both sides.
        """
        seconds = 10 * request["budget_ms"] / 1e3 + 3 * self._patience(target)
        found: tuple[dict[str, Any], float] | None = None
        for _ in range(_TRIES if arguments is not None else 1):
            if arguments is not None:
                request |= arguments.keep_request()
            load = Load([self._host.ready().pid])
            answer = self._host.ask("time", request, seconds)
            busy = load.others()
            if found is None or busy < found[1]:
                found = answer, busy
            # Shared memory has the results of the latest last call.
            found[0]["copy"] = answer["copy"]
            if busy < QUIET:
                break
        assert found is not None
        return found

    def _fill(self, target: int, part: int | None) -> Arguments:
        """Arguments in the runner for a round of timing; None takes what is there."""
        size = max(1, self._spec(target).read_bytes)
        wanted = (target, part or 0)
        large = size > _LARGE
        arguments = Arguments(self._cases[target], self._host.space, wanted[1], large=large)
        filled = self._host.filled
        same_target = filled is not None and filled[0] == target
        if filled == wanted or (same_target and part is None):
            return arguments
        arguments.write()
        facts = self._device.facts()
        copies = copies_needed(size, facts["l2"], facts["cores"])
        request = arguments.fill_request(copies, fresh=not same_target)
        self._host.ask("fill", request, _FILL_SECONDS)
        self._host.filled = wanted
        return arguments

    def _patience(self, target: int) -> float:
        """Seconds after which one call has hung."""
        return max(self._run_seconds, 50 * self._cases[target].eager_seconds)

    def _own_cache(self) -> str:
        if self._cache is None:
            self._cache = tempfile.TemporaryDirectory(prefix="forge-judge-")
        return self._cache.name
