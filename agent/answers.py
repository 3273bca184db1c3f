"""The sources and plans of an answer, whatever they are wrapped in: fences, JSON, HTML, nothing."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from agent.fences import HEADER, Block, parts_of
from agent.titles import title_of

_ENTITY = re.compile(r"&(lt|gt|amp|quot|apos|nbsp|#39|#x27|#34);")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'", "nbsp": " ", "#39": "'",
             "#x27": "'", "#34": '"'}  # fmt: skip
_STARTS = re.compile(
    r"^[ \t]*(?:#[ \t]*(?:include|define|pragma)\b|extern\b|__global__|template\b|//|/\*|static\b"
    r"|namespace\b|using\b|struct\b|__device__|constexpr\b|inline\b|typedef\b)"
)
_HEADING = re.compile(r"[ \t]*(?:#(?![ \t]*endif).*|-{3,}|plan:?|toml:?)?[ \t]*", re.I)
_TOML_LINE = re.compile(r"[ \t]*(?:$|#|\[|[\w.\"-]+[ \t]*=|[\]}\"',{\d-])")
_QUOTES = str.maketrans("\u201c\u201d\u2018\u2019", "\"\"''")
_CONSTANT = re.compile(r"^([^\"'#\n]*=[ \t]*)(True|False)[ \t]*$", re.M)
_SEMICOLON = re.compile(r"^([^\"'#=\n]*=[^\n#;]*);[ \t]*$", re.M)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A source or a plan; ``closed`` says whether its end was there."""

    kind: Literal["source", "plan"]
    text: str
    closed: bool = True


class Answer:
    """What an answer holds.

    Attributes:
        parts: Sources and plans, in the order in which they stand.
        python: The first block of Python, or "".
        title: The idea, as far as it is said outside of the blocks.
        flaw: A form that cannot be read, in words; "" without.
    """

    def __init__(self, text: str) -> None:
        self.parts: list[Part] = []
        self.python = ""
        self.title = ""
        self.flaw = ""
        if self._from_json(text):
            return
        parts = parts_of(text)
        for block in parts.blocks:
            self._take(block)
        prose = "\n".join(parts.prose)
        if not self.plans and (self.sources or not parts.blocks) and HEADER.search(prose):
            self._from_prose(parts.prose, bare=not parts.blocks)
        self.title = self.title or title_of(parts.prose)
        if not parts.blocks and not self.parts and Block("", prose).kind == "python":
            self.python = prose

    @property
    def sources(self) -> list[Part]:
        return [part for part in self.parts if part.kind == "source"]

    @property
    def plans(self) -> list[Part]:
        return [part for part in self.parts if part.kind == "plan"]

    def take_thinking(self, thought: Answer) -> None:
        """Take the sources of the thinking, and its plans if there is none here."""
        plans = self.plans
        self.parts = [*thought.sources, *plans] if plans else thought.parts
        self.python = self.python or thought.python

    def _take(self, block: Block) -> None:
        block = replace(block, body=_unescaped(block.body))
        match block.kind:
            case "json":
                if not self._from_json(block.body):
                    self.flaw = "the reply is JSON that cannot be read"
            case "python":
                self.python = self.python or block.body
            case "both":
                self.parts += _split(block.body, closed=block.closed)
            case "source" | "plan" as kind:
                self.parts.append(Part(kind, block.body, block.closed))
            case _ if block.label == "diff":
                self.flaw = "the reply has a diff, not the whole source"

    def _from_json(self, text: str) -> bool:
        """Whether the text is a JSON object with a source; its parts are taken then."""
        if not text.lstrip().startswith("{") or '"' not in text:
            return False
        try:
            data = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            if re.match(r'\s{0,40}\{\s{0,40}"\w{1,40}"\s{0,40}:', text[:400]):
                self.flaw = "the reply is JSON that cannot be read"
            return False
        source = _text_of(data, "source", "code", "kernel", "cuda", "cpp")
        plan = _text_of(data, "plan", "toml")
        if not source:
            return False
        for block in _blocks_of(source, "cpp"):
            self._take(block)
        if plan:
            self.parts += [Part("plan", block.body) for block in _blocks_of(plan, "toml")[:1]]
        self.title = self.title or title_of([_text_of(data, "idea", "title", "summary")])
        return True

    def _from_prose(self, lines: list[str], *, bare: bool) -> None:
        """A plan, or all of the program, that stands outside of any fence."""
        start = next((at for at, line in enumerate(lines) if HEADER.fullmatch(line)), len(lines))
        end = start
        while end < len(lines) and _TOML_LINE.match(lines[end]):
            end += 1
        plan = Part("plan", _joined(lines[start:end]))
        if not bare:
            self.title = title_of([*lines[:start], *lines[end:]])
            self.parts.append(plan)
            return
        first = next((at for at, line in enumerate(lines[:start]) if _STARTS.match(line)), None)
        if first is not None:
            self.title = title_of(lines[:first])
            self.parts += [Part("source", _joined(_without_heading(lines[first:start]))), plan]


def mended(plan: str) -> str:
    """A plan with typographic quotes made plain, and other languages' comments, constants and
    semicolons made TOML's."""
    plan = _CONSTANT.sub(
        lambda found: found.group(1) + found.group(2).lower(), plan.translate(_QUOTES)
    )
    plan = re.sub(r"^[ \t]*//", "#", plan, flags=re.M)
    return _SEMICOLON.sub(r"\1", plan)


def _blocks_of(text: str, label: str) -> list[Block]:
    """The blocks in a text of a JSON answer; all of it where it has no fences."""
    text = text.replace("\r\n", "\n")
    return (parts_of(text).blocks if "```" in text else []) or [Block(label, text)]


def _split(body: str, *, closed: bool) -> list[Part]:
    """Source and plan that stand in one block, in either order."""
    lines = body.split("\n")
    at = next((number for number, line in enumerate(lines) if HEADER.fullmatch(line)), len(lines))
    if any(_STARTS.match(line) for line in lines[:at]):
        source = _joined(_without_heading(lines[:at]))
        return [Part("source", source), Part("plan", "\n".join(lines[at:]), closed)]
    first = next((n for n, line in enumerate(lines[at:], at) if _STARTS.match(line)), len(lines))
    plan, source = _joined(lines[:first]), "\n".join(lines[first:])
    return [Part("plan", plan), Part("source", source, closed)]


def _without_heading(lines: list[str]) -> list[str]:
    """The lines of a source without a heading of the plan that follows it."""
    end = len(lines)
    while end and _HEADING.fullmatch(lines[end - 1][:200]):
        end -= 1
    return lines[:end]


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _unescaped(body: str) -> str:
    """Code that a page escaped: recognised by having no bare angle bracket at all."""
    if "<" in body or ">" in body:
        return body
    return _ENTITY.sub(lambda found: _ENTITIES[found.group(1)], body)


def _text_of(data: Any, *names: str) -> str:
    for name in names:
        value = data.get(name) if isinstance(data, dict) else None
        if isinstance(value, str) and value.strip():
            return value.encode("utf-8", "replace").decode()
    return ""
