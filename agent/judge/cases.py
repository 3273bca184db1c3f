"""Sets of arguments with all that is known about the right answer; made once, kept while room."""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from agent.judge.chains import chain_length, leaves_order_open
from agent.judge.inputs import NUDGED, TENTATIVE, both_signs, nudge, seeded, transform
from agent.judge.shelf import Shelf, peak_bytes
from agent.judge.tolerance import Answer, answer, growth, is_exact
from agent.task import OutputSpec
from agent.tensors import own_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agent.reference import Reference
    from agent.task import ArgSpec, TargetSpec


# Families in which rounding errors need not cancel, because values are so regular (of light tiles,
# exp makes ones), or because a sum that begins with a large term loses all small ones, each in the
# same direction; and those in which equal elements are common.
_SYSTEMATIC = ("constant", "structured", "blocks", "wide", "heavy", "clustered")
_WITH_TIES = ("constant", "integers", "special")
# What an element of a result takes while its answer is worked out: three float64 results, its
# allowed error, masks.
_ANSWER_BYTES = 32
_WIDE = 8

# What a reference may raise on arguments outside of its domain.
_RAISED = (RuntimeError, ValueError, IndexError, TypeError, AssertionError, ArithmeticError)


class Refused(Exception):
    """The reference raises on such arguments, so nobody can be judged on them."""


@dataclass(frozen=True, slots=True)
class Case:
    """Arguments, and the right answers for them, in the order of :func:`results`."""

    family: str
    seed: int
    args: tuple[torch.Tensor, ...]
    answers: tuple[Answer, ...]

    @property
    def bytes(self) -> int:
        return _bytes(self.args) + sum(known.bytes for known in self.answers)


def results(spec: TargetSpec) -> tuple[OutputSpec, ...]:
    """All that a call gives: the outputs, then the arguments that it changes in place."""
    return spec.outputs + tuple(
        OutputSpec(arg.name, arg.dtype, arg.shape, arg.strides) for arg in spec.args if arg.mutated
    )


class Cases:
    """The cases of one target, at one set of sizes.

    Args:
        reference: Evaluated here, in the judge's own process, which never loads a candidate.
        secret: Seed of the session: makes arguments that no program can know.
        shelf: Where cases are kept, for several targets together; None for one of its own.
        label: Said after the family's name, such as ``"@rows=4097"``.

    Attributes:
        label: The same with a space before it, or "".
        eager_seconds: What eager took for the latest case.
    """

    def __init__(
        self, reference: Reference, secret: int, shelf: Shelf | None = None, label: str = ""
    ) -> None:
        self.reference = reference
        self._secret = secret
        self._shelf = shelf or Shelf(reference.spec.device)
        self.label = f" {label}" if label else ""
        self.eager_seconds = 0.0
        self._specs = reference.spec.args
        self._chain = chain_length(reference.graph)
        self._largest = max((size for arg in self._specs for size in arg.shape), default=1)
        self._open_order = leaves_order_open(reference.graph)
        dtypes = {arg.dtype for arg in self._specs}
        self._unit = 2.0**-52 if "float64" in dtypes else 2.0**-23
        # The graph in float64, its arguments as they are and once changed, the answers.
        self._need = peak_bytes(reference.graph) + 2 * _WIDE * _elements(self._specs)
        self._need += _ANSWER_BYTES * _elements(results(reference.spec))

    def seed(self, family: str, number: int) -> int:
        text = f"{self._secret}/{self.reference.spec.source_sha}/{family}/{number}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")

    def get(self, family: str, number: int) -> Case:
        """The case of that number.

        Raises:
            Refused: The reference raises on it.
            MachineError: ``device-memory``.
        """
        known: Case | str | None = self._shelf.get(self, (family, number))
        if known is None:
            known = self._make(family, number)
            size = known.bytes if isinstance(known, Case) else 0
            self._shelf.put(self, (family, number), known, size)
            self._shelf.give_back()
        if isinstance(known, str):
            raise Refused(known)
        return known

    def arguments(self, family: str, number: int) -> tuple[torch.Tensor, ...]:
        """The arguments of a case alone, which take less time than its answers."""
        known = self._shelf.get(self, (family, number))
        if isinstance(known, Case):
            return known.args
        made: tuple[torch.Tensor, ...] | None = self._shelf.get(self, ("args", family, number))
        if made is None:
            made = self._arguments(family, number)
            self._shelf.put(self, ("args", family, number), made, _bytes(made))
        return made

    def _arguments(self, family: str, number: int) -> tuple[torch.Tensor, ...]:
        seed = self.seed(family, number)
        args = self.reference.sample(seed % 2**31)
        if family == NUDGED:
            return nudge(self.arguments("normal", number), args, self._specs, seed)
        return tuple(transform(family, args, self._specs, seed))

    def _make(self, family: str, number: int) -> Case | str:
        """The case, or why the reference raises on it.

        A reference with a domain, such as probabilities, gets the family's values cut to the
        range of its own.
        """
        seed = self.seed(family, number)
        if family in TENTATIVE and both_signs(self.arguments("normal", number), self._specs):
            return "the task's own values have both signs"
        self._shelf.make_room(self._need, self.reference.spec.name)
        args = self._arguments(family, number)
        found = self._attempt(family, seed, args)
        if isinstance(found, Exception) and family not in TENTATIVE:
            own = self.reference.sample(seed % 2**31)
            found = self._attempt(family, seed, tuple(map(_within, args, own)))
        return str(found)[:200] if isinstance(found, Exception) else found

    def _attempt(
        self, family: str, seed: int, args: tuple[torch.Tensor, ...]
    ) -> Case | str | Exception:
        try:
            return self._case(family, seed, args)
        except torch.OutOfMemoryError:
            raise self._shelf.too_large(self._need, self.reference.spec.name) from None
        except _RAISED as error:
            return error

    def _case(self, family: str, seed: int, args: tuple[torch.Tensor, ...]) -> Case | str:
        reference = self.reference
        generator = seeded(seed, args)
        exact = reference.float64(args)
        eager = self._eager(args)
        if family in TENTATIVE and not _finite(exact, eager):
            return "such values are outside of the reference's domain"
        conditioned = self._conditioned(args, generator) or (None,) * len(exact)
        systematic = family in _SYSTEMATIC or (family == "integers" and not is_exact(exact, eager))
        g = growth(self._chain, constant=systematic)
        open_order = self._largest if self._open_order and family in _WITH_TIES else 0
        answers = tuple(
            answer(one, two, three, g, generator, open_order=open_order)
            for one, two, three in zip(exact, eager, conditioned, strict=True)
        )
        return Case(family + self.label, seed, args, answers)

    def _eager(self, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Eager's outputs and what it makes of the arguments it changes, which stay as they are."""
        specs = self._specs
        given = [
            own_memory(value) if spec.mutated else value
            for spec, value in zip(specs, args, strict=True)
        ]
        settle(args)
        started = time.monotonic()
        outputs = self.reference.function(*given)
        settle(args)
        self.eager_seconds = time.monotonic() - started
        changed = [value for spec, value in zip(specs, given, strict=True) if spec.mutated]
        return (*outputs, *changed)

    def _conditioned(
        self, args: tuple[torch.Tensor, ...], generator: torch.Generator
    ) -> tuple[torch.Tensor, ...] | None:
        """The float64 answer for arguments changed by an ulp; None where it says nothing."""
        if not any(value.is_floating_point() for value in args):
            return None
        # Arguments at the end of their domain, such as a probability of 1, can only shrink.
        for low, high in ((-1.0, 1.0), (-1.0, 0.0)):
            changed = [self._changed(value, generator, low, high) for value in args]
            try:
                return self.reference.float64(changed)
            except _RAISED:
                continue
        return None

    def _changed(
        self, value: torch.Tensor, generator: torch.Generator, low: float, high: float
    ) -> torch.Tensor:
        if not value.is_floating_point():
            return value
        noise = torch.rand(
            value.shape, generator=generator, dtype=torch.float64, device=value.device
        )
        noise.mul_(high - low).add_(low).mul_(self._unit).add_(1.0)
        return noise.mul_(value)


def _within(value: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """Values brought into the range of the task's own; those not finite replaced by them."""
    if not value.is_floating_point() or not value.numel():
        return value
    fresh = own.clone()
    fresh.copy_(torch.where(value.isfinite(), value.clamp(own.min(), own.max()), own))
    return fresh


def settle(args: Iterable[torch.Tensor]) -> None:
    """Wait until the device of these tensors has done all that it was told."""
    for value in args:
        if value.is_cuda:
            torch.cuda.synchronize(value.device)
            return


def _elements(specs: Iterable[ArgSpec | OutputSpec]) -> int:
    return sum(math.prod(spec.shape) for spec in specs)


def _bytes(args: Iterable[torch.Tensor]) -> int:
    return sum(value.numel() * value.element_size() for value in args)


def _finite(*sets: Sequence[torch.Tensor]) -> bool:
    return all(bool(value.isfinite().all()) for values in sets for value in values)
