"""Task files and commands that do what they should not: one line with a cure, nothing lost."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agent import settings, usercode
from agent.errors import TaskError, WorkerError, describe
from agent.reference import load
from agent.task import TaskSource
from agent.workers.client import Worker
from agent.workers.workshop import LocalWorkshop, worker_environment
from store import commands
from store.reading import SessionReader
from tests.agent.landscape import Landscape, engine_on, new_session, run

if TYPE_CHECKING:
    from pathlib import Path

INPUTS = "def inputs():\n    return (torch.randn(3, 4),)\n"
PLAIN = "def reference(x):\n    return x * 2\n"


def source(text: str) -> TaskSource:
    return TaskSource("plain", "hostile", "", f"import os, sys, torch\n{text}", "cpu")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (INPUTS + PLAIN + "sys.exit(3)", "task-raises"),
        (INPUTS + PLAIN + "raise KeyboardInterrupt", "task-raises"),
        (INPUTS + "def reference(x):\n    raise SystemExit('no')", "task-raises"),
        (INPUTS + "class Odd(BaseException):\n    def __str__(self): raise ValueError\n"
         "def reference(x):\n    raise Odd", "task-raises"),
        (INPUTS + "def reference(x):\n    raise ValueError('\\x1b[31m' + 'x\\n' * 500_000)",
         "task-raises"),
        ("def inputs():\n    return input()\n" + PLAIN, "task-raises"),
        ("def inputs():\n    return torch.empty(10**14)\n" + PLAIN, "task-raises"),
        ("import numpy\ndef inputs():\n    return numpy.ones(3)\n" + PLAIN, "task-no-input"),
        (INPUTS + "def reference(x):\n    return x[1:]", "task-alias"),
        (INPUTS + PLAIN + "torch.set_default_dtype(torch.float64)", "task-settings"),
        (INPUTS + PLAIN + "torch.set_num_threads(1 + torch.get_num_threads())", "task-settings"),
        (INPUTS + PLAIN + "torch.set_flush_denormal(True)", "task-settings"),
        (INPUTS + PLAIN + "torch.set_float32_matmul_precision('medium')", "task-settings"),
    ],
)  # fmt: skip
def test_what_a_file_does_to_the_process_is_one_line_with_a_cure(text: str, code: str) -> None:
    before = settings.snapshot()
    with pytest.raises(TaskError) as caught:
        load(source(text))
    error = caught.value
    assert error.code == code
    assert error.cure
    assert len(error.message) < 500
    assert error.message.isprintable()
    assert settings.snapshot() == before


def test_inputs_that_do_not_end_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usercode, "MAX_SECONDS", 0.2)
    endless = "def inputs():\n    while True:\n        try:\n            pass\n"
    endless += "        except Exception:\n            pass\n" + PLAIN
    with pytest.raises(TaskError, match=r"line \d: inputs\(\) took longer") as caught:
        load(source(endless))
    assert caught.value.code == "task-endless"


def test_the_folder_and_names_of_other_alphabets_are_no_trouble() -> None:
    here = os.getcwd()
    text = "os.chdir('/')\ndef inputs():\n"
    text += "    return {'größe': torch.randn(3), 'ш': torch.ones(3)}\n"
    names = [arg.name for arg in load(source(text + "def reference(größe, ш):\n"
                                             "    return größe * ш + 1")).spec.args]  # fmt: skip
    assert os.getcwd() == here
    assert all(name.isidentifier() and name.isascii() for name in names)
    assert len(set(names)) == 2


def test_foreign_errors_are_described_in_one_line() -> None:
    class Bad(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert describe(Bad()) == "Bad: (its text cannot be had)"
    assert describe(ValueError("\x1b[2Ja\nb" + "x" * 10**6)).startswith("ValueError: [2Ja b")
    assert len(describe(ValueError("x" * 10**6))) <= 300


@pytest.mark.parametrize(
    "body",
    ["os._exit(0)", "os.kill(os.getpid(), 9)", "os.fork()", "print('x' * 5_000_000)"],
    ids=["exit", "kill", "fork", "print"],
)
async def test_a_file_that_ends_copies_or_floods_its_process(tmp_path: Path, body: str) -> None:
    log = tmp_path / "log"
    shop = LocalWorkshop(tmp_path, log, "cpu", 1, 1)
    shop._judge = shop._author  # one process is enough here
    try:
        answer = await shop.load(1, source(f"def inputs():\n    {body}\n"
                                           "    return (torch.randn(3),)\n" + PLAIN))  # fmt: skip
        assert answer["spec"]["name"] == "hostile"
    except TaskError as error:
        assert "hostile could not be loaded" in error.message  # noqa: PT017
        assert error.cure  # noqa: PT017
        assert "_exit" in body or "kill" in body
    finally:
        await shop.close()
    assert log.stat().st_size < 2_000_000


async def test_an_answer_that_is_not_to_the_question_is_nonsense(tmp_path: Path) -> None:
    text = 'import sys\nfor line in sys.stdin:\n    print(\'{"id": 7, "ok": {}}\', flush=True)\n'
    (tmp_path / "liar.py").write_text(text)
    worker = Worker("liar", tmp_path / "log", {**os.environ, "PYTHONPATH": str(tmp_path)})
    with pytest.raises(WorkerError, match="nonsense"):
        await worker.call("echo", {}, 20)


@pytest.mark.usefixtures("home")
async def test_ten_thousand_commands_of_garbage_are_answered_and_the_search_goes_on() -> None:
    path = new_session(nodes=10_000, patience=10_000)
    engine, session = await engine_on(path, Landscape(sol_ns=1, pace_s=0.02))
    task = asyncio.create_task(engine.run())
    conn = sqlite3.connect(path, timeout=10)
    odd = [("dance", "{}"), ("pause\x1b[2J", "[1]"), ("prune", "no json"), ("prune", "[" * 9000),
           ("prune", '{"node": NaN}'), ("prune", '{"node": "1"}'),
           ("prune", f'{{"node": {9**99}}}'), ("unprune", '{"node": true}'),
           (b"\xff\xfe", b"\xff"), (7, 7.5), ("", "null"),
           ("prune", '{"node": {"a": "\\ud800"}}'), ("x" * 10**5, "{}")]  # fmt: skip
    conn.executemany("INSERT INTO commands (at_us, verb, args) VALUES (1, ?, ?)",
                     [odd[at % len(odd)] for at in range(10_000)])  # fmt: skip
    conn.execute("INSERT INTO commands (at_us, verb, args) VALUES (1, CAST(x'ff' AS TEXT), '{}')")
    conn.commit()
    conn.close()
    reader = SessionReader(path)
    answered = "SELECT count(*) FROM events WHERE kind = 'CommandAnswered'"
    with sqlite3.connect(path) as look:
        while look.execute(answered).fetchone()[0] < 1000:
            assert not task.done()
            await asyncio.sleep(0.1)
    assert not task.done()
    with sqlite3.connect(path) as rest:
        rest.execute("DELETE FROM commands WHERE answered = 0")
    commands.send(path, "stop")
    assert await asyncio.wait_for(task, 20) == "stopped"
    session.close()
    answers = [event.payload for event in reader.events() if event.kind == "CommandAnswered"]
    assert len(answers) > 900
    assert not any(answer["ok"] for answer in answers[:-1])
    assert all(answer["answer"].isprintable() for answer in answers)


@pytest.mark.usefixtures("home")
async def test_a_search_whose_heart_stops_does_not_go_on_unheard() -> None:
    path = new_session(nodes=10_000)
    engine, session = await engine_on(path, Landscape(pace_s=0.01))

    def broken() -> list[tuple[int, str, dict[str, object]]]:
        raise sqlite3.OperationalError("database or disk is full")

    session.new_commands = broken  # type: ignore[method-assign, assignment]
    with pytest.raises(sqlite3.OperationalError):
        await asyncio.wait_for(engine.run(), 20)
    session.close()


@pytest.mark.usefixtures("home")
async def test_a_writer_that_breaks_down_closes_its_target_and_not_the_search() -> None:
    class Broken(Landscape):
        async def propose(self, target: int, ask: dict[str, object]) -> object:
            raise WorkerError("propose took longer than 60 s", code="worker-timeout")

    path = new_session()
    assert await run(path, Broken()) == "finished"  # type: ignore[arg-type]
    with SessionReader(path) as reader:
        assert [row.code for row in reader.targets()] == ["worker-timeout"]


@pytest.mark.usefixtures("home")
def test_a_full_disk_is_one_line_with_a_cure() -> None:
    path = new_session(nodes=50_000)
    code = (
        "import asyncio, resource, signal, sqlite3, sys\nfrom pathlib import Path\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))\n"
        "from store.writing import explain\n"
        "from tests.agent.landscape import Landscape, run\n"
        "path = Path(sys.argv[1])\n"
        "try:\n    asyncio.run(run(path, Landscape()))\n"
        "except sqlite3.Error as error:\n    fault = explain(path, error)\n"
        "    print(fault.message, '|', fault.cure)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip
    assert "cannot be written" in done.stdout, done.stderr[-500:]
    assert "free some disk space" in done.stdout
    with SessionReader(path) as reader:
        events = reader.events()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert json.dumps(worker_environment())
