"""The command line: help, lists, errors in one line, exit codes, plain mode."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

from forge_tui import cli, launch, plain, results, steering
from forge_tui.cli import main
from store import commands
from store.lock import engine_alive
from store.reading import SessionReader
from store.sessions import paths
from tests.forge_tui.conftest import engine, environment
from tests.forge_tui.test_programs import REPLY
from tests.store import story

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

    from tests.forge_tui.saga import Saga

HEAVY = ("textual", "sqlite_utils", "rich", "torch", "litellm", "networkx", "agent")


def ask(*args: str) -> Result:
    return CliRunner().invoke(main, list(args), prog_name="forge-tui")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[Any]:
    """Choose what the engine does; engines still at work are stopped in the end."""

    def choose(mode: str) -> None:
        real = launch.launch
        for module in (cli, steering):
            monkeypatch.setattr(module, "launch", lambda path, say: real(path, say, engine(mode)))

    yield choose
    for path in paths():
        if engine_alive(path):
            commands.send(path, "stop")


def test_help_of_every_command() -> None:
    text = ask("--help").output
    for name, command in main.commands.items():
        assert name in text
        result = ask(name, "--help")
        assert result.exit_code == 0
        assert command.help
        assert command.help.split(".")[0].split("\n")[0][:30] in result.output
        for option in command.params:
            assert not isinstance(option, click.Option) or option.help, (name, option.name)


@pytest.mark.parametrize(
    "args", [["--help"], ["ls"], ["ls", "--json"], ["status"], ["run", "--help"]]
)
def test_light_commands_import_nothing_heavy(saga: Saga, args: list[str]) -> None:
    program = (
        "import sys\nfrom forge_tui.cli import main\n"
        f"try:\n    main({args!r})\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env=environment(saga.path.parents[1]), check=True)  # fmt: skip
    assert done.stderr.strip() == "[]"
    assert done.stdout


def test_ls_lists_sessions(saga: Saga) -> None:
    result = ask("ls")
    assert result.exit_code == 0
    head, line = result.output.splitlines()
    assert head.split() == ["session", "state", "nodes", "failed", "best", "cost", "age", "task"]
    assert "running" in line
    assert " 40 " in line
    found = json.loads(ask("ls", "--json").output)
    assert found[0]["state"] == "running"
    assert found[0]["nodes"]["failed"] == 14
    assert found[0]["best"]["target"] == "layer_norm"


def test_ls_of_nothing_and_of_damage(home: Path) -> None:
    assert ask("ls").exit_code == 0
    assert ask("ls", "--json").output.strip() == "[]"
    (home / "sessions").mkdir(parents=True)
    (home / "sessions" / "bad.forge.db").write_bytes(b"nonsense" * 999)
    assert "damaged" in ask("ls").output


def test_status_says_how_it_stands(saga: Saga) -> None:
    text = ask("status").output
    assert "running" in text
    assert "1:16 of 10:00" in text
    assert "FASTER confirmed" in text
    found = json.loads(ask("status", "--json").output)
    assert found["engine"]["alive"]
    assert [target["name"] for target in found["targets"]] == ["softmax", "layer_norm", "silu_mul"]
    assert found["targets"][0]["best"]["confirmed"] == 1
    saga.close()
    assert "crashed" in ask("status").output
    assert json.loads(ask("status", "--json").output)["engine"]["pid"] is None


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["status"], 1, "error: there is no session yet"),
        (["status", "nope"], 1, "error: there is no session yet"),
        (["attach", "x/y.forge.db"], 1, "error: no session file"),
        (["pause"], 1, "error: there is no session yet"),
        (["run", "suite:softmax", "--device", "tpu"], 2, "not cpu, cuda or cuda:N"),
        (["run", "suite:softmax", "--device", "cuda:x"], 2, "not cpu, cuda or cuda:N"),
        (["run", "suite:softmax", "--baselines", "eager,xla"], 2, "'xla' is no baseline"),
        (["run", "suite:softmax", "--program", "none.md"], 1, "none.md cannot be read"),
        (["verify", "suite:softmax", "none.md"], 1, "none.md cannot be read"),
        (["run"], 2, "name a TASK"),
        (["run", "x", "--nodes", "0"], 2, "--nodes"),
        (["prune", "x", "three"], 2, "not a valid integer"),
        (["frob"], 2, "No such command"),
    ],
)
def test_errors_are_short_and_have_codes(
    home: Path, args: list[str], code: int, words: str
) -> None:
    result = ask(*args)
    assert result.exit_code == code
    assert result.stdout == ""
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) <= (2 if code == 1 else 4)


def test_a_data_folder_in_the_way_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("FORGE_HOME", str(tmp_path / "file"))
    result = ask("demo")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")


def test_run_without_a_terminal_prints_progress_and_a_table(fake: Any) -> None:
    fake("finish")
    result = ask("run", "suite:softmax", "--name", "My First!")
    assert result.exit_code == 0, result.stderr
    assert "softmax #3: new best, 3.50x" in result.stdout
    table = result.stdout.strip().splitlines()[-2:]
    assert table[0].split()[:3] == ["target", "nodes", "failed"]
    assert table[1].split()[:4] == ["softmax", "3", "1", "3.50x"]
    assert "FASTER confirmed" in table[1]
    assert "loading suite:softmax" in result.stderr
    (path,) = paths()
    assert path.name.startswith("my-first-")
    assert not path.with_name(path.name + "-wal").exists()


def test_run_keeps_what_was_asked(fake: Any, tmp_path: Path, monkeypatch: Any) -> None:
    fake("finish")
    monkeypatch.chdir(tmp_path)
    ask("run", "my op.py", "suite:gelu", "--nodes", "7", "--minutes", "2.5", "--seed", "3",
        "--headless")  # fmt: skip
    config = json.loads(ask("status", "--json").output)["config"]
    assert config["tasks"] == [str(tmp_path / "my op.py"), "suite:gelu"]
    assert (config["nodes"], config["minutes"], config["seed"]) == (7, 2.5, 3)
    assert (config["models"], config["inbox"], config["replay"]) == ([], None, None)
    assert config["demo"] is False
    assert (config["device"], config["baselines"], config["programs"]) == ("cpu", None, [])


def test_run_hands_over_device_baselines_and_programs(fake: Any, tmp_path: Path) -> None:
    fake("finish")
    (tmp_path / "mine.md").write_text(REPLY)
    result = ask("run", "suite:softmax", "suite:gelu", "--device", "cuda:1", "--headless",
                 "--baselines", "compile-max", "--program", f"gelu={tmp_path}/mine.md")  # fmt: skip
    assert "only 1 of 2 targets" in result.stderr  # the stand-in takes up one
    config = json.loads(ask("status", "--json").output)["config"]
    assert config["device"] == "cuda:1"
    assert config["baselines"] == ["eager", "compile-max"]
    assert config["programs"] == [{"target": 2, "text": REPLY, "name": "mine.md"}]


@pytest.mark.parametrize(
    ("mode", "words"), [("refuse", "error: it is random"), ("die", "ImportError: no such thing")]
)
def test_an_engine_that_does_not_start_leaves_no_litter(fake: Any, mode: str, words: str) -> None:
    fake(mode)
    result = ask("run", "suite:softmax")
    assert result.exit_code == 1
    assert words in result.stderr
    assert paths() == []


def test_the_demo_counts_as_done_only_with_every_target_judged(fake: Any) -> None:
    fake("finish")
    result = ask("demo")
    assert result.exit_code == 1
    assert "only 1 of 3 targets" in result.stderr


def test_shortfalls_have_reasons(home: Path) -> None:
    path, writer = story.begin({"tasks": ["suite:softmax"]})
    with SessionReader(path) as reader:
        assert "did not finish, it is running" in results.shortfall(reader, True)
        writer.emit("EngineStopped", state="finished", reason="")
        assert results.shortfall(reader, False) == ""
        assert "no program was judged for softmax" in results.shortfall(reader, True)
        story.node(writer, None, ratio=2.0)
        assert results.shortfall(reader, True) == ""
        writer.emit("TargetAdded", target=3, name="y", spec={"device": "cpu"}, task={})
        writer.emit("TargetClosed", target=3, code="fault", reason="load failed")
        assert results.shortfall(reader, False) == "y was closed: load failed"
        writer.emit("TargetRefused", target=2, name="x", code="c", message="bad", cure="")
        assert results.shortfall(reader, True) == "x was refused: bad"
    writer.close()


def test_pause_resume_prune_and_stop_print_the_answers(fake: Any, home: Path) -> None:
    fake("work")
    path, writer = story.begin()
    story.node(writer, None, ratio=2.0)
    writer.emit("EngineStopped", state="stopped", reason="")
    writer.close()
    session = path.name.removesuffix(".forge.db")
    result = ask("resume", session)
    assert f"{session} runs" in result.stdout
    assert ask("resume").stdout.strip() == f"{session} is running already"
    assert ask("pause").stdout.strip() == "work in hand finishes first"
    time.sleep(0.1)
    assert ask("resume").stdout.strip() == "the search goes on"
    assert ask("prune", session, "1").stdout.strip() == "#1: done"
    assert ask("unprune", session, "1").stdout.strip() == "#1: done"
    refused = ask("prune", session, "99")
    assert refused.exit_code == 1
    assert "has no node 99" in refused.stderr
    assert ask("rm", session, "--yes").exit_code == 1  # it is running
    assert ask("stop").stdout.strip() == "stopping"


def test_steering_without_an_engine(home: Path) -> None:
    path, writer = story.begin()
    story.node(writer, None, ratio=2.0)
    writer.emit("EngineStopped", state="stopped", reason="")
    writer.close()
    session = path.name.removesuffix(".forge.db")
    for verb in ("pause", "stop"):
        result = ask(verb)
        assert result.exit_code == 1
        assert "nothing runs" in result.stderr
        assert f"forge-tui resume {session}" in result.stderr
    result = ask("prune", session, "1")
    assert result.exit_code == 0
    assert "applies when the search is resumed" in result.stdout


def test_rm_asks_and_needs_somebody_to_ask(home: Path) -> None:
    path, writer = story.begin()
    writer.close()
    session = path.name.removesuffix(".forge.db")
    result = ask("rm", session)
    assert result.exit_code == 2
    assert path.exists()
    assert ask("rm", session, "--yes").stdout == f"deleted {session}\n"
    assert not path.exists()


def test_attach_without_a_terminal_shows_the_status(home: Path) -> None:
    _, writer = story.begin()
    story.node(writer, None, ratio=2.0)
    writer.emit("EngineStopped", state="stopped", reason="a person")
    writer.close()
    result = ask("attach")
    assert result.exit_code == 0
    assert "stopped: a person" in result.stdout
    assert "no terminal" in result.stderr


def headless(home: Path, mode: str) -> subprocess.Popen[str]:
    program = (
        "import forge_tui.cli as c, forge_tui.launch as l; real = l.launch\n"
        f"c.launch = lambda path, say: real(path, say, {engine(mode)!r})\n"
        "c.main(['run', 'suite:softmax', '--headless'])"
    )
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=environment(home))  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_headless_search_in_order(home: Path, number: int) -> None:
    process = headless(home, "work")
    assert process.stdout is not None
    assert "softmax is accepted" in process.stdout.readline()
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "stopping" in errors
    assert "Traceback" not in errors
    (path,) = paths(home)
    assert not engine_alive(path)
    assert '"state": "stopped"' in ask("status", "--json").output


def test_the_doctor_exits_by_its_findings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from forge_tui import doctor

    real = doctor.examine
    monkeypatch.setattr(doctor, "examine", lambda: real(engine("doctor")))
    result = ask("doctor")
    assert result.exit_code == 0
    assert "ok    compiler  g++ 13.2" in result.stdout
    monkeypatch.setattr(doctor, "examine", lambda: real(engine("sick")))
    assert ask("doctor").exit_code == 1
    assert json.loads(ask("doctor", "--json").output)[0]["check"] == "compiler"


def finished(saga: Saga) -> str:
    """The saga, ended in order; returns the session's name."""
    saga.emit("EngineStopped", state="finished", reason="every target is closed")
    saga.close()
    return saga.path.name.removesuffix(".forge.db")


def test_a_confirmed_best_has_the_same_figures_everywhere(saga: Saga) -> None:
    with SessionReader(saga.path) as reader:
        best = reader.targets()[0].best_node
    assert best is not None
    at = {"target": 1, "node": best}
    again = {"ratio": 2.22, "low": 2.1, "high": 2.3, "outcome": "FASTER"}
    saga.emit("VariantJudged", **at, variant=1, key="k", verdict=saga.writer.next_id("verdicts"),
              time_ns=1_234_000, eager_ns=2_740_000, timing="call", confirm=True, evidence={},
              **again)  # fmt: skip
    saga.emit("NodeConfirmed", **at, variant=1, ok=True, reason="", **again)
    line = next(line for line in ask("status").output.splitlines() if line.startswith("softmax"))
    assert "  ".join(line.split()).endswith(
        "2.22x  [2.10,  2.30]  1.23  ms  70%  FASTER  confirmed"
    )
    found = json.loads(ask("status", "--json").output)["targets"][0]["best"]
    assert (found["speedup"], found["time_ns"]) == (2.22, 1_234_000)
    # The share of SOL follows the ratio, which was measured in pairs.
    assert found["sol_fraction"] == pytest.approx(2.22 * 1_320_000 / 4_210_000)
    assert "2.22x softmax" in ask("ls").output


def test_a_finished_search_whose_best_is_unconfirmed_may_be_resumed(saga: Saga, fake: Any) -> None:
    session = finished(saga)
    fake("finish")
    assert ask("resume", session).exit_code == 0


def test_a_finished_search_is_not_resumed_without_a_reason(saga: Saga, fake: Any) -> None:
    with SessionReader(saga.path) as reader:
        bests = [(target.id, target.best_node or 0) for target in reader.targets()]
    for target, best in bests:
        saga.emit("NodeConfirmed", target=target, node=best, variant=1, ok=True, outcome="FASTER",
                  ratio=2.0, low=1.9, high=2.1, reason="")  # fmt: skip
    session = finished(saga)
    result = ask("resume", session)
    assert result.exit_code == 1
    assert "is finished" in result.stderr
    assert "forge-tui run suite:softmax suite:layer_norm" in result.stderr
    assert "forge-tui resume" not in ask("pause", session).stderr
    fake("finish")
    assert ask("prune", session, "1").exit_code == 0
    assert ask("resume", session).exit_code == 0


def test_code_prints_a_program(saga: Saga) -> None:
    session = finished(saga)
    result = ask("code", session)
    assert result.exit_code == 1
    assert "several targets" in result.stderr
    text = ask("code", session, "1").stdout
    assert text.startswith("pairs of rows")
    assert "```cpp\n// Row softmax in one pass" in text
    assert "```toml\n[tune]" in text
    assert text.rstrip().endswith("```")
    assert "has no program of node 999" in ask("code", session, "999").stderr


def test_code_without_a_node_is_the_best(home: Path) -> None:
    path, writer = story.begin()
    session = path.name.removesuffix(".forge.db")
    assert "no best program yet" in ask("code", session).stderr
    number = story.node(writer, None, ratio=2.0, title="the best one")
    writer.emit("BestImproved", target=1, node=number, variant=1, ratio=2.0, time_ns=1, of_nodes=1)
    writer.close()
    assert ask("code", session).stdout.startswith("the best one\n```cpp\nvoid f() {}\n```")


def test_suite_lists_what_can_be_named() -> None:
    lines = ask("suite").stdout.splitlines()
    assert lines[0].split()[0] == "task"
    assert len(lines) == 21
    assert any(line.startswith("suite:rmsnorm ") for line in lines)


def test_help_is_not_cut() -> None:
    assert "..." not in ask("--help").output.partition("Commands:")[2]


def test_attach_to_damage_is_one_line(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "why_plain", lambda: "")
    (home / "sessions").mkdir(parents=True)
    (home / "sessions" / "bad.forge.db").write_bytes(b"nonsense" * 999)
    result = ask("attach", "bad")
    assert result.exit_code == 1
    assert "error: bad.forge.db cannot be read" in result.stderr


def test_rm_of_a_running_session_says_what_to_do(saga: Saga) -> None:
    result = ask("rm", saga.path.name.removesuffix(".forge.db"), "--yes")
    assert result.exit_code == 1
    assert "stop it first" in result.stderr


def test_leaving_a_finished_search_shows_what_it_found(saga: Saga, capsys: Any) -> None:
    from forge_tui.show import farewell

    session = finished(saga)
    farewell(saga.path)
    said = capsys.readouterr().out
    assert "95 % interval" in said
    assert f"{session} is finished" in said
    assert f"forge-tui code {session} NODE" in said


def test_waiting_for_another_session_is_said(home: Path) -> None:
    path, writer = story.begin()
    with SessionReader(path) as reader:
        writer.beat(1, {"stage": "waiting for softmax-ab12"}, {})
        assert plain._waiting(reader) == ["waiting for softmax-ab12"]
        writer.beat(1, {"stage": "timing"}, {})
        assert plain._waiting(reader) == []
    writer.close()
