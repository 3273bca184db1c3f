from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.errors import TaskError
from agent.task import open_task
from agent.taskfile import declared, resized

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = (
    "def reference(x, cache):\n    return x\ndef inputs(device, rows=96, *, cols=8):\n    pass\n"
)
MODEL = "class Model: pass\ndef get_inputs(): return rows\n"


def plain(text: str) -> TaskError:
    with pytest.raises(TaskError) as caught:
        declared(text + PLAIN, "plain", "t.py")
    error = caught.value
    assert error.cure
    assert (error.message + error.cure).isprintable()
    return error


def test_nothing_declared() -> None:
    says = declared(PLAIN, "plain", "t.py")
    assert (says.ranges, says.mutates) == ({}, ())


def test_what_is_declared() -> None:
    text = "RANGES: dict = {'rows': [1, 200], 'cols': (0, 8)}\nMUTATES = ['cache', 'x', 'x']\n"
    says = declared(text + PLAIN, "plain", "t.py")
    assert says.ranges == {"rows": (1, 200), "cols": (0, 8)}
    assert says.mutates == ("cache", "x")


def test_places_in_nested_arguments_can_be_named() -> None:
    assert declared("MUTATES = ('x_0',)\n" + PLAIN, "plain", "t.py").mutates == ("x_0",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("RANGES = dict(rows=(1, 2))\n", "no plain literal"),
        ("RANGES = {'rows': (1, 200)}\nRANGES = {'rows': (1, 300)}\n", "no plain literal"),
        ("if True:\n    RANGES = {'rows': (1, 200)}\n", "no plain literal"),
        ("RANGES = {'rows': (1, HIGH)}\n", "no plain literal"),
        ("RANGES, other = {'rows': (1, 200)}, 1\n", "no plain literal"),
        ("RANGES = {'rows': (1, 200), []: 1}\n", "no plain literal"),
        ("RANGES = [('rows', 1, 2)]\n", "no dict"),
        ("RANGES = {" + ",".join(f"'a{at}': (1, 2)" for at in range(6)) + "}\n", "6 dimensions"),
        ("RANGES = {5: (1, 200)}\n", "names 5"),
        ("RANGES = {'ro\\x1b[2Jws': (1, 200)}\n", "RANGES names"),
        ("RANGES = {'row': (1, 200)}\n", "names row, which is no parameter of inputs()"),
        ("RANGES = {'device': (1, 200)}\n", "device of inputs() has no default"),
        ("RANGES = {'rows': 200}\n", "not two integers"),
        ("RANGES = {'rows': (1, 2, 3)}\n", "not two integers"),
        ("RANGES = {'rows': (1, 200.0)}\n", "not two integers"),
        ("RANGES = {'rows': (True, 200)}\n", "not two integers"),
        ("RANGES = {'rows': (200, 1)}\n", "is (200, 1)"),
        ("RANGES = {'rows': (-1, 200)}\n", "is (-1, 200)"),
        (f"RANGES = {{'rows': (1, {10**30})}}\n", "is (1, 1000"),
        ("RANGES = {'rows': (1, 95)}\n", "rows = 96 lies outside of its range (1, 95)"),
    ],
)
def test_bad_ranges(text: str, says: str) -> None:
    error = plain(text)
    assert error.code == "task-ranges"
    assert says in error.message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("MUTATES = ('x')\n", "no tuple of argument names"),
        ("MUTATES = (1,)\n", "no tuple"),
        ("MUTATES = set(['x'])\n", "no plain literal"),
        ("MUTATES = ('cahce',)\n", "names cahce, which is no argument"),
    ],
)
def test_bad_mutates(text: str, says: str) -> None:
    error = plain(text)
    assert error.code == "task-mutates"
    assert says in error.message
    assert "cahce" not in error.message or error.cure == "did you mean cache?"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cols = 3\n", "no name of the file's top level"),
        ("rows = 3\nrows = 4\n", "one plain assignment"),
        ("rows, cols = 3, 4\n", "one plain assignment"),
        ("from sizes import rows\n", "one plain assignment"),
        ("rows = 3\nrows += 1\n", "one plain assignment"),
        ("rows = 'many'\n", "no integer"),
        ("rows = 9\n", "outside of its range (1, 8)"),
    ],
)
def test_bad_ranges_of_a_model(text: str, says: str) -> None:
    with pytest.raises(TaskError) as caught:
        declared("RANGES = {'rows': (1, 8)}\n" + text + MODEL, "kernelbench", "t.py")
    assert caught.value.code == "task-ranges"
    assert says in caught.value.message


def test_what_only_running_the_file_tells_is_left_to_it() -> None:
    text = "RANGES = {'rows': (1, 8)}\nrows = 2 * 3\n" + MODEL
    assert declared(text, "kernelbench", "t.py").ranges == {"rows": (1, 8)}
    text = "RANGES = {'rows': (1, 8)}\nfrom elsewhere import inputs, reference\nMUTATES = ('q',)\n"
    assert declared(text, "plain", "t.py").mutates == ("q",)


def test_another_number_in_the_place_of_the_first() -> None:
    text = "rows = width = 4\nsize: int = rows * 2\n"
    space: dict[str, object] = {}
    exec(compile(resized(text, "t.py", {"rows": 7}), "t.py", "exec"), space)
    assert (space["rows"], space["width"], space["size"]) == (7, 7, 14)


def test_a_bad_declaration_is_told_before_anything_runs(tmp_path: Path) -> None:
    path = tmp_path / "task.py"
    path.write_text("raise SystemExit\nRANGES = {'rows': (9, 1)}\n" + PLAIN)
    with pytest.raises(TaskError, match="the range of rows") as caught:
        open_task(str(path), "cpu")
    assert caught.value.code == "task-ranges"
