"""What calls cost and what failures taught, as people and programs read it."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from forge_tui.cli import Commands
from forge_tui.figures import dollars
from forge_tui.spending import COMMANDS
from store.machine import MachineStore
from store.paths import machine_path
from tests.store import story

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

pytestmark = pytest.mark.usefixtures("home")

GROUP = Commands(commands={command.name or "": command for command in COMMANDS})
HEAVY = ("textual", "sqlite_utils", "rich", "torch", "litellm", "networkx", "agent")


def ask(*args: str, code: int = 0) -> Result:
    done = CliRunner().invoke(GROUP, list(args), prog_name="forge-tui")
    assert done.exit_code == code, done.output
    return done


def searched() -> Path:
    """A win by a model with a price, a try by one without, a node of the drafter."""
    path, writer = story.begin()
    story.node(writer, None, ratio=1.2, action="draft")
    first = story.node(writer, None, ratio=2.0, action="draft", writer_name="model",
                       model="a/paid", title="=1+1 [b]x[/b]\x1b[2J")  # fmt: skip
    second = story.node(writer, first, ratio=None, writer_name="model", model="b/free")
    story.asked(writer, first, model="a/paid", action="draft", state="failed", cost=0,
                tokens=(0, 0), reply=None, error="model-rate", tokens_cached=0)  # fmt: skip
    story.asked(writer, first, model="a/paid", action="draft", cost=25_000, attempt=2,
                tokens_reasoning=150)  # fmt: skip
    story.asked(writer, second, model="b/free", cost=None, estimated=True)
    story.asked(writer, second, model="a/paid", cost=5_000, state="lost", reply=None)
    writer.emit("NodeConfirmed", target=1, node=first, variant=first, ok=True, outcome="FASTER",
                ratio=2.0, low=1.9, high=2.1, reason="")  # fmt: skip
    writer.close()
    return path


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def of(by: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(ask("costs", "--by", by, "--json").output)
    return told


def test_costs_by_model_say_unknown_and_never_nothing() -> None:
    searched()
    head, drafter, paid, free, blank, summary = ask("costs").output.splitlines()
    assert cells(head) == ["writer", "model", "calls", "failed", "in", "cached", "out", "cost",
                           "nodes", "wins", "per node", "per win"]  # fmt: skip
    assert cells(drafter) == ["drafter", "0", "0", "0", "0", "0", "$0", "1", "0", "$0", "-"]
    assert cells(paid) == ["model", "a/paid", "3", "1", "2,000", "200", "400", "$0.03", "1",
                           "1", "$0.03", "$0.03"]  # fmt: skip
    assert cells(free) == ["model", "b/free", "1", "0", "1,000", "100", "200", "unknown", "1",
                           "0", "unknown", "-"]  # fmt: skip
    assert blank == ""
    assert summary == (
        "known cost $0.03; 1 call of unknown price; 1 call lost with an engine, at what was set "
        "aside; tokens of 1 call estimated"
    )


def test_a_line_with_known_and_unknown_costs_says_both() -> None:
    searched()
    (line,) = ask("costs", "--by", "target").output.splitlines()[1:2]
    assert "$0.03 + 1 unknown" in line
    assert cells(line)[-2:] == ["unknown", "unknown"]
    actions = [cells(text)[0] for text in ask("costs", "--by", "action").output.splitlines()[1:3]]
    assert actions == ["draft", "improve"]


def test_costs_by_node_and_by_call() -> None:
    searched()
    told = ask("costs", "--by", "node").output
    assert "\x1b" not in told
    _, _, second, third, *_ = told.splitlines()
    assert cells(second)[:9] == [
        "2", "softmax", "draft", "a/paid", "2", "1", "1,000", "100", "200",
    ]  # fmt: skip
    assert cells(second)[9:12] == ["$0.0250", "2.00x", "confirmed"]
    # The lost call of another model is this node's too.
    assert "$0.0050 + 1 unknown" in third
    by_call = ask("costs", "--by", "call").output.splitlines()
    assert [cells(line)[6] for line in by_call[1:5]] == ["failed", "paid", "paid", "lost"]
    assert by_call[1].endswith("model-rate")
    assert "unknown" in by_call[3]
    assert "$0.0050" in by_call[4]


def test_costs_in_flight_are_at_most_what_is_set_aside() -> None:
    _, writer = story.begin()
    number = story.node(writer, None, ratio=2.0, writer_name="model", model="some/model")
    story.asked(writer, number, state="reserved")
    story.asked(writer, number, state="reserved", cost=None)
    told = ask("costs", "--by", "call").output.splitlines()
    assert "up to $0.0050" in told[1]
    assert "unknown" in told[2]
    assert told[-1] == "known cost $0; 2 calls in flight, set aside: $0.0050"
    assert of("call")["total"]["in_flight"] == 2
    writer.close()


@pytest.mark.parametrize("by", ["target", "action", "model", "node", "call"])
def test_csv_and_json_have_the_same_lines(by: str) -> None:
    searched()
    told = of(by)
    rows = list(csv.DictReader(io.StringIO(ask("costs", "--by", by, "--csv").output)))
    assert len(rows) == len(told["lines"]) > 0
    for row, line in zip(rows, told["lines"], strict=True):
        assert list(row) == list(line)
        unknown = line["micro_dollars"] is None
        assert row["micro_dollars"] == ("unknown" if unknown else str(line["micro_dollars"]))
    assert told["total"]["micro_dollars"] == 30_000
    assert told["total"]["unpriced"] == 1
    assert told["total"]["micro_dollars_per_win"] is None


def test_what_would_be_a_formula_in_a_spreadsheet_is_none() -> None:
    searched()
    rows = list(csv.DictReader(io.StringIO(ask("costs", "--by", "node", "--csv").output)))
    assert rows[1]["title"] == "'=1+1 [b]x[/b]"
    assert of("node")["lines"][1]["title"] == "=1+1 [b]x[/b]"


def test_costs_of_a_session_from_before_the_calls() -> None:
    path = searched()
    story.as_second_schema(path)
    assert "$0.03 + 1 unknown" in ask("costs", "--by", "target").output
    assert len(of("call")["lines"]) == 4


def test_costs_of_a_session_that_asked_nobody() -> None:
    _, writer = story.begin()
    assert (
        ask("costs", "--by", "call").output == "nobody was asked for a program\n\nknown cost $0\n"
    )
    assert ask("costs", "--by", "call", "--csv").output == ""
    writer.close()


def test_costs_of_a_damaged_ledger_are_one_line_of_error() -> None:
    path = searched()
    conn = sqlite3.connect(path)
    conn.execute("UPDATE model_calls SET micro_dollars = 'much' WHERE id = 2")
    conn.commit()
    conn.close()
    for by in ("model", "node", "call"):
        told = ask("costs", "--by", by, code=1).stderr
        assert "Traceback" not in told
        assert path.name in told


def test_csv_and_json_at_once_are_refused() -> None:
    searched()
    assert "choose one" in ask("costs", "--csv", "--json", code=2).stderr


@pytest.mark.parametrize(
    ("micro", "text"),
    [(0, "$0"), (1, "$0.000001"), (99, "$0.000099"), (135, "$0.0001"), (13_512, "$0.0135"),
     (1_000_000, "$1.00"), (1_234_567_890, "$1,234.57"), (0.25, "<$0.000001")],
)  # fmt: skip
def test_money_has_as_many_digits_as_matter(micro: float, text: str) -> None:
    assert dollars(micro) == text


# -- rules -----------------------------------------------------------------------------------------


def learned() -> None:
    store = MachineStore(machine_path())
    for _ in range(3):
        store.learn("gpu-1", "cuda", "build:float5", "there is no type float5")
    store.learn("gpu-1", "cuda", "refused header", "include no header")
    store.learn("cpu|x", "cpp", "refused header", "include no header at all")
    store.close()


def test_rules_machine_by_machine_the_most_frequent_first() -> None:
    learned()
    told = ask("rules").output.splitlines()
    assert told[0] == "gpu-1"
    assert cells(told[1]) == ["seen", "last", "key", "language", "rule"]
    assert cells(told[2])[0] == "3"
    assert cells(told[2])[2:] == ["build:float5", "cuda", "there is no type float5"]
    assert told[4:6] == ["", "cpu|x"]
    (first, *_) = json.loads(ask("rules", "--json").output)
    assert (first["key"], first["count"], first["muted"]) == ("build:float5", 3, False)


def test_rules_are_muted_unmuted_and_forgotten_by_the_beginning_of_their_key() -> None:
    learned()
    assert ask("rules", "mute", "build:f").output == "muted build:float5\n"
    assert "(muted) there is no type float5" in ask("rules").output
    assert ask("rules", "unmute", "build:float5").output == "unmuted build:float5\n"
    assert "(muted)" not in ask("rules").output
    # A key means the rule on every machine; its spaces need no quotes.
    assert ask("rules", "rm", "refused", "header").output == "forgot refused header\n"
    assert [rule["key"] for rule in json.loads(ask("rules", "--json").output)] == ["build:float5"]


def test_rules_that_are_none_or_several_are_refused() -> None:
    assert "nothing was learned" in ask("rules").stderr
    assert "no rule" in ask("rules", "rm", "x", code=1).stderr
    assert not machine_path().exists()
    learned()
    store = MachineStore(machine_path())
    store.learn("gpu-1", "cuda", "build:half3", "there is no type half3")
    store.close()
    told = ask("rules", "mute", "build:", code=1).stderr
    assert "build:float5, build:half3" in told
    assert "no rule ''" in ask("rules", "mute", "", code=1).stderr
    assert len(json.loads(ask("rules", "--json").output)) == 4


def test_neither_command_imports_what_is_heavy(home: Path) -> None:
    path = searched()
    learned()
    code = (
        "import sys\n"
        "from forge_tui.spending import COMMANDS, costs, rules\n"
        f"costs.main([{str(path)!r}], standalone_mode=False)\n"
        "rules.main([], standalone_mode=False)\n"
        f"print(sorted(set(sys.modules) & set({HEAVY!r})))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
