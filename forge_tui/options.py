"""What several commands share: options, what they accept, and errors as people see them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forge_tui.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable

BASELINES = ("eager", "compile", "compile-max")


class Refused(click.ClickException):
    """An error as people see it: what happened, and what to do."""

    def __init__(self, message: str, cure: str = "") -> None:
        super().__init__(message)
        self.cure = cure

    def show(self, file: Any = None) -> None:
        click.echo(f"error: {self.message}", err=True)
        if self.cure:
            click.echo(self.cure, err=True)


def a_device(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """``cpu``, ``cuda``, or one of several GPUs by its number: ``cuda:N``."""
    if not re.fullmatch(r"cpu|cuda(:\d{1,3})?", value):
        raise click.BadParameter(f"{value!r} is not cpu, cuda or cuda:N")
    return value


def some_baselines(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> list[str] | None:
    """A list with commas; eager, which all else is a ratio to, is always among it."""
    if value is None:
        return None
    named = [name.strip() for name in value.split(",") if name.strip()]
    odd = [name for name in named if name not in BASELINES]
    if odd:
        raise click.BadParameter(f"{odd[0]!r} is no baseline: {', '.join(BASELINES)}")
    return [name for name in BASELINES if name == "eager" or name in named]


SESSION = click.argument("session", required=False)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
DEVICE = click.option(
    "--device", callback=a_device, default="cpu", show_default=True, metavar="[cpu|cuda|cuda:N]",
    help="What the programs run on.",
)  # fmt: skip


def screen_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every command that may open the screen."""
    function = click.option(
        "--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters alone."
    )(function)
    return click.option(
        "--no-mouse", is_flag=True, help="Leave the mouse to the terminal."
    )(function)  # fmt: skip


def start_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every command that starts a search."""
    function = click.option(
        "--headless", is_flag=True, help="Print progress lines instead of opening the screen."
    )(function)
    function = click.option(
        "--stop-on-exit", is_flag=True, help="Stop the search when the screen is left."
    )(function)
    function = click.option("--name", default="", help="A name for the session.")(function)
    return screen_options(function)


MAX_HINT = 1_500  # an engine reads so much of a command, whatever letters it is written in


def a_hint(text: str) -> str:
    """A person's words for the writers, as one line.

    Raises:
        Refused: There are none, or too many.
    """
    said = " ".join(clean(text, 10 * MAX_HINT).split())
    if not said:
        raise Refused("a hint needs words")
    if len(said) > MAX_HINT:
        raise Refused(f"the hint is longer than {MAX_HINT:,} characters")
    return said


def session_id(path: Path) -> str:
    """A session's name, from its file's."""
    from store.paths import SUFFIX

    return path.name.removesuffix(SUFFIX)


def task_path(task: str) -> str:
    """A task as every process understands it: ``suite:NAME``, or a file's whole path."""
    return task if task.startswith("suite:") else str(Path(task).absolute())
