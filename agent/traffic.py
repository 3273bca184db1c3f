"""The least that a graph must read, write and multiply: what physics asks of any program."""

from __future__ import annotations

import contextlib
import math
import operator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import flop_registry

if TYPE_CHECKING:
    from collections.abc import Sequence

aten = torch.ops.aten

# Operators whose first operand is read only where the result comes from it: the most elements of
# it for one of the result.
_GATHERS = {
    aten.embedding.default: 1,
    aten.index_select.default: 1,
    aten.gather.default: 1,
    aten.index.Tensor: 1,
    aten.upsample_nearest1d.default: 1,
    aten.upsample_nearest2d.default: 1,
    aten.upsample_nearest3d.default: 1,
    aten.upsample_bilinear2d.default: 4,
    aten.grid_sampler_2d.default: 4,
}
# Other views of the first operand: what is read of it is what is read of the view.
_VIEWS = (
    aten.slice.Tensor,
    aten.select.int,
    aten.view.default,
    aten._unsafe_view.default,
    aten.permute.default,
    aten.transpose.int,
    aten.t.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.expand.default,
    aten.alias.default,
    aten.detach.default,
    operator.getitem,
)
# The same, with several views as the result.
_SPLITS = (aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int)
# The first operand with some elements replaced: the place among the arguments of a tensor with as
# many elements as are replaced, and whether they are added to what was there.
_SCATTERS = {
    aten.slice_scatter.default: (1, False),
    aten.select_scatter.default: (1, False),
    aten.index_put.default: (2, False),
    aten.index_copy.default: (3, False),
    aten.scatter.src: (2, False),
    aten.scatter.value: (2, False),
    aten.index_add.default: (3, True),
    aten.scatter_add.default: (2, True),
    aten.scatter_reduce.two: (2, True),
}
_REGIONS = (aten.slice_scatter.default, aten.select_scatter.default)
# Of the first operand only the shape and dtype count.
_SHAPES = (
    aten.copy.default,
    aten.fill.Scalar,
    aten.fill.Tensor,
    aten.zero.default,
    aten.zeros_like.default,
    aten.ones_like.default,
    aten.full_like.default,
    aten.empty_like.default,
)
# Windows that may leave gaps: places of kernel sizes (a tensor's last sizes, or numbers), strides.
_WINDOWS = {
    aten.convolution.default: (1, 3),
    aten.max_pool2d_with_indices.default: (1, 2),
    aten.avg_pool2d.default: (1, 2),
}
_MASKED = (aten.masked_fill.Scalar, aten.masked_fill.Tensor, aten.where.self)
_TRIANGLES = (aten.tril.default, aten.triu.default)


def read_bytes(graph: fx.GraphModule, args: Sequence[torch.Tensor], mutated: int = 0) -> int:
    """The least to read of all arguments; of what is only gathered from, the part touched.

    Args:
        graph: As ``agent.tracing`` gives it.
        args: Tell what masks in it let through.
        mutated: How many of its last results are the final values of arguments. What those keep
            of the argument need not be read.
    """
    taken: dict[fx.Node, int] = {}
    if any(node.target in _MASKED for node in graph.graph.nodes):
        with torch.no_grad():
            _Masks(graph, taken).run(*args)
    results = list(graph.graph.output_node().args[0])
    outputs = len(results) - mutated
    reads = _Reads(taken, set(results[:outputs]), set(results[outputs:]))
    for node in reversed(graph.graph.nodes):
        if isinstance(node.meta.get("val"), torch.Tensor):
            reads.note(node)
    return sum(
        reads.of[node] * int(_value(node).element_size())
        for node in graph.graph.find_nodes(op="placeholder")
    )


def changed_bytes(before: torch.Tensor, after: torch.Tensor, sector: int = 32) -> int:
    """The least to write to turn one into the other: stretches of memory in which they differ.

    Args:
        before: Dense.
        after: With the same shape and strides.
        sector: Bytes that memory takes at a time.
    """
    order = sorted(range(before.dim()), key=lambda dim: -before.stride(dim))
    differ = (before != after).permute(order).flatten()
    width = max(1, sector // before.element_size())
    whole = differ.numel() // width * width
    count = int(differ[:whole].view(-1, width).any(1).sum()) * width
    count += int(differ[whole:].any()) * (differ.numel() - whole)
    return int(count * before.element_size())


def flops(graph: fx.GraphModule) -> int:
    """Of products and convolutions, each multiply-add counted as two."""
    total = 0
    for node in graph.graph.nodes:
        count = flop_registry.get(getattr(node.target, "overloadpacket", None))
        if count is not None:
            args, kwargs = pytree.tree_map(_shape_of, (node.args, node.kwargs))
            with contextlib.suppress(AssertionError):  # how a formula says that it does not know
                total += int(count(*args, **kwargs, out_val=node.meta["val"]))
    return total


class _Masks(fx.Interpreter):  # type: ignore[misc]
    """Counts how many elements of their operands the masks in a graph let through."""

    def __init__(self, graph: fx.GraphModule, taken: dict[fx.Node, int]) -> None:
        super().__init__(graph)
        self._taken = taken

    def run_node(self, node: fx.Node) -> Any:
        if node.target in _MASKED:
            args, _ = self.fetch_args_kwargs_from_env(node)
            mask = args[0] if node.target is aten.where.self else args[1]
            self._taken[node] = int(mask.expand(_value(node).shape).sum())
        return super().run_node(node)


class _Reads:
    """How much of nodes' values is read, of each node after all its users.

    Args:
        taken: Elements that masks let through.
        whole: Outputs: all their elements are needed.
        finals: Final values of arguments: needed is only what is not kept of the argument.

    Attributes:
        of: Elements of the node's value that its users read.
    """

    def __init__(
        self, taken: dict[fx.Node, int], whole: set[fx.Node], finals: set[fx.Node]
    ) -> None:
        self._taken = taken
        self._whole = whole
        self._finals = finals
        self.of: dict[fx.Node, int] = {}

    def note(self, node: fx.Node) -> None:
        sizes = zip(_value(node).shape, _value(node).stride(), strict=True)
        most = int(math.prod(size for size, stride in sizes if stride != 0))
        if node in self._finals and not self._keep(node):
            self._whole.add(node)
        touched = [most if node in self._whole else 0]
        for user in node.users:
            if user.op != "output":
                part = self._by(user, node)
                touched.append(most if part is None else part)
        self.of[node] = min(most, sum(touched))

    def _keep(self, node: fx.Node) -> bool:
        """Whether a final value keeps elements of the argument; what it keeps them of is final."""
        if node.target in _SCATTERS:
            self._finals.add(node.args[0])
            if node.target in _REGIONS:
                self._finals.add(node.args[1])
        elif node.target in _MASKED:
            kept = [x for x in node.args if isinstance(x, fx.Node) and x.op == "placeholder"]
            self._finals |= set(kept)
        return node.op == "placeholder" or node.target in (*_SCATTERS, *_MASKED, *_VIEWS)

    def _by(self, user: fx.Node, node: fx.Node) -> int | None:
        """Elements of ``node`` that this user reads; None for all."""
        places = [at for at, value in enumerate(user.args) if value is node]
        leaves = pytree.tree_leaves((user.args, user.kwargs))
        if len(places) != 1 or sum(leaf is node for leaf in leaves) != 1:
            return None
        if user.target in _MASKED:
            return self._through(user, places[0], node)
        if user.target in _REGIONS and places == [1] and user in self._finals:
            return 0 if node in self._finals and node not in self._whole else None
        if _pointwise(user.target) and _value(user).shape == _value(node).shape:
            return self.of[user]
        return self._first(user, node) if places == [0] else None

    def _through(self, user: fx.Node, place: int, node: fx.Node) -> int | None:
        """Elements that a mask lets through, as far as the result is read."""
        size, taken = int(_value(user).numel()), self._taken[user]
        shown = {1: taken, 2: size - taken} if user.target is aten.where.self else {0: size - taken}
        if place not in shown:
            return None
        if user in self._finals and user not in self._whole:
            return 0 if node in self._finals else shown[place]
        return max(0, self.of[user] - (size - shown[place]))

    def _first(self, user: fx.Node, node: fx.Node) -> int | None:
        """Elements of its first operand that an operator reads."""
        target = user.target
        if target in _VIEWS:
            return self.of[user]
        if target in _SPLITS:
            return sum(self.of[part] for part in user.users)
        if target in _GATHERS:
            return int(_value(user).numel()) * _GATHERS[target]
        if target in _SHAPES:
            return 0
        if target in _SCATTERS:
            return self._kept(user)
        if target in _TRIANGLES:
            return _triangle(user, node)
        return _windowed(user, node) if target in _WINDOWS else None

    def _kept(self, user: fx.Node) -> int | None:
        """Elements of a scatter's first operand that are read, in its result or to add to."""
        place, adds = _SCATTERS[user.target]
        if user.target is aten.index_put.default:
            return None if len(user.args) > 3 and user.args[3] else self._besides(user)
        replaced = int(_value(user.args[place]).numel())
        return replaced if adds else max(0, self.of[user] - replaced)

    def _besides(self, user: fx.Node) -> int:
        """Elements of a result that were not put there by indices; those of a mask may be all."""
        indices = [index for index in user.args[1] if index is not None]
        if any(_value(index).dtype is torch.bool for index in indices):
            return 0
        given = [*user.args[1], *(None for _ in range(_value(user).dim() - len(user.args[1])))]
        whole = [n for n, index in zip(_value(user).shape, given, strict=True) if index is None]
        spread = torch.broadcast_shapes(*(_value(index).shape for index in indices))
        return max(0, self.of[user] - int(math.prod(whole) * math.prod(spread)))


def _pointwise(target: Any) -> bool:
    """Whether each element of the result is made from the elements in its place."""
    if target in (aten.clone.default, aten._to_copy.default):
        return True
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.pointwise in target.tags


def _triangle(user: fx.Node, node: fx.Node) -> int:
    """Elements on one side of a diagonal."""
    *outer, rows, columns = _value(node).shape
    diagonal = user.args[1] if len(user.args) > 1 else 0
    below = sum(min(columns, max(0, row + diagonal + 1)) for row in range(rows))
    if user.target is aten.triu.default:
        below = rows * columns - sum(min(columns, max(0, row + diagonal)) for row in range(rows))
    return int(math.prod(outer) * below)


def _windowed(user: fx.Node, node: fx.Node) -> int | None:
    """Elements under any window, of which there are gaps between where the stride is larger."""
    if user.target is aten.convolution.default and user.args[6]:
        return None  # transposed: each element is used
    first, second = _WINDOWS[user.target]
    kernel = user.args[first]
    sizes = list(_value(kernel).shape[2:]) if hasattr(kernel, "meta") else list(kernel)
    strides = list(user.args[second]) if len(user.args) > second else []
    result = _value(user)
    result = result[0] if isinstance(result, tuple) else result
    count = _value(node).dim() - 2 if user.target is aten.convolution.default else 2
    sizes, strides = (given * (count // len(given)) for given in (sizes, strides or sizes))
    windows = zip(result.shape[-count:], sizes, strides, strict=True)
    under = math.prod(n * min(size, stride) for n, size, stride in windows)
    return int(math.prod(_value(node).shape[:-count]) * under)


def _value(node: Any) -> Any:
    return node.meta["val"]


def _shape_of(value: Any) -> Any:
    return value.meta["val"] if hasattr(value, "meta") and "val" in value.meta else value
