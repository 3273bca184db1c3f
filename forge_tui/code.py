"""The Code and Log tabs: a program's source and plan with colours, and what was said about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_tui.detail import tuned_text
from forge_tui.text import clip, lines, one_line, width

if TYPE_CHECKING:
    from forge_tui.model import Detail
    from forge_tui.view import Line

MAX_HIGHLIGHT = 200_000
INDENT = " " * 8
_ROLES = (
    ("Comment.Preproc", "code-pre"),
    ("Comment", "code-comment"),
    ("Keyword", "code-key"),
    ("Literal.String", "code-text"),
    ("Literal.Number", "code-number"),
    ("Name.Function", "code-name"),
    ("Name.Tag", "code-key"),
)


def code(detail: Detail) -> list[Line]:
    """A program's plan and source, highlighted, with line numbers for the source."""
    program = detail.program
    if program is None:
        return [(("nothing is written yet", "muted"),)]
    out: list[Line] = []
    for number, line in enumerate(highlight(program.source, program.language), 1):
        out.append(((f"{number:>4}  ", "faint"), *line))
    if program.plan.strip():
        out += [(), (("      plan", "head"),)]
        out += [(("      ", "faint"), *line) for line in highlight(program.plan, "toml")]
    return out


def folded(source: list[Line], cells: int) -> list[Line]:
    """The lines with those too wide for ``cells`` cells going on, indented, in the next."""
    out: list[Line] = []
    for line in source:
        if sum(width(text) for text, _ in line) <= cells or cells < 2 * len(INDENT):
            out.append(line)
            continue
        room, current = cells, list[tuple[str, str]]()
        for whole, role in line:
            text = whole
            while width(text) > room:
                head = _head(text, room) if room > 0 else ""
                current.append((head, role))
                out.append(tuple(current))
                text, room, current = text[len(head) :], cells - len(INDENT), [(INDENT, "faint")]
            current.append((text, role))
            room -= width(text)
        out.append(tuple(current))
    return out


def _head(text: str, cells: int) -> str:
    """What fits into a line: up to a space, if there is one in its second half."""
    head = clip(text, cells, "")
    at = head.rfind(" ") + 1
    return head[:at] if at > len(head) // 2 else head


def highlight(text: str, language: str) -> list[Line]:
    """The text as lines of coloured pieces; plain where it is too large to look at closely."""
    plain = lines(text)
    if sum(len(line) for line in plain) > MAX_HIGHLIGHT:
        return [((line, "text"),) for line in plain]
    from pygments.lexers import CppLexer, TOMLLexer  # type: ignore[import-untyped]

    lexer = TOMLLexer(stripnl=False) if language == "toml" else CppLexer(stripnl=False)
    out: list[Line] = []
    current: list[tuple[str, str]] = []
    for token, value in lexer.get_tokens("\n".join(plain)):
        role = _role(str(token).removeprefix("Token."))
        for index, part in enumerate(value.split("\n")):
            if index:
                out.append(tuple(current))
                current = []
            if part:
                current.append((part, role))
    if current:
        out.append(tuple(current))
    return out[: len(plain)]


def _role(token: str) -> str:
    for prefix, role in _ROLES:
        if token.startswith(prefix):
            return role
    return "text"


def _streamed(detail: Detail) -> list[tuple[str, str]]:
    """The streamed text by channel: a piece may end in the middle of a line."""
    out: list[tuple[str, list[str]]] = []
    for piece in detail.stream:
        if not out or out[-1][0] != piece.channel:
            out.append((piece.channel, []))
        out[-1][1].append(piece.text)
    return [(channel, "".join(parts)) for channel, parts in out]


def log(detail: Detail) -> list[Line]:
    """A node's streamed text and the compiler's words about its failed variants."""
    out: list[Line] = []
    for channel, said in _streamed(detail):
        by = detail.node.model or detail.node.writer if channel == "model" else channel
        out.append(((one_line(by, 60), "head"),))
        role = "faint" if channel == "thinking" else "text"
        out += [((line, role),) for line in lines(said)]
    for variant in detail.variants:
        if variant.state != "failed":
            continue
        tuned = tuned_text(variant)
        rung = one_line(variant.rung or "?", 12)
        head = f"{rung} failed" + (f" with {tuned}" if tuned else "")
        out += [(), ((head, "head"),)] if out else [((head, "head"),)]
        out += [((line, "warn"),) for line in lines(variant.reason or "", 50)]
        text = (variant.evidence or {}).get("log")
        if text:
            out += [((line, "text"),) for line in lines(text, 2_000)]
    return out or [(("nothing was logged", "muted"),)]
