"""A task made runnable: the eager function, its graph, its float64 answer, and what it takes.

Imports torch and runs the user's code: for workers only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import fx

from agent import neighbours, precise, soundness, traffic
from agent.errors import TaskError
from agent.loading import Callee
from agent.task import ArgSpec, OutputSpec, TargetSpec, TaskSource
from agent.tensors import own_memory
from agent.tracing import trace, used_weights
from agent.usercode import one_line, out_of_memory, user_code

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Function = Callable[..., tuple[torch.Tensor, ...]]

MAX_ALIGNMENT = {"cpu": 64, "cuda": 256}


class Reference:
    """A target's right answer.

    Attributes:
        spec: What a program is written for.
        function: The user's code as eager runs it, without gradients: tensors in ``spec.args``
            order to the flattened tuple of outputs. It changes the arguments that are mutated.
        graph: The same as aten operators, without mutation, decomposed no further than tracing
            does; its placeholders bear the arguments' names, its nodes a fake tensor each in
            ``meta["val"]``, and it returns a tuple: the outputs, then the final values of the
            mutated arguments in ``spec.args`` order.
    """

    def __init__(
        self, spec: TargetSpec, callee: Callee, function: Function, graph: fx.GraphModule
    ) -> None:
        self.spec = spec
        self.function = function
        self.graph = graph
        self._callee = callee

    def sample(self, seed: int) -> list[torch.Tensor]:
        """Fresh arguments, each in memory of its own with the spec's strides.

        Inputs are the task's own under ``torch.manual_seed(seed)``; weights keep their values.

        Raises:
            TaskError: ``task-raises``; ``task-shapes`` if the inputs are not those of the spec.
        """
        inputs = self._callee.inputs(seed)
        values = [*inputs.tensors.values()]
        specs = [arg for arg in self.spec.args if arg.kind == "input"]
        soundness.check_stable(specs, self.spec.scalars, inputs.tensors, inputs.scalars)
        weights = self._callee.weights
        names = [arg.name for arg in self.spec.args if arg.kind == "weight"]
        return values + [own_memory(weights[name]) for name in names]

    def float64(self, args: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """What ``graph`` gives with every float on the way in float64; ``args`` stay unchanged."""
        return precise.evaluate(self.graph, args)


def load(task: TaskSource, sizes: Mapping[str, int] | None = None) -> Reference:
    """Run the task's text, trace it, and make sure that it can be a target.

    Args:
        task: What was opened.
        sizes: Of ranged dimensions; those left out are as the file has them. None for all as the
            file has them and ``spec.neighbours`` traced as well. With sizes given, even ``{}``,
            the task is taken to be sound: only whether the graph is the function is checked.

    Raises:
        TaskError: ``task-device``, ``task-memory`` and, about the file, ``task-format``,
            ``task-raises``, ``task-signature``, ``task-no-input``, ``task-no-tensor``,
            ``task-empty``, ``task-dtype``, ``task-mutates``, ``task-ranges``, ``task-alias``,
            ``task-random``, ``task-shapes``, ``task-ignores``, ``task-trace``, ``task-values``,
            ``task-constant``, ``task-float64``, ``task-settings``, ``task-endless``.
    """
    if task.device == "cuda" and not torch.cuda.is_available():
        raise TaskError(
            "PyTorch sees no CUDA device here",
            "use the cpu device, or a machine with an NVIDIA GPU and a CUDA build of PyTorch",
            code="task-device",
        )
    try:
        reference = _Loading(task, sizes or {}).reference(thorough=sizes is None)
        if sizes is None:
            reference.spec = replace(reference.spec, neighbours=_neighbours(task, reference.spec))
    except torch.OutOfMemoryError:
        raise out_of_memory("checking the reference") from None
    finally:
        if task.device == "cuda":
            torch.cuda.empty_cache()  # others need the memory: candidates run in a process apart
    return reference


class _Loading:
    """One task at some sizes, on the way to being a reference."""

    def __init__(self, task: TaskSource, sizes: Mapping[str, int]) -> None:
        self._task = task
        self._callee = Callee(task, sizes)

    def reference(self, *, thorough: bool) -> Reference:
        callee = self._callee
        inputs, weights = dict(callee.first.tensors), callee.weights
        names = [*inputs, *weights]
        args = [*inputs.values(), *weights.values()]
        mutated = [at for at, name in enumerate(names) if name in callee.mutates]
        run = self._guarded(callee.function(list(weights)))
        results = soundness.check_outputs(run, names, args, mutated, empty=not thorough)
        function = callee.function(list(weights), results.dropped)
        graph = trace(function, names, args, mutated)
        callee.restore()
        if thorough:
            pure = soundness.pure(self._guarded(function), mutated)
            soundness.check_inputs_used(pure, args, list(inputs), callee.inputs(1).tensors, mutated)
        used = used_weights(graph, inputs, callee.mutates)
        names = [*inputs, *used]
        args = [*inputs.values(), *(weights[name] for name in used)]
        spec = self._spec(names, args, results, graph)
        reference = Reference(spec, callee, callee.function(used, results.dropped), graph)
        del results, inputs
        callee.release()
        self._check_graph(reference, None if thorough else args)
        return reference

    def _guarded(self, function: Function) -> soundness.Run:
        def run(values: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
            with user_code(self._task, "the reference"):
                return function(*values)

        return run

    def _spec(
        self,
        names: Sequence[str],
        args: Sequence[torch.Tensor],
        results: soundness.Results,
        graph: fx.GraphModule,
    ) -> TargetSpec:
        task, callee = self._task, self._callee
        return TargetSpec(
            name=task.name,
            device=task.device,
            args=tuple(
                _arg(callee, name, value, task.device)
                for name, value in zip(names, args, strict=True)
            ),
            scalars=callee.first.scalars,
            outputs=tuple(
                OutputSpec(
                    f"out{at or ''}", _dtype(value), tuple(value.shape), tuple(value.stride())
                )
                for at, value in enumerate(results.outputs)
            ),
            read_bytes=traffic.read_bytes(graph, args, len(callee.mutates)),
            write_bytes=results.changed_bytes
            + sum(value.numel() * value.element_size() for value in results.outputs),
            flops=traffic.flops(graph),
            source_sha=task.sha,
            sizes=callee.sizes,
            ranges=callee.ranges,
        )

    def _check_graph(self, reference: Reference, args: Sequence[torch.Tensor] | None) -> None:
        """The graph must be the function, on other values too, and have a float64 answer.

        Args:
            reference: What is about to be given out.
            args: To check on; None for fresh ones, and for values of other kinds as well.
        """
        thorough = args is None
        args = reference.sample(2) if args is None else args
        mutated = [at for at, arg in enumerate(reference.spec.args) if arg.mutated]
        run = soundness.pure(self._guarded(reference.function), mutated)
        soundness.check_same(run, reference.graph, args, all_values=thorough)
        if not thorough:
            return
        try:
            reference.float64(args)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError, NotImplementedError) as error:
            raise TaskError(
                f"the reference has no float64 answer: {one_line(str(error))}",
                "write the operator in plain tensor operations that know float64",
                code="task-float64",
            ) from None


def _neighbours(task: TaskSource, spec: TargetSpec) -> tuple[TargetSpec, ...]:
    """The target at the sizes that ``agent.neighbours`` chooses."""
    if not spec.ranges:
        return ()
    known: dict[tuple[int, ...], TargetSpec] = {}

    def at(sizes: dict[str, int]) -> TargetSpec:
        key = tuple(sizes.values())
        if key not in known:
            known[key] = _spec_at(task, spec, sizes)
        return known[key]

    probed = {}
    for name, limits in spec.ranges.items():
        other = neighbours.probe(spec.sizes[name], limits)
        if other != spec.sizes[name]:
            probed[name] = at({**spec.sizes, name: other})
            if _shapes(probed[name]) == _shapes(spec):
                raise TaskError(
                    f"RANGES lets {name} vary, but no shape depends on it",
                    f"use {name} where the inputs are made, or take it out of RANGES",
                    code="task-ranges",
                )
    cost = neighbours.footprint(spec, probed)
    return tuple(at(sizes) for sizes in neighbours.choose(spec.sizes, spec.ranges, cost))


def _spec_at(task: TaskSource, spec: TargetSpec, sizes: dict[str, int]) -> TargetSpec:
    """The target at other sizes: the same arguments and outputs, but for sizes and scalars.

    Raises:
        TaskError: What ``load`` raises, naming the sizes.
    """
    shown = ", ".join(f"{name}={size}" for name, size in sizes.items())
    try:
        found = load(task, sizes).spec
    except TaskError as error:
        raise TaskError(
            f"at {shown}, which RANGES allows: {error.message}",
            f"narrow RANGES to what the reference can take; or {error.cure}",
            code=error.code,
            evidence={**error.evidence, "sizes": sizes},
        ) from None
    if _kinds(found) != _kinds(spec):
        raise TaskError(
            f"at {shown}, which RANGES allows, the reference has other arguments or outputs",
            "let only sizes vary: not the number, dtypes or dimensions of tensors",
            code="task-ranges",
            evidence={"sizes": sizes},
        )
    return found


def _shapes(spec: TargetSpec) -> list[tuple[int, ...]]:
    return [tensor.shape for tensor in spec.tensors]


def _kinds(spec: TargetSpec) -> list[object]:
    """What may not depend on sizes."""
    tensors = [(x.name, x.dtype, len(x.shape)) for x in spec.tensors]
    return [tensors, list(spec.scalars)]


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _arg(callee: Callee, name: str, value: torch.Tensor, device: str) -> ArgSpec:
    cap = MAX_ALIGNMENT[device]
    address = value.data_ptr()
    return ArgSpec(
        name,
        "weight" if name in callee.weights else "input",
        _dtype(value),
        tuple(value.shape),
        tuple(value.stride()),
        min(cap, address & -address) or cap,
        name in callee.mutates,
    )
