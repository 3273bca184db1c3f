"""From the trace to kernels: which results share a row loop, and what goes through scratch.

An output with reductions in it is computed row by row. Its *row axes* are those on which its
reductions depend, if each reduction is needed for exactly one row; then the whole chain fits in
one kernel. A reduction that is needed otherwise (a total inside a row, one row's result in many
rows) is *realised*: another kernel, launched earlier, writes it to scratch.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.writers.drafter.index import contiguous
from agent.writers.drafter.ir import Buffer, Draft, Pool
from agent.writers.drafter.lower import Lowerer
from agent.writers.drafter.nests import dim_axes, lower_nest
from agent.writers.drafter.reducing import result_dtype, result_shape
from agent.writers.drafter.rows import (
    Member,
    Realise,
    RowKernel,
    Separate,
    outer_index,
    wanted,
    wanted_of,
)
from agent.writers.drafter.trace import refuse

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

    from agent.task import TargetSpec
    from agent.writers.drafter.index import Axis
    from agent.writers.drafter.ir import Expr
    from agent.writers.drafter.views import Indices

MAX_RETRIES = 64


def build(traced: GraphModule, spec: TargetSpec, pool: Pool) -> Draft:
    """Kernels that compute the traced graph.

    Raises:
        ForgeError: code ``cannot-draft``, with the first thing that stands in the way.
    """
    realised: list[Node] = []
    apart: set[frozenset[str]] = set()
    while len(realised) + len(apart) <= MAX_RETRIES:
        try:
            return _Builder(traced, spec, pool, realised).build(apart)
        except Realise as request:
            if request.node in realised:
                break
            realised.append(request.node)
        except Separate as request:
            if request.buffers in apart:
                break
            apart.add(request.buffers)
    raise refuse("the reductions depend on one another in a way that is not drafted")


class _Builder:
    def __init__(
        self, traced: GraphModule, spec: TargetSpec, pool: Pool, realised: list[Node]
    ) -> None:
        self._lowerer = Lowerer(traced, spec, pool)
        output = next(node for node in traced.graph.nodes if node.op == "output")
        results: list[Node] = list(output.args[0])
        self._taken = {arg.name for arg in spec.args} | {out.name for out in spec.outputs}
        self._realised: dict[Node, Buffer] = {}
        for node in realised:
            name = _free(f"{node.name.rstrip('_0123456789')}_of_rows", self._taken)
            shape = result_shape(node) or (1,)
            strides = contiguous(shape)
            self._realised[node] = Buffer(name, result_dtype(node), shape, strides, "scratch")
        self._targets = [(buffer, node) for node, buffer in self._realised.items()]
        for out, node in zip(spec.outputs, results, strict=True):
            buffer = Buffer(out.name, out.dtype, out.shape, out.strides, "out")
            self._targets.append((buffer, node))
        self._title = re.sub(r"\W+", "_", spec.name).strip("_").lower() or "kernel"
        if not self._title[0].isalpha():
            self._title = f"k_{self._title}"

    def build(self, apart: set[frozenset[str]]) -> Draft:
        members = [self._member(buffer, node) for buffer, node in self._targets]
        groups = _groups(members, apart)
        kernels = []
        for number, group in enumerate(groups):
            name = self._title if len(groups) == 1 else f"{self._title}_{number}"
            name = _free(name, self._taken)
            kernels.append(RowKernel(self._lowerer, name, group, self._realised).build())
        return Draft(kernels, list(self._realised.values()))

    def _member(self, buffer: Buffer, node: Node) -> Member:
        axes, dims = dim_axes(result_shape(node), "o")

        def element(at: Indices) -> Expr:
            if buffer.role == "scratch":
                return self._lowerer.want(node, at)
            return self._lowerer.value(node, at)

        nests = tuple(lower_nest(element, axes, dims))
        wants = wanted_of([nest.value for nest in nests])
        chosen = self._choose(wants, buffer) if wants else set()
        for nest in nests:
            if not chosen <= set(nest.axes):
                raise Realise(wanted(wants[0]).node)
        rows = tuple(axis for axis in nests[0].axes if axis in chosen)
        return Member(buffer, node, rows, nests, self._reads(node))

    def _choose(self, wants: list[Expr], buffer: Buffer) -> set[Axis]:
        """The row axes: those of the reduction with most rows that fits one row each."""
        fits = []
        for expr in wants:
            row, count = outer_index(wanted(expr))
            if row.is_permutation_of(count):
                fits.append((count, set(row.axes)))
            elif wanted(expr).node not in self._realised:
                raise Realise(wanted(expr).node)
        chosen = max(fits, key=lambda fit: fit[0])[1] if fits else set()
        for expr in wants:
            row, _ = outer_index(wanted(expr))
            if set(row.axes) != chosen and wanted(expr).node not in self._realised:
                raise Realise(wanted(expr).node)
        return chosen

    def _reads(self, target: Node) -> frozenset[str]:
        names, seen, stack = set(), {target}, [target]
        while stack:
            for source in stack.pop().all_input_nodes:
                if source not in seen:
                    seen.add(source)
                    stack.append(source)
                    if source in self._realised:
                        names.add(self._realised[source].name)
        return frozenset(names)


def _free(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}{number}"
    taken.add(free)
    return free


def _groups(members: list[Member], apart: set[frozenset[str]]) -> list[list[Member]]:
    """Members that one kernel can fill, in an order in which scratch is written before it is read.

    Members with reductions go together when their rows have the same sizes; one without goes with
    them when its leading dimensions have those sizes.
    """
    groups: list[list[Member]] = []
    for member in sorted(members, key=lambda m: not _reduces(m)):
        for place, group in enumerate(groups):
            joined = _join(group, member)
            if joined is None or any(
                frozenset({member.buffer.name, other.buffer.name}) in apart for other in group
            ):
                continue
            tried = [*groups[:place], [*group, joined], *groups[place + 1 :]]
            if _ordered(tried) is not None:
                groups = tried
                break
        else:
            groups.append([member])
    ordered = _ordered(groups)
    if ordered is None:
        raise refuse("the reductions depend on one another in a circle")
    return ordered


def _reduces(member: Member) -> bool:
    return bool(wanted_of([nest.value for nest in member.nests]))


def _join(group: list[Member], member: Member) -> Member | None:
    """The member as this group would hold it, or None where it does not fit."""
    first = group[0]
    if _reduces(first) and _reduces(member):
        return member if first.row_sizes == member.row_sizes else None
    if not _reduces(first):
        same = result_shape(first.node) == result_shape(member.node)
        return member if same and len(first.nests) == len(member.nests) == 1 else None
    sizes = first.row_sizes
    heads = {nest.axes[: len(sizes)] for nest in member.nests}
    head = next(iter(heads))
    if len(heads) != 1 or tuple(axis.size for axis in head) != sizes:
        return None
    return replace(member, rows=head)


def _ordered(groups: list[list[Member]]) -> list[list[Member]] | None:
    """The groups with every scratch buffer written before another group reads it, if possible."""
    written = {m.buffer.name for group in groups for m in group}
    done: set[str] = set()
    left, result = list(groups), []
    while left:
        ready = next(
            (
                group
                for group in left
                if all(
                    name in done or name not in written or name in {m.buffer.name for m in group}
                    for member in group
                    for name in member.reads
                )
            ),
            None,
        )
        if ready is None:
            return None
        left.remove(ready)
        result.append(ready)
        done |= {m.buffer.name for m in ready}
    return result
