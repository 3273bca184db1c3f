"""The parts of a reply: thinking, prose, and fenced blocks as models really write them.

Read line by line in one pass, so that no text, however hostile, takes more than linear time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

CPP = frozenset({"cpp", "c++", "cxx", "cc", "c", "hpp", "h"})
CUDA = frozenset({"cuda", "cu", "cuda-cpp", "cuda-c++", "cuh", "cudacpp"})
PLAN = frozenset({"toml", "ini", "yaml", "yml", "plan", "conf", "cfg"})
PYTHON = frozenset({"python", "py", "python3", "triton"})
KNOWN = CPP | CUDA | PLAN | PYTHON | {"json", "bash", "sh", "diff"}
WRAPPERS = frozenset({"", "markdown", "md", "text", "txt", "plaintext", "none", "code"})
_DEPTH = 3

_NAMES = "think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis|seed:think"
_THINKING = re.compile(
    rf"<(?:antml:)?(?:{_NAMES})[ ]{{0,4}}>|\[THINK\]|◁think▷|<\|channel\|>analysis<\|message\|>"
    rf"|(?P<end></(?:antml:)?(?:{_NAMES})[ ]{{0,4}}>|\[/THINK\]|◁/think▷|<\|end\|>"
    r"|<\|channel\|>final<\|message\|>)",
    re.I,
)
_LABEL = re.compile(r"\{?\.?(?:language-|lang-)?([A-Za-z][A-Za-z0-9_+#-]*)")
_STARTS_CODE = re.compile(
    r"#[ \t]*(include|define|pragma)\b|//|/\*|\[\[|\[tune\]"
    r"|(extern|__global__|template|static|using|namespace|typedef|constexpr|const|struct)\b"
)
_CLOSES_CODE = re.compile(r"[;})\]\"][ \t]*(`{3,})$")
_HTML_OPEN = re.compile(
    r"<pre[^<>\n]{0,80}>[ \t]*<code(?:[^<>\n]{0,80}?language-([\w+#-]{1,20}))?[^<>\n]{0,80}>", re.I
)
_HTML_CLOSE = re.compile(r"</code>[ \t]*</pre>", re.I)
HEADER = re.compile(
    r"^[ \t]*(?:\[[ \t]*tune[ \t]*\]|\[\[[ \t]*(?:launch|call|scratch|tensormap)[ \t]*\]\])"
    r"[ \t]*(?:#.*)?$",
    re.M,
)
_CODE = re.compile(
    r"__global__|__device__|\bextern[ \t]*\"C\"|^[ \t]*#[ \t]*(?:include|define|pragma)\b"
    r"|^[ \t]*(?:template|static|inline|void|float|int|struct|namespace|using|constexpr)\b"
    r"[^\n={;<(]*[({;<]",
    re.M,
)
_PYTHON = re.compile(
    r"^[ \t]*(?:import[ \t]+(?:torch|triton|numpy|cupy|os|math)\b|from[ \t]+(?:torch|triton)\b"
    r"|@triton\.jit|def[ \t]+\w+[ \t]*\(|class[ \t]+\w+[ \t]*\([^\n]*\):)",
    re.M,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.

    Attributes:
        label: The first word after the fence, in lower case; may be empty.
        body: Its lines, each with its end.
        closed: Whether its end was there.
    """

    label: str
    body: str
    closed: bool = True

    @property
    def kind(self) -> str:
        """``source``, ``plan``, ``both``, ``python``, ``json`` or ``other``; by content first."""
        plan = HEADER.search(self.body) is not None
        if self.label in PYTHON or (_PYTHON.search(self.body) and self.label not in CPP | CUDA):
            return "python"
        if self.body.lstrip().startswith("{") and self.label in WRAPPERS | {"json"}:
            return "json"
        code = _CODE.search(self.body) is not None
        if plan:
            return "both" if code else "plan"
        if self.label in PLAN and not code:
            return "plan"
        if code and self.label not in {"diff", "bash", "sh", "json"}:
            return "source"
        return "source" if self.label in CPP | CUDA and self.body.strip() else "other"


@dataclass(slots=True)
class Parts:
    """A text's blocks in order, and its lines outside of them."""

    blocks: list[Block] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)


def without_thinking(text: str) -> tuple[str, str]:
    """The answer and the thinking of a reply.

    An opening mark counts at the start of a line alone. One that is never closed leaves all that
    follows as thinking; a closing one without an opening makes thinking of all before it, as
    where a server's template has said the opening one itself.
    """
    answer: list[str] = []
    thinking: list[str] = []
    start, inside = 0, False
    for mark in _THINKING.finditer(text):
        if mark.group("end") is None:
            line = text.rfind("\n", 0, mark.start()) + 1
            if inside or text[max(line, mark.start() - 80) : mark.start()].strip():
                continue
            answer.append(text[start : mark.start()])
            inside = True
        elif inside:
            thinking.append(text[start : mark.start()])
            inside = False
        elif mark.group() == "<|end|>":
            continue
        else:
            thinking += [*answer, text[start : mark.start()]]
            answer = []
        start = mark.end()
    (thinking if inside else answer).append(text[start:])
    return "\n".join(answer), "\n".join(thinking)


def parts_of(text: str) -> Parts:
    """The blocks and the prose of an answer."""
    text = _HTML_OPEN.sub(lambda found: f"\n```{found.group(1) or ''}\n", text)
    return _Reader().read(_HTML_CLOSE.sub("\n```\n", text).split("\n"))


@dataclass(frozen=True, slots=True)
class _Fence:
    """A line that opens or closes a block; ``first`` is code that stands on it already."""

    mark: str
    label: str
    bare: bool
    indent: int
    quoted: bool
    first: str = ""
    before: str = ""


class _Reader:
    """One pass over lines; a block within a wrapper is read by another one."""

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth
        self._parts = Parts()
        self._open: _Fence | None = None
        self._body: list[str] = []
        self._wrappers = 0

    def read(self, lines: list[str]) -> Parts:
        for line in lines:
            if self._open is None:
                self._outside(line)
            else:
                self._inside(line, self._open)
        if self._open is not None:
            self._end(closed=False)
        return self._parts

    def _outside(self, line: str) -> None:
        fence = _fence(line) or _after_prose(line)
        if fence is None:
            self._parts.prose.append(line)
        elif fence.bare and self._wrappers:
            self._wrappers -= 1
        else:
            self._begin(fence)

    def _begin(self, fence: _Fence) -> None:
        if fence.before:
            self._parts.prose.append(fence.before)
        self._open = fence
        self._body = [fence.first] if fence.first else []

    def _inside(self, line: str, opened: _Fence) -> None:
        fence = _fence(line)
        if fence is not None and fence.mark[0] == opened.mark[0]:
            long = len(fence.mark) >= len(opened.mark)
            if fence.bare and long:
                self._end(closed=True)
                return
            # A closing fence has no label: this one opens a block, within a wrapper or where the
            # block before was never closed.
            if fence.label in KNOWN and (long or opened.label in WRAPPERS):
                wrapper = opened.label in WRAPPERS and not _CODE.search("\n".join(self._body))
                if wrapper:
                    self._parts.prose += self._body
                    self._wrappers += 1
                else:
                    self._end(closed=True)
                self._begin(fence)
                return
        closing = _CLOSES_CODE.search(line[-40:]) if "```" in line[-40:] else None
        if closing and "//" not in line and line.count("`") == len(closing.group(1)):
            self._body.append(_dedented(line, opened)[: -len(closing.group(1))].rstrip())
            self._end(closed=True)
        else:
            self._body.append(_dedented(line, opened))

    def _end(self, *, closed: bool) -> None:
        opened, body = self._open, self._body
        self._open, self._body = None, []
        assert opened is not None
        if opened.label in WRAPPERS and self._depth < _DEPTH and any(map(_fence, body)):
            inner = _Reader(self._depth + 1).read(body)
            self._parts.blocks += inner.blocks
            self._parts.prose += inner.prose
        elif opened.label in PLAN or any(line.strip() for line in body):
            text = "".join(f"{line}\n" for line in body)
            self._parts.blocks.append(Block(opened.label, text, closed))


def _fence(line: str) -> _Fence | None:
    bare = line.lstrip(" \t>")
    if bare[:3] not in ("```", "~~~"):
        listed = re.match(r"(?:[-*+]|\d{1,3}[.)])[ \t]{1,8}(?=```|~~~)", bare[:20])
        if listed is None:
            return None
        bare = bare[listed.end() :]
    mark = bare[: len(bare) - len(bare.lstrip(bare[0]))]
    info = bare[len(mark) :].strip()
    if mark[0] == "`" and "`" in info:
        return None
    indent = len(line) - len(line.lstrip(" \t"))
    label, first = _info(info)
    return _Fence(mark, label, not info, indent, line.lstrip(" \t").startswith(">"), first)


def _after_prose(line: str) -> _Fence | None:
    """A block that begins behind words on one line, as in ``Here it is: ```cuda``."""
    at = line.rfind("```")
    if at <= 0 or "`" in line[:at]:
        return None
    label, first = _info(line[at + 3 :].strip())
    if label not in KNOWN or first:
        return None
    return _Fence("```", label, bare=False, indent=0, quoted=False, before=line[:at])


def _info(info: str) -> tuple[str, str]:
    """The label, and code that follows it on the line."""
    found = _LABEL.match(info[:80])
    label = found.group(1).lower() if found else ""
    if re.match(r"(c|gnu)\+\+\d", label):
        label = "c++"
    if label in KNOWN or label in WRAPPERS - {""}:
        rest = info[found.end() :].lstrip(" \t}") if found else ""
        return label, rest if _STARTS_CODE.match(rest) else ""
    return ("", info) if _STARTS_CODE.match(info) else (label, "")


def _dedented(line: str, opened: _Fence) -> str:
    if opened.quoted and line.lstrip(" \t").startswith(">"):
        line = line.lstrip(" \t")[1:].removeprefix(" ")
    blanks = len(line) - len(line.lstrip(" \t"))
    return line[min(opened.indent, blanks) :]
