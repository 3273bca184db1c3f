"""Programs that a person wrote: read from files, bounded, and given to the targets they are for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge_tui.options import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_BYTES = 512 * 1024
_FORM = "a program is one block of source (```cuda or ```cpp) and one ```toml block with its plan"


def read_program(name: str) -> str:
    """A program's text, as a writer hands it in.

    Raises:
        Refused: The file cannot be read, is too large, is no text, or holds no block.
    """
    path = Path(name).expanduser()
    try:
        if path.is_dir():
            raise Refused(f"{name} is a folder, not a program")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Refused(f"the program {name} cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise Refused(f"the program {name} is larger than {MAX_BYTES // 1024} KiB")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(f"the program {name} is no UTF-8 text") from None
    if text.count("```") < 2:
        raise Refused(f"the program {name} has no fenced block", _FORM)
    return text


def assigned(given: Sequence[str], tasks: Sequence[str]) -> list[dict[str, Any]]:
    """The programs as a session's config holds them: ``{"target", "text", "name"}``.

    Args:
        given: ``FILE``, or ``TARGET=FILE`` where the target is a task as it was given, its short
            name, or its number from 1.
        tasks: The tasks in order.

    Raises:
        Refused: It cannot be told which task a program is for, or its file cannot be used.
    """
    found = []
    for word in given:
        before, mark, after = word.partition("=")
        target = _target(before, tasks) if mark else 0
        name = after if target else word
        if not target and len(tasks) > 1:
            first = _short(tasks[0])
            raise Refused(
                f"which of the {len(tasks)} tasks is {word} for?",
                f"name it: --program {first}={after or word}",
            )
        text = read_program(name)
        found.append({"target": target or 1, "text": text, "name": Path(name).name})
    return found


def _target(word: str, tasks: Sequence[str]) -> int:
    """The number of the one task that answers to a word; 0 for none or several."""
    if word.isdecimal() and 1 <= int(word) <= len(tasks):
        return int(word)
    fitting = [number for number, task in enumerate(tasks, 1) if word in {task, _short(task)}]
    return fitting[0] if len(fitting) == 1 else 0


def _short(task: str) -> str:
    return task.removeprefix("suite:") if task.startswith("suite:") else Path(task).stem
