"""Device time by graph replay: what the GPU works for one call, without the host's share.

One CUDA graph holds: a read of more than twice the second-level cache, an event, the call, an
event. The read leaves no dirty lines that would be written back at the call's expense, and pushes
out what the arguments left; lines marked to persist are made ordinary before each replay, and
outputs and scratch are overwritten, so that nothing of an earlier call helps. Each set of
arguments lies elsewhere, and each has its own graph. Two sides are replayed in pairs, the order
within each by chance.

What cannot be captured is timed by events around an ordinary call that waits behind a spinning
kernel until the host has enqueued it all; the answer says ``events`` then.

Sources: CUDA runtime API reference (graphs, external event nodes, L2 persistence); the Triton and
nvbench projects describe cold-cache timing.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import time
from typing import TYPE_CHECKING, Any

import torch
from cuda.bindings import driver

from agent.judge.arena import GUARD_BYTE, UNWRITTEN, bits
from agent.judge.statistics import median, ratio
from agent.judge.stopwatch import own, stored

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.judge.gpu_caller import GpuCaller

    Call = Callable[..., tuple[torch.Tensor, ...]]

MAX_PAIRS = 400
MAX_COPIES = 6
_PATIENCE = 4.0
_FEWEST = 6
_NARROW, _ROUGH, _SLOW = 0.01, 0.1, 0.8
_WARM_CALLS = 2
# A spin must outlast the host's enqueueing; its clock runs at about two cycles a nanosecond.
_SPIN_LEAST, _SPIN_MOST, _SPIN_PER_NS = 400_000, 100_000_000, 4.0
# A batch of calls for the call time lasts about so long.
_BATCH_NS = 2e6
_MAX_BATCH = 200
_CALL_PAIRS = 15
_STEP_REPLAYS = 9
_MARKS_OF_ONE = 2
# So much may the allocator keep before it is told to give back; that takes some milliseconds.
_ROOM_LEFT = 1 << 30


class ReplayBench:
    """Arguments on the GPU, several cases by turns, and graphs over them.

    Args:
        cases: Sets of arguments; each is copied into memory of its own.
        copies: How many sets to keep, within reason: every one has a graph, and the cache is
            emptied anyway. A multiple of the number of cases is taken.
        mutated: Positions of arguments that a call changes; they are put back before each call.
    """

    def __init__(
        self,
        cases: Sequence[Sequence[torch.Tensor]],
        copies: int,
        mutated: Sequence[int] = (),
    ) -> None:
        self._cases = len(cases)
        count = -(-min(copies, MAX_COPIES) // self._cases) * self._cases
        self.copies = [
            tuple(own(value) for value in cases[at % self._cases]) for at in range(count)
        ]
        self._mutated = list(mutated)
        self._pristine = [[own(copy[at]) for at in mutated] for copy in self.copies]
        cache = torch.cuda.get_device_properties("cuda").L2_cache_size
        self._flush = torch.rand(max(16 << 20, int(2.2 * cache)) // 4, device="cuda")
        self._regions: dict[Any, list[_Region]] = {}
        self._left = 0  # spare memory that could not be given back, such as of eager's graphs

    def refill(self, cases: Sequence[Sequence[torch.Tensor]]) -> None:
        """New values into the same tensors; graphs stay valid."""
        for at, copy in enumerate(self.copies):
            for mine, value in zip(copy, cases[at % self._cases], strict=True):
                stored(mine).copy_(stored(value))
            for kept, place in zip(self._pristine[at], self._mutated, strict=True):
                stored(kept).copy_(stored(copy[place]))

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
        region = self._of(side)[at]
        region.replay(self._flush, restore=False)
        torch.cuda.synchronize()
        results = (*region.results, *(copy[place] for place in self._mutated))
        for place, value in zip(places, results, strict=True):
            place.copy_(value)
        for mine, value, old in zip(copy, given, held, strict=True):
            stored(value).copy_(old)
            stored(mine).copy_(old)

    def compare(
        self, sides: Sequence[Call], budget_s: float, least: int
    ) -> tuple[dict[str, Any], tuple[torch.Tensor, ...], int]:
        """Time two sides in pairs.

        Args:
            sides: Two functions of the arguments.
            budget_s: When it is spent no pair follows, except for the least number.
            least: Pairs to take at least, budget or not (within reason).

        Returns:
            ``samples`` (ns per call, a pair each), ``inner`` (1), ``timing`` (``device`` or
            ``events``); the last results of the second side with the arguments it changed, and
            which set of arguments they belong to.
        """
        self._regions = {side: kept for side, kept in self._regions.items() if side in sides}
        self._give_back()
        pairs = [self._of(side) for side in sides]
        every = [region for regions in pairs for region in regions]
        captured = all(region.captured for region in every)
        for region in every if not captured else ():
            region.by_events()  # both sides in the same way, or one would look faster
        generator = random.Random(time.perf_counter_ns())
        for regions in pairs:
            for region in regions:
                region.replay(self._flush)
                region.spoil()
        torch.cuda.synchronize()
        started = time.perf_counter_ns()
        samples: list[tuple[float, float]] = []
        at, changed = 0, list[torch.Tensor]()
        while len(samples) < MAX_PAIRS:
            spent = (time.perf_counter_ns() - started) / 1e9
            few = least if spent < _PATIENCE * budget_s else _FEWEST
            if spent > budget_s and len(samples) >= few:
                break
            if len(samples) >= least and len(samples) % 5 == 0:
                now = ratio(samples)
                narrow = _NARROW if now.high > _SLOW else _ROUGH
                if now.high < now.low * (1.0 + narrow):
                    break
            at = generator.randrange(len(self.copies))
            order = (0, 1) if generator.random() < 0.5 else (1, 0)
            for side in order:
                pairs[side][at].replay(self._flush)
                if side == 0:
                    # The right answer must not lie anywhere when the program's turn comes.
                    pairs[0][at].spoil()
                if side == 1:
                    changed = [stored(self.copies[at][place]).clone() for place in self._mutated]
            torch.cuda.synchronize()
            samples.append((pairs[0][at].nanoseconds(), pairs[1][at].nanoseconds()))
        results = (*pairs[1][at].results, *changed)
        answer = {
            "samples": [list(pair) for pair in samples],
            "inner": 1,
            "timing": "device" if captured else "events",
        }
        return answer, results, at

    def call_times(self, sides: Sequence[Call], budget_s: float) -> list[tuple[float, float]]:
        """What the caller waits: ns per call of both sides, host work included, in pairs.

        Calls follow each other without a look in between, as in a model; the host waits at the
        end of each batch. The arguments may lie in the cache.
        """
        counts = [self._batch(side) for side in sides]
        pairs: list[tuple[float, float]] = []
        started = time.perf_counter_ns()
        while len(pairs) < _CALL_PAIRS:
            if len(pairs) >= _FEWEST and (time.perf_counter_ns() - started) / 1e9 > budget_s:
                break
            taken = [0.0, 0.0]
            for side in (0, 1) if len(pairs) % 2 else (1, 0):
                taken[side] = self._calls(sides[side], counts[side])
            pairs.append((taken[0], taken[1]))
        for at in range(len(self.copies)):
            self._put_back(at)
        return pairs

    def step_times(self, side: GpuCaller) -> list[tuple[str, float]]:
        """Device time in ns of each step of a program, and its name; empty for a single step.

        Events between the steps are work of their own, so the sum is a little over the whole.
        """
        marks: list[tuple[str, torch.cuda.Event]] = []

        def mark(name: str) -> None:
            event = torch.cuda.Event(enable_timing=True, external=True)
            event.record()
            marks.append((name, event))

        def run() -> None:
            torch.sum(self._flush)
            mark("start")
            side.step_by_step(self.copies[0], mark)

        graph = _captured(run)
        taken: list[list[float]] = []
        self._put_back(0)
        if len(marks) <= _MARKS_OF_ONE:
            return []
        for _ in range(_STEP_REPLAYS):
            graph.replay()
            torch.cuda.synchronize()
            events = [event for _, event in marks]
            taken.append([
                float(one.elapsed_time(two)) * 1e6 for one, two in itertools.pairwise(events)
            ])  # fmt: skip
        self._put_back(0)
        names = [name for name, _ in marks[1:]]
        return [(name, median(times)) for name, *times in zip(names, *taken, strict=True)]

    def _batch(self, side: Call) -> int:
        self._calls(side, 2)
        return max(2, min(_MAX_BATCH, round(_BATCH_NS / max(1.0, self._calls(side, 5)))))

    def _calls(self, side: Call, count: int) -> float:
        torch.cuda.synchronize()
        copies = self.copies
        clock = time.perf_counter_ns
        start = clock()
        for at in range(count):
            side(*copies[at % len(copies)])
        torch.cuda.synchronize()
        return (clock() - start) / count

    def _put_back(self, at: int) -> None:
        for place, value in zip(self._mutated, self._pristine[at], strict=True):
            stored(self.copies[at][place]).copy_(stored(value))

    def _give_back(self) -> None:
        """Hand the driver what graphs that are gone have left.

        Each graph allocates from a pool of its own, which no other graph uses when it is gone: the
        allocator would fill the card with them, and the judge, a process apart, finds no room.
        """
        if _spare() > self._left + _ROOM_LEFT:
            torch.cuda.empty_cache()
            self._left = _spare()

    def _of(self, side: Call) -> list[_Region]:
        """The side's graphs, one for each set of arguments, made when first needed."""
        if side not in self._regions:
            made = []
            for copy, kept in zip(self.copies, self._pristine, strict=True):
                restore = [
                    (copy[place], value) for place, value in zip(self._mutated, kept, strict=True)
                ]
                made.append(_Region(side, copy, restore, self._flush))
            self._regions[side] = made
        return self._regions[side]


class _Region:
    """One side on one set of arguments, captured if it can be."""

    def __init__(
        self,
        side: Call,
        args: tuple[torch.Tensor, ...],
        restore: list[tuple[torch.Tensor, torch.Tensor]],
        flush: torch.Tensor,
    ) -> None:
        self._side = side
        self._args = args
        self._restore = restore
        self._start = torch.cuda.Event(enable_timing=True, external=True)
        self._end = torch.cuda.Event(enable_timing=True, external=True)
        self._graph: torch.cuda.CUDAGraph | None = None
        self.results: tuple[torch.Tensor, ...] = ()
        for _ in range(_WARM_CALLS):
            begun = time.perf_counter_ns()
            results = side(*args)
            host_ns = time.perf_counter_ns() - begun
            for value in results:
                _spoil(value)  # freed memory keeps what it holds, also the right answer
            del results
        self._spin = round(min(_SPIN_MOST, max(_SPIN_LEAST, _SPIN_PER_NS * host_ns)))
        torch.cuda.synchronize()
        try:
            self._capture(flush)
        except torch.OutOfMemoryError:
            raise  # or eager would be timed in another way for good
        except RuntimeError:
            # Some eager operators wait for the device, which a capture forbids.
            if hasattr(side, "scratch"):
                raise
            torch.cuda.synchronize()
            self.by_events()
        self._scratch: list[torch.Tensor] = list(getattr(side, "scratch", []))

    @property
    def captured(self) -> bool:
        return self._graph is not None

    def by_events(self) -> None:
        """Take times by events around ordinary calls from now on."""
        self._graph = None
        self._start = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)

    def _capture(self, flush: torch.Tensor) -> None:
        def run() -> None:
            torch.sum(flush)
            self._start.record()
            self.results = self._side(*self._args)
            self._end.record()

        self._graph = _captured(run)

    def replay(self, flush: torch.Tensor, *, restore: bool = True) -> None:
        """Enqueue one timed call, with everything put back and spoilt before."""
        if restore:
            for mine, value in self._restore:
                stored(mine).copy_(stored(value))
        self.spoil()
        with contextlib.suppress(AttributeError):  # absent from old bindings
            driver.cuCtxResetPersistingL2Cache()
        if self._graph is not None:
            self._graph.replay()
            return
        torch.sum(flush)
        torch.cuda._sleep(self._spin)
        self._start.record()
        self.results = self._side(*self._args)
        self._end.record()

    def spoil(self) -> None:
        """Overwrite the results and the scratch of the latest call."""
        for value in self.results:
            _spoil(value)
        for value in self._scratch:
            if value.numel():
                value.view(-1).view(torch.uint8).fill_(GUARD_BYTE)

    def nanoseconds(self) -> float:
        """Of the latest replay; the device must have been waited for."""
        return float(self._start.elapsed_time(self._end)) * 1e6


def _spare() -> int:
    """Bytes that the allocator has from the driver and no tensor uses."""
    return int(torch.cuda.memory_reserved() - torch.cuda.memory_allocated())


@functools.cache
def _capture_stream() -> torch.cuda.Stream:
    """One for all captures: libraries keep a workspace for every stream that they were used on."""
    return torch.cuda.Stream()


def _captured(work: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    """A graph of what a function enqueues.

    Not by torch.cuda.graph(): it collects garbage and empties the allocator's cache each time.
    """
    graph, stream = torch.cuda.CUDAGraph(), _capture_stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            work()
        except BaseException:
            with contextlib.suppress(RuntimeError):
                graph.capture_end()
            raise
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph


def _spoil(value: torch.Tensor) -> None:
    """Overwrite what a call left."""
    place = stored(value)
    if not place.numel():
        return
    if place.is_floating_point():
        bits(place).fill_(UNWRITTEN[place.element_size()])
    elif place.dtype is torch.bool:
        place.view(torch.uint8).fill_(GUARD_BYTE)
    else:
        place.fill_(-1 if place.dtype.is_signed else GUARD_BYTE)
