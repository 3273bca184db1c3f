"""Sets of arguments with all that is known about the right answer; made once, kept while room."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
import torch

from agent.judge.inputs import NUDGED, nudge, transform
from agent.judge.tolerance import Answer, answer, chain_length, growth, is_exact, leaves_order_open

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent.reference import Reference


# Families whose values are so regular that rounding errors need not cancel, and those in which
# equal elements are common.
_SYSTEMATIC = ("constant", "structured")
_WITH_TIES = ("constant", "integers", "special")

# What a reference may raise on arguments outside of its domain.
_RAISED = (RuntimeError, ValueError, IndexError, TypeError, AssertionError, ArithmeticError)


class Refused(Exception):
    """The reference raises on such arguments, so nobody can be judged on them."""


@dataclass(frozen=True, slots=True)
class Case:
    """Arguments, and the answers for them by output, in the spec's order."""

    family: str
    seed: int
    args: tuple[torch.Tensor, ...]
    answers: tuple[Answer, ...]

    @property
    def bytes(self) -> int:
        return _bytes([self.args]) + sum(known.bytes for known in self.answers)


class Cases:
    """The cases of one target.

    Args:
        reference: Evaluated here, in the judge's own process, which never loads a candidate.
        secret: Seed of the session: makes arguments that no program can know.
        room: Bytes that kept cases may take.
    """

    def __init__(self, reference: Reference, secret: int, room: int | None = None) -> None:
        self.reference = reference
        self._secret = secret
        self._room = room or psutil.virtual_memory().total // 10
        self.eager_seconds = 0.0
        self._made: OrderedDict[tuple[str, int], tuple[torch.Tensor, ...]] = OrderedDict()
        self._kept: OrderedDict[tuple[str, int], Case | str] = OrderedDict()
        self._chain = chain_length(reference.graph)
        self._largest = max((size for arg in reference.spec.args for size in arg.shape), default=1)
        self._open_order = leaves_order_open(reference.graph)
        dtypes = {arg.dtype for arg in reference.spec.args}
        self._unit = 2.0**-52 if "float64" in dtypes else 2.0**-23

    def seed(self, family: str, number: int) -> int:
        text = f"{self._secret}/{self.reference.spec.source_sha}/{family}/{number}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")

    def get(self, family: str, number: int) -> Case:
        """The case of that number.

        Raises:
            Refused: The reference raises on it.
        """
        key = (family, number)
        known = self._kept.get(key)
        if known is None:
            known = self._make(family, number)
            self._kept[key] = known
        self._kept.move_to_end(key)
        self._drop()
        if isinstance(known, str):
            raise Refused(known)
        return known

    def arguments(self, family: str, number: int) -> tuple[torch.Tensor, ...]:
        """The arguments of a case alone, which take less time than its answers."""
        known = self._kept.get((family, number))
        if isinstance(known, Case):
            return known.args
        if (family, number) not in self._made:
            self._made[family, number] = self._arguments(family, number)
            while len(self._made) > 1 and _bytes(self._made.values()) > self._room // 4:
                self._made.popitem(last=False)
        return self._made[family, number]

    def _arguments(self, family: str, number: int) -> tuple[torch.Tensor, ...]:
        seed = self.seed(family, number)
        args = self.reference.sample(seed % 2**31)
        if family == NUDGED:
            return nudge(self.arguments("normal", number), args, self.reference.spec.args, seed)
        return tuple(transform(family, args, self.reference.spec.args, seed))

    def _drop(self) -> None:
        total = sum(case.bytes for case in self._kept.values() if isinstance(case, Case))
        while total > self._room and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            total -= oldest.bytes if isinstance(oldest, Case) else 0

    def _make(self, family: str, number: int) -> Case | str:
        """The case, or why the reference raises on it.

        A reference with a domain, such as probabilities, gets the family's values cut to the
        range of its own.
        """
        seed = self.seed(family, number)
        args = self._arguments(family, number)
        try:
            return self._case(family, seed, args)
        except _RAISED:
            own = self.reference.sample(seed % 2**31)
        try:
            return self._case(family, seed, tuple(map(_within, args, own)))
        except _RAISED as error:
            return str(error)[:200]

    def _case(self, family: str, seed: int, args: tuple[torch.Tensor, ...]) -> Case:
        reference = self.reference
        generator = torch.Generator().manual_seed(seed)
        exact = reference.float64(args)
        started = time.monotonic()
        eager = reference.function(*args)
        self.eager_seconds = time.monotonic() - started
        conditioned = self._conditioned(args, generator) or (None,) * len(exact)
        systematic = family in _SYSTEMATIC or (family == "integers" and not is_exact(exact, eager))
        g = growth(self._chain, constant=systematic)
        open_order = self._largest if self._open_order and family in _WITH_TIES else 0
        answers = tuple(
            answer(one, two, three, g, generator, open_order=open_order)
            for one, two, three in zip(exact, eager, conditioned, strict=True)
        )
        return Case(family, seed, args, answers)

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
        noise = torch.rand(value.shape, generator=generator, dtype=torch.float64)
        return value.double() * (1.0 + self._unit * (low + (high - low) * noise))


def _within(value: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """Values brought into the range of the task's own; those not finite replaced by them."""
    if not value.is_floating_point() or not value.numel():
        return value
    fresh = own.clone()
    fresh.copy_(torch.where(value.isfinite(), value.clamp(own.min(), own.max()), own))
    return fresh


def _bytes(sets: Iterable[tuple[torch.Tensor, ...]]) -> int:
    return sum(value.numel() * value.element_size() for args in sets for value in args)
