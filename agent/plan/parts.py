"""The parts of a plan as written: texts of expressions, nothing evaluated yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ITEM_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2,
              "int16": 2, "int8": 1, "uint8": 1, "bool": 1}  # fmt: skip
SCALAR_TYPES = frozenset({"int32", "int64", "float32", "float64"})
SWIZZLES = ("none", "32B", "64B", "128B")
INTERLEAVES = ("none", "16B", "32B")
PROMOTIONS = ("none", "64B", "128B", "256B")
FILLS = ("zero", "nan")


@dataclass(frozen=True, slots=True)
class Scratch:
    """Memory for between the steps: a name, a dtype, a shape of expressions; zeroed if asked."""

    name: str
    dtype: str
    shape: tuple[str, ...]
    zero: bool = False


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A map for the bulk copy engine over one tensor; all lists innermost first.

    Attributes:
        dims: Sizes in elements; empty for the tensor's shape reversed.
        strides: Bytes, of all dimensions but the innermost; empty for the tensor's own.
        box: Sizes of one copy in elements.
        element_strides: Steps between the elements taken; empty for ones.
    """

    name: str
    tensor: str
    box: tuple[str, ...]
    dims: tuple[str, ...] = ()
    strides: tuple[str, ...] = ()
    element_strides: tuple[str, ...] = ()
    swizzle: str = "none"
    interleave: str = "none"
    l2: str = "none"
    fill: str = "zero"


@dataclass(frozen=True, slots=True)
class Argument:
    """A launch argument: a tensor's or tensor map's name, or an expression with a C type."""

    text: str
    type: str = "int64"


@dataclass(frozen=True, slots=True)
class Launch:
    """One call of a function of the source.

    Attributes:
        grid, block, cluster: One to three expressions; empty for ``cpp``, and where there is no
            cluster.
        shared: Bytes of dynamic shared memory.
    """

    kernel: str
    args: tuple[Argument, ...]
    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    shared: str = "0"
    cluster: tuple[str, ...] = ()
    cooperative: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One library step: an operation, its arguments (texts, or lists of texts), its result's
    name."""

    op: str
    args: tuple[str | tuple[str, ...], ...]
    to: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan as read; ``data`` is what two equal plans have in common."""

    tune: dict[str, tuple[int, ...]]
    scratch: tuple[Scratch, ...]
    tensormaps: tuple[TensorMap, ...]
    steps: tuple[Launch | Call, ...]
    data: dict[str, Any]
