"""The README is in step with the program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from agent.program import parse_reply
from forge_tui.cli import main
from forge_tui.keys import KEYS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_file_tree_is_up_to_date() -> None:
    check = [sys.executable, str(ROOT / "docs" / "file_tree.py"), "--check"]
    assert subprocess.run(check, check=False).returncode == 0, "run: python docs/file_tree.py"


def test_every_command_is_documented() -> None:
    table = README.partition("## Commands")[2].partition("## Keys")[0]
    for name in main.commands:
        assert re.search(rf"\b{name}\b", table), name


def test_every_letter_key_is_documented() -> None:
    table = README.partition("## Keys")[2].partition("## How")[0]
    for key in KEYS:
        first = key.show.split()[0]
        if len(first) == 1:
            assert first in table or first.isdigit(), first


def test_the_first_commands_are_the_two_that_do_everything() -> None:
    first = re.search(r"```sh\n(.*?)```", README, re.S)
    assert first is not None
    commands = [line.split("#")[0].strip() for line in first.group(1).splitlines()]
    assert commands == ["make demo", "make test"]


def test_pictures_are_there_and_nothing_names_what_is_not() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_program_in_the_readme_keeps_the_contract() -> None:
    found = re.search(r"````text\n(.*?)````", README, re.S)
    assert found is not None
    program = parse_reply(found.group(1), "cuda")
    assert program.title == "One block a row, sums by warp shuffles"
    assert program.kernels() == ["rms"]
    assert len(program.variants()) == 3
