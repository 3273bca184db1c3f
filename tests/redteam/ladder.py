"""The whole way of a program: reply, plan, builder, judge. Says on which rung it fell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.devices.cpu import CpuDevice, find_compiler
from agent.devices.cpu_build import build
from agent.errors import BuildError, ProgramError
from agent.judge.judge import Judge
from agent.program import parse_reply
from agent.task import TaskSource, open_task

if TYPE_CHECKING:
    from pathlib import Path

    from agent.task import TargetSpec

BUILD_SECONDS = 5
INCLUDES = "#include <cmath>\n#include <cstdint>\n#include <cstring>\n#include <algorithm>\n"


def reply(source: str, plan: str, values: str = "") -> str:
    return f"An idea\n```cpp\n{source}\n```\n```toml\n{values}\n{plan}\n```\n"


def plan(*args: str, scratch: str = "") -> str:
    """A plan of one launch; each argument is a tensor, an expression, or TOML if it has a brace."""
    listed = ", ".join(arg if arg.startswith("{") else f'"{arg}"' for arg in args)
    return f'{scratch}\n[[launch]]\nkernel = "kernel"\nargs = [{listed}]'


class Ladder:
    """A judge with targets by name, loaded when first asked for."""

    def __init__(self, cache: Path, tasks: dict[str, str]) -> None:
        self.judge = Judge(run_seconds=2.0)
        self._cache = cache
        self._tasks = tasks
        self._facts = CpuDevice().facts()
        self._targets: dict[str, tuple[int, TargetSpec]] = {}

    def target(self, name: str) -> tuple[int, TargetSpec]:
        if name not in self._targets:
            number = len(self._targets) + 1
            if name.startswith("suite:"):
                source = open_task(name, "cpu")
            else:
                source = TaskSource("plain", name, "", self._tasks[name], "cpu")
            self._targets[name] = number, self.judge.load(number, source, 4242)
        return self._targets[name]

    def climb(self, task: str, text: str, *, timed: bool = False) -> tuple[str, str, str]:
        """(rung, code, message) of the first failure; ``("passed", "", "")`` if there is none."""
        target, spec = self.target(task)
        try:
            program = parse_reply(text, "cpp")
            values = program.defaults()
            bound = program.bind(spec, values, self._facts).to_json()
        except ProgramError as error:
            return "read", error.code, error.message
        try:
            built = build(
                find_compiler(), program.source, values, program.kernels(), self._cache,
                seconds=BUILD_SECONDS,
            )  # fmt: skip
        except BuildError as error:
            return str(error.evidence["rung"]), error.code, error.message
        result: Any = self.judge.check(target, built.library, bound)
        if result.failure is None and timed:
            result = self.judge.measure(target, built.library, bound, 60)
        if result.failure is None:
            return "passed", "", ""
        return result.failure.rung, result.failure.code, result.failure.message
