"""The Prompt tab and what is said of costs: nothing that nobody knows is told as a number."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from forge_tui import asked, budget, code, status, words
from forge_tui.glyphs import ASCII, UNICODE
from forge_tui.model import Detail, Model, Update
from forge_tui.text import width
from store.reading import SessionReader
from store.rows import CallRow, PromptText, ReplyText, Spending
from tests.forge_tui import model_saga
from tests.forge_tui.rows import node, session
from tests.forge_tui.test_detail import text_of
from tests.forge_tui.test_text import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def told(home: Path) -> Iterator[model_saga.ModelSaga]:
    saga = model_saga.told()
    yield saga
    saga.close()


def look(path: Path, number: int) -> Detail:
    with SessionReader(path) as reader:
        row = reader.node(number)
        assert row is not None
        calls = tuple(reader.calls(number))
        prompts = {key: reader.prompt(key) for key in {call.prompt for call in calls} if key}
        replies = {call.id: reader.reply(call.id) for call in calls}
        return Detail(
            row, None, (), (), tuple(reader.stream(number)), calls=calls,
            prompts={key: text for key, text in prompts.items() if text},
            replies={call: text for call, text in replies.items() if text},
        )  # fmt: skip


def page(path: Path, number: int, *, whole: bool = False) -> str:
    return text_of(asked.asked(look(path, number), UNICODE, whole=whole))


def test_each_call_is_told_with_what_it_took(told: model_saga.ModelSaga) -> None:
    text = page(told.path, 2)
    assert "── call 1 of 2, anthropic/claude-sonnet-4\nfailed, model-rate   $0\n" in text
    assert "nothing came back" in text
    assert "call 2 of 2, anthropic/claude-sonnet-4, attempt 2\nreplied, 12 s   $0.0135" in text
    assert "tokens 9,812 in (8,192 cached), 2,113 out (1,024 reasoning)" in text
    assert text.count("A new approach, unlike those tried.") == 1
    assert "sent: the same as in call 1" in text
    assert text.index("thinking\n") < text.index("reply\nOne pass online")
    assert "a person's hint: try 32 lanes" in text


def test_instructions_are_folded_until_they_are_asked_for(told: model_saga.ModelSaga) -> None:
    assert "Rule 59." not in page(told.path, 2)
    assert "61 lines, space shows them" in page(told.path, 2)
    assert "Rule 59." in page(told.path, 2, whole=True)


def test_unknown_lost_and_open_calls_have_words_and_not_numbers(
    told: model_saga.ModelSaga,
) -> None:
    assert "price unknown" in page(told.path, 3)
    assert "estimated by us" in page(told.path, 3)
    text = page(told.path, 4)
    assert "lost with its engine   $0.0310 counts as spent" in text
    assert "to put its reply right" in text
    assert "in flight   at most $0.0310" in page(told.path, 5)
    assert "the Log tab shows it" in page(told.path, 5)
    assert page(told.path, 1) == "the drafter wrote this program: no model was asked"


def test_prompts_that_are_not_read_yet_are_not_told_as_missing(
    told: model_saga.ModelSaga,
) -> None:
    found = replace(look(told.path, 2), prompts=None, replies={})
    text = text_of(asked.asked(found, UNICODE, whole=False))
    assert text.endswith("reading")
    gone = text_of(asked.asked(replace(found, prompts={}), UNICODE, whole=False))
    assert "what was sent is not stored" in gone


def call(**more: Any) -> CallRow:
    values: dict[str, Any] = dict.fromkeys(CallRow.__dataclass_fields__)
    values |= {"id": 1, "target": 1, "node": 1, "model": "m", "state": "paid", "at_us": 1, "rev": 1}
    return CallRow(**(values | more))


@pytest.mark.parametrize(
    ("of", "words_"),
    [
        ({"micro_dollars": 12_400_000}, "$12.40"),
        ({"micro_dollars": 0}, "$0"),
        ({"micro_dollars": 500, "estimated": 1}, "$0.0005 estimated"),
        ({}, "price unknown"),
        ({"state": "lost"}, "price unknown"),
        ({"state": "lost", "micro_dollars": 31_000}, "$0.0310 counts as spent"),
        ({"state": "reserved"}, "price unknown"),
        ({"state": "reserved", "writer": "inbox"}, ""),
        ({"state": "answered", "writer": "inbox"}, "no price: not a model's"),
    ],
)
def test_a_calls_cost_in_words(of: dict[str, Any], words_: str) -> None:
    assert asked.cost_of(call(**of)) == words_


@pytest.mark.parametrize(
    ("micro", "unknown", "short", "long"),
    [
        (0, 0, "", "$0/$2"),
        (0, 2, "unknown", "unknown in 2 calls"),
        (420_000, 0, "$0.42", "$0.42/$2"),
        (420_000, 3, "$0.42?", "$0.42/$2 + 3 unknown"),
        (12, 0, "<$.0001", "$0.000012/$2"),
        (123_456_000_000, 1, "$123,456.00?", "$123,456.00/$2 + 1 unknown"),
    ],
)
def test_costs_of_a_node_and_of_a_session(micro: int, unknown: int, short: str, long: str) -> None:
    assert words.node_cost(node(1, micro_dollars=micro, unpriced=unknown)) == short
    assert words.paid(micro, unknown, "/$2") == long


def modelled(spending: Spending, **config: Any) -> Model:
    row = session()
    config = {**row.config, "models": [{"name": "m"}], **config}
    model = Model()
    won = (node(1, confirmed=1), node(2, confirmed=1), node(3))
    model.apply(Update(replace(row, config=config), "running", None, (), won, (), spending))
    return model


SPENT = Spending(14, 420_000, 2, 60_000, 40_000, 0, 1, 160_000, 22_000, 90_000, 8_000, 0)


def line(model: Model, cells: int = 160) -> str:
    return "".join(text for text, _ in status.status(model, cells, UNICODE, 0))


def test_the_status_line_has_money_tokens_and_calls_in_flight() -> None:
    text = line(modelled(SPENT))
    assert "$0.42/$2.00   " in text  # nobody gave a cap: that of the defaults
    assert "182k tokens" in text
    assert "2 calls in flight" in text
    some = replace(SPENT, unpriced=3)
    assert "$0.42/$0.50 + 3 unknown" in line(modelled(some, dollars=0.5))
    assert "$0.42 + 3 unknown" in line(modelled(some, dollars=0.5), 58)
    assert "cost unknown in 3 calls" in line(modelled(replace(some, micro_dollars=0)))
    assert "$" not in line(modelled(Spending(*[0] * 12), models=[]))


@pytest.mark.parametrize("cells", [50, 80, 160])
def test_a_replay_says_so_at_any_width(cells: int) -> None:
    model = modelled(Spending(*[0] * 12), models=[], replay={"from": "softmax-ab12", "replies": []})
    assert "REPLAY of softmax-ab12" in line(model, cells)
    assert "nothing: replies come from a recording" in text_of(budget.budget(model, 60, UNICODE))


@pytest.mark.parametrize("cells", [30, 51, 80])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_the_budget_has_every_cap_and_what_a_win_has_cost(cells: int, glyphs: Any) -> None:
    lines = budget.budget(modelled(SPENT, tokens=500_000, calls=50), cells, glyphs)
    assert all(width("".join(text for text, _ in line)) == cells for line in lines)
    if cells < 50:
        return
    text = text_of(lines)
    for piece in ("$0.42 of $2.00", "182k of 500k (22.0k out)", "14 of 50, 1 lost",
                  "2 calls in flight, at most $0.06", "$0.21 each (2 wins)"):  # fmt: skip
        assert piece in text, piece
    unknown = text_of(budget.budget(modelled(replace(SPENT, unpriced=1)), cells, glyphs))
    assert "cost unknown (2 wins)" in unknown


def test_the_log_joins_pieces_and_dims_what_is_thought(told: model_saga.ModelSaga) -> None:
    lines = code.log(look(told.path, 2))
    assert lines[0] == (("thinking", "head"),)
    assert lines[1] == ((model_saga.THINKING, "faint"),)
    assert lines[2] == ((model_saga.MODEL, "head"),)
    assert lines[3] == (("One pass online, 16 lanes", "text"),)
    assert (("#include <algorithm>", "text"),) in lines  # it came in two pieces


def test_hostile_prompts_and_replies_are_harmless() -> None:
    for text in HOSTILE:
        one = call(model=text, writer=text, purpose=text, error=text, finish=text, prompt="k",
                   state=text, attempt=2)  # fmt: skip
        found = Detail(
            node(1, writer=text, hint=text), None, (), (), (), calls=(one,),
            prompts={"k": PromptText("k", text, text, 1)},
            replies={1: ReplyText(1, 1, text, text, 1)},
        )  # fmt: skip
        for whole in (True, False):
            for shown in asked.asked(found, UNICODE, whole=whole):
                assert "\x1b" not in text_of([shown])
                assert "\n" not in text_of([shown])
