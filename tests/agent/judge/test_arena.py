from __future__ import annotations

import os

import pytest
import torch

from agent.judge.arena import GUARD, Memory, Wanted, contiguous_strides, lay_out, span_bytes


@pytest.fixture
def memory():
    made = []

    def make(layout):
        fd = os.memfd_create("test")
        os.ftruncate(fd, layout.size)
        made.append(Memory(fd, layout.size))
        os.close(fd)
        return made[-1]

    return make


WANTED = [
    Wanted("x", "float32", (5, 7), (7, 1)),
    Wanted("y", "bfloat16", (3,), (2,), 2),
    Wanted("out", "int64", (4, 4), (1, 4)),
]


def test_tensors_lie_between_guards_at_exactly_their_alignment(memory):
    layout = lay_out(WANTED)
    base = memory(layout).bytes.data_ptr()
    ends = [0]
    for item in WANTED:
        slot = layout.slots[item.name]
        assert (base + slot.offset) % item.alignment == 0
        assert (base + slot.offset) % (2 * item.alignment) != 0
        assert slot.offset - ends[-1] >= GUARD
        ends.append(slot.offset + slot.span)
    assert layout.size - ends[-1] >= GUARD


def test_a_write_beside_a_tensor_is_found(memory):
    layout = lay_out(WANTED)
    space = memory(layout)
    space.fill_guards(layout)
    assert space.broken_guard(layout) is None
    slot = layout.slots["y"]
    space.bytes[slot.offset + slot.span + 9] = 0
    assert space.broken_guard(layout) == ("y", 10)
    space.fill_guards(layout)
    space.bytes[slot.offset - 4] = 0
    assert space.broken_guard(layout) == ("y", -4)
    space.fill_guards(layout)
    space.bytes[layout.size - 1] = 0
    assert space.broken_guard(layout)[0] == "out"


def test_tensors_have_their_strides_and_share_the_memory(memory):
    layout = lay_out(WANTED)
    space = memory(layout)
    out = space.tensor(layout.slots["out"])
    out.copy_(torch.arange(16).view(4, 4))
    assert out.stride() == (1, 4)
    assert torch.equal(space.tensor(layout.slots["out"]), torch.arange(16).view(4, 4))
    assert space.address(layout.slots["out"]) == out.data_ptr()


def test_sizes():
    assert contiguous_strides((2, 3, 4)) == (12, 4, 1)
    assert span_bytes("float32", (2, 3), (10, 1)) == 4 * 13
    assert span_bytes("float32", (0, 3), (3, 1)) == 0
    assert span_bytes("float64", (), ()) == 8
