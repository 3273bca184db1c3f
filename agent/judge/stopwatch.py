"""Takes times in the runner: two sides by turns, on arguments that are never those just used."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import torch

from agent.judge.arena import torch_dtype
from agent.judge.statistics import ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Call = Callable[..., tuple[torch.Tensor, ...]]

# A sample shorter than this is mostly the clock and the scheduler.
SAMPLE_NS = 100_000
MAX_INNER = 2000
MAX_PAIRS = 400
# More than the budget is spent for the least number of pairs, but not more than this many times.
_PATIENCE = 4.0
_FEWEST = 6
_NARROW, _ROUGH, _SLOW = 0.01, 0.1, 0.8
_SCRATCH_ROOM = 64 << 20


class Bench:
    """Copies of the arguments, several cases by turns, so that neighbours always differ.

    Their number is a multiple of the number of cases: going round, no call ever finds in a
    freed output block the answer to the very arguments that it gets.

    Args:
        cases: Sets of arguments; each is copied into memory of its own.
        copies: How many sets to keep, at least.
        mutated: Positions of arguments that a call changes; they are put back before each call.
    """

    def __init__(
        self,
        cases: Sequence[Sequence[torch.Tensor]],
        copies: int,
        mutated: Sequence[int] = (),
    ) -> None:
        self._cases = len(cases)
        count = -(-copies // self._cases) * self._cases
        self.copies = [
            tuple(own(value) for value in cases[at % self._cases]) for at in range(count)
        ]
        self._mutated = list(mutated)
        self._pristine = [[own(copy[at]) for at in mutated] for copy in self.copies]
        self._at = 0

    def refill(self, cases: Sequence[Sequence[torch.Tensor]]) -> None:
        """New values into the same tensors."""
        for at, copy in enumerate(self.copies):
            for mine, value in zip(copy, cases[at % self._cases], strict=True):
                stored(mine).copy_(stored(value))
            for kept, place in zip(self._pristine[at], self._mutated, strict=True):
                stored(kept).copy_(stored(copy[place]))

    def _put_back(self, at: int) -> None:
        for place, value in zip(self._mutated, self._pristine[at], strict=True):
            stored(self.copies[at][place]).copy_(stored(value))

    def probe(
        self, side: Call, given: Sequence[torch.Tensor], places: Sequence[torch.Tensor]
    ) -> None:
        """Ask a side once more, on a timed set whose values were changed where it lies.

        Args:
            given: The changed values, of the first case; what the set held replaces them.
            places: Where the results go; those of mutated arguments come last.
        """
        at = random.randrange(len(self.copies) // self._cases) * self._cases
        copy = self.copies[at]
        self._put_back(at)
        held = [stored(mine).clone() for mine in copy]
        for mine, value in zip(copy, given, strict=True):
            stored(mine).copy_(stored(value))
        _, results = self._calls(side, [copy])
        results = (*results, *(copy[place] for place in self._mutated))
        for place, value in zip(places, results, strict=True):
            place.copy_(value)
        for mine, value, old in zip(copy, given, held, strict=True):
            stored(value).copy_(old)
            stored(mine).copy_(old)

    def compare(
        self, sides: Sequence[Call], budget_s: float, least: int
    ) -> tuple[dict[str, Any], tuple[torch.Tensor, ...], int]:
        """Time the sides in pairs, the order within each by chance.

        Args:
            sides: Two functions of the arguments.
            budget_s: When it is spent no pair follows, except for the least number.
            least: Pairs to take at least, budget or not (within reason).

        Returns:
            ``samples`` (ns per call, a pair each), ``inner`` (calls in a sample), ``timing``
            (``call``); the last results of the second side with the arguments it changed, and
            which copy of the arguments they belong to.
        """
        generator = random.Random(time.perf_counter_ns())
        started = time.perf_counter_ns()
        inner = self._inner(sides, budget_s)
        samples: list[tuple[float, float]] = []
        last: tuple[torch.Tensor, ...] = ()
        copy = 0
        while len(samples) < MAX_PAIRS:
            spent = (time.perf_counter_ns() - started) / 1e9
            if spent > budget_s and len(samples) >= (
                least if spent < _PATIENCE * budget_s else _FEWEST
            ):
                break
            if len(samples) >= least and len(samples) % 5 == 0:
                now = ratio(samples)
                # A program that is clearly slower need not be known so exactly.
                narrow = _NARROW if now.high > _SLOW else _ROUGH
                if now.high < now.low * (1.0 + narrow):
                    break
            taken = [0.0, 0.0]
            order = (0, 1) if generator.random() < 0.5 else (1, 0)
            for side in order:
                taken[side], results = self._batch(sides[side], inner)
                if side == 1:
                    last, copy = results, (self._at - 1) % len(self.copies)
                del results
            samples.append((taken[0], taken[1]))
        last = (*last, *(self.copies[copy][place] for place in self._mutated))
        kept = [list(pair) for pair in samples]
        return {"samples": kept, "inner": inner, "timing": "call"}, last, copy

    def _inner(self, sides: Sequence[Call], budget_s: float) -> int:
        """Calls in a sample, from the faster side's time after warming up."""
        fastest = 1e18
        for side in sides:
            self._batch(side, 1)
            taken = [self._batch(side, 1)[0] for _ in range(3)]
            if max(taken) < 1e6:
                taken = [self._batch(side, 10)[0] for _ in range(3)]
            fastest = min(fastest, *taken)
        if self._mutated:
            return 1
        inner = max(1, min(MAX_INNER, round(SAMPLE_NS / max(1.0, fastest))))
        held = max(getattr(side, "scratch_bytes", 0) for side in sides)
        return max(1, min(inner, _SCRATCH_ROOM // max(1, held)))

    def _batch(self, side: Call, calls: int) -> tuple[float, tuple[torch.Tensor, ...]]:
        places = [(self._at + at) % len(self.copies) for at in range(calls)]
        for at in places if self._mutated else ():
            self._put_back(at)
        chosen = [self.copies[at] for at in places]
        self._at = (self._at + calls) % len(self.copies)
        return self._calls(side, chosen)

    @staticmethod
    def _calls(
        side: Call, chosen: Sequence[Sequence[torch.Tensor]]
    ) -> tuple[float, tuple[torch.Tensor, ...]]:
        """Nanoseconds per call on these arguments, and the last call's results."""
        prepare = getattr(side, "prepare", None)
        if prepare is not None:
            prepare(len(chosen))
        clock = time.perf_counter_ns
        start = clock()
        for args in chosen[:-1]:
            side(*args)
        results = side(*chosen[-1])
        end = clock()
        return (end - start) / len(chosen), results


def product_rate(dtype: str, size: int, device: str = "cpu") -> float:
    """Floating-point operations a second of ``torch.mm`` on square matrices, the best of five."""
    left = torch.randn(size, size, device=device).to(torch_dtype(dtype))
    right = torch.randn(size, size, device=device).to(torch_dtype(dtype))
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    for _ in range(3):
        torch.mm(left, right)
    wait()
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter_ns()
        torch.mm(left, right)
        wait()
        best = min(best, float(time.perf_counter_ns() - start))
    return 2.0 * size**3 / best * 1e9


def stored(value: torch.Tensor) -> torch.Tensor:
    """The elements that lie in memory once: repeated dimensions taken once."""
    return value[tuple(slice(0, 1) if step == 0 else slice(None) for step in value.stride())]


def own(value: torch.Tensor) -> torch.Tensor:
    """A copy with memory of its own, repeated dimensions kept repeated."""
    kept = stored(value)
    fresh = torch.empty_strided(kept.shape, kept.stride(), dtype=value.dtype, device=value.device)
    return fresh.copy_(kept).expand(value.shape)
