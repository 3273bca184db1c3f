"""Starting an engine: the handshake, refusals, silent deaths."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from forge_tui.launch import LaunchError, launch, spoken
from store import commands
from store.lock import engine_alive
from store.reading import SessionReader
from store.sessions import create
from tests.forge_tui.conftest import engine

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(home: Path) -> Path:
    return create("suite:softmax", {"tasks": ["suite:softmax"]})


def stop(path: Path) -> None:
    commands.send(path, "stop")
    end = time.monotonic() + 5
    while engine_alive(path) and time.monotonic() < end:
        time.sleep(0.02)
    assert not engine_alive(path)


def test_a_started_engine_is_detached_and_told_of(path: Path) -> None:
    stages: list[str] = []
    pid = launch(path, stages.append, engine("work"))
    assert stages == ["loading suite:softmax"]
    assert engine_alive(path)
    assert os.getsid(pid) == pid  # a session of its own: no terminal can hang it up
    stop(path)


def test_a_refusal_carries_its_own_words_and_cure(path: Path) -> None:
    with pytest.raises(LaunchError) as caught:
        launch(path, lambda stage: None, engine("refuse"))
    assert caught.value.message == "it is random"
    assert caught.value.cure == "seed it"


def test_a_silent_death_quotes_the_log(path: Path) -> None:
    with pytest.raises(LaunchError) as caught:
        launch(path, lambda stage: None, engine("die"))
    assert "exit code 3" in caught.value.message
    assert "ImportError: no such thing" in caught.value.message
    assert "Traceback" not in caught.value.message
    assert caught.value.log is not None
    assert caught.value.log.exists()


def test_a_killed_engine_is_named_by_its_signal(path: Path) -> None:
    with pytest.raises(LaunchError, match="signal 9"):
        launch(path, lambda stage: None, engine("kill"))


def test_an_interpreter_that_prints_nonsense_is_a_death(path: Path) -> None:
    nonsense = (sys.executable, "-c", "print('[1, 2]'); print('{'); print('x' * 200000)")
    with pytest.raises(LaunchError, match="exit code 0"):
        launch(path, lambda stage: None, nonsense)


def test_a_finished_search_can_be_read(path: Path) -> None:
    launch(path, lambda stage: None, engine("finish"))
    end = time.monotonic() + 10
    while engine_alive(path):
        assert time.monotonic() < end
        time.sleep(0.02)
    with SessionReader(path) as reader:
        assert reader.session().state == "finished"


def test_the_engine_outlives_its_starter(path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from forge_tui.launch import launch\n"
        f"launch(Path(sys.argv[1]), lambda stage: None, {engine('work')!r})"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program, str(path)], check=True)
    assert engine_alive(path)
    with SessionReader(path) as reader:
        beat = reader.heartbeat()
    assert beat is not None
    os.kill(beat.pid, signal.SIGTERM)


def test_a_job_is_heard_line_by_line() -> None:
    lines = list(spoken(["verify", "x", "y"], engine("well")))
    assert lines[0] == {"stage": "loading suite:softmax"}
    assert lines[-1] == {"verdict": {"ok": True, "outcome": "FASTER"}}


def test_a_job_that_says_no_by_its_code_was_heard_all_the_same() -> None:
    assert list(spoken(["verify", "x", "y"], engine("sick")))[-1]["verdict"]["ok"] is False


def test_a_job_ends_when_nobody_listens() -> None:
    job = spoken(["verify", "x", "y"], engine("deaf"))
    next(job)
    begun = time.monotonic()
    job.close()
    assert time.monotonic() - begun < 5


def test_a_job_that_takes_too_long_is_ended() -> None:
    with pytest.raises(LaunchError, match="verify took more than 1 s"):
        list(spoken(["verify", "x", "y"], engine("deaf"), patience_s=1.0))


def test_a_job_that_dies_says_why() -> None:
    with pytest.raises(LaunchError, match=r"exit code 1.*ValueError: boom"):
        list(spoken(["audit"], (sys.executable, "-c", "raise ValueError('boom')")))
    refusal = 'print(\'{"error": {"message": "no GPU here", "cure": "leave --device out"}}\')'
    with pytest.raises(LaunchError) as caught:
        list(spoken(["audit"], (sys.executable, "-c", refusal)))
    assert (caught.value.message, caught.value.cure) == ("no GPU here", "leave --device out")
