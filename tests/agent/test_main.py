"""The engine as the command line starts it: the handshake, and every bad beginning."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from store.reading import SessionReader
from store.sessions import create, inspect
from store.writing import SessionWriter

pytestmark = pytest.mark.usefixtures("home")


def session(*tasks: str, **config: Any) -> Path:
    defaults = {"tasks": list(tasks), "device": "cpu", "nodes": 1, "baselines": ["eager"]}
    return create(" ".join(tasks), {**defaults, **config})


def start(path: Path, **env: str) -> tuple[int, dict[str, Any]]:
    """Run an engine to its end; its exit code and the last line of the handshake."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "agent", "search", str(path)],
        capture_output=True, text=True, timeout=150, check=False, env={**os.environ, **env},
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert all("stage" in line for line in lines[:-1]), done.stdout
    return done.returncode, lines[-1]


def refusal(path: Path, **env: str) -> dict[str, str]:
    code, last = start(path, **env)
    assert code == 1
    return dict(last["error"])


def test_an_unknown_task_is_refused_at_once_with_near_names() -> None:
    path = session("suite:softmaxx")
    error = refusal(path)
    assert error["code"] == "task-suite-name"
    assert "softmax" in error["cure"] + error["message"]
    assert inspect(path).state == "failed"


def test_without_a_compiler_nothing_starts() -> None:
    path = session("suite:softmax")
    bare = {"PATH": "/nonexistent", "CXX": ""}
    error = refusal(path, **bare)
    assert "g++" in error["message"] + error["cure"]
    assert inspect(path).state == "new"


@pytest.mark.parametrize("device", ["tpu", "cuda:x"])
def test_a_device_that_there_is_not_is_refused_before_anything_starts(device: str) -> None:
    path = session("suite:softmax", device=device)
    error = refusal(path)
    assert (error["code"], inspect(path).state) == ("device-unknown", "new")
    assert "cuda:N" in error["cure"]


def test_a_session_runs_once_at_a_time() -> None:
    path = session("suite:softmax")
    writer = SessionWriter(path)
    assert refusal(path)["code"] == "session-busy"
    writer.close()


def test_a_damaged_session_is_refused_and_left_as_it_is() -> None:
    path = session("suite:softmax")
    path.write_bytes(b"nothing of a database" * 300)
    assert refusal(path)["code"] == "session-damaged"
    assert path.read_bytes() == b"nothing of a database" * 300


@pytest.mark.parametrize(
    ("name", "body", "code"),
    [
        ("random", "def reference(x):\n    return x + torch.rand_like(x)", "task-random"),
        ("raises", "def reference(x):\n    return x @ x.t() @ x.t()", "task-raises"),
        ("ignores", "def reference(x, y=torch.ones(3)):\n    return x * 2", None),
    ],
)
def test_a_reference_that_cannot_be_used_says_why(
    tmp_path: Path, name: str, body: str, code: str | None
) -> None:
    file = tmp_path / f"{name}.py"
    file.write_text(
        f"import torch\n\n\ndef inputs():\n    return (torch.randn(3, 4),)\n\n\n{body}\n"
    )
    path = session(str(file))
    error = refusal(path)
    assert code is None or error["code"] == code
    assert error["cure"]
    with SessionReader(path) as reader:
        (target,) = reader.targets()
        assert (target.state, target.reason) == ("refused", error["message"])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a compiler")
def test_a_real_search_on_a_file_finds_a_right_program_and_is_one_plain_file(
    tmp_path: Path,
) -> None:
    file = tmp_path / "silu.py"
    file.write_text(
        "import torch\n\n\ndef inputs():\n    return (torch.randn(64, 1000),)\n\n\n"
        "def reference(x):\n    return x * torch.sigmoid(x)\n"
    )
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "__init__.py").write_text("raise SystemExit('the wrong agent')")
    path = session(str(file))
    file.unlink()
    assert refusal(path)["code"] == "task-missing"
    file.write_text("import torch\ndef inputs():\n    return (torch.randn(64, 1000),)\n"
                    "def reference(x):\n    return x * torch.sigmoid(x)\n")  # fmt: skip
    path = session(str(file))
    code, last = start(path)
    assert (code, last.get("started")) == (0, True)
    with SessionReader(path) as reader:
        (node,) = reader.nodes()
        assert node.state == "scored", node.reason
        verdicts = reader.verdicts(node.id)
        assert len(reader.samples(verdicts[0].id)) >= 10
        assert {family["family"] for family in verdicts[0].evidence["families"]} >= {"normal"}
        assert reader.session().state == "finished"
    assert not Path(f"{path}-wal").exists()
