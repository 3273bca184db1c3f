"""What a judge wrote down, as lines: complete, made to measure, harmless whatever it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from forge_tui import evidence
from forge_tui.glyphs import ASCII, UNICODE
from forge_tui.text import width
from tests.forge_tui.gpu_saga import ADVICE, BUILT, CONDITIONS, SANITIZER, families
from tests.forge_tui.test_text import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forge_tui.view import Line


def text_of(lines: Sequence[Line]) -> str:
    return "\n".join("".join(text for text, _ in line) for line in lines)


def test_sets_of_inputs_show_both_errors_and_neighbouring_sizes() -> None:
    rows = families()
    rows[2] |= {"ok": False, "worst": 3.2}
    rows[3] |= {"skipped": "needs two rows"}
    lines = evidence.families(rows, 76, UNICODE)
    text = text_of(lines)
    assert "of allowed" in text
    assert "special values @rows=4097" in text
    wrong = next(line for line in text.split("\n") if "heavy tails" in line)
    assert wrong.split() == ["✗", "heavy", "tails", "3.6e-03", "9.1e-04", "320%"]
    assert "constant rows" in text
    assert "skipped: needs two rows" in text
    many = evidence.families(rows * 20, 76, UNICODE)
    assert text_of(many[-1:]).strip() == f"({200 - evidence.MOST_FAMILIES} more)"


def test_kernels_show_what_limits_them() -> None:
    rows = text_of(evidence.kernels(BUILT, 76)).split("\n")
    assert rows[1].split() == ["softmax_rows", "40", "none", "2.05", "kB", "75%", "by", "registers"]
    assert rows[2].strip() == "loads of up to 16 bytes, stores of up to 16 bytes"
    assert "160 B" in rows[3]
    assert evidence.kernels_short(BUILT) == "168 registers, spills 160 B, occupancy 25%"
    calm = {"kernels": {"f": {"registers": 32, "spill_stores": 0, "spill_loads": 0}}}
    assert evidence.kernels_short(calm) == "32 registers, no spills"
    unknown = {"kernels": {"f": {"registers": 32}}}
    assert "no spills" not in evidence.kernels_short(unknown)
    apart = {"kernels": {"f": {"registers": 8}}, "occupancy": {"f": {"share": 0.5}}}
    assert "50%" in text_of(evidence.kernels(apart, 76))


def test_conditions_say_what_disturbed() -> None:
    text = text_of(evidence.conditions({"conditions": CONDITIONS, "others": 0.31}, 76))
    assert "clocks 1980 MHz, memory 2619 MHz, 41 C, 412 W" in text
    assert "clocks held down by: power cap" in text
    assert "other programs used 31% of the machine" in text
    quiet = {"conditions": {"sm_mhz": 1980, "throttle": ["idle"], "disturbed": ""}, "others": 0.02}
    assert text_of(evidence.conditions(quiet, 76)).strip() == "clocks 1980 MHz"
    shared = {
        "before": {"sm_mhz": 1},
        "after": {"sm_mhz": 2},
        "others": [{"pid": 7, "name": "python", "memory": 2e9}],
        "disturbed": "a neighbour",
    }
    text = text_of(evidence.conditions({"conditions": shared}, 76))
    assert "2 MHz" in text
    assert "python 7 (2.00 GB)" in text
    assert "disturbed: a neighbour" in text
    # On a GPU the share says no more than the reason does.
    text = text_of(evidence.conditions({"conditions": {"disturbed": "x"}, "others": 1.0}, 76))
    assert text.strip() == "disturbed: x"


def test_the_sanitizer_is_told_tool_by_tool() -> None:
    found = {**SANITIZER, "synccheck": "3 errors: barrier in divergent code"}
    lines = evidence.sanitizer(found, 76, UNICODE)
    assert [line[0][0].split()[0] for line in lines] == ["✓", "✓", "○", "✗"]
    assert "skipped: too slow" in text_of(lines)
    assert evidence.complaints(found) == ["synccheck"]
    assert evidence.complaints(SANITIZER) == []


def test_advice_has_finding_evidence_and_suggestion() -> None:
    lines = text_of(evidence.advice(ADVICE, 60, UNICODE)).split("\n")
    assert lines[0] == "• softmax_tail spills 160 bytes"
    assert lines[1].strip() == "168 registers of 168 allowed"
    assert lines[2].strip() == "try: fewer rows a thread, or launch bounds of 128"
    assert lines[3].startswith("• the grid of 96 blocks")


def test_short_texts_are_broken_between_them() -> None:
    lines = evidence.flowing(["writing 0.1 s", "building 12 s", "timing 10 s"], "muted", 30)
    assert text_of(lines) == "writing 0.1 s  building 12 s\ntiming 10 s"
    assert evidence.flowing([], "muted", 30) == []


ODD: list[Any] = [
    None, 7, "x", [], {}, [None, 7], {"a": {"b": 1}}, float("nan"), True, {"": [1] * 500},
    *HOSTILE,
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("cells", [30, 80])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_odd_evidence_is_harmless(odd: Any, cells: int, glyphs: Any) -> None:
    names = ("registers", "shared", "spill_stores", "occupancy", "share")
    detail = {"kernels": {"k": dict.fromkeys(names, odd), "other": odd}, "access": odd,
              "occupancy": {"k": odd}}  # fmt: skip
    states = ("sm_mhz", "throttle", "others", "disturbed", "before", "after", "power_w")
    lines: list[Line] = []
    for value in (odd, [odd, {"finding": odd, "evidence": odd, "suggestion": odd}]):
        lines += evidence.advice(value, cells, glyphs)
    for value in (odd, {"memcheck": odd, "tool " * 20: odd}):
        lines += evidence.sanitizer(value, cells, glyphs)
        evidence.complaints(value)
    for value in (odd, detail):
        lines += evidence.kernels(value, cells)
        assert "\n" not in evidence.kernels_short(value)
    for value in (odd, {"conditions": odd}, {"conditions": dict.fromkeys(states, odd)}):
        lines += evidence.conditions(value, cells)
    rows = evidence.family_rows({"families": [odd, dict.fromkeys(("family", "worst", "ok"), odd)]})
    lines += evidence.families(rows, cells, glyphs)
    lines += evidence.failure({"log": odd, "code": odd}, cells)
    for line in lines:
        text = "".join(piece for piece, _ in line)
        assert "\x1b" not in text
        assert "\n" not in text
        assert width(text) <= cells + 8
