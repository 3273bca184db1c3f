"""A node's page: rungs with their evidence, whatever the evidence is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from forge_tui import checks, code, detail, pages
from forge_tui.glyphs import UNICODE
from forge_tui.model import Detail, Model, Update
from forge_tui.text import width
from store.reading import SessionReader
from store.rows import Program, VariantRow, VerdictRow
from tests.forge_tui.rows import node, session, target
from tests.forge_tui.saga import PLAN, SOURCE
from tests.forge_tui.test_text import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forge_tui.view import Line
    from store.rows import NodeRow
    from tests.forge_tui.saga import Saga


def text_of(lines: Sequence[Line]) -> str:
    return "\n".join("".join(text for text, _ in line) for line in lines)


def looked(saga: Saga, number: int) -> tuple[Detail, Model]:
    with SessionReader(saga.path) as reader:
        row = reader.node(number)
        assert row is not None
        samples = {v.id: len(reader.samples(v.id)) for v in reader.verdicts(number)}
        found = Detail(row, reader.program(row.program or ""), tuple(reader.variants(number)),
                       tuple(reader.verdicts(number)), tuple(reader.stream(number)),
                       samples)  # fmt: skip
        model = Model()
        model.apply(Update(reader.session(), "running", None, tuple(reader.targets()),
                           tuple(reader.nodes()), ()))  # fmt: skip
    return found, model


def first(saga: Saga, want: str) -> int:
    with SessionReader(saga.path) as reader:
        return next(
            row.id for row in reader.nodes()
            if row.state == want or row.rung == want or (want == "confirmed" and row.confirmed)
        )  # fmt: skip


def test_a_scored_node_shows_every_rung(saga: Saga) -> None:
    found, model = looked(saga, first(saga, "confirmed"))
    text = text_of(detail.summary(found, model, 64, UNICODE))
    for piece in ("✓ read", "✓ build", "2 variants in 0.84 s", "6 of 6 sets of inputs",
                  "25 pairs, call time, pages kept", "✓ confirm",
                  "LANES=16 BLOCK=16", "timed briefly", "building 0.84 s"):  # fmt: skip
        assert piece in text, piece


def test_a_node_that_failed_to_build_shows_the_compilers_words(saga: Saga) -> None:
    found, model = looked(saga, first(saga, "build"))
    text = text_of(detail.summary(found, model, 64, UNICODE))
    assert "failed at build" in text
    assert "✗ build" in text
    assert "○ check" in text
    assert "kernel.cpp:14:31: error: expected ';'" in text


def test_a_wrong_node_shows_where_it_was_wrong(saga: Saga) -> None:
    found, model = looked(saga, first(saga, "check"))
    text = text_of(detail.summary(found, model, 70, UNICODE))
    assert "✗ check" in text
    assert "expected 0.0312 got nan" in " ".join(text.split())
    assert "every 8th column" in text
    table = text_of(checks.checks(found, 70, UNICODE))
    assert "✗ wide range" in table
    assert "940%" in table
    assert "5 of 6 sets of inputs" in text


def test_a_live_node_shows_what_it_is_doing(saga: Saga) -> None:
    found, model = looked(saga, max(n for n in (39, 40)))
    text = text_of(detail.summary(found, model, 64, UNICODE))
    assert "building now" in text
    assert "● build" in text


EVIDENCE: list[Any] = [
    {}, {"families": None}, {"families": [None, 3, "x"]}, {"families": [{}]},
    {"families": [{"family": 7, "max_error": "big", "allowed": None, "ok": "yes"}]},
    {"pairs": "many", "allocator": {"a": 1}}, {"log": 5}, {"log": HOSTILE[9]},
    {"index": {"deep": [1] * 1000}, "got": HOSTILE[1]},
    {"families": [{"family": HOSTILE[3], "max_error": float("nan"), "ok": False}]},
]  # fmt: skip


@pytest.mark.parametrize("evidence", EVIDENCE, ids=range(len(EVIDENCE)))
@pytest.mark.parametrize("cells", [30, 64, 110])
@pytest.mark.parametrize(
    "row",
    [node(1), node(1, None, "failed"), node(1, None, "failed", rung="check")],
    ids=["scored", "build", "check"],
)
def test_any_evidence_is_shown_without_harm(row: NodeRow, cells: int, evidence: Any) -> None:
    failed = row.state == "failed"
    state, built = ("failed", None) if failed else ("judged", 0.5)
    variant = VariantRow(1, 1, "k", {HOSTILE[0]: 4}, state, row.rung, "c", HOSTILE[1], evidence,
                         built, None, None, 1, 1)  # fmt: skip
    verdict = VerdictRow(1, 1, 1, "k", "FASTER", 1, 2, 2.0, 1.9, 2.1, "call", 0, evidence, 1, 1)
    program = Program("k", HOSTILE[0], HOSTILE[2], HOSTILE[4], "t", 1)
    model = Model()
    model.apply(Update(session(), "running", None, (target(),), (row,), ()))
    found = Detail(row, program, (variant,), () if failed else (verdict,), ())
    lines = detail.summary(found, model, cells, UNICODE)
    lines += checks.checks(found, cells, UNICODE)
    for line in [*lines, *code.log(found), *code.code(found)]:
        text = "".join(piece for piece, _ in line)
        assert "\x1b" not in text
        assert "\n" not in text
    for line in lines:
        assert width("".join(piece for piece, _ in line)) <= cells


def test_target_and_group_pages(saga: Saga) -> None:
    _, model = looked(saga, 1)
    text = text_of(pages.target_summary(model.targets[2], model, 60, UNICODE))
    for piece in ("layer_norm", "speed of light", "weight     float32 2048", "reads 67.1 MB"):
        assert piece in text, piece
    failed = [row for row in model.nodes.values() if row.state == "failed"]
    page = text_of(pages.group_summary(failed, 60, UNICODE))
    assert "branches without use" in page
    assert f"#{failed[0].id}" in page


def test_refused_targets_show_the_cure() -> None:
    row = target(state="refused", reason="it is random", cure="seed it", eager_ns=None)
    text = text_of(pages.target_summary(row, Model(), 60, UNICODE))
    assert "it is random" in text
    assert "seed it" in text


def test_code_has_numbers_colours_and_the_plan() -> None:
    program = Program("k", "cpp", SOURCE, PLAN, "t", 1)
    lines = code.code(Detail(node(1), program, (), (), ()))
    assert "".join(text for text, _ in lines[0]).startswith("   1  // Row softmax")
    roles = {role for line in lines for _, role in line}
    assert {"code-comment", "code-key", "code-number", "code-pre"} <= roles
    assert 'kernel = "softmax"' in text_of(lines)


def test_highlighting_keeps_every_line() -> None:
    text = "\n\nint a;\n\n/* open\ncomment */ int b;\n\n"
    lines = code.highlight(text, "cpp")
    assert text_of(lines).rstrip() == text.rstrip()


def test_a_huge_source_is_shown_plain() -> None:
    lines = code.highlight("x" * 300_000, "cpp")
    assert all(role == "text" for line in lines for _, role in line)


def test_the_log_holds_streams_and_compiler_errors(saga: Saga) -> None:
    found, _ = looked(saga, first(saga, "build"))
    text = text_of(code.log(found))
    assert text.startswith("compiler\n")
    assert "build failed with LANES=8" in text
    assert "'value' was not declared" in text
    assert code.log(Detail(node(1), None, (), (), ())) == [(("nothing was logged", "muted"),)]


def test_a_target_page_has_one_line_for_each_time_and_the_measured_speedup() -> None:
    # Timed while the machine was busy: the time alone would say that it is slower than eager.
    best = node(5, time_ns=4_500_000, ratio=1.8, low=1.7, high=1.9)
    row = target(best_node=5, best_ratio=1.8, baselines={"eager": 4_000_000})
    model = Model()
    model.apply(Update(session(), "running", None, (row,), (best,), ()))
    text = text_of(pages.target_summary(row, model, 78, UNICODE))
    assert sum(line.startswith("eager") for line in text.split("\n")) == 1
    assert "1.80x" in next(line for line in text.split("\n") if line.startswith("best #5"))


def test_a_node_left_by_a_dead_engine_is_not_in_work_now(saga: Saga) -> None:
    found, model = looked(saga, 39)
    assert "timing now" in text_of(detail.summary(found, model, 78, UNICODE))
    model.state = "crashed"
    text = text_of(detail.summary(found, model, 78, UNICODE))
    assert "timing now" not in text
    assert "unfinished" in text
    assert "●" not in text


def test_long_lines_of_code_go_on_in_the_next_and_lose_nothing() -> None:
    line: Line = (("  12  ", "faint"), ("float x = " + "aé漢" * 40, "code-key"), (";", "text"))
    shown = code.folded([(("short", "text"),), line], 40)
    assert shown[0] == (("short", "text"),)
    assert all(width(text_of([one])) <= 40 for one in shown)
    joined = text_of(shown[1:2]) + "".join(text_of([one])[len(code.INDENT) :] for one in shown[2:])
    assert joined == text_of([line])
    assert code.folded([line], 3) == [line]


def test_long_lines_are_broken_at_a_space_where_there_is_one() -> None:
    shown = code.folded([(("some words that go on and on until then", "text"),)], 20)
    assert [text_of([one]) for one in shown] == [
        "some words that go ", "        on and on ", "        until then"
    ]  # fmt: skip


def test_the_log_names_who_wrote(saga: Saga) -> None:
    saga.writer.stream(39, "model", "an idea")
    found, _ = looked(saga, 39)
    assert text_of(code.log(found)).startswith("drafter\nan idea")
