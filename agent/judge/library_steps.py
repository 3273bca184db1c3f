"""Library steps of a plan: PyTorch's own operators, run where the plan says, by name.

Used in the runner only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from agent.errors import ProgramError
from agent.plan.calls import split_keywords

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable


class Environment:
    """The tensors that library steps take and bind, by name.

    Attributes:
        tensors: What steps may take; results are added, or copied into ``places``.
        places: Outputs that exist already and that a result must be copied into.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self.places: dict[str, torch.Tensor] = {}

    def make_call(
        self, step: dict[str, Any], pointers: dict[str, ctypes.c_void_p]
    ) -> Callable[[int], None]:
        """A library step over the tensors that are here when it runs."""
        op, args, name = step["call"], step["args"], step["to"]
        operator = getattr(torch.ops.aten, op)

        def run(_: int) -> None:
            given = [
                self.tensors[arg["tensor"]] if "tensor" in arg else arg["value"] for arg in args
            ]
            values, keywords = split_keywords(op, given)
            try:
                result = operator(*values, **keywords)
            except torch.OutOfMemoryError:
                raise  # not for its arguments' shapes; the runner says what to do about it
            except (RuntimeError, ValueError, TypeError, IndexError) as error:
                raise ProgramError(
                    f"the library step {op} fails: {' '.join(str(error).split())}"[:300],
                    "check its arguments' shapes and dtypes",
                    code="call",
                ) from None
            if isinstance(result, tuple):
                result = result[0]
            place = self.places.get(name)
            if place is not None:
                same_kind(op, result, place.dtype, tuple(place.shape))
                place.copy_(result)
                result = place
            self.tensors[name] = result
            if name in pointers:
                pointers[name].value = result.data_ptr()

        return run


def same_kind(op: str, value: torch.Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """Raises ProgramError ``call`` unless a result can be the output that it is bound to."""
    if value.dtype != dtype or tuple(value.shape) != shape:
        raise ProgramError(
            f"{op} gives {value.dtype} {tuple(value.shape)}, the output is {dtype} {shape}",
            "bind it to another name and write the output with a kernel",
            code="call",
        )
