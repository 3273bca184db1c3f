"""Numbers as people read them."""

from __future__ import annotations

import pytest

from forge_tui import figures


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (812, "812 ns"), (8_134, "8.13 us"), (81_340, "81.3 us"), (999_499, "999 us"),
     (999_600, "1.00 ms"), (4_000_000, "4.00 ms"), (1_200_000_000, "1.20 s"), (None, "-"),
     (-5, "-"), (float("nan"), "-")],
)  # fmt: skip
def test_time(ns: float | None, text: str) -> None:
    assert figures.time_of(ns) == text
    assert len(text) <= 7


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(2.3149, "2.31x"), (12.44, "12.4x"), (104.2, "104x"), (0.871, "0.87x"), (9.997, "10.0x"),
     (None, "-"), (float("inf"), "-")],
)  # fmt: skip
def test_speedup(ratio: float | None, text: str) -> None:
    assert figures.speedup(ratio) == text


def test_spans() -> None:
    assert [figures.clock(s) for s in (7, 62, 3723)] == ["0:07", "1:02", "1:02:03"]
    assert [figures.span(s) for s in (7, 200, 7300, 500_000)] == ["7 s", "3 min", "2 h", "6 d"]


def test_errors_of_any_type_are_shown() -> None:
    assert figures.error_of(1.19e-7) == "1.2e-07"
    assert figures.error_of(0) == "0"
    assert figures.error_of(float("inf")) == "inf"
    assert figures.error_of("many") == "many"
    assert figures.error_of(None) == "-"
    assert figures.error_of(True) == "True"


def test_intervals_percents_money_sizes() -> None:
    assert figures.interval(2.251, 2.382) == "[2.25, 2.38]"
    assert figures.interval(None, 1.0) == ""
    assert figures.percent(0.584) == "58%"
    assert figures.percent(None) == "-"
    assert figures.dollars(1_234_500) == "$1.23"
    assert figures.size_of(67_108_864) == "67.1 MB"
    assert figures.count_of(1, "node") == "1 node"
    assert figures.count_of(2, "family", "families") == "2 families"


def test_amounts_and_tokens_have_as_many_digits_as_matter() -> None:
    amounts = (0, 12, 13_450, 420_000, 12_400_000, 1_234_567_890)
    assert [figures.dollars(micro) for micro in amounts] == [
        "$0", "$0.000012", "$0.0135", "$0.42", "$12.40", "$1,234.57",
    ]  # fmt: skip
    assert [figures.tokens(count) for count in (0, 812, 9_812, 182_000, 1_200_000)] == [
        "0", "812", "9.81k", "182k", "1.20M",
    ]  # fmt: skip
