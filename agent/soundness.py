"""Whether a reference is one that programs can be proved against."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from agent.errors import TaskError
from agent.sameness import alike, identical
from agent.tensors import check_tensor, own_memory
from agent.traffic import changed_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from agent.task import ArgSpec, Scalar

    Run = Callable[[Sequence[torch.Tensor]], tuple[torch.Tensor, ...]]


@dataclass(frozen=True, slots=True)
class Results:
    """What a reference gives: its outputs, and which places of its results are not among them.

    Attributes:
        outputs: Without the arguments that are returned again.
        dropped: The places of those.
        changed_bytes: The least to write into the mutated arguments.
    """

    outputs: tuple[torch.Tensor, ...]
    dropped: tuple[int, ...]
    changed_bytes: int


def pure(run: Run, mutated: Sequence[int]) -> Run:
    """The same function, leaving its arguments as they are.

    Args:
        run: Changes the arguments in these places and returns its outputs.
        mutated: Places of arguments, ascending.

    Returns:
        A function that gives the outputs, then the final values of the mutated arguments.
    """
    if not mutated:
        return run

    def function(args: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        values = [own_memory(x) if at in mutated else x for at, x in enumerate(args)]
        return (*run(values), *(values[at] for at in mutated))

    return function


def check_outputs(
    run: Run,
    names: Sequence[str],
    args: Sequence[torch.Tensor],
    mutated: Sequence[int] = (),
    *,
    empty: bool = False,
) -> Results:
    """Run twice on the same arguments and refuse what is not a function of them.

    Args:
        run: The reference, which may change the mutated arguments.
        names: Of the arguments.
        args: Have their values again afterwards.
        mutated: Places of the arguments that it may change.
        empty: Whether outputs may have no elements.

    Raises:
        TaskError: ``task-no-tensor``, ``task-empty``, ``task-dtype``, ``task-mutates``,
            ``task-alias``, ``task-random``.
    """
    kept = [own_memory(value) for value in args]
    versions = [value._version for value in args]
    torch.manual_seed(1)
    first = run(args)
    if not first and not mutated:
        raise TaskError(
            "the reference returns no tensor",
            "return a tensor, or a tuple, list or dict of tensors",
            code="task-no-tensor",
        )
    for at, (value, old) in enumerate(zip(args, kept, strict=True)):
        changed = value._version != versions[at] or not identical(value, old)
        _check_change(names[at], value, old, declared=at in mutated, changed=changed)
    changing = {names[at]: args[at] for at in mutated}
    dropped = [at for at, value in enumerate(first) if _is_one_of(value, changing.values())]
    outputs = [value for at, value in enumerate(first) if at not in dropped]
    for at, value in enumerate(outputs):
        check_tensor(value, f"the output out{at or ''}")
        if value.numel() == 0 and not empty:
            raise TaskError(
                f"the output out{at or ''} has no elements",
                "give the inputs sizes that lead to a result",
                code="task-empty",
            )
    _check_alias(names, args, outputs, changing)
    finals = [own_memory(args[at]) for at in mutated]
    written = 0
    for at in mutated:
        written += changed_bytes(kept[at], args[at])
        args[at].copy_(kept[at])
    del kept
    torch.manual_seed(2)
    second = [value for at, value in enumerate(run(args)) if at not in dropped]
    if not alike([*outputs, *finals], [*second, *(args[at] for at in mutated)]):
        raise TaskError(
            "the reference is random: two runs on the same inputs differ",
            "take random numbers as an input, put dropout in eval mode, keep no state in between",
            code="task-random",
        )
    held = {_memory(value) for value in outputs if value.numel()}
    for at, value in enumerate(second):
        if value.numel() and _memory(value) in held:
            raise TaskError(
                f"the output out{at or ''} is the same memory at each call",
                "return a new tensor each time, for example with .clone()",
                code="task-alias",
            )
    return Results(tuple(outputs), tuple(dropped), written)


def _check_change(
    name: str, value: torch.Tensor, old: torch.Tensor, *, declared: bool, changed: bool
) -> None:
    """Whether an argument was changed as declared, and in its values only."""
    if (value.shape, value.stride()) != (old.shape, old.stride()):
        raise TaskError(
            f"the reference changes the shape of its argument {name}",
            f"make a view of it: {name} = {name}.view(...)",
            code="task-mutates",
        )
    if changed and not declared:
        raise TaskError(
            f"the reference writes to its argument {name}",
            f'if that is meant, declare it: MUTATES = ("{name}",); if not, work on {name}.clone()',
            code="task-mutates",
        )
    if declared and not changed:
        raise TaskError(
            f"MUTATES names {name}, but the reference does not change it",
            f"take {name} out of MUTATES",
            code="task-mutates",
        )


def _is_one_of(value: torch.Tensor, others: Iterable[torch.Tensor]) -> bool:
    """Whether this is one of these tensors, by its place in memory and its layout."""
    return any(
        value.numel() > 0
        and value.dtype == other.dtype
        and value.data_ptr() == other.data_ptr()
        and (value.shape, value.stride()) == (other.shape, other.stride())
        for other in others
    )


def _check_alias(
    names: Sequence[str],
    args: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    changing: Collection[str],
) -> None:
    owners = {_memory(value): name for name, value in zip(names, args, strict=True)}
    for at, value in enumerate(outputs):
        if value.numel() == 0:
            continue
        name = f"out{at or ''}"
        owner = owners.get(_memory(value), "")
        if owner in changing:
            raise TaskError(
                f"the output {name} is a view of {owner}, which the reference changes",
                f"return {owner} itself, or a copy: .clone()",
                code="task-alias",
            )
        if owner:
            what = f"the argument {owner}" if owner in names else owner
            raise TaskError(
                f"the output {name} is a view of {what}: there is nothing to compute",
                "make it a tensor of its own with .contiguous(), or .clone() if that is a no-op",
                code="task-alias",
            )
        owners[_memory(value)] = name
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
    mutated: Collection[int] = (),
) -> None:
    """Change each input alone: some change of it must change a result.

    Args:
        run: The reference as a pure function.
        args: Inputs, in the order of ``names``, then weights.
        names: Of the inputs.
        other: The inputs under another seed; may have other shapes.
        mutated: Places of inputs that may be overwritten without being read.

    Raises:
        TaskError: ``task-ignores`` with the input's name.
    """
    left = [at for at in range(len(names)) if at not in mutated]
    seen: set[int] = set()
    for make in (list, _wider):
        base = make(args)
        try:
            results = run(base)
        except TaskError:  # the reference may check its inputs
            continue
        verdicts = {at: _matters(run, base, results, at, other.get(names[at])) for at in left}
        seen |= {at for at, verdict in verdicts.items() if verdict is not None}
        left = [at for at in left if not verdicts[at]]
        if not left:
            return
    for at in left:
        if at in seen:
            raise TaskError(
                f"the reference ignores its input {names[at]}: changing it changes no result",
                f"remove {names[at]}, or use it",
                code="task-ignores",
            )


def check_same(
    run: Run,
    graph: Callable[..., tuple[torch.Tensor, ...]],
    args: Sequence[torch.Tensor],
    *,
    all_values: bool = True,
) -> None:
    """The traced graph must give what the reference gives, whatever the values.

    Args:
        run: The reference as a pure function.
        graph: Of single tensors.
        args: For both.
        all_values: Whether to try changed values as well, of the other sign and larger.

    Raises:
        TaskError: ``task-values``.
    """
    for make in (list, _negated, _wider) if all_values else (list,):
        values = make(args)
        # Through cuDNN eager computes convolutions and recurrences in tf32, where the graph may
        # have operators that do not: in full float32 the two must agree.
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
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
    run: Run,
    args: Sequence[torch.Tensor],
    base: Sequence[torch.Tensor],
    at: int,
    other: torch.Tensor | None,
) -> bool | None:
    """Whether a change of this argument changes a result; None if no change was valid."""
    verdict = None
    for changed in _changes(args[at], other):
        with contextlib.suppress(TaskError):  # not every change is a valid input
            results = run([*args[:at], changed, *args[at + 1 :]])
            if len(results) != len(base) or not all(map(identical, results, base)):
                return True
            verdict = False
    return verdict


def _negated(args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [-value if value.is_floating_point() else value for value in args]


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
        if not identical(changed, value):
            yield changed


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
