"""A reference as a graph of aten operators, without mutation."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from agent import precise
from agent.errors import TaskError
from agent.tensors import own_memory
from agent.usercode import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    Function = Callable[..., tuple[torch.Tensor, ...]]

aten = torch.ops.aten

# A constant this small can be written into a program; a larger one must be an argument.
MAX_CONSTANT = 64


def trace(
    function: Function,
    names: Sequence[str],
    args: Sequence[torch.Tensor],
    mutated: Collection[int] = (),
) -> fx.GraphModule:
    """The graph of a function; its placeholders bear the arguments' names.

    Args:
        function: May change the arguments in the mutated places.
        names: Of the arguments.
        args: Are not changed.
        mutated: Places of arguments, ascending.

    Returns:
        A graph that returns a tuple: the function's results, then the final values of the mutated
        arguments, which it leaves as they are.

    Raises:
        TaskError: ``task-trace``, ``task-values``, ``task-constant``, ``task-float64``.
    """

    def fresh() -> list[torch.Tensor]:
        return [own_memory(x) if at in mutated else x for at, x in enumerate(args)]

    with _plain_operators():
        try:
            graph = make_fx(function, tracing_mode="real")(*fresh())
            if any(_mutates(node) for node in graph.graph.nodes):
                # Of the graph, not the function: what operators do inside is in sight now.
                graph = make_fx(torch.func.functionalize(graph), tracing_mode="real")(*fresh())
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - a border: their code again, now traced
            raise TaskError(
                f"the reference cannot be traced: {type(error).__name__}: {one_line(str(error))}",
                "keep to tensor operations: no .item(), no .numpy(), no if on a tensor's value",
                code="task-trace",
            ) from None
    placeholders = graph.graph.find_nodes(op="placeholder")
    for node, name in zip(placeholders, names, strict=True):
        node.target = name
        node._rename(name)
    _return_finals(graph, [placeholders[at] for at in mutated])
    graph.graph.eliminate_dead_code()
    graph.recompile()
    _check_nodes(graph)
    return graph


@contextlib.contextmanager
def _plain_operators() -> Iterator[None]:
    """Without oneDNN and cuDNN: their own operators know only some dtypes, and few know them."""
    oneapi, cudnn = torch._C._get_mkldnn_enabled(), torch._C._get_cudnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    torch._C._set_cudnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(oneapi)
        torch._C._set_cudnn_enabled(cudnn)


def _mutates(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _return_finals(graph: fx.GraphModule, mutated: Sequence[fx.Node]) -> None:
    """Turn the copies back into the arguments, which end such a graph, into results."""
    finals: dict[fx.Node, fx.Node] = {}
    for node in graph.graph.find_nodes(op="call_function", target=aten.copy_.default):
        argument, value = node.args[:2]
        if isinstance(argument, fx.Node) and argument.op == "placeholder":
            finals[argument] = value
            node.replace_all_uses_with(value)
            graph.graph.erase_node(node)
    for argument in mutated:
        if argument not in finals:
            raise TaskError(
                f"the reference changes {argument.target} outside of tensor operations",
                "keep to tensor operations: no .numpy(), no pointers",
                code="task-values",
            )
    if mutated:
        last = graph.graph.output_node()
        last.args = ((*last.args[0], *(finals[argument] for argument in mutated)),)


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
                dtype = str(value.dtype).removeprefix("torch.")
                raise TaskError(
                    "the reference uses a tensor that is no argument: "
                    f"{dtype} {'x'.join(map(str, value.shape))}",
                    "return it from inputs(), or register it as a buffer of the model",
                    code="task-constant",
                )


def used_weights(
    graph: fx.GraphModule, inputs: Collection[str], mutated: Collection[str] = ()
) -> list[str]:
    """The weights that the graph reads or changes; the others' placeholders are taken out of it.

    Raises:
        TaskError: ``task-values`` for an input that is neither read nor changed.
    """
    used = []
    for node in graph.graph.find_nodes(op="placeholder"):
        if node.users or node.target in mutated:
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
