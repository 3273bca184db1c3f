"""What is asked for: the last section of a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.writers.prompts.figures import span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.writers.brief import Brief, Written

_UNITS = {"cuda": "SMs", "cpp": "cores"}
_FORM = "Answer in the contract's form, with the whole source in one {label} block, and its plan."


def request(brief: Brief) -> str:
    """The task in words."""
    asks = {"repair": _repair, "combine": _combine, "improve": _improve}
    ask = asks.get(brief.action, _draft) if brief.parent is not None else _draft
    form = _FORM.format(label=brief.target.language)
    return "\n".join(["# Your task", *ask(brief), form])


def _draft(brief: Brief) -> Iterator[str]:
    if not brief.tried:
        yield "Write the program that you expect to be the fastest."
    else:
        yield (
            "Write a program that differs in kind from all that was tried: another mapping of the "
            "work, other memory traffic, another algorithm; not a variation of one of them. If "
            "one of them failed for a detail, its idea may still be the best: then write it right."
        )
    yield (
        "Decide first what bounds the operator, how few bytes or operations must do, and how the "
        "work is spread; then write."
    )


def _improve(brief: Brief) -> Iterator[str]:
    parent = brief.parent
    assert parent is not None
    yield from _room(brief, parent)
    if brief.step == "large":
        yield (
            f"Restructure node {parent.node}: change how the work is mapped, what is kept where, "
            "how many passes or steps there are, or the algorithm. Tuning its numbers is not "
            "enough, for that was done by measurement. Keep what is proven right in it."
        )
    else:
        language = brief.target.language
        if not parent.advice:
            yield (
                f"Look for, in this order: bytes that move twice, idle {_UNITS[language]}, narrow "
                "or scattered accesses, too few loads in flight, barriers, arithmetic."
            )
        yield (
            f"Make one change to node {parent.node}: the one that takes off the most of its time. "
            "Name it in the first line. Leave all else as it is; its tunables' values were "
            "already searched, so other values alone are no change, but a tunable for the new "
            "choice is welcome."
        )


def _room(brief: Brief, parent: Written) -> Iterator[str]:
    """How far it is from the limit, so that effort goes where time is."""
    if parent.gain is not None and 0 < parent.gain < 1:
        yield f"The fastest baseline still takes only {100 * parent.gain:.0f} % of its time."
    sol = brief.target.sol_ns
    if not sol or not parent.sol_share or parent.sol_share >= 1:
        return
    lost = f"{100 * (1 - parent.sol_share):.0f} % of its time"
    yield f"Beyond the speed of light ({span(sol)}) it spends {lost}: find where."


def _repair(brief: Brief) -> Iterator[str]:
    parent = brief.parent
    assert parent is not None
    rung = parent.failure.rung if parent.failure is not None else ""
    if not parent.source.strip():
        yield f"Of node {parent.node} no program could be read. Write its idea anew, and whole."
        return
    yield f"Repair node {parent.node}. Keep its idea, find the cause, and change what it takes."
    if rung == "check":
        yield (
            "The numbers say where it is wrong: work back from them to the index, the bound, the "
            "missing barrier or the precision. Look for the same mistake elsewhere."
        )
    elif rung == "build":
        yield "Correct this error and what else the compiler would find after it."
    yield "The first line says the program's idea, not that it was repaired."


def _combine(brief: Brief) -> Iterator[str]:
    parent, second = brief.parent, brief.second
    assert parent is not None
    if second is None:
        yield from _improve(brief)
        return
    yield (
        f"Write one program out of node {parent.node} and node {second.node}: what makes each of "
        "them fast, in one. Where they exclude each other, keep what gains more. Not two programs "
        "side by side and no choice between them at run time."
    )
