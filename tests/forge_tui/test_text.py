"""Foreign text: no control codes, bounded, exactly as wide as asked."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from forge_tui.text import MAX_LINE, clean, clip, fit, lines, one_line, width, wrap

HOSTILE = [
    "[/x] [bold red]not markup[/]",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1bP1$r\x1b\\",
    "\x9b31m C1 \x85 \x00 \x7f bell \x07",
    "right to left \u202e override \u2066 isolate \u200b zero \ufeff",
    "wide 漢字かな 한글 and e\u0301\u0301\u0301 combining",
    "lone \ud800 surrogate",
    "a\rb\r\nc\u2028d",
    "\x1b[" + "9" * 5000 + "m",
    "\x1b]52;c;" + "A" * 100_000,
    "x" * 100_000,
    "漢" * 100_000,
]


def harmless(text: str) -> bool:
    bad = [*range(0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000), *range(0x202A, 0x202F)]
    return not (set(text) & (set(map(chr, bad)) - set("\n\t")))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_tamed(text: str) -> None:
    started = time.perf_counter()
    assert harmless(clean(text))
    line = one_line(text, 200)
    assert "\n" not in line
    assert len(line) <= 200
    assert all(len(row) <= MAX_LINE and harmless(row) for row in lines(text))
    assert cell_len(fit(line, 30)) == 30
    assert time.perf_counter() - started < 1.0


def test_escape_sequences_leave_with_their_content() -> None:
    assert clean("\x1b[1;31mred\x1b[0m") == "red"
    assert clean("\x1b]0;a title\x07after") == "after"


def test_markup_is_only_text() -> None:
    assert one_line("[/x] [bold]") == "[/x] [bold]"


@given(st.text(max_size=60), st.integers(1, 40))
@settings(max_examples=300, deadline=None)
def test_fit_is_exact(text: str, cells: int) -> None:
    text = one_line(text)
    assert width(fit(text, cells)) == cells
    assert width(fit(text, cells, right=True)) == cells
    assert width(clip(text, cells)) <= cells


@given(st.text(max_size=200), st.integers(2, 40))
@settings(max_examples=200, deadline=None)
def test_wrapped_lines_fit(text: str, cells: int) -> None:
    for line in wrap(clean(text), cells):
        assert width(line) <= cells


def test_wrap_keeps_words_and_paragraphs() -> None:
    assert wrap("one two three\nfour", 7) == ["one two", "three", "four"]


def test_lines_are_bounded_in_number() -> None:
    kept = lines("\n".join("abc"), most=2)
    assert kept == ["a", "b", "(1 more lines are not shown)"]


def test_tabs_are_expanded() -> None:
    assert lines("\tx") == ["    x"]
