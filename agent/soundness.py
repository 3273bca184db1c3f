"""Whether a reference is one that programs can be proved against."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch

from agent.errors import TaskError
from agent.tensors import check_tensor, own_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from agent.task import ArgSpec, Scalar

    Run = Callable[[Sequence[torch.Tensor]], tuple[torch.Tensor, ...]]

# Two runs may differ by this much of the largest value, because sums are reordered.
_NOISE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}


def alike(left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> bool:
    """Whether two runs' results are the same but for the order of additions."""
    return len(left) == len(right) and all(map(_alike, left, right))


def check_outputs(
    run: Run, names: Sequence[str], args: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """Run twice on the same arguments and refuse what is not a function of them.

    Raises:
        TaskError: ``task-no-tensor``, ``task-empty``, ``task-dtype``, ``task-mutates``,
            ``task-alias``, ``task-random``.
    """
    kept = [own_memory(value) for value in args]
    versions = [value._version for value in args]
    torch.manual_seed(1)
    first = run(args)
    if not first:
        raise TaskError(
            "the reference returns no tensor",
            "return a tensor, or a tuple, list or dict of tensors",
            code="task-no-tensor",
        )
    for at, value in enumerate(first):
        check_tensor(value, f"the output out{at or ''}")
        if value.numel() == 0:
            raise TaskError(
                f"the output out{at or ''} has no elements",
                "give the inputs sizes that lead to a result",
                code="task-empty",
            )
    for name, value, old, version in zip(names, args, kept, versions, strict=True):
        if value._version != version or not _identical(value, old):
            raise TaskError(
                f"the reference writes to its argument {name}, which is not supported yet",
                f"work on a copy: {name} = {name}.clone(), and return the result",
                code="task-mutates",
            )
    _check_alias(names, args, first)
    torch.manual_seed(2)
    second = run(args)
    if not alike(first, second):
        raise TaskError(
            "the reference is random: two runs on the same inputs differ",
            "take random numbers as an input, put dropout in eval mode, keep no state in between",
            code="task-random",
        )
    held = {_memory(value) for value in first}
    for at, value in enumerate(second):
        if _memory(value) in held:
            raise TaskError(
                f"the output out{at or ''} is the same memory at each call",
                "return a new tensor each time, for example with .clone()",
                code="task-alias",
            )
    return first


def _check_alias(
    names: Sequence[str], args: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
) -> None:
    owners = {
        _memory(value): f"the argument {name}" for name, value in zip(names, args, strict=True)
    }
    for at, value in enumerate(outputs):
        name = f"out{at or ''}"
        owner = owners.setdefault(_memory(value), name)
        if owner != name:
            raise TaskError(
                f"the output {name} is a view of {owner}: there is nothing to compute",
                "make it a tensor of its own with .contiguous(), or .clone() if that is a no-op",
                code="task-alias",
            )
        if not _dense(value):
            raise TaskError(
                f"the output {name} repeats or skips elements of its memory",
                "return it with .contiguous()",
                code="task-alias",
            )


def check_inputs_used(
    run: Run,
    args: Sequence[torch.Tensor],
    names: Sequence[str],
    other: Mapping[str, torch.Tensor],
) -> None:
    """Change each input alone: some change of it must change a result.

    Args:
        run: The reference.
        args: Inputs, in the order of ``names``, then weights.
        names: Of the inputs.
        other: The inputs under another seed; may have other shapes.

    Raises:
        TaskError: ``task-ignores`` with the input's name.
    """
    for at, name in enumerate(names):
        found = [_matters(run, base, at, other.get(name)) for base in (args, _wider(args))]
        if True not in found and False in found:
            raise TaskError(
                f"the reference ignores its input {name}: changing it changes no result",
                f"remove {name}, or use it",
                code="task-ignores",
            )


def check_same(
    run: Run, graph: Callable[..., tuple[torch.Tensor, ...]], args: Sequence[torch.Tensor]
) -> None:
    """The traced graph must give what the reference gives, whatever the values.

    Raises:
        TaskError: ``task-values``.
    """
    negated = [-value if value.is_floating_point() else value for value in args]
    for values in (args, negated, _wider(args)):
        try:
            expected = run(values)
        except TaskError:  # the reference may check its inputs
            continue
        with torch.no_grad(), contextlib.suppress(RuntimeError):  # other shapes inside
            if alike(graph(*values), expected):
                continue
        raise TaskError(
            "what the reference does depends on its inputs' values in a way that cannot be traced",
            "replace Python's if and loops on values by torch.where and tensor operations",
            code="task-values",
        )


def _matters(
    run: Run, args: Sequence[torch.Tensor], at: int, other: torch.Tensor | None
) -> bool | None:
    """Whether a change of this argument changes a result; None if no change was valid."""
    verdict = None
    try:
        base = run(args)
        for changed in _changes(args[at], other):
            with contextlib.suppress(TaskError):  # not every change is a valid input
                results = run([*args[:at], changed, *args[at + 1 :]])
                if len(results) != len(base) or not all(map(_identical, results, base)):
                    return True
                verdict = False
    except TaskError:
        return None
    return verdict


def _wider(args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The arguments with large floats of both signs, for references with thresholds in them."""
    return [value * 1000 - 7 if value.is_floating_point() else value for value in args]


def check_stable(
    specs: Sequence[ArgSpec],
    scalars: Mapping[str, Scalar],
    tensors: Mapping[str, torch.Tensor],
    numbers: Mapping[str, Scalar],
) -> None:
    """Inputs of another seed must be those that the target was made for.

    Raises:
        TaskError: ``task-shapes``.
    """
    fault = ""
    if [spec.name for spec in specs] != list(tensors):
        fault = "other tensors"
    elif dict(numbers) != dict(scalars):
        fault = "other numbers"
    for spec in specs if not fault else ():
        value = tensors[spec.name]
        now = (f"torch.{spec.dtype}", spec.shape, spec.strides)
        if now != (str(value.dtype), tuple(value.shape), tuple(value.stride())):
            fault = f"another shape, dtype or layout of {spec.name}"
            break
    if fault:
        raise TaskError(
            f"the inputs are not the same kind at each call: {fault}",
            "return the same shapes, dtypes and numbers each time; only values may be random",
            code="task-shapes",
        )


def _changes(value: torch.Tensor, other: torch.Tensor | None) -> Iterator[torch.Tensor]:
    """Other values for an input, plain ones first, with integers in the range seen."""
    if value.numel() == 0:
        return
    candidates: list[Callable[[], torch.Tensor]] = []
    if other is not None and other.shape == value.shape and other.dtype == value.dtype:
        candidates += [lambda: other]
    if value.dtype is torch.bool:
        candidates += [lambda: ~value]
    elif value.is_floating_point():
        candidates += [lambda: -value, lambda: value * 2 + 1, lambda: value * 1000 - 7]
    else:
        low, high = value.min(), value.max()
        candidates += [lambda: high - (value - low), lambda: torch.full_like(value, int(low))]
    candidates += [lambda: value.flatten().roll(1).view(value.shape)]
    for make in candidates:
        changed = torch.empty_like(value).copy_(make())
        if not _identical(changed, value):
            yield changed


def _alike(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if not left.is_floating_point():
        return bool(torch.equal(left, right))
    if _identical(left, right):
        return True
    noise = _NOISE[left.dtype]
    left, right = left.double(), right.double()
    finite = left.isfinite()
    if not torch.equal(finite, right.isfinite()):
        return False
    if not _identical(left[~finite], right[~finite]):
        return False
    scale = left[finite].abs().max() if bool(finite.any()) else 1.0
    near = (left - right)[finite].abs() <= noise * scale
    return bool(near.all())


def _identical(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal values, NaN equal to NaN."""
    if left.shape != right.shape:
        return False
    if torch.equal(left, right):
        return True
    if not left.is_floating_point():
        return False
    same = (left == right) | (left.isnan() & right.isnan())
    return bool(same.all())


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill a stretch of memory, each once, in any order of dimensions."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True
