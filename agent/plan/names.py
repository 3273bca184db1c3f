"""The names of a plan while it is bound: what each tensor is, as it comes to exist."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from agent.errors import ProgramError
from agent.expressions import Scope, evaluate_int

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent.plan.parts import TensorMap
    from agent.task import TargetSpec


@dataclass(frozen=True, slots=True)
class Tensor:
    """What is known of a name.

    Attributes:
        shape: Sizes.
        strides: In elements; None where a library chose them.
        alignment: Bytes that its address is a multiple of.
    """

    role: Literal["argument", "output", "scratch", "result"]
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    alignment: int = 64

    @property
    def extent(self) -> int:
        """Elements from the first to the end of the last."""
        if math.prod(self.shape) == 0:
            return 0
        if self.strides is None:
            return math.prod(self.shape)
        pairs = zip(self.shape, self.strides, strict=True)
        return 1 + sum((size - 1) * stride for size, stride in pairs)


class Names:
    """Tensors and expressions' names at one point of a plan.

    Attributes:
        tensors: By name, those that exist by now.
        maps: The plan's tensor maps, by name.
        given: Tensors that some step was given.
        scope: For expressions.
    """

    def __init__(
        self,
        spec: TargetSpec,
        values: Mapping[str, int],
        facts: Mapping[str, Any],
        maps: Sequence[TensorMap],
    ) -> None:
        self.scope = Scope.of(spec, values, facts)
        self.maps = {item.name: item for item in maps}
        self.given: set[str] = set()
        self.tensors: dict[str, Tensor] = {}
        for arg in spec.args:
            shape, strides = tuple(arg.shape), tuple(arg.strides)
            self.tensors[arg.name] = Tensor("argument", arg.dtype, shape, strides, arg.alignment)
        for out in spec.outputs:
            shape, strides = tuple(out.shape), tuple(out.strides)
            self.tensors[out.name] = Tensor("output", out.dtype, shape, strides)
        if len(self.maps) != len(maps):
            raise bad("two tensor maps have one name")
        for name in self.maps:
            if name in self.tensors:
                raise bad(f"tensormap {name} has a tensor's name")

    def know(self, name: str, tensor: Tensor) -> None:
        """A tensor that exists from here on."""
        if name in self.maps:
            raise bad(f"tensormap {name} has a tensor's name")
        self.tensors[name] = tensor
        known = {**self.scope.tensors, name: (tensor.shape, tensor.strides)}
        self.scope = replace(self.scope, tensors=known)

    def ints(self, texts: Sequence[str]) -> list[int]:
        return [evaluate_int(text, self.scope) for text in texts]


def bad(message: str) -> ProgramError:
    """A plan that does not fit."""
    return ProgramError(message, code="plan")
