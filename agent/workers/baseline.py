"""The worker that measures PyTorch's compiler on a reference, by the bench that times candidates.

Verbs: ``load`` {target, task} remembers a task; ``baseline`` {target, name, machine, budget_ms}
compiles its reference and times it against eager, by turns; ``against`` {target, name, library,
bound, machine, budget_ms} times it against a candidate, on CUDA only. One process serves one use:
it is started with :func:`agent.baselines.environment` and ended afterwards.

This process is not shut in: a compiler needs files, programs and memory that can be run. So it
never loads a C++ candidate; a CUDA candidate has no host code.

Whatever goes wrong is an answer, ``{"error": text}``: a search goes on without a baseline. No
gradients are taken on either side, and the compiled function is specialised to the target's sizes
(``dynamic=False``), as it would be for a person who calls it with these arguments only.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import os
import signal
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._dynamo.utils import counters

from agent import baselines, soundness
from agent.devices import open_device
from agent.errors import ForgeError, WorkerError, describe
from agent.judge.cases import Cases, results, settle
from agent.judge.cpu_side import CpuSide
from agent.judge.kit import Kit, open_kit
from agent.judge.measure import QUIET, Load
from agent.judge.rates import machine_records
from agent.judge.tolerance import compare
from agent.loading import Callee
from agent.reference import Reference, load
from agent.task import TaskSource
from agent.workers.serve import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agent.judge.gpu_side import GpuSide
    from agent.task import TargetSpec

    Function = Callable[..., tuple[torch.Tensor, ...]]

_CASES, _FEW_CASES = 3, 2
_TRIES = 3
_SECRET = 20_201  # decides the arguments; there is nobody here to hide them from

_tasks: dict[int, TaskSource] = {}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled reference, right on the arguments that it is timed with.

    Attributes:
        kit, side: The device's, as the judge and the runner have them.
        function: Called like ``reference.function``.
        cases: The arguments, several sets.
        seconds: From the first call's beginning to the second's end: tracing, code, tuning.
        breaks: How often the compiler gave up and went on behind (graph breaks).
    """

    reference: Reference
    kit: Kit
    side: CpuSide | GpuSide
    function: Function
    cases: list[tuple[torch.Tensor, ...]]
    seconds: float
    breaks: int


class _TimeUp(BaseException):
    """The compiler ran past its time. No Exception, so that nothing in it takes it for one."""


def load_task(args: dict[str, Any]) -> dict[str, Any]:
    """Remember a task. It is run when it is measured, so that no fault of it shows here."""
    _tasks[args["target"]] = TaskSource.from_json(args["task"])
    return {}


def baseline(args: dict[str, Any]) -> dict[str, Any]:
    """A baseline's figures from the records or measured now, or ``{"error": text}``.

    Returns:
        ``ratio``, ``low``, ``high`` (eager over baseline, of the primary time: device time on
        CUDA, call time on the CPU), ``ns``, ``call_ns``, ``eager_ns``, ``seconds`` (to compile),
        ``breaks``, ``timing``, ``others`` and ``conditions`` (how quiet the machine was),
        ``cached`` (whether it was measured before).
    """
    return _answered(args["name"], lambda: _baseline(args))


def against(args: dict[str, Any]) -> dict[str, Any]:
    """A candidate directly against a baseline: ``ratio``, ``low``, ``high`` of baseline over it.

    Besides ``ns`` and ``baseline_ns``, ``timing`` and ``direct`` (true); or ``{"error": text}``.
    """
    return _answered(args["name"], lambda: _against(args))


def _answered(name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        if name not in baselines.MODES:
            raise WorkerError(f"there is no baseline {name[:40]}")
        if reason := baselines.unsuited(os.environ):
            raise WorkerError(reason)
        torch.set_grad_enabled(False)
        return measure()
    except ForgeError as error:
        return {"error": error.message}
    except _TimeUp:
        return {"error": f"compiling took longer than {baselines.COMPILE_SECONDS:.0f} s"}
    except Exception as error:  # noqa: BLE001 - a border: what the compiler raises is an answer
        traceback.print_exc()
        return {"error": describe(error)}
    finally:
        torch._dynamo.reset()
        gc.collect()


def _baseline(args: dict[str, Any]) -> dict[str, Any]:
    task, name = _tasks[args["target"]], args["name"]
    machine = open_device(task.device).key()
    reference = load(task, {})  # its author has proved it sound
    key = baselines.record_key(
        name,
        task.sha,
        reference.spec.sizes,
        torch=torch.__version__,
        triton=_triton(),
        threads=torch.get_num_threads(),
    )
    with machine_records(args.get("machine", "")) as records:
        known = records.get("baseline", machine, key) if records is not None else None
        if known is not None:
            return {**known, "cached": True}
        compiled = _compiled(task, reference, name)
        found = _timed(compiled, args["budget_ms"] / 1e3)
        quiet = found.pop("quiet")
        if records is not None and quiet:
            records.put("baseline", machine, key, found)
    return {**found, "cached": False}


def _against(args: dict[str, Any]) -> dict[str, Any]:
    task = _tasks[args["target"]]
    if task.device != "cuda":
        raise WorkerError("a program is timed against a compiled baseline on CUDA only")
    compiled = _compiled(task, load(task, {}), args["name"])
    spec = compiled.reference.spec
    outputs = [
        {"name": out.name, "dtype": out.dtype, "shape": out.shape, "strides": out.strides}
        for out in spec.outputs
    ]
    names = [arg.name for arg in spec.args]
    side = compiled.side
    with side.faults("the program"):
        candidate = side.caller(args["library"], names, outputs, args["bound"])
        sides = [compiled.function, candidate]
        least = compiled.kit.effort.least
        result, *_ = _bench(compiled).compare(sides, args["budget_ms"] / 1e3, least)
    figures = baselines.summary(_pairs(result["samples"]), [])
    return {
        "ratio": figures["ratio"],
        "low": figures["low"],
        "high": figures["high"],
        "ns": figures["ns"],
        "baseline_ns": figures["eager_ns"],
        "timing": result.get("timing", "call"),
        "direct": True,
    }


# -- compiling -------------------------------------------------------------------------------------


def _compiled(task: TaskSource, reference: Reference, name: str) -> Compiled:
    """Compile, call once for each set of arguments, and make sure that the answers are right.

    Raises:
        WorkerError: Nothing was compiled, or an answer is off by more than a program's may be.
    """
    spec = reference.spec
    kit, side = open_kit(open_device(spec.device)), _side(spec.device)
    side.warm_up()
    cases = Cases(reference, _SECRET)
    count = _FEW_CASES if spec.read_bytes > kit.effort.large else _CASES
    chosen = [cases.get("normal", number) for number in range(count)]
    torch._dynamo.reset()
    counters.clear()
    function = _through(task, spec, lambda target: _compile(target, baselines.MODES[name]))
    pure = soundness.pure(lambda args: function(*args), _mutated(spec))
    started = time.monotonic()
    with _limit(baselines.COMPILE_SECONDS):
        for _ in range(2):
            pure(chosen[0].args)
            settle(chosen[0].args)
    seconds = time.monotonic() - started
    if not counters["stats"]["unique_graphs"]:
        raise WorkerError("the compiler found nothing to compile in the reference")
    for case in chosen:
        given = pure(case.args)
        for out, value, expected in zip(results(spec), given, case.answers, strict=True):
            # Only element by element: which share of them is off by how much is for programs.
            right = str(value.dtype) == f"torch.{out.dtype}" and tuple(value.shape) == out.shape
            if not right or compare(value, expected).bad is not None:
                raise WorkerError(f"its answer for {out.name} is not the reference's")
    breaks = sum(counters["graph_break"].values())
    args = [case.args for case in chosen]
    return Compiled(reference, kit, side, function, args, seconds, breaks)


def _compile(target: Callable[..., Any], mode: str) -> Callable[..., Any]:
    compiled: Callable[..., Any] = torch.compile(target, mode=mode, dynamic=False)
    return compiled


def _through(
    task: TaskSource, spec: TargetSpec, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Function:
    """The reference's function with the user's own function or model wrapped.

    What is compiled is what a person would compile; the weights are put into the model around it.
    """
    callee = Callee(task, {})
    weights = [arg.name for arg in spec.args if arg.kind == "weight"]
    dropped: tuple[int, ...] = ()
    if mutated := _mutated(spec):
        plain, args = callee.function(weights), [*callee.first.tensors.values()]
        args += [callee.weights[name] for name in weights]
        names = [arg.name for arg in spec.args]
        dropped = soundness.check_outputs(
            lambda values: plain(*values), names, args, mutated, empty=True
        ).dropped
    callee._target = wrap(callee._target)
    function = callee.function(weights, dropped)
    callee.release()
    return function


def _mutated(spec: TargetSpec) -> list[int]:
    return [at for at, arg in enumerate(spec.args) if arg.mutated]


@contextlib.contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raise _TimeUp in the main thread after so many seconds."""

    def ring(number: int, frame: object) -> None:
        raise _TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# -- timing ----------------------------------------------------------------------------------------


def _side(device: str) -> CpuSide | GpuSide:
    if device == "cpu":
        return CpuSide(-1)
    from agent.judge.gpu_side import GpuSide

    return GpuSide(-1)


def _bench(compiled: Compiled) -> Any:
    """The bench of the target's device, over as many sets of arguments as a candidate gets."""
    spec = compiled.reference.spec
    copies = compiled.kit.copies(max(1, spec.read_bytes), len(compiled.cases))
    return compiled.side.bench(compiled.cases, copies, _mutated(spec))


def _timed(compiled: Compiled, budget_s: float) -> dict[str, Any]:
    """Both sides by turns, again while others use much of the machine; the quietest counts."""
    cuda = compiled.reference.spec.device == "cuda"
    sides = [compiled.reference.function, compiled.function]
    bench, effort = _bench(compiled), compiled.kit.effort
    best: dict[str, Any] | None = None
    for _ in range(_TRIES):
        with _Watch(cuda) as watch:
            result, *_ = bench.compare(sides, budget_s, effort.least)
            calls = bench.call_times(sides, effort.calls_ms / 1e3) if cuda else []
        found = {
            **baselines.summary(_pairs(result["samples"]), _pairs(calls)),
            "seconds": round(compiled.seconds, 3),
            "breaks": compiled.breaks,
            "timing": result.get("timing", "call"),
            "others": watch.others,
            "conditions": watch.conditions,
            "quiet": watch.quiet,
        }
        if best is None or found["others"] < best["others"]:
            best = found
        if watch.quiet:
            return found
    assert best is not None
    return best


class _Watch:
    """How quiet the machine was while a block ran.

    Attributes:
        others: Share of all cores that other processes used.
        conditions: Of the GPU, after the block; ``disturbed`` says by what, "" if by nothing.
        quiet: Whether the times count for much.
    """

    def __init__(self, cuda: bool) -> None:
        self._cuda = cuda
        self.others, self.quiet = 0.0, True
        self.conditions: dict[str, Any] = {}

    def __enter__(self) -> _Watch:
        self._load = Load([])
        if self._cuda:
            from agent.devices.cuda.nvml import Conditions

            self._gpu = Conditions(str(torch.cuda.get_device_properties(0).uuid))
            self._before = self._gpu.sample()
        return self

    def __exit__(self, *_: object) -> None:
        self.others = self._load.others()
        self.quiet = self.others < QUIET
        if self._cuda:
            from agent.devices.cuda.nvml import disturbed

            after = self._gpu.sample()
            self._gpu.close()
            reason = disturbed(self._before, after, [os.getpid()])
            self.conditions = {**after, "disturbed": reason}
            self.quiet = not reason


def _pairs(samples: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    return [(first, second) for first, second in samples]


def _triton() -> str:
    for package in ("triton", "pytorch-triton"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(package)
    return ""


if __name__ == "__main__":
    os.makedirs(os.environ.get("HOME", "."), exist_ok=True)
    serve({"load": load_task, "baseline": baseline, "against": against})
