"""Tensor maps for the bulk copy engine, bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.plan.limits import check_tensormap, reach
from agent.plan.names import Names, bad
from agent.plan.parts import ITEM_BYTES

if TYPE_CHECKING:
    from agent.plan.parts import TensorMap


def bind_tensormap(item: TensorMap, names: Names) -> dict[str, Any]:
    """A tensor map as numbers, with what the plan leaves out taken from its tensor.

    The tensor must exist before the first step: maps are encoded then.

    Raises:
        ProgramError: ``plan``.
    """
    tensor = names.tensors.get(item.tensor)
    if tensor is None:
        raise bad(
            f"tensormap {item.name}: there is no argument, output or scratch {item.tensor}; the "
            "result of a library step gets its address too late for a tensor map"
        )
    width = ITEM_BYTES[tensor.dtype]
    if tensor.alignment % 16:
        raise bad(
            f"tensormap {item.name}: {item.tensor} is aligned to {tensor.alignment} bytes, "
            "and a tensor map needs 16"
        )
    dims, strides = names.ints(item.dims), names.ints(item.strides)
    if not dims or not strides:
        given = tensor.strides or ()
        if not dims and given[-1:] not in ((), (1,)):
            raise bad(f"tensormap {item.name}: the innermost stride of {item.tensor} is not 1")
        dims = dims or list(reversed(tensor.shape))
        # One dimension has no stride to give.
        own = [stride * width for stride in reversed(given[:-1])]
        strides = strides if strides or len(dims) == 1 else own
    box = names.ints(item.box)
    bound = {
        "name": item.name, "tensor": item.tensor, "dtype": tensor.dtype, "dims": dims,
        "strides": strides, "box": box,
        "element_strides": names.ints(item.element_strides) or [1] * len(dims),
        "swizzle": item.swizzle, "interleave": item.interleave, "l2": item.l2,
        "fill": item.fill,
    }  # fmt: skip
    check_tensormap(bound)
    room = tensor.extent * width
    if item.interleave == "none" and reach(bound) > room:
        raise bad(
            f"tensormap {item.name}: dims {dims} with strides {strides} reach {reach(bound)} "
            f"bytes; {item.tensor} has {room}"
        )
    return bound
