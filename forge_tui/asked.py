"""The Prompt tab: what a writer was asked for a node, what it replied, and what each call cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_tui import figures, words
from forge_tui.text import lines, one_line

if TYPE_CHECKING:
    from forge_tui.glyphs import Glyphs
    from forge_tui.model import Detail
    from forge_tui.view import Line
    from store.rows import CallRow, NodeRow, PromptText

_NOBODY = {
    "drafter": "the drafter wrote this program: no model was asked",
    "person": "a person wrote this program: no model was asked",
}
_ENDS = {
    "reserved": ("in flight", "live"),
    "paid": ("replied", "good"),
    "failed": ("failed", "bad"),
    "lost": ("lost", "warn"),
    "answered": ("answered", "good"),
}


def asked(detail: Detail, glyphs: Glyphs, *, whole: bool) -> list[Line]:
    """Every call of a node in order: how it ended, what was sent, what came back.

    Args:
        whole: Show the instructions too that are the same for every prompt.
    """
    node = detail.node
    out: list[Line] = []
    if node.hint:
        out += [(("a person's hint: ", "head"), (one_line(node.hint, 400), "text")), ()]
    if not detail.calls:
        text = _NOBODY.get(node.writer, "nobody was asked yet")
        return [*out, ((text, "muted"),)]
    if detail.prompts is None:
        return [*out, (("reading", "muted"),)]
    sent: dict[str, int] = {}
    for number, call in enumerate(detail.calls, 1):
        out += [()] if number > 1 else []
        out += _head(call, number, len(detail.calls), glyphs)
        out += _prompt(detail, call, sent, number, whole)
        out += _reply(detail, call, node)
    return out


def _head(call: CallRow, number: int, count: int, glyphs: Glyphs) -> list[Line]:
    """Who was asked for what, how it ended, and what it took."""
    word, role = _ENDS.get(call.state, (one_line(call.state, 20), "warn"))
    about = [f"call {number} of {count}", one_line(call.model or call.writer or "?", 60)]
    if (call.attempt or 1) > 1:
        about.append(f"attempt {call.attempt}")
    if call.purpose == "format":
        about.append("to put its reply right")
    rule = glyphs.bar_empty if not glyphs.bar_empty.isascii() else "-"
    ended: list[str] = []
    if call.error == "lost":
        word = "lost with its engine"
    elif call.error:
        ended.append(one_line(call.error, 40))
    if call.finish and call.finish != "stop":
        ended.append(f"ended by {one_line(call.finish, 30)}")
    if call.seconds:
        ended.append(figures.seconds_of(call.seconds))
    return [
        ((f"{rule * 2} {', '.join(about)}", "head"),),
        ((word, role), ("".join(f", {one}" for one in ended), "text"),
         (f"   {cost_of(call)}", "strong")),
        *_tokens(call),
    ]  # fmt: skip


def cost_of(call: CallRow) -> str:
    """What a call cost: never a number that nobody knows."""
    if call.state == "answered":
        return "no price: not a model's"
    if call.state == "reserved":
        if call.reserved is None:
            return f"price {words.UNKNOWN}" if (call.writer or "model") == "model" else ""
        return f"at most {figures.dollars(call.reserved)}"
    if call.micro_dollars is None:
        return f"price {words.UNKNOWN}"
    if call.state == "lost":
        return f"{figures.dollars(call.micro_dollars)} counts as spent"
    return figures.dollars(call.micro_dollars) + (" estimated" if call.estimated else "")


def _tokens(call: CallRow) -> list[Line]:
    """Tokens in and out, with those from the cache and those that were thought."""
    if call.state in {"reserved", "answered"} or not (call.tokens_in or call.tokens_out):
        return []
    cached = f" ({call.tokens_cached:,} cached)" if call.tokens_cached else ""
    thought = f" ({call.tokens_reasoning:,} reasoning)" if call.tokens_reasoning else ""
    guess = ", estimated by us" if call.estimated else ""
    text = (
        f"tokens {call.tokens_in or 0:,} in{cached}, {call.tokens_out or 0:,} out{thought}{guess}"
    )
    return [((text, "muted"),)]


def _prompt(
    detail: Detail, call: CallRow, sent: dict[str, int], number: int, whole: bool
) -> list[Line]:
    """What was sent; a prompt that was sent before is told by its call's number."""
    text = (detail.prompts or {}).get(call.prompt or "")
    if text is None:
        return [((("what was sent is not stored"), "faint"),)]
    if text.hash in sent:
        return [((f"sent: the same as in call {sent[text.hash]}", "muted"),)]
    sent[text.hash] = number
    return [(), *_system(text, whole), (("sent", "head"),), *_text(text.user)]


def _system(text: PromptText, whole: bool) -> list[Line]:
    if not text.system:
        return []
    if whole:
        return [(("instructions, the same in every prompt", "head"),), *_text(text.system), ()]
    size = figures.count_of(text.system.count("\n") + 1, "line")
    said = f"instructions, the same in every prompt: {size}, space shows them"
    return [((said, "muted"),)]


def _reply(detail: Detail, call: CallRow, node: NodeRow) -> list[Line]:
    reply = detail.replies.get(call.id)
    if reply is None:
        if call.state == "reserved":
            where = "the Log tab shows it as it comes" if node.writer == "model" else "waited for"
            return [(), (("reply: ", "head"), (where, "muted"))]
        return [(), (("nothing came back", "muted"),)]
    out: list[Line] = []
    if reply.thinking:
        out += [(), (("thinking", "head"),), *_text(reply.thinking, "faint")]
    return [*out, (), (("reply", "head"),), *_text(reply.text)]


def _text(text: str, role: str = "text") -> list[Line]:
    return [((line, role),) for line in lines(text)]
