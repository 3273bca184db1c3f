"""The reference as a flat graph of pointwise operations, views and reductions."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from agent.errors import ForgeError
from agent.writers.drafter.decompositions import table

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from agent.reference import Reference


def refuse(why: str) -> ForgeError:
    """The error that says why the drafter writes nothing for this target."""
    return ForgeError(why, "let a model or a person write this one", code="cannot-draft")


def trace(reference: Reference) -> GraphModule:
    """Trace the reference's graph again with decompositions; nothing is computed.

    Returns:
        A graph module with a placeholder for each of ``reference.spec.args``, in their order, and
        one flat tuple of results. No operation in it writes to its operands.

    Raises:
        ForgeError: code ``cannot-draft``.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        args = [
            torch.empty_strided(arg.shape, arg.strides, dtype=getattr(torch, arg.dtype))
            for arg in reference.spec.args
        ]
    if any(arg.mutated for arg in reference.spec.args):
        raise refuse("the reference writes to its arguments; the drafter does not do that yet")

    def run(*tensors: torch.Tensor) -> Any:
        # Decompositions are made of ordinary code: in the first pass they leave in-place steps.
        return reference.graph(*tensors)

    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            flat = make_fx(run, decomposition_table=table(), tracing_mode="fake")(*args)
            pure = torch.func.functionalize(flat, remove="mutations")
            traced = make_fx(pure, decomposition_table=table(), tracing_mode="fake")(*args)
    except RuntimeError as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise refuse(f"the reference cannot be traced: {first[:200]}") from None
    traced.graph.eliminate_dead_code()
    return traced
