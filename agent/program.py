"""The program contract: a reply is one source block and one TOML plan, and nothing that runs here.

``parse_reply`` reads what a writer said, ``Program.bind`` turns the plan into plain steps for one
target and one choice of tunables. Host code is ours alone: it allocates, launches and times.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.errors import ProgramError
from agent.plan.binding import Bound, bind
from agent.plan.parts import Call, Launch, Scratch, TensorMap
from agent.plan.reading import read_plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.task import TargetSpec

_CPP = frozenset({"cpp", "c++", "cxx", "cc", "c"})
_CUDA = frozenset({"cuda", "cu", "cuda-cpp", "cuda-c++"})
# Labels of the source block; those of another language are taken where no own one is there.
LANGUAGES = {"cpp": _CPP, "cuda": _CUDA | _CPP}
MAX_REPLY = 512 * 1024
_OPENS = re.compile(r"[ \t]*```[ \t]*([A-Za-z+#-]*)")
_CLOSES = re.compile(r"[ \t]*```[ \t\r]*")

__all__ = ["LANGUAGES", "Bound", "Program", "normalise", "parse_reply", "read_program"]


@dataclass(frozen=True, slots=True)
class Program:
    """A candidate: device-only source and plan, tunables open.

    Attributes:
        language: ``"cpp"`` or ``"cuda"``.
        tune: Tunables with their values; the first is the default.
        steps: Launches and library calls in the order in which they run.
        key: SHA-256 over language, source without comments and spare blanks, and the plan: two
            programs with one key are the same program.
        notes: What the reader of a reply had to mend or guess; not part of the program.
    """

    language: str
    source: str
    plan: str
    title: str
    tune: dict[str, tuple[int, ...]]
    scratch: tuple[Scratch, ...]
    tensormaps: tuple[TensorMap, ...]
    steps: tuple[Launch | Call, ...]
    key: str
    notes: tuple[str, ...] = field(default=(), compare=False)

    def defaults(self) -> dict[str, int]:
        return {name: values[0] for name, values in self.tune.items()}

    def variants(self) -> list[dict[str, int]]:
        """Every choice of tunables, the default first."""
        names = list(self.tune)
        return [
            dict(zip(names, chosen, strict=True))
            for chosen in itertools.product(*self.tune.values())
        ]

    def kernels(self) -> list[str]:
        """The functions that the plan launches, each once."""
        return list(dict.fromkeys(step.kernel for step in self.steps if isinstance(step, Launch)))

    @property
    def calls(self) -> list[str]:
        """The library steps' operations, in order."""
        return [step.op for step in self.steps if isinstance(step, Call)]

    @property
    def library_only(self) -> bool:
        """Whether nothing of the program's own runs: such a program never counts as a win."""
        return len(self.calls) == len(self.steps)

    def bind(self, spec: TargetSpec, values: Mapping[str, int], facts: Mapping[str, Any]) -> Bound:
        """The plan as plain numbers and names; see :func:`agent.plan.binding.bind`.

        Raises:
            ProgramError: An expression, a name or a number does not fit the target.
        """
        return bind(self, spec, values, facts)


def parse_reply(text: str, language: str | None) -> Program:
    """Read a program in its exact form: an idea line, one source block, one ``toml`` plan.

    It is for texts of our own, such as the drafter's. What a model or a person wrote is read by
    :func:`agent.replies.read_reply`, which takes a text in this form for the same program, but
    refuses host code, and kernels that the source lacks, before anything is built.

    Args:
        text: The whole reply.
        language: ``"cpp"`` or ``"cuda"``; None where the source block's own label decides.

    Raises:
        ProgramError: What is missing or wrong, in words that a writer can act on.
    """
    if len(text) > MAX_REPLY:
        raise ProgramError(f"the reply is longer than {MAX_REPLY} characters", code="reply")
    blocks, prose = _fenced(text)
    if language is None:
        language = "cuda" if any(label in _CUDA for label, _ in blocks) else "cpp"
    sources = [body for label, body in blocks if label in LANGUAGES[language]]
    if language == "cuda" and any(label in _CUDA for label, _ in blocks):
        sources = [body for label, body in blocks if label in _CUDA]
    plans = [body for label, body in blocks if label == "toml"]
    if len(sources) != 1 or len(plans) != 1:
        raise ProgramError(
            f"a reply has one ```{language} block and one ```toml block; "
            f"this one has {len(sources)} and {len(plans)}",
            code="reply",
        )
    source = sources[0].replace("\r\n", "\n")
    title = next((line.strip(" #*\t\r") for line in prose if line.strip(" #*\t\r")), "")
    return read_program(language, source, plans[0], title[:200] or "untitled")


def _fenced(text: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Label and body of each closed block, and the lines outside of them."""
    blocks: list[tuple[str, str]] = []
    prose: list[str] = []
    label = ""
    body: list[str] | None = None
    for line in text.split("\n"):
        if body is None and (found := _OPENS.match(line)):
            label, body = found.group(1).lower(), []
        elif body is None:
            prose.append(line)
        elif _CLOSES.fullmatch(line):
            blocks.append((label, "".join(body)))
            body = None
        else:
            body.append(f"{line}\n")
    return blocks, prose


def read_program(language: str, source: str, plan: str, title: str) -> Program:
    """A program from its parts, as stored.

    Raises:
        ProgramError: The plan is not valid.
    """
    read = read_plan(language, plan)
    key = _key(language, source, read.data)
    return Program(
        language, source, plan, title, read.tune, read.scratch, read.tensormaps, read.steps, key
    )


_COMMENT_OR_TEXT = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|(\\.|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.S
)  # an escape outside of a text, which no program has, is taken whole: it begins no text


def normalise(source: str) -> str:
    """The source without comments and spare blanks: what makes two programs the same."""
    bare = _COMMENT_OR_TEXT.sub(lambda match: match.group(1) or " ", source)
    return "\n".join(
        " ".join(line.split()) for line in bare.splitlines() if line.strip()
    )  # lines stay, for preprocessor directives end with one


def _key(language: str, source: str, plan: dict[str, Any]) -> str:
    parsed = json.dumps(plan, sort_keys=True, default=str)
    text = "\0".join((language, normalise(source), parsed))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
