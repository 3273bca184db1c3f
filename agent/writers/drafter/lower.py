"""From a node of the trace, at an index, to the expression of that one element.

Pointwise operators and views are followed down to loads. Reductions end the walk: they are noted
as ``Wanted`` and whoever builds the kernel decides where they are computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from torch.fx import Node

from agent.writers.drafter import views
from agent.writers.drafter.index import (
    Axis,
    Index,
    NotAffine,
    contiguous,
    flatten,
    unflatten,
)
from agent.writers.drafter.ir import Buffer, Expr, Pool, is_float, value_dtype
from agent.writers.drafter.pointwise import POINTWISE, Operand, Pointwise, expr_dtype
from agent.writers.drafter.reducing import Wanted, opname, reducing, result_dtype
from agent.writers.drafter.trace import refuse
from agent.writers.drafter.views import VIEWS, Indices, broadcast, shape_of

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from agent.errors import ForgeError
    from agent.task import TargetSpec

_CASTS = {"_to_copy", "convert_element_type"}
_WHY = {
    "cumsum": "cumsum is a scan; the drafter does not write scans yet",
    "cumprod": "cumprod is a scan; the drafter does not write scans yet",
    "logcumsumexp": "logcumsumexp is a scan; the drafter does not write scans yet",
    "mm": "mm is a product of matrices; the drafter leaves those to libraries",
    "addmm": "addmm is a product of matrices; the drafter leaves those to libraries",
    "bmm": "bmm is a product of matrices; the drafter leaves those to libraries",
    "convolution": "convolution is a product; the drafter leaves those to libraries",
    "argmax": "argmax asks for a place, not a value; the drafter does not write that yet",
    "argmin": "argmin asks for a place, not a value; the drafter does not write that yet",
    "sort": "sort moves elements by their values; the drafter does not write that",
    "topk": "topk moves elements by their values; the drafter does not write that",
}


def _unknown(name: str) -> ForgeError:
    return refuse(_WHY.get(name, f"the drafter does not write {name[:60]} yet"))


def _constants(traced: GraphModule, taken: set[str]) -> dict[Node, Buffer]:
    """Small tensors that the reference holds, as tables in the source."""
    found: dict[Node, Buffer] = {}
    for node in traced.graph.find_nodes(op="get_attr"):
        value = getattr(traced, str(node.target)).detach().contiguous()
        name = f"table{len(found)}"
        while name in taken:
            name += "_"
        dtype = value_dtype(str(value.dtype).removeprefix("torch."))
        shape = tuple(value.shape)
        numbers = tuple(value.flatten().tolist())
        found[node] = Buffer(name, dtype, shape, contiguous(shape), "constant", numbers)
    return found


class Lowerer:
    """Expressions of one traced graph."""

    def __init__(self, traced: GraphModule, spec: TargetSpec, pool: Pool) -> None:
        self.pool = pool
        self.pointwise = Pointwise(pool)
        self._memo: dict[tuple[Node, Indices], Expr] = {}
        placeholders = [node for node in traced.graph.nodes if node.op == "placeholder"]
        self._args = {
            node: Buffer(arg.name, arg.dtype, arg.shape, arg.strides, "arg")
            for node, arg in zip(placeholders, spec.args, strict=True)
        }
        self._args |= _constants(traced, {arg.name for arg in spec.args})

    def value(self, node: Node, indices: Indices) -> Expr:
        """The element of ``node`` at ``indices``, one index for each of its dimensions.

        Raises:
            Split, Cut, NotAffine: See ``index``.
            ForgeError: An operator is not drafted.
        """
        key = (node, indices)
        if key not in self._memo:
            self._memo[key] = self._lower(node, indices)
        return self._memo[key]

    def _lower(self, node: Node, indices: Indices) -> Expr:
        if node in self._args:
            buffer = self._args[node]
            if math.prod(buffer.shape) == 1 and buffer.role == "constant":
                return self.pool.const(buffer.values[0], value_dtype(buffer.dtype))
            return self.load(buffer, flatten(indices, buffer.strides))
        name = opname(node)
        if name in VIEWS:
            source = node.args[0]
            assert isinstance(source, Node)
            try:
                moved = VIEWS[name](node, indices)
            except NotAffine:
                flat = flatten(indices, contiguous(shape_of(node)))
                moved = self._divided(flat, shape_of(source))
            return self.value(source, moved)
        if name in _CASTS:
            return self._cast(node, indices)
        if name in POINTWISE:
            operands = [self._operand(arg, indices) for arg in node.args]
            return self.pointwise.make(name, node, operands)
        if reducing(node) is not None:
            if isinstance(node.meta["val"], tuple):
                raise _unknown("argmax")
            return self.want(node, indices)
        return self._other(name, node, indices)

    def want(self, node: Node, indices: Indices) -> Expr:
        """The result of a reduction, wherever it may be computed."""
        hint = node.name.rstrip("_0123456789")
        return self.pool.make("wanted", (), result_dtype(node), Wanted(node, indices), hint)

    def load(self, buffer: Buffer, index: Index) -> Expr:
        dtype = value_dtype(buffer.dtype)
        return self.pool.make("load", (), dtype, (buffer, index), buffer.name)

    def _operand(self, arg: Any, indices: Indices) -> Operand:
        if isinstance(arg, Node):
            return self.value(arg, broadcast(indices, shape_of(arg)))
        if arg is None or isinstance(arg, (int, float)):
            return arg
        raise refuse(f"an operand of type {type(arg).__name__} is not drafted")

    def _cast(self, node: Node, indices: Indices) -> Expr:
        source = node.args[0]
        assert isinstance(source, Node)
        value, dtype = self.value(source, indices), expr_dtype(node)
        if value.dtype == "float64" and dtype == "float32" and is_float(value.dtype):
            return self.pool.make("cast", (value,), dtype, None, value.hint)
        return self.pointwise.cast(value, dtype)

    def _other(self, name: str, node: Node, indices: Indices) -> Expr:
        args: tuple[Any, ...] = node.args
        dtype = expr_dtype(node) if hasattr(node.meta.get("val"), "dtype") else ""
        match name:
            case "cat":
                source, moved = views.cat(args[0], args[1] if len(args) > 1 else 0, indices)
                return self.pointwise.cast(self.value(source, moved), dtype)
            case "getitem" | "<built-in function getitem>":
                return self._getitem(node, indices)
            case "full" | "full_like" | "scalar_tensor":
                number = args[0] if name == "scalar_tensor" else args[1]
                return self.pool.const(number, dtype)
            case "arange" | "iota":
                return self._arange(node, indices, dtype)
            case "gather":
                dim = args[1] % max(1, len(indices))
                at = self._gathered(args[2], indices, shape_of(args[0])[dim])
                return self.value(args[0], (*indices[:dim], at, *indices[dim + 1 :]))
            case "index" | "index_select" | "embedding":
                return self._index(node, name, indices)
            case "as_strided":
                return self._as_strided(node, indices)
        raise _unknown(name)

    def _divided(self, index: Index, shape: tuple[int, ...]) -> Indices:
        """As ``unflatten``, with divisions in the loop where the index is no plain sum."""
        result = []
        for size in reversed(shape[1:]):
            try:
                index, along = index.divmod(size)
            except NotAffine:
                whole = self.pool.make("index", (), "int64", index, "place")
                divisor = self.pool.const(size, "int64")
                along = self._computed("mod_trunc", whole, divisor, size)
                index = self._computed("div_trunc", whole, divisor, index.high // size + 1)
            result.append(along)
        return (index, *reversed(result))

    def _computed(self, op: str, left: Expr, right: Expr, size: int) -> Index:
        value = self.pool.make(op, (left, right), "int64", None, "part")
        return Index(((Axis(f"g{value.serial}", size, value), 1),))

    def _getitem(self, node: Node, indices: Indices) -> Expr:
        source, place = node.args
        assert isinstance(source, Node)
        assert isinstance(place, int)
        name = opname(source)
        if name == "split_with_sizes":
            moved = views.split_part(source, place, indices)
            assert isinstance(source.args[0], Node)
            return self.value(source.args[0], moved)
        if name in ("max", "min") and place == 0:
            return self.want(source, indices)
        if name in ("max", "min"):
            name = "argmax"
        raise _unknown(name)

    def _arange(self, node: Node, indices: Indices, dtype: str) -> Expr:
        args: tuple[Any, ...] = node.args
        if opname(node) == "iota":
            start, step = node.kwargs["start"], node.kwargs["step"]
        else:
            start = args[0] if len(args) > 1 else 0
            step = args[2] if len(args) > 2 else 1
        place = self.pool.make("index", (), "int64", indices[0], "place")
        if isinstance(start, int) and isinstance(step, int):
            moved = (indices[0] * step).plus(start)
            return self.pointwise.cast(self.pool.make("index", (), "int64", moved, "place"), dtype)
        scaled = (self.pointwise.cast(place, dtype), self.pool.const(step, dtype))
        product = self.pool.make("mul", scaled, dtype, None, "scaled")
        offset = self.pool.const(start, dtype)
        return self.pool.make("add", (product, offset), dtype, None, "arange")

    def _gathered(self, node: Node, indices: Indices, size: int, wrap: bool = False) -> Index:
        value = self.pointwise.cast(self.value(node, indices), "int64")
        if wrap:
            pool = self.pool
            negative = pool.make("lt", (value, pool.const(0, "int64")), "bool", None, "negative")
            moved = pool.make("add", (value, pool.const(size, "int64")), "int64", None, "wrapped")
            value = pool.make("where", (negative, moved, value), "int64", None, "wrapped")
        return Index(((Axis(f"g{value.serial}", size, value), 1),))

    def _index(self, node: Node, name: str, indices: Indices) -> Expr:
        args: tuple[Any, ...] = node.args
        source: Node = args[0]
        if name == "index_select":
            places: list[Node | None] = [None] * (args[1] % len(indices)) + [args[2]]
        else:
            places = [args[1]] if name == "embedding" else list(args[1])
        used = [(dim, place) for dim, place in enumerate(places) if place is not None]
        if len(used) != 1 or used[0][1].meta["val"].dtype.is_floating_point:
            raise refuse("indexing by more than one tensor is not drafted yet")
        dim, place = used[0]
        if str(place.meta["val"].dtype) in ("torch.bool", "torch.uint8"):
            raise refuse("indexing by a mask gives a result whose size depends on values")
        rank = len(shape_of(place))
        size = shape_of(source)[dim]
        at = self._gathered(place, indices[dim : dim + rank], size, wrap=name == "index")
        return self.value(source, (*indices[:dim], at, *indices[dim + rank :]))

    def _as_strided(self, node: Node, indices: Indices) -> Expr:
        source, _, stride = node.args[:3]
        assert isinstance(source, Node)
        steps: Any = stride
        if source in self._args:
            offset: Any = node.args[3] if len(node.args) > 3 else 0
            return self.load(self._args[source], flatten(indices, steps).plus(offset or 0))
        same = math.prod(shape_of(source)) == math.prod(shape_of(node))
        if not same or tuple(steps) != contiguous(shape_of(node)):
            raise refuse("as_strided with strides of its own is not drafted")
        flat = flatten(indices, contiguous(shape_of(node)))
        return self.value(source, unflatten(flat, shape_of(source)))
