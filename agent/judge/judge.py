"""The judge: holds the references and the answers, and has the runner call the candidates."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from agent.devices import open_device
from agent.errors import ForgeError, MachineError, ProgramError, WorkerError
from agent.judge.cases import Cases
from agent.judge.check import Size, check, slots_json
from agent.judge.host import Host
from agent.judge.kit import open_kit
from agent.judge.measure import QUIET, Arguments, Taken, measured
from agent.judge.plan import wanted_scratch
from agent.judge.process import KILLED
from agent.judge.shelf import Shelf
from agent.judge.verdict import Calibration, Checked, Failure, Measured, Timed
from agent.reference import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent.judge.arena import Layout, Slot
    from agent.judge.check import Call
    from agent.task import TargetSpec, TaskSource

_TRIES = 3
_FILL_SECONDS = 120.0
_FREE_MEMORY = "free memory on the device, or make the inputs smaller"


_Result = TypeVar("_Result", Checked, Measured)


def _unless_killed(judge: Callable[[], _Result]) -> _Result:
    """Judge, and once more if the runner was killed from outside, which no program can do.

    For memory it can be the program's doing: then it happens again, and counts.
    """
    result = judge()
    if result.failure is not None and result.failure.message == KILLED:
        return judge()
    return result


def _failed(rung: str, error: ForgeError, evidence: dict[str, Any]) -> Failure:
    """The failure that a runner's error is; what is no program's fault is raised again."""
    ours = isinstance(error, ProgramError) or error.code in ("crashed", "hung")
    if not ours:
        raise error
    found: Any = rung
    return Failure(found, error.code, error.message, {**error.evidence, **evidence})


class Judge:
    """Judges programs for any number of targets on one device.

    Args:
        device: ``cpu`` or ``cuda``.
        run_seconds: A call that takes longer (and longer than 50 times eager) has hung; None for
            the device's usual patience.
        log: Where the runner's standard error goes.

    Raises:
        MachineError: The device cannot be used; its code says why.
    """

    def __init__(
        self,
        device: str = "cpu",
        *,
        run_seconds: float | None = None,
        log: IO[bytes] | None = None,
    ) -> None:
        self._device = open_device(device)
        self._kit = open_kit(self._device)
        self._effort = self._kit.effort
        self._run_seconds = run_seconds or self._effort.patience_s
        self._host = Host(log, device)
        self._shelf = Shelf(device)
        self._tasks: dict[int, TaskSource] = {}
        self._seeds: dict[int, int] = {}
        self._cases: dict[int, Cases] = {}
        self._near: dict[tuple[int, str], Cases] = {}
        self._floors: dict[int, int] = {}
        self._cache: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        self._host.close()
        if self._cache is not None:
            self._cache.cleanup()

    @property
    def replaced(self) -> int:
        """Runners that candidates broke so far."""
        return self._host.replaced

    def load(self, target: int, task: TaskSource, seed: int) -> TargetSpec:
        """Take a target up. ``seed`` is the session's secret: it decides every input.

        Raises:
            TaskError: The task cannot be a target.
        """
        reference = load(task)
        self._host.add_task(target, task)
        self._tasks[target], self._seeds[target] = task, seed
        self._cases[target] = Cases(reference, seed, self._shelf)
        self._near = {key: kept for key, kept in self._near.items() if key[0] != target}
        return reference.spec

    def calibrate(self, target: int, machine: str = "", cache: str = "") -> Calibration:
        """Eager's time, SOL and floor of a target.

        Args:
            machine: Path of ``machine.db``, where SOL and rates are kept; "" to measure anew.
            cache: Where libraries are built; "" for a folder that goes with the judge.

        Raises:
            MachineError: This machine cannot build.
            WorkerError: ``not-timed``: eager does not run in the runner.
        """
        spec = self._spec(target)
        place = Path(cache or self._own_cache())
        sol_ns, floor, detail = self._kit.limits(spec, self._host, place, machine)
        self._floors[target] = floor
        same = self._quiet_identity(target)
        if same.failure is not None:
            raise WorkerError(
                f"the reference cannot be timed here: {same.failure.message}"[:300],
                _FREE_MEMORY,
                code="not-timed",
            )
        detail |= {
            "identity": {"ratio": same.ratio, "low": same.low, "high": same.high},
            "others": same.others,
            "conditions": same.conditions,
            "facts": self._device.facts(),
            "machine": self._device.key(),
            "sandbox": self._host.ready().sandbox,
        }
        return Calibration(same.eager_ns, same.eager_call_ns, sol_ns, floor, detail)

    def check(self, target: int, library: str, bound: dict[str, Any]) -> Checked:
        """The check rung; a failing program is a result, not an exception.

        Args:
            library: What the builder built.
            bound: The plan as ``Bound.to_json`` gives it.

        Raises:
            ProgramError: The plan names what does not exist, or wants too much.
        """
        wanted_scratch(self._spec(target), bound)
        self._host.allow(library)

        def once() -> Checked:
            started = time.monotonic()
            try:
                return check(self._sizes(target, library, bound), self._host.space)
            except ProgramError as error:
                seconds = round(time.monotonic() - started, 4)
                return Checked((), seconds, _failed("check", error, {}))

        return _unless_killed(once)

    def _sizes(self, target: int, library: str, bound: dict[str, Any]) -> Iterator[Size]:
        own = self._cases[target]
        yield self._size(own, library, bound, target)
        for near in bound.get("neighbours", ()):
            yield self._size(self._neighbour(target, near["sizes"]), library, near, target)

    def _size(self, cases: Cases, library: str, bound: dict[str, Any], target: int) -> Size:
        spec = cases.reference.spec
        outputs = [out.name for out in spec.outputs]

        def call(layout: Layout, slots: dict[str, Slot]) -> None:
            del layout
            request = {
                "slots": slots_json(slots),
                "outputs": outputs,
                "library": library,
                "bound": _alone(bound),
            }
            self._host.ask("run", request, self._patience(target))

        run: Call = call
        return Size(cases, wanted_scratch(spec, _alone(bound)), run)

    def _neighbour(self, target: int, sizes: dict[str, int]) -> Cases:
        label = " ".join(f"@{name}={size}" for name, size in sizes.items())
        key = (target, label)
        if key not in self._near:
            reference = load(self._tasks[target], sizes)
            self._near[key] = Cases(reference, self._seeds[target], self._shelf, label)
        return self._near[key]

    def measure(
        self, target: int, library: str, bound: dict[str, Any], budget_ms: float = 900
    ) -> Measured:
        """The measure rung; the program must have passed the check.

        Raises:
            ProgramError: The plan names what does not exist, or wants too much.
        """
        side = self._side(target, library, bound)
        return _unless_killed(
            lambda: self._time(
                target, side, budget_ms, self._effort.rounds, self._effort.least, verify=True
            )
        )

    def screen(
        self, target: int, library: str, bound: dict[str, Any], budget_ms: float = 120
    ) -> Measured:
        """A short measurement without proof, to choose between variants."""
        side = self._side(target, library, bound)
        return _unless_killed(
            lambda: self._time(target, side, budget_ms, 1, self._effort.screen_least, verify=False)
        )

    def identity(self, target: int, budget_ms: float = 300) -> Measured:
        """Eager against itself: must come out as 1."""
        side = {"eager": target}
        return self._time(target, side, budget_ms, 1, self._effort.least, verify=False, calls=True)

    def sanitize(self, target: int, library: str, bound: dict[str, Any]) -> dict[str, str]:
        """What NVIDIA's checkers say of one call: by tool ``clean``, ``skipped: why`` or errors."""
        from agent.judge.sanitize import sanitize

        args = self._cases[target].arguments("normal", 0)
        return sanitize(self._spec(target), library, _alone(bound), args)

    def advise(
        self,
        target: int,
        library: str,
        bound: dict[str, Any],
        facts: Timed,
        *,
        counters: bool = False,
    ) -> dict[str, Any]:
        """``advice`` on a measured CUDA program, worst first, and its kernels' ``occupancy``.

        Args:
            facts: What was built and measured.
            counters: Whether to ask the GPU's counters too, where they may be read.
        """
        from agent.judge.advice import Measurement, advise, occupied

        spec = self._spec(target)
        measurement = Measurement(
            spec, _alone(bound), facts.detail, self._device.facts(), facts.ns, facts.sol_ns,
            _added(facts.steps),
        )  # fmt: skip
        more = []
        if counters:
            from agent.judge.counter_findings import counter_findings
            from agent.judge.counters import collect
            from agent.judge.once_job import once_job

            args = self._cases[target].arguments("normal", 0)
            try:
                with once_job(spec, library, _alone(bound), args) as job:
                    found, _ = collect(job)
            except ProgramError:
                found = []  # it cannot be run by itself, so it is not profiled
            more = counter_findings(measurement, found) if found else []
        return {
            "advice": [finding.to_json() for finding in advise(measurement, more)],
            "occupancy": occupied(measurement),
        }

    def _quiet_identity(self, target: int) -> Measured:
        """Eager's own time, taken again while others use much of the machine; the least counts."""
        best = _unless_killed(lambda: self.identity(target))
        for _ in range(_TRIES - 1):
            if best.others < QUIET or best.failure is not None:
                break
            again = self.identity(target)
            if again.failure is None:
                best = min(best, again, key=lambda found: found.eager_ns)
        return best

    def _spec(self, target: int) -> TargetSpec:
        return self._cases[target].reference.spec

    def _side(self, target: int, library: str, bound: dict[str, Any]) -> dict[str, Any]:
        spec = self._spec(target)
        wanted_scratch(spec, bound)
        self._host.allow(library)
        names = [arg.name for arg in spec.args]
        return {"library": library, "bound": _alone(bound), "names": names}

    def _time(
        self, target: int, side: dict[str, Any], budget_ms: float, rounds: int, least: int,
        *, verify: bool, calls: bool = False,
    ) -> Measured:  # fmt: skip
        started = time.monotonic()
        budget = min(budget_ms, self._effort.budget_ms)
        taken = Taken()
        failure: Failure | None = None
        outputs = [
            {"name": out.name, "dtype": out.dtype, "shape": out.shape, "strides": out.strides}
            for out in self._spec(target).outputs
        ]
        try:
            self._host.with_task(target)
            for part in range(rounds):
                arguments = self._fill(target, part if verify else None)
                last = part == rounds - 1
                request = {
                    "sides": [{"eager": target}, side],
                    "outputs": outputs,
                    "budget_ms": budget / rounds,
                    "least": -(-least // rounds),
                    "calls": self._effort.calls_ms if last and (verify or calls) else 0,
                }
                answer = self._quietest(target, request, arguments if verify else None, taken)
                failure = arguments.verify(answer["copy"]) if verify else None
                if failure is not None:
                    break
        except (WorkerError, ProgramError) as error:
            failure = _failed("measure", error, {"pairs": len(taken.samples)})
        floor = 0 if "eager" in side else self._floors.get(target, 0)
        seconds = time.monotonic() - started
        return measured(taken, floor, self._device.key(), seconds, failure)

    def _quietest(
        self, target: int, request: dict[str, Any], arguments: Arguments | None, taken: Taken
    ) -> dict[str, Any]:
        """One round of timing, put into ``taken`` with what others did meanwhile.

        A round that is to count is taken again while others use much: with a core gone, every
        meeting of threads waits for the scheduler, and that drowns both sides.
        """
        seconds = 10 * request["budget_ms"] / 1e3 + 3 * self._patience(target)
        found: tuple[dict[str, Any], float, dict[str, Any]] | None = None
        for _ in range(_TRIES if arguments is not None else 1):
            if arguments is not None:
                request |= arguments.keep_request()
            watch = self._kit.watch(self._host)
            answer = self._host.ask("time", request, seconds)
            busy, conditions = watch.done()
            if found is None or busy < found[1]:
                found = answer, busy, conditions
            # Shared memory has the results of the latest last call.
            found[0]["copy"] = answer["copy"]
            if busy < QUIET:
                break
        assert found is not None
        taken.add(found[0])
        taken.others = max(taken.others, found[1])
        if found[2].get("disturbed") or not taken.conditions.get("disturbed"):
            taken.conditions = found[2]
        return found[0]

    def _fill(self, target: int, part: int | None) -> Arguments:
        """Arguments in the runner for a round of timing; None takes what is there."""
        size = max(1, self._spec(target).read_bytes)
        wanted = (target, part or 0)
        large = size > self._effort.large
        arguments = Arguments(self._cases[target], self._host.space, wanted[1], large=large)
        filled = self._host.filled
        same_target = filled is not None and filled[0] == target
        if filled == wanted or (same_target and part is None):
            return arguments
        arguments.write()
        copies = self._kit.copies(size, arguments.count)
        request = arguments.fill_request(copies, fresh=not same_target)
        self._host.filled = None  # if it fails, nobody knows what the copies hold
        try:
            self._host.ask("fill", request, _FILL_SECONDS)
        except ProgramError as error:
            # These are the target's arguments: there is no room for any program.
            raise MachineError(error.message, _FREE_MEMORY, code="gpu-memory") from None
        self._host.filled = wanted
        return arguments

    def _patience(self, target: int) -> float:
        """Seconds after which one call has hung."""
        return max(self._run_seconds, 50 * self._cases[target].eager_seconds)

    def _own_cache(self) -> str:
        if self._cache is None:
            self._cache = tempfile.TemporaryDirectory(prefix="forge-judge-")
        return self._cache.name


def _alone(bound: dict[str, Any]) -> dict[str, Any]:
    """A bound plan without its neighbours."""
    return {name: value for name, value in bound.items() if name not in ("neighbours", "sizes")}


def _added(steps: tuple[tuple[str, int], ...]) -> dict[str, int]:
    """Times by name; a kernel that is launched more than once has the sum."""
    total: dict[str, int] = {}
    for name, ns in steps:
        total[name] = total.get(name, 0) + ns
    return total
