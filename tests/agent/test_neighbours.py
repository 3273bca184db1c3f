from __future__ import annotations

import math

import pytest

from agent.neighbours import choose, footprint, probe
from agent.task import ArgSpec, OutputSpec, TargetSpec


def by(*exponents: int):
    """A cost that grows with the given powers of the sizes."""
    return lambda sizes: math.prod(
        size**power for size, power in zip(sizes.values(), exponents, strict=True)
    )


def one(size: int, low: int, high: int, power: int = 1) -> list[int]:
    return [found["n"] for found in choose({"n": size}, {"n": (low, high)}, by(power))]


@pytest.mark.parametrize(
    ("size", "low", "high", "power", "expected"),
    [
        (4096, 1, 8192, 1, [1, 8192, 4095, 4097, 4093]),
        (4096, 1, 1 << 20, 1, [1, 16384, 4095, 4097, 4093]),
        (64, 1, 8192, 2, [1, 128, 63, 65, 61]),
        (96, 0, 200, 1, [0, 200, 95, 97, 101, 1]),
        (96, 32, 96, 1, [32, 95, 89]),
        (1, 1, 4, 1, [4, 2, 3]),
        (2, 0, 3, 1, [0, 3, 1]),
        (5, 5, 5, 1, []),
    ],
)
def test_sizes_of_one_dimension(
    size: int, low: int, high: int, power: int, expected: list[int]
) -> None:
    assert one(size, low, high, power) == expected


@pytest.mark.parametrize("size", [1, 2, 3, 17, 1000, 65536])
def test_never_more_than_six_in_range_and_affordable(size: int) -> None:
    for low, high in ((0, size), (1, 10 * size), (size, 100 * size)):
        if low <= size <= high:
            found = one(size, low, high)
            assert len(found) == len(set(found)) <= 6
            assert all(low <= value <= min(high, 4 * size) and value != size for value in found)


def test_several_dimensions_each_alone_and_one_joint() -> None:
    sizes = {"rows": 96, "cols": 32, "depth": 8}
    found = choose(sizes, {"rows": (1, 200), "cols": (32, 64), "depth": (8, 8)}, by(1, 1, 1))
    assert len(found) == 6
    changed = [{name for name in sizes if line[name] != sizes[name]} for line in found]
    assert changed[-1] == {"rows", "cols"}
    assert {frozenset(names) for names in changed[:-1]} == {
        frozenset({"rows"}),
        frozenset({"cols"}),
    }


def test_a_joint_size_that_takes_too_much_is_left_out() -> None:
    sizes = {"a": 1, "b": 1, "c": 1}
    found = choose(sizes, dict.fromkeys(sizes, (1, 2)), by(1, 1, 1))
    assert [sum(line.values()) for line in found] == [4, 4, 4]


def test_a_size_to_probe_at() -> None:
    assert [probe(96, (1, 200)), probe(96, (90, 200)), probe(96, (96, 200)), probe(0, (0, 9))] == [
        48, 90, 192, 1,
    ]  # fmt: skip


def spec(rows: int, cols: int) -> TargetSpec:
    x = ArgSpec("x", "input", "bfloat16", (rows // 8, cols), (1, 1))
    out = OutputSpec("out", "float32", (rows, rows), (1, 1))
    sizes = {"rows": rows, "cols": cols}
    return TargetSpec("t", "cpu", (x,), {}, (out,), 0, 0, 0, "", sizes)


def test_bytes_follow_from_two_sizes() -> None:
    here = spec(64, 10)
    cost = footprint(here, {"rows": spec(32, 10), "cols": spec(64, 5)})
    for rows, cols in ((64, 10), (128, 10), (64, 20), (8, 1)):
        assert cost({"rows": rows, "cols": cols}) == 2 * rows // 8 * cols + 4 * rows * rows
