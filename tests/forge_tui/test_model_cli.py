"""Commands about models: what ``run`` starts, replays, hints, lists of models, how it is told."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from forge_tui import cli, launch, plain, providers, steering
from forge_tui.cli import main
from store import sessions
from store.lock import engine_alive
from store.reading import SessionReader
from tests.forge_tui import model_saga
from tests.forge_tui.conftest import engine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

    from tests.forge_tui.saga import Saga


def ask(*args: str) -> Result:
    return CliRunner().invoke(main, list(args), prog_name="forge-tui")


@pytest.fixture
def told(home: Path) -> Iterator[model_saga.ModelSaga]:
    saga = model_saga.told()
    yield saga
    saga.close()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Engines that are started finish at once."""
    real = launch.launch
    for module in (cli, steering):
        monkeypatch.setattr(module, "launch", lambda path, say: real(path, say, engine("finish")))


def newest() -> dict[str, Any]:
    with SessionReader(sessions.find(None)) as reader:
        return reader.session().config


def test_run_with_models_says_so_and_keeps_what_was_asked(started: None) -> None:
    result = ask("run", "suite:softmax", "--headless", "--model", "anthropic/claude-sonnet-4",
                 "--dollars", "1.5", "--drafts", "0")  # fmt: skip
    assert "models   anthropic/claude-sonnet-4" in result.stderr
    config = newest()
    assert config["models"][0]["name"] == "anthropic/claude-sonnet-4"
    assert (config["dollars"], config["tokens"], config["drafts"]) == (1.5, None, 0)
    assert config["replay"] is None


def test_run_with_an_inbox_says_where_it_is(started: None, home: Path) -> None:
    result = ask("run", "suite:softmax", "--headless", "--exit-when-waiting", "--inbox")
    path = sessions.find(None)
    folder = home / "sessions" / "inbox" / path.name.removesuffix(".forge.db")
    assert f"inbox    {folder}" in result.stderr
    assert (newest()["inbox"], newest()["exit_when_waiting"]) == ("inbox", True)
    assert json.loads(ask("status", "--json").stdout)["inbox"] == str(folder)


def test_what_contradicts_itself_makes_no_session(started: None) -> None:
    result = ask("run", "suite:softmax", "--headless", "--price", "1/2")
    assert result.exit_code == 1
    assert "--price is about models" in result.stderr
    assert sessions.paths() == []


def test_a_replay_takes_what_is_not_given_from_the_saved_session(saga: Saga, started: None) -> None:
    saga.close()
    name = saga.path.name.removesuffix(".forge.db")
    result = ask("run", "--headless", "--replay", name, "--nodes", "7", "--seed", "0")
    assert f"REPLAY of {name}: its programs are judged again" in result.stderr
    config = newest()
    assert config["tasks"] == ["suite:softmax", "suite:layer_norm", "suite:silu_mul"]
    assert (config["nodes"], config["patience"]) == (7, 10)
    assert config["replay"]["from"] == name
    assert len(config["replay"]["replies"]) == 40
    text = ask("status").stdout
    assert text.startswith(f"REPLAY of {name}")
    found = json.loads(ask("status", "--json").stdout)
    assert found["replay_of"] == name
    assert found["config"]["replay"]["replies"] == 40


def test_a_replay_of_other_tasks_leaves_the_rest_as_it_was(saga: Saga, started: None) -> None:
    saga.close()
    ask("run", "suite:softmax", "--headless", "--replay", str(saga.path), "--device", "cpu")
    assert newest()["tasks"] == ["suite:softmax"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--replay", "nope"], "no session"),
        (["--replay", "sample:nope"], "no sample"),
        ([], "name a TASK"),
    ],
)
def test_a_replay_needs_a_recording(home: Path, args: list[str], words: str) -> None:
    result = ask("run", "--headless", *args)
    assert result.exit_code != 0
    assert words in result.stderr


def test_status_tells_what_is_known_and_what_is_not(told: model_saga.ModelSaga) -> None:
    text = ask("status").stdout
    assert f"models   {model_saga.MODEL}, {model_saga.LOCAL}" in text
    assert "cost     $0.0566 of $2.00 + 1 unknown, $0.0930 set aside for calls in flight" in text
    assert "tokens   49,060 in (32,768 cached), 8,452 out (4,096 of them thinking)" in text
    assert (
        "calls    9 calls, 3 in flight, 1 of unknown price, 1 lost with an engine, 1 with" in text
    )
    found = json.loads(ask("status", "--json").stdout)
    assert (found["spending"]["micro_dollars"], found["spending"]["unpriced"]) == (56_550, 1)
    assert "+ 1 unknown" in ask("ls").stdout


def test_a_session_without_models_has_cost_nothing(saga: Saga) -> None:
    assert "cost     nothing: no model was asked" in ask("status").stdout


def test_the_inbox_is_told_of_in_plain_lines(home: Path) -> None:
    saga, folder = model_saga.posted()
    with SessionReader(saga.path) as reader:
        lines = plain._waiting(reader)
    saga.close()
    assert lines[0] == f"#1 waits for a reply: {folder}/0001-draft-softmax.reply.md"
    assert len(lines) == 2


def test_a_search_that_ends_to_wait_has_its_own_exit_code(home: Path, capsys: Any) -> None:
    saga, folder = model_saga.posted(exit_when_waiting=True)
    saga.emit("EngineStopped", state="stopped", reason="it waits for 2 replies")
    saga.close()
    assert plain.follow(saga.path, stop_on_signal=False) == plain.WAITS == 3
    said = capsys.readouterr().err
    assert f"replies are waited for in {folder}" in said
    assert f"forge-tui resume {folder.name}" in said
    assert "error" not in said


def test_a_person_who_stops_it_is_another_matter(home: Path, capsys: Any) -> None:
    saga, _ = model_saga.posted()
    saga.emit("EngineStopped", state="stopped", reason="a person stopped it")
    saga.close()
    assert plain.follow(saga.path, stop_on_signal=False) == 1
    assert "a person stopped it" in capsys.readouterr().err


def test_hints_are_for_nodes_and_for_targets(told: model_saga.ModelSaga) -> None:
    name = told.path.name.removesuffix(".forge.db")
    told.close()
    assert not engine_alive(told.path)
    for where, about in (("2", {"node": 2}), ("#2", {"node": 2}), ("softmax", {"target": 1})):
        result = ask("hint", name, where, "try", "32 lanes\x1b[31m")
        assert result.exit_code == 0, result.stderr
        assert "applies when the search is resumed" in result.stdout
        rows = told_commands(told.path)
        assert rows[-1] == ("hint", about | {"text": "try 32 lanes"})
    for args, words in (
        (("99", "x"), "no node or target 99"), (("nope", "x"), "its targets: softmax"),
        (("2", " "), "needs words"), (("2", "x" * 2000), "longer than"),
    ):  # fmt: skip
        result = ask("hint", name, *args)
        assert result.exit_code == 1
        assert words in result.stderr


def told_commands(path: Path) -> list[tuple[str, dict[str, Any]]]:
    with SessionReader(path) as reader:
        rows = reader.conn.execute("SELECT verb, args FROM commands ORDER BY id").fetchall()
    return [(verb, json.loads(args)) for verb, args in rows]


# -- models ----------------------------------------------------------------------------------------

ROW = {"model": "anthropic/claude-sonnet-4", "provider": "anthropic", "in": 3.0, "out": 15.0,
       "cached": 0.3, "context": 200_000, "output": 64_000, "key": "set"}  # fmt: skip
BARE = {"model": "openai/qwen", "provider": "http://x", "in": None, "out": None, "cached": None,
        "context": None, "output": None, "key": "none needed"}  # fmt: skip
TESTED = {"model": "m", "ok": True, "text": "Yes", "tokens in": 21, "tokens out": 1, "notes": "",
          "estimated": False, "dollars": 0.000078, "seconds": 0.8, "price": None}  # fmt: skip


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the engine's side say these lines; ``asked`` is what it was asked."""

    def choose(*lines: dict[str, Any]) -> None:
        def spoken(asked: list[str], **more: Any) -> Any:
            choose.asked = asked  # type: ignore[attr-defined]
            yield from lines

        monkeypatch.setattr(providers, "spoken", spoken)

    return choose


def test_models_are_listed_with_prices_and_what_is_not_known(says: Any) -> None:
    says(ROW, BARE)
    result = ask("models", "--api-base", "http://x", "--all")
    assert says.asked == ["models", "--api-base", "http://x", "--all"]
    assert result.exit_code == 0
    head, first, second, *_ = result.stdout.splitlines()
    assert head.split() == ["model", "in", "cached", "out", "context", "reply", "key"]
    assert first.split() == [ROW["model"], "3", "0.3", "15", "200,000", "64,000", "set"]
    assert second.split()[1:] == ["unknown"] * 5 + ["none", "needed"]
    assert json.loads(ask("models", "--json").stdout) == {"models": [ROW, BARE], "test": None}


def test_no_models_at_all_is_told_with_what_to_do(says: Any) -> None:
    says()
    result = ask("models")
    assert result.exit_code == 1
    assert "no model can be asked from here\nset a provider's key" in result.stderr


def test_the_smallest_call_is_told(says: Any) -> None:
    says({"test": TESTED})
    result = ask("models", "--test", "m")
    assert result.exit_code == 0
    assert (
        "reply    Yes\ntokens   21 in, 1 out\ncost     $0.000078\nprice    unknown" in result.stdout
    )
    says({"test": TESTED | {"dollars": None, "estimated": True}})
    assert "1 out, estimated\ncost     unknown" in ask("models", "--test", "m").stdout
    says({"test": {"model": "m", "ok": False, "error": "the key is wrong", "cure": "set it"}})
    result = ask("models", "--test", "m")
    assert result.exit_code == 1
    assert result.stderr == "error: the key is wrong\nset it\n"
    says()
    assert ask("models", "--test", "m").exit_code == 1


def test_a_job_may_say_nothing_only_where_that_is_an_answer() -> None:
    silent = (sys.executable, "-c", "")
    assert list(launch.spoken(["models"], silent, may_be_silent=True)) == []
    with pytest.raises(launch.LaunchError, match="without a word"):
        list(launch.spoken(["models"], silent))
    with pytest.raises(launch.LaunchError, match="exit code 1"):
        list(launch.spoken(["models"], (sys.executable, "-c", "raise SystemExit(1)"),
                           may_be_silent=True))  # fmt: skip
