"""Programs from files: what is accepted, for which task, and what is said otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from forge_tui.options import Refused
from forge_tui.programs import MAX_BYTES, assigned, read_program
from tests.forge_tui.gpu_saga import PLAN, SOURCE

if TYPE_CHECKING:
    from pathlib import Path

REPLY = f"one block a row\n```cuda\n{SOURCE}```\n```toml\n{PLAN}```\n"
TASKS = ("suite:softmax", "my ops/gelu.py")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a=b.md"
    path.write_text(REPLY)
    return path


def test_one_task_needs_no_name(file: Path) -> None:
    assert assigned([str(file)], TASKS[:1]) == [{"target": 1, "text": REPLY, "name": "a=b.md"}]


@pytest.mark.parametrize(
    ("word", "target"),
    [("softmax", 1), ("suite:softmax", 1), ("1", 1), ("gelu", 2), ("my ops/gelu.py", 2), ("2", 2)],
)
def test_several_tasks_are_named(file: Path, word: str, target: int) -> None:
    (found,) = assigned([f"{word}={file}"], TASKS)
    assert (found["target"], found["name"]) == (target, "a=b.md")


@pytest.mark.parametrize("word", ["{}", "sum={}", "3={}", "={}"])
def test_a_program_for_nobody_is_asked_about(file: Path, word: str) -> None:
    with pytest.raises(Refused, match="which of the 2 tasks") as caught:
        assigned([word.format(file)], TASKS)
    assert "--program softmax=" in caught.value.cure


def test_two_tasks_of_one_name_need_their_numbers(file: Path) -> None:
    twins = ("a/gelu.py", "b/gelu.py")
    with pytest.raises(Refused):
        assigned([f"gelu={file}"], twins)
    assert assigned([f"b/gelu.py={file}"], twins)[0]["target"] == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no fenced block"),
        (b"__global__ void f() {}", "no fenced block"),
        (b"```cuda\n\xff\n```", "no UTF-8 text"),
        (b"```" * MAX_BYTES, "larger than 512 KiB"),
    ],
)
def test_files_that_are_no_programs(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x.md"
    path.write_bytes(content)
    with pytest.raises(Refused, match=words):
        read_program(str(path))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="No such file"):
        read_program(str(tmp_path / "none"))
    with pytest.raises(Refused, match="is a folder"):
        read_program(str(tmp_path))
