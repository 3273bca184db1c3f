from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import TaskError
from agent.task import (
    MAX_BYTES,
    ArgSpec,
    OutputSpec,
    TargetSpec,
    TaskSource,
    open_task,
    suite_index,
)

DATA = Path(__file__).parents[1] / "data"
PLAIN = "def reference(x):\n    return x + 1\n\n\ndef inputs():\n    return [1]\n"


def write(folder: Path, text: str, name: str = "task.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_kernelbench_file() -> None:
    task = open_task(str(DATA / "kernelbench_linear.py"), "cpu")
    assert (task.kind, task.name) == ("kernelbench", "kernelbench_linear")
    assert task.text == (DATA / "kernelbench_linear.py").read_text()


def test_plain_file_survives_its_deletion(tmp_path: Path) -> None:
    path = write(tmp_path, PLAIN)
    task = open_task(path, "cuda")
    Path(path).unlink()
    again = TaskSource.from_json(json.loads(json.dumps(task.to_json())))
    assert again == task
    assert (again.kind, again.device, again.text) == ("plain", "cuda", PLAIN)
    assert again.sha == task.sha


def test_suite_name() -> None:
    task = open_task("suite:rmsnorm", "cpu")
    assert (task.kind, task.name) == ("suite", "rmsnorm")
    assert "def reference" in task.text
    assert len(suite_index()) == 20


@pytest.mark.parametrize(
    "text",
    [
        "from torch.nn.functional import gelu as reference\ninputs = lambda: 1\n",
        "try:\n    def reference(x): return x\nexcept ImportError:\n    pass\n"
        "if True:\n    inputs: object = dict\n",
        "\ufeffdef reference(x): return x\r\ndef inputs(): return 1\r\n",
        "reference, other = abs, 1\nreference = abs\ndef inputs(): return '\\d'\n",
    ],
    ids=["imported", "branches", "bom-and-crlf", "assigned"],
)
def test_ways_to_define_a_task(tmp_path: Path, text: str) -> None:
    assert open_task(write(tmp_path, text), "cpu").kind == "plain"


def test_nothing_is_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    open_task(write(tmp_path, f"open({str(marker)!r}, 'w').close()\n{PLAIN}"), "cpu")
    assert not marker.exists()


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("x = 1\ndef f(:\n", "task-syntax", "line 2"),
        ("(" * 5000 + ")" * 5000, "task-syntax", "line 1"),
        ("x = 1\n", "task-format", "defines no task"),
        ("", "task-format", "defines no task"),
        ("def f():\n    def reference(x): pass\n    def inputs(): pass\n", "task-format", "task"),
        ("class Model: pass\n", "task-no-inputs", "get_inputs()"),
        ("def reference(x): pass\n", "task-no-inputs", "inputs()"),
        ("def inputs(): pass\n", "task-no-reference", "nothing to run"),
        ("x = 1\0\n", "task-binary", "UTF-8"),
        ("#" * (MAX_BYTES + 1), "task-too-large", "1 MiB"),
    ],
)
def test_bad_text(tmp_path: Path, text: str, code: str, says: str) -> None:
    with pytest.raises(TaskError) as caught:
        open_task(write(tmp_path, text), "cpu")
    assert caught.value.code == code
    assert says in caught.value.message
    assert caught.value.cure
    assert "\n" not in caught.value.message + caught.value.cure


def test_syntax_error_carries_its_line(tmp_path: Path) -> None:
    with pytest.raises(TaskError) as caught:
        open_task(write(tmp_path, "a = 1\nb = 2\nc = = 3\n"), "cpu")
    assert caught.value.evidence == {"line": 3}


def test_bad_paths(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"name = '\xe9'\n")
    cases = {
        str(tmp_path / "none.py"): "task-missing",
        str(tmp_path / "none" / "deeper.py"): "task-missing",
        str(tmp_path): "task-directory",
        "/dev/null": "task-not-a-file",
        str(tmp_path / "latin.py"): "task-binary",
        "a\0b": "task-unreadable",
        "x" * 5000: "task-unreadable",
        str(tmp_path / "latin.py" / "below"): "task-unreadable",
    }
    for path, code in cases.items():
        with pytest.raises(TaskError) as caught:
            open_task(path, "cpu")
        assert caught.value.code == code, path
        assert len(caught.value.message) < 250
        assert caught.value.message.isprintable()


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, PLAIN)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(TaskError) as caught:
        open_task(path, "cpu")
    assert caught.value.code == "task-unreadable"
    assert "Permission denied" in caught.value.message


def test_device_unknown(tmp_path: Path) -> None:
    with pytest.raises(TaskError) as caught:
        open_task(write(tmp_path, PLAIN), "tpu\x1b[31m")
    assert caught.value.code == "task-device"
    assert "\x1b" not in caught.value.message


def test_suite_name_unknown() -> None:
    with pytest.raises(TaskError) as caught:
        open_task("suite:RMSNrm", "cpu")
    assert caught.value.code == "task-suite-name"
    assert "rmsnorm" in caught.value.cure
    with pytest.raises(TaskError) as caught:
        open_task("suite:../task", "cpu")
    assert caught.value.code == "task-suite-name"
    assert "softmax" in caught.value.cure


def test_target_spec_survives_json() -> None:
    spec = TargetSpec(
        name="t",
        device="cpu",
        args=(
            ArgSpec("x", "input", "float32", (2, 3), (3, 1)),
            ArgSpec("w", "weight", "bfloat16", (), (), 2, True),
        ),
        scalars={"eps": 1e-5, "low": float("-inf"), "causal": True, "k": 3},
        outputs=(OutputSpec("out", "bool", (2,), (1,)),),
        read_bytes=26,
        write_bytes=2,
        flops=0,
        source_sha="ab",
    )
    here = replace(spec, sizes={"rows": 2}, ranges={"rows": (1, 9)})
    spec = replace(here, neighbours=(replace(here, sizes={"rows": 1}), here))
    again = TargetSpec.from_json(json.loads(json.dumps(spec.to_json(), allow_nan=False)))
    assert again == spec
    assert again.scalars["causal"] is True
    assert again.neighbours[0].scalars["low"] == float("-inf")


def test_target_spec_of_an_older_session() -> None:
    data = {
        "name": "t", "device": "cpu", "args": [], "scalars": {"low": "-inf"}, "outputs": [],
        "read_bytes": 1, "write_bytes": 2, "flops": 3, "source_sha": "ab",
    }  # fmt: skip
    spec = TargetSpec.from_json(data)
    assert (spec.sizes, spec.ranges, spec.neighbours) == ({}, {}, ())


def test_no_torch() -> None:
    code = "import sys, agent.task; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
