"""A task made runnable: the eager function, its graph, its float64 answer, and what it takes.

Imports torch and runs the user's code: for workers only.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

from agent import precise, soundness
from agent.errors import TaskError
from agent.loading import Callee
from agent.task import ArgSpec, OutputSpec, TargetSpec, TaskSource
from agent.tensors import own_memory
from agent.usercode import one_line, user_code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

aten = torch.ops.aten

MAX_ALIGNMENT = {"cpu": 64, "cuda": 256}
# A constant this small can be written into a program; a larger one must be an argument.
MAX_CONSTANT = 64
# Operators whose first operand is read only where the result comes from it.
_PARTIAL = (
    aten.embedding.default,
    aten.index_select.default,
    aten.gather.default,
    aten.index.Tensor,
    aten.slice.Tensor,
    aten.select.int,
)


class Reference:
    """A target's right answer.

    Attributes:
        spec: What a program is written for.
        function: The user's code as eager runs it, without gradients: tensors in ``spec.args``
            order to the flattened tuple of results.
        graph: The same as aten operators, without mutation, decomposed no further than tracing
            does; its placeholders bear the arguments' names, its nodes a fake tensor each in
            ``meta["val"]``, and it returns a tuple.
    """

    def __init__(
        self,
        spec: TargetSpec,
        callee: Callee,
        function: Callable[..., tuple[torch.Tensor, ...]],
        graph: fx.GraphModule,
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
        """The results with every float on the way in float64; integers and booleans as they are."""
        return precise.evaluate(self.graph, args)


def load(task: TaskSource) -> Reference:
    """Run the task's text, trace it, and make sure that it can be a target.

    Raises:
        TaskError: ``task-device`` and, about the file, ``task-format``, ``task-raises``,
            ``task-signature``, ``task-no-input``, ``task-no-tensor``, ``task-empty``,
            ``task-dtype``, ``task-mutates``, ``task-alias``, ``task-random``, ``task-shapes``,
            ``task-ignores``, ``task-trace``, ``task-values``, ``task-constant``,
            ``task-float64``.
    """
    if task.device == "cuda" and not torch.cuda.is_available():
        raise TaskError(
            "PyTorch sees no CUDA device here",
            "use the cpu device, or a machine with an NVIDIA GPU and a CUDA build of PyTorch",
            code="task-device",
        )
    callee = Callee(task)
    inputs, weights = callee.first.tensors, callee.weights
    function = callee.function(list(weights))
    args = [*inputs.values(), *weights.values()]
    names = [*inputs, *weights]

    def run(values: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        with user_code(task, "the reference"):
            return function(*values)

    outputs = soundness.check_outputs(run, names, args)
    graph = _trace(task, function, names, args)
    function(*args)  # puts the weights back where tracing left its own
    soundness.check_inputs_used(run, args, list(inputs), callee.inputs(1).tensors)
    used = _used_weights(graph, list(inputs))
    kept = [*inputs, *used]
    args = [*inputs.values(), *(weights[name] for name in used)]
    function = callee.function(used)
    spec = TargetSpec(
        name=task.name,
        device=task.device,
        args=tuple(
            _arg(name, "input" if name in inputs else "weight", value, task.device)
            for name, value in zip(kept, args, strict=True)
        ),
        scalars=callee.first.scalars,
        outputs=tuple(
            OutputSpec(f"out{at or ''}", _dtype(value), tuple(value.shape), tuple(value.stride()))
            for at, value in enumerate(outputs)
        ),
        read_bytes=_read_bytes(graph),
        write_bytes=sum(value.numel() * value.element_size() for value in outputs),
        flops=_flops(function, args),
        source_sha=task.sha,
    )
    reference = Reference(spec, callee, function, graph)
    _check_graph(task, reference)
    return reference


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _arg(name: str, kind: str, value: torch.Tensor, device: str) -> ArgSpec:
    cap = MAX_ALIGNMENT[device]
    address = value.data_ptr()
    return ArgSpec(
        name,
        "input" if kind == "input" else "weight",
        _dtype(value),
        tuple(value.shape),
        tuple(value.stride()),
        min(cap, address & -address) or cap,
    )


def _trace(
    task: TaskSource,
    function: Callable[..., tuple[torch.Tensor, ...]],
    names: list[str],
    args: list[torch.Tensor],
) -> fx.GraphModule:
    """The function as a graph of aten operators, without mutation."""
    oneapi = torch._C._get_mkldnn_enabled()
    # Its operators know only some dtypes, not float64 among them.
    torch._C._set_mkldnn_enabled(False)
    try:
        graph = make_fx(function, tracing_mode="real")(*args)
        if any(_mutates(node) for node in graph.graph.nodes):
            # Of the graph, not the function: what operators do inside is in sight now.
            graph = make_fx(torch.func.functionalize(graph), tracing_mode="real")(*args)
    except Exception as error:  # noqa: BLE001 - a border: their code again, now under the tracer
        raise TaskError(
            f"the reference cannot be traced: {type(error).__name__}: {one_line(str(error))}",
            "keep to tensor operations: no .item(), no .numpy(), no if on a tensor's value",
            code="task-trace",
        ) from None
    finally:
        torch._C._set_mkldnn_enabled(oneapi)
    placeholders = graph.graph.find_nodes(op="placeholder")
    for node, name in zip(placeholders, names, strict=True):
        node.target = name
        node._rename(name)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    _check_nodes(graph)
    return graph


def _mutates(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _check_nodes(graph: fx.GraphModule) -> None:
    for node in graph.graph.nodes:
        if node.target in precise.REINTERPRETS:
            raise TaskError(
                f"the reference reads a tensor's bits as another dtype ({node.target})",
                "write it with .to(dtype) and arithmetic",
                code="task-float64",
            )
        if node.op == "get_attr":
            value = getattr(graph, node.target)
            if value.numel() > MAX_CONSTANT:
                raise TaskError(
                    "the reference uses a tensor that is no argument: "
                    f"{_dtype(value)} {'x'.join(map(str, value.shape))}",
                    "return it from inputs(), or register it as a buffer of the model",
                    code="task-constant",
                )


def _used_weights(graph: fx.GraphModule, inputs: list[str]) -> list[str]:
    """The weights that the graph reads; the others' placeholders are taken out of it."""
    used = []
    for node in graph.graph.find_nodes(op="placeholder"):
        if node.users:
            if node.target not in inputs:
                used.append(str(node.target))
        elif node.target in inputs:
            raise TaskError(
                f"the reference uses the values of {node.target} outside of tensor operations",
                "keep to tensor operations: no .item(), .tolist() or .numpy() on an input",
                code="task-values",
            )
        else:
            graph.graph.erase_node(node)
    graph.recompile()
    return used


def _check_graph(task: TaskSource, reference: Reference) -> None:
    """The graph must be the function on other values too, and have a float64 answer."""
    args = reference.sample(2)

    def run(values: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        with user_code(task, "the reference"):
            return reference.function(*values)

    soundness.check_same(run, reference.graph, args)
    try:
        reference.float64(args)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise TaskError(
            f"the reference has no float64 answer: {one_line(str(error))}",
            "write the operator in plain tensor operations that know float64",
            code="task-float64",
        ) from None


def _read_bytes(graph: fx.GraphModule) -> int:
    total = 0
    for node in graph.graph.find_nodes(op="placeholder"):
        value = node.meta["val"]
        sizes = zip(value.shape, value.stride(), strict=True)
        elements = math.prod(size for size, stride in sizes if stride != 0)
        users = list(node.users)
        if all(user.target in _PARTIAL and _only_table(user, node) for user in users):
            touched = sum(user.meta["val"].numel() for user in users)
            elements = min(elements, touched)
        total += elements * value.element_size()
    return total


def _only_table(user: fx.Node, node: fx.Node) -> bool:
    return user.args[0] is node and user.all_input_nodes.count(node) == 1


def _flops(function: Callable[..., tuple[torch.Tensor, ...]], args: Sequence[torch.Tensor]) -> int:
    with FlopCounterMode(display=False) as counter:
        function(*args)
    return int(counter.get_total_flops())
