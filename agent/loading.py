"""Runs a task's text and turns what it defines into a function of a flat list of tensors.

Everything here runs the user's code, so it is used in workers only.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from agent.errors import TaskError
from agent.naming import names_for, step
from agent.taskfile import check_default, declared, unknown_argument
from agent.tensors import check_tensor, own_memory
from agent.usercode import execute, importable, one_line, user_code

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent.task import Scalar, TaskSource

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Inputs:
    """One result of the task's inputs, bound to the parameters and flattened.

    ``leaves`` holds every value in call order; ``tensors`` and ``scalars`` those of them that are
    tensors (on the device, in memory of their own) and numbers, by argument name; ``nested`` says
    whether any came from inside a list or dict.
    """

    tensors: dict[str, torch.Tensor]
    scalars: dict[str, Scalar]
    leaves: list[Any]
    layout: pytree.TreeSpec
    nested: bool


class Callee:
    """The user's function or model, with the ranged dimensions at these sizes.

    Args:
        source: The task.
        sizes: Of ranged dimensions, by name; those left out have the file's own.

    Attributes:
        weights: Parameters and buffers by argument name, each once, on the device.
        ranges: As the file declares them.
        sizes: Of all ranged dimensions.
        mutates: As the file declares it; names of inputs and weights.
        first: The inputs under seed 0, until ``release``.
    """

    def __init__(self, source: TaskSource, sizes: Mapping[str, int]) -> None:
        self._source = source
        says = declared(source.text, source.kind, source.name)
        self.ranges, self.mutates = says.ranges, says.mutates
        kernelbench = source.kind == "kernelbench"
        if strange := set(sizes) - set(self.ranges):
            raise TaskError(
                f"the task has no ranged dimension {one_line(min(strange), 60)}",
                "declare it in RANGES, or leave it out",
                code="task-ranges",
            )
        with importable(source), user_code(source, "the file"):
            space = execute(source, sizes if kernelbench else {})
        target = self._named(space, "Model" if kernelbench else "reference")
        self._make = self._named(space, "get_inputs" if kernelbench else "inputs")
        self.sizes = self._sizes(sizes, space if kernelbench else _defaults(self._make))
        self._keywords: dict[str, Any] = {} if kernelbench else dict(self.sizes)
        # Inputs that take no device are made under it, as long as that works.
        self._on_device = source.device != "cpu" and not _takes_device(self._make)
        if _takes_device(self._make):
            self._keywords["device"] = source.device
        with importable(source), user_code(source, "building the model"):
            torch.manual_seed(0)
            if kernelbench:
                target = _build(target, space.get("get_init_inputs"))
        self._target: Callable[..., Any] = target
        self.weights: dict[str, torch.Tensor] = {}
        self._sites: dict[str, list[tuple[dict[str, Any], str]]] = {}
        self._recurrent: list[nn.RNNBase] = []
        if isinstance(target, nn.Module):
            with user_code(source, "moving the model to the device"):
                self._take_weights(target)
        self._signature: inspect.Signature | None = _signature(target)
        with importable(source):
            self.first = self.inputs(0)
        self._rename_weights()

    def _rename_weights(self) -> None:
        """Weights come after inputs: a clash of names renames the weight."""
        if not self.first.tensors:
            raise TaskError(
                "the inputs hold no tensor",
                "return the tensors that the reference takes",
                code="task-no-input",
            )
        names = names_for([*self.first.tensors, *self.first.scalars, *self.weights])
        fresh = names[len(self.first.tensors) + len(self.first.scalars) :]
        renamed = dict(zip(list(self.weights), fresh, strict=True))
        self.weights = {renamed[name]: value for name, value in self.weights.items()}
        self._sites = {renamed[name]: sites for name, sites in self._sites.items()}
        known = [*self.first.tensors, *self.weights]
        for name in self.mutates:
            if name not in known:
                raise unknown_argument(name, known)

    def inputs(self, seed: int) -> Inputs:
        """Run the task's inputs under ``torch.manual_seed(seed)``."""
        source = self._source
        names, leaves, layout, nested = self._leaves(seed)
        tensors: dict[str, torch.Tensor] = {}
        scalars: dict[str, Scalar] = {}
        for at, name in enumerate(names):
            leaf = leaves[at]
            if isinstance(leaf, torch.Tensor):
                check_tensor(leaf, f"the input {name}")
                with user_code(source, f"moving {name} to {source.device}"):
                    # One at a time: what was made is freed as soon as it is copied.
                    leaves[at] = tensors[name] = own_memory(leaf.detach(), source.device)
            elif isinstance(leaf, int | float):
                scalars[name] = leaf
        return Inputs(tensors, scalars, leaves, layout, nested)

    def _leaves(self, seed: int) -> tuple[list[str], list[Any], pytree.TreeSpec, bool]:
        """What the inputs are made of: names, values, layout, whether any is in a list."""
        bound = self._bind(self._given(seed))
        paths, layout = pytree.tree_flatten_with_path(dict(bound.arguments))
        names = names_for(["_".join(step(key) for key in path) for path, _ in paths])
        return names, [leaf for _, leaf in paths], layout, any(len(path) != 1 for path, _ in paths)

    def _given(self, seed: int) -> Any:
        """What the task's inputs return, made on the device even if they do not ask for it.

        Random numbers take seconds on a CPU where a GPU takes milliseconds. Code that cannot be
        run so, because it mixes devices, is run as it is.
        """
        make, source = self._make, self._source
        doing = make.__name__ + "()"
        if self._on_device:
            try:
                with torch.device(source.device), user_code(source, doing):
                    torch.manual_seed(seed)
                    return make(**self._keywords)
            except TaskError as error:
                if error.code != "task-raises" or "sticky" in error.evidence:
                    raise
                self._on_device = False
        with user_code(source, doing):
            torch.manual_seed(seed)
            return make(**self._keywords)

    def restore(self) -> None:
        """Put the weights back into the model, where tracing has left its own."""
        for name, sites in self._sites.items():
            for table, key in sites:
                table[key] = self.weights[name]

    def release(self) -> None:
        """Free the first inputs; their layout stays."""
        first = self.first
        first.leaves[:] = [None if isinstance(x, torch.Tensor) else x for x in first.leaves]
        first.tensors.clear()

    def function(
        self, weights: Sequence[str], dropped: Sequence[int] = ()
    ) -> Callable[..., tuple[torch.Tensor, ...]]:
        """The reference as eager runs it, of the input tensors and then these weights.

        Args:
            weights: Names, in order.
            dropped: Places of results that are left out: arguments that are returned again.

        It does as little as possible around the user's code, because it is timed: weights are put
        straight into the module's tables, where ``functional_call`` would cost tens of
        microseconds. It is quickest where gradients are off already.
        """
        first = self.first
        count = len(first.tensors)
        sites = [
            (table, key, count + at)
            for at, name in enumerate(weights)
            for table, key in self._sites[name]
        ]
        invoke = self._invoker()
        recurrent = self._recurrent
        grad_enabled = torch.is_grad_enabled

        def function(*args: torch.Tensor) -> tuple[torch.Tensor, ...]:
            for table, key, at in sites:
                table[key] = args[at]
            for module in recurrent:
                _refresh(module)
            inputs = args[:count]
            if grad_enabled():
                with torch.no_grad():
                    result = invoke(*inputs)
            else:
                result = invoke(*inputs)
            if isinstance(result, torch.Tensor):
                return (result,)
            return tuple(x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor))

        if not dropped:
            return function

        def without(*args: torch.Tensor) -> tuple[torch.Tensor, ...]:
            results = function(*args)
            return tuple(x for at, x in enumerate(results) if at not in dropped)

        return without

    def _sizes(self, sizes: Mapping[str, int], values: Mapping[str, Any]) -> dict[str, int]:
        """The sizes of all ranged dimensions: those given, then those that the file has."""
        for name in self.ranges:
            if name not in values:
                raise TaskError(
                    f"the ranged dimension {name} has no size to tune for",
                    f"give {name} a default in inputs(), or a value at the top level of the file",
                    code="task-ranges",
                )
        return {
            name: check_default(name, sizes.get(name, values.get(name)), limits)
            for name, limits in self.ranges.items()
        }

    def _named(self, space: dict[str, Any], name: str) -> Callable[..., Any]:
        value: Callable[..., Any] | None = space.get(name)
        if value is None or not callable(value):
            raise TaskError(
                f"{name} is no function or class once the file has run",
                f"define {name} at the top level of the file",
                code="task-format",
            )
        return value

    def _take_weights(self, model: nn.Module) -> None:
        for module in model.modules():
            # A tensor kept as a plain attribute is a buffer that was not registered.
            for key, value in list(vars(module).items()):
                if isinstance(value, torch.Tensor) and not hasattr(type(module), key):
                    del module.__dict__[key]
                    module._buffers[key] = value
        model.to(self._source.device).eval().requires_grad_(False)
        self._recurrent = [m for m in model.modules() if isinstance(m, nn.RNNBase)]
        found: dict[int, tuple[str, torch.Tensor, list[tuple[dict[str, Any], str]]]] = {}
        for prefix, module in model.named_modules():
            for table in (module._parameters, module._buffers):
                for key, tensor in table.items():
                    if tensor is not None:
                        path = f"{prefix}.{key}" if prefix else key
                        check_tensor(tensor, f"the weight {path}")
                        found.setdefault(id(tensor), (path, tensor, []))[2].append((table, key))
        names = names_for([path for path, _, _ in found.values()])
        for name, (_, tensor, sites) in zip(names, found.values(), strict=True):
            self.weights[name] = _varied(own_memory(tensor.detach()))
            self._sites[name] = sites
        self.restore()  # the model's own go

    def _bind(self, given: Any) -> inspect.BoundArguments:
        if isinstance(given, dict):
            args, kwargs = (), given
        else:
            args, kwargs = tuple(given) if isinstance(given, list | tuple) else (given,), {}
        if self._signature is None:
            kind = inspect.Parameter.POSITIONAL_ONLY
            self._signature = inspect.Signature(
                [inspect.Parameter(f"x{at or ''}", kind) for at in range(len(args))]
            )
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TaskError(
                f"the inputs do not fit the reference's parameters: {one_line(str(error))}",
                "return one value for each parameter, in order, or a dict by name",
                code="task-signature",
            ) from None
        bound.apply_defaults()
        return bound

    def _invoker(self) -> Callable[..., Any]:
        """How to call the target with the input tensors put in their places."""
        assert self._signature is not None
        signature, target, first = self._signature, self._target, self.first
        places = [at for at, x in enumerate(first.leaves) if isinstance(x, torch.Tensor)]
        flat = all(p.kind in _POSITIONAL for p in signature.parameters.values())
        flat = flat and not first.nested and len(first.leaves) == len(signature.parameters)
        if flat and len(places) == len(first.leaves):
            return target

        def arranged(*tensors: torch.Tensor) -> Any:
            leaves = list(first.leaves)
            for at, tensor in zip(places, tensors, strict=True):
                leaves[at] = tensor
            if flat:
                return target(*leaves)
            bound = inspect.BoundArguments(signature, pytree.tree_unflatten(leaves, first.layout))
            return target(*bound.args, **bound.kwargs)

        return arranged


def _build(model: Callable[..., Any], make_init: Callable[[], Any] | None) -> Any:
    init = make_init() if make_init is not None else []
    if isinstance(init, dict):
        return model(**init)
    return model(*init) if isinstance(init, list | tuple) else model(init)


def _signature(target: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(target.forward if isinstance(target, nn.Module) else target)
    except (TypeError, ValueError):  # built-in functions do not tell
        return None


def _defaults(make: Callable[..., Any]) -> dict[str, Any]:
    """The defaults of the parameters that can be given by name."""
    signature = _signature(make)
    if signature is None:
        return {}
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        name: parameter.default
        for name, parameter in signature.parameters.items()
        if parameter.kind in named and parameter.default is not inspect.Parameter.empty
    }


def _takes_device(make: Callable[..., Any]) -> bool:
    signature = _signature(make)
    return signature is not None and "device" in signature.parameters


def _refresh(module: nn.RNNBase) -> None:
    """Recurrent modules keep a second list of their weights."""
    module._flat_weights = [getattr(module, name, None) for name in module._flat_weights_names]


def _varied(weight: torch.Tensor) -> torch.Tensor:
    """The weight, or if all its elements are equal, one that is not.

    Fresh norms have weight 1 and bias 0: a program that leaves them out would go unnoticed. What
    is added lies in [0, 0.25), so that a variance stays positive.
    """
    if not weight.is_floating_point() or weight.numel() < 2:
        return weight
    if not bool((weight == weight.flatten()[0]).all()):
        return weight
    noise = torch.rand(weight.shape, generator=torch.Generator().manual_seed(weight.numel()))
    return weight + 0.25 * noise.to(weight.device, weight.dtype)
