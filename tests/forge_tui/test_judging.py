"""``verify`` and ``audit``: what is printed as it comes, what goes through, the exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from click.testing import CliRunner

from forge_tui import judging, launch
from forge_tui.audit import Audit
from forge_tui.cli import main
from forge_tui.glyphs import ASCII, UNICODE
from forge_tui.launch import LaunchError
from forge_tui.verify import Ladder
from tests.forge_tui.conftest import engine, environment
from tests.forge_tui.test_programs import REPLY
from tests.forge_tui.test_text import HOSTILE

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run a command against an engine of a mode; ``asked`` is what the engine was asked."""
    (tmp_path / "mine.md").write_text(REPLY)
    monkeypatch.chdir(tmp_path)

    def run(mode: str, *args: str) -> Result:
        def spoken(asked: list[str]) -> Any:
            run.asked = asked  # type: ignore[attr-defined]
            return launch.spoken(asked, engine(mode))

        monkeypatch.setattr(judging, "spoken", spoken)
        return CliRunner().invoke(main, list(args), prog_name="forge-tui")

    return run


def test_a_program_climbs_the_ladder(ask: Any, tmp_path: Path) -> None:
    result = ask("well", "verify", "suite:softmax", "mine.md", "--device", "cuda:1")
    assert ask.asked == [
        "verify", "suite:softmax", str(tmp_path / "mine.md"), "--device", "cuda:1"
    ]  # fmt: skip
    assert result.exit_code == 0
    text = result.stdout
    order = ["✓ read", "✓ build", "softmax_rows", "✓ check", "wide range", "✓ time", "this program",
             "compile ", "✓ confirm", "memcheck", "verdict: FASTER"]  # fmt: skip
    assert sorted(order, key=text.index) == order
    for piece in ("40      none", "168     160 B", "75% by registers",
                  "2.05x vs eager [2.01, 2.09]",
                  "gain 1.27x vs compile", "device time  call time", "33.2 us    34.1 us",
                  "68.0 us    74.0 us", "normal @rows=4097", "87%", "of the speed of light",
                  "power cap", "1980 MHz",
                  "try: fewer rows", "1.25x vs compile [1.20, 1.30]", "racecheck  clean",
                  "initcheck  skipped: too slow", "9.1e-04"):  # fmt: skip
        assert piece in text, piece
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "loading suite:softmax ..." in result.stderr


def test_a_program_that_falls_says_where_and_why(ask: Any) -> None:
    result = ask("sick", "verify", "suite:softmax", "mine.md")
    assert result.exit_code == 1
    assert "✗ check     out is wrong in 3 elements" in result.stdout
    assert "heavy tails" in result.stdout
    assert "got           ['nan']" in result.stdout
    assert "✓ check" not in result.stdout
    assert result.stdout.splitlines()[-1] == "turned down at the rung: check"


def test_lines_go_through_as_json(ask: Any) -> None:
    result = ask("sick", "verify", "suite:softmax", "mine.md", "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines[-1] == {"verdict": {"ok": False, "outcome": "FAILED"}}
    assert result.exit_code == 1


@pytest.mark.parametrize("verb", [("verify", "suite:softmax", "mine.md"), ("audit",)])
def test_a_judge_that_ends_too_early_is_an_error(ask: Any, verb: tuple[str, ...]) -> None:
    result = ask("mute", *verb)
    assert result.exit_code == 1
    assert "error: the" in result.stderr
    assert "ended" in result.stderr


def test_an_audit_ends_with_the_count(ask: Any) -> None:
    result = ask("well", "audit", "--device", "cuda")
    assert ask.asked == ["audit", "--device", "cuda"]
    assert result.exit_code == 0
    text = result.stdout
    assert "2 cheats: 2 caught, 0 missed" in text
    assert "1 honest program: 0 false alarms" in text
    assert "9 more tricks cannot be written" in text
    assert text.splitlines()[-1] == "the judge is sound in 3 s"
    assert all(len(line) <= 80 for line in text.splitlines())


def test_an_unsound_judge_is_told_of(ask: Any) -> None:
    result = ask("sick", "audit")
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert "MISSED: keeps answers in a global expected read or build; it ended at the end" in text
    assert "FALSE ALARM: atomics expected passed; it ended at check: wrong-answer; sums" in text
    assert text.endswith("the judge is NOT SOUND in 3 s")
    lines = ask("sick", "audit", "--json").stdout.splitlines()
    assert json.loads(lines[-1])["summary"]["missed"] == 1


def test_a_term_ends_the_job_too(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text(REPLY)
    program = (
        "import sys; from forge_tui import judging, launch; from forge_tui.cli import main\n"
        f"judging.spoken = lambda asked: launch.spoken(asked, {engine('deaf')!r})\n"
        "main(['verify', 'suite:softmax', 'mine.md'])"
    )
    process = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, text=True,
                               stdout=subprocess.PIPE, env=environment(tmp_path))  # fmt: skip
    assert process.stdout is not None
    assert "read" in process.stdout.readline()
    (job,) = psutil.Process(process.pid).children()
    process.terminate()
    assert process.wait(10) == 128 + signal.SIGTERM
    assert not job.is_running()
    process.stdout.close()


ODD: list[Any] = [None, 7, "x", [], {}, [None], {"a": {"b": 1}}, float("nan"), True, *HOSTILE[:4]]
RUNGS = ("read", "build", "check", "measure", "confirm", "other")
FIELDS = ("language", "lines", "calls", "detail", "values", "seconds", "families", "ratio", "low",
          "ns", "call_ns", "gain", "against", "baselines", "conditions", "advice", "sanitizer",
          "reason", "evidence", "occupancy", "sol_fraction", "device", "timing")  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("ok", [True, False])
def test_any_line_is_printed_without_harm(odd: Any, ok: bool) -> None:
    for glyphs in (UNICODE, ASCII):
        ladder = Ladder(glyphs, 80)
        said = []
        for rung in RUNGS:
            said += ladder.hear({"rung": rung, "ok": ok, **dict.fromkeys(FIELDS, odd)})
        said += ladder.hear({"rung": "check", "family": {"family": odd, "max_error": odd}})
        said += ladder.hear({"verdict": odd})
        said += Audit(80).hear({"kind": "cheat", "name": odd, "seconds": odd, "rung": odd})
        assert all("\x1b" not in line and "\n" not in line for line in said)
        assert all(len(line) <= 160 for line in said)


def test_an_audit_counts_only_what_was_summed_up() -> None:
    kept = Audit(80)
    kept.hear({"kind": "cheat", "ok": True})
    with pytest.raises(LaunchError, match="before it was done"):
        kept.end()
    kept.hear({"summary": "odd"})
    with pytest.raises(LaunchError):
        kept.end()
    assert not kept.sound
