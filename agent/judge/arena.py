"""Memory that the judge and the runner share, laid out by the judge, on whatever device.

Every tensor lies between guard bands. All guard bytes are 0xFF, which reads as NaN in every
floating-point dtype: what is read out of bounds spoils the answer, and what is written out of
bounds is seen afterwards. A tensor's address is a multiple of its declared alignment and of no
larger power of two, so a program that assumes more finds out here.
"""

from __future__ import annotations

import math
import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GUARD = 4096
GUARD_BYTE = 0xFF
# What floating-point outputs hold before a call, as integers by element size: also NaN, but not
# that of the guards, so that an element never written differs from one read out of bounds.
UNWRITTEN = {2: 0xFFF5 - 2**16, 4: 0xFFF5F5F5 - 2**32, 8: 0xFFF5F5F5F5F5F5F5 - 2**64}
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, slots=True)
class Slot:
    """One tensor's place: offset in bytes; strides in elements; bytes that its elements span."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    span: int

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "dtype": self.dtype,
            "shape": self.shape,
            "strides": self.strides,
            "offset": self.offset,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Slot:
        shape, strides = tuple(data["shape"]), tuple(data["strides"])
        return Slot(
            data["name"], data["dtype"], shape, strides, data["offset"],
            span_bytes(data["dtype"], shape, strides),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wanted:
    """A tensor to be placed; ``alignment`` in bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    alignment: int = 64


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything lies; ``guards`` are the byte ranges between the tensors."""

    slots: dict[str, Slot]
    guards: tuple[tuple[int, int], ...]
    size: int


def torch_dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(1, size)
    return tuple(reversed(strides))


def span_bytes(dtype: str, shape: Sequence[int], strides: Sequence[int]) -> int:
    """Bytes from the first element to the end of the last; 0 for an empty tensor."""
    if math.prod(shape) == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return int((last + 1) * torch_dtype(dtype).itemsize)


def lay_out(wanted: Iterable[Wanted]) -> Layout:
    """Place tensors one after another with guard bands of at least :data:`GUARD` bytes."""
    slots: dict[str, Slot] = {}
    guards: list[tuple[int, int]] = []
    end = 0
    for item in wanted:
        unit = 2 * item.alignment
        start = (end + GUARD + unit - 1) // unit * unit + item.alignment
        span = span_bytes(item.dtype, item.shape, item.strides)
        slots[item.name] = Slot(item.name, item.dtype, item.shape, item.strides, start, span)
        guards.append((end, start))
        end = start + span
    size = (end + GUARD + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
    guards.append((end, size))
    return Layout(slots, tuple(guards), size)


def bits(value: torch.Tensor) -> torch.Tensor:
    """The same memory as integers, so that NaN equals NaN and -0.0 differs from 0.0."""
    return value.view(_BITS[value.element_size()])


class Arena:
    """One block of memory of any device, with tensors in it.

    Args:
        whole: All of it as a uint8 tensor, which keeps the memory alive. Its address must be a
            multiple of twice the largest alignment laid out in it.
    """

    def __init__(self, whole: torch.Tensor) -> None:
        self.bytes = whole

    def tensor(self, slot: Slot) -> torch.Tensor:
        """The slot's tensor; it shares the memory, but for an empty one, which has none."""
        dtype = torch_dtype(slot.dtype)
        if not slot.span:
            return torch.empty_strided(
                slot.shape, slot.strides, dtype=dtype, device=self.bytes.device
            )
        # An offset is a multiple of the element's size, for an alignment is.
        return self.raw(slot).view(dtype).as_strided(slot.shape, slot.strides)

    def raw(self, slot: Slot) -> torch.Tensor:
        """The slot's bytes, gaps between elements included."""
        return self.bytes[slot.offset : slot.offset + slot.span]

    def address(self, slot: Slot) -> int:
        return int(self.bytes.data_ptr()) + slot.offset

    def settle(self) -> None:
        """Wait until all that was written is there for another process."""
        if self.bytes.is_cuda:
            torch.cuda.synchronize(self.bytes.device)

    def fill_guards(self, layout: Layout) -> None:
        for start, end in layout.guards:
            self.bytes[start:end].fill_(GUARD_BYTE)

    def broken_guard(self, layout: Layout) -> tuple[str, int] | None:
        """The first guard band that was written to: which tensor it belongs to, and how far off.

        Returns:
            A tensor's name and the distance in bytes: positive after its end, negative before
            its start; None when all guards are whole.
        """
        bands = [self.bytes[start:end] for start, end in layout.guards]
        # One question for all bands: each answer that the host waits for has its price.
        if not bool((torch.cat(bands) != GUARD_BYTE).any()):
            return None
        names = list(layout.slots)
        for index, band in enumerate(bands):
            changed = (band != GUARD_BYTE).nonzero()
            if not len(changed):
                continue
            first, last = int(changed[0]), int(changed[-1])
            after, before = first, len(band) - last
            if index and (index == len(names) or after <= before):
                return names[index - 1], after + 1
            return names[index], -before
        return None


class Memory(Arena):
    """A mapping of a shared file, for programs that run on the CPU."""

    def __init__(self, fd: int, size: int) -> None:
        super().__init__(torch.frombuffer(mmap.mmap(fd, size), dtype=torch.uint8))
