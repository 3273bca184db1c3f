"""Turns what a rung said of a program into what its writer is told. Pure.

Compilers' logs are cut to their first errors, each with the lines of source that it is about; what
the check found is told in numbers. A program's line numbers are its own: both builds count from
its first line, whatever they put before it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from agent.writers.brief import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST_ERRORS = 3
_LOG, _SKETCH, _MESSAGE, _LINE = 4000, 3000, 500, 300
_BESIDE = 2
_ERROR = re.compile(r"^.{0,300}?\b(?:fatal )?error\s*:|^.{0,300}?\bundefined reference to")
_PLACE = re.compile(r"program\.(?:cpp|cu):(\d{1,6})")
_NAN = re.compile(r"^of the wrong ones: .*\b\d+ NaN")
# The judge fills what a program must not read with bytes that are NaN as numbers.
POISON = (
    "NaN out of finite inputs: what lies beside the tensors, and scratch memory before it is "
    "written, holds NaN, so look for reads out of bounds or of what was not written; then for "
    "inf - inf and 0 / 0"
)
_CRASHES = frozenset({"crashed", "hung"})
# What a family of inputs is like, for somebody who has not read the judge.
_FAMILIES = {
    "normal": "the task's own inputs",
    "nudged": "the task's own inputs with a few elements changed in place between two calls",
    "wide": "elements from 1e-4 to 1e4 times their usual size",
    "heavy": "a few elements a thousand times larger than the rest",
    "constant": "every row of one value",
    "special": "rows with infinities, NaN, -0.0 or denormal numbers in them",
    "structured": "ramps, alternating levels, and rows whose last element outweighs the rest",
    "blocks": "blocks of very different size along every dimension",
    "clustered": "rows alike but for a factor",
    "integers": "small whole numbers, for which sums and products are exact",
    "signed": "signs by chance, where the task's own inputs have one sign",
}


def failure_of(
    rung: str, code: str, message: str, evidence: Mapping[str, Any], source: str = ""
) -> Failure:
    """The failure for a prompt.

    Args:
        evidence: Of the variant that failed, as ``VariantFailed`` has it.
        source: Of the program, for the lines that the compiler names.
    """
    log = first_errors(str(evidence.get("log") or ""), source)
    lines = [in_one_line(line, _LINE) for line in _sketch(code, evidence)]
    sketch = in_lines("\n".join(lines), _SKETCH)
    return Failure(rung, code, in_one_line(message, _MESSAGE), log, sketch)


def first_errors(log: str, source: str = "") -> str:
    """The first errors of a compiler's log, with the lines of source that they are about.

    The compiler shows one line of source at most; those around it are put below, numbered.
    """
    blocks: list[list[str]] = []
    for line in in_lines(log, 4 * _LOG).splitlines():
        if _ERROR.match(line) or not blocks:
            blocks.append([])
        if len(blocks) > MOST_ERRORS:
            break
        blocks[-1].append(line[:_LINE].rstrip())
    kept = [line for block in blocks[:MOST_ERRORS] for line in block]
    text = in_lines("\n".join(kept).rstrip(), _LOG)
    around = "\n".join(_around(text, source.splitlines()))
    return f"{text}\n\n{around}" if around else text


def _around(log: str, lines: list[str]) -> Iterator[str]:
    """The named lines of source with those beside them; ``>`` marks the named ones."""
    named = list(dict.fromkeys(int(number) for number in _PLACE.findall(log)))[:MOST_ERRORS]
    named = [number for number in named if 0 < number <= len(lines)]
    shown = {at for number in named for at in range(number - _BESIDE, number + _BESIDE + 1)}
    last = 0
    for at in sorted(shown & set(range(1, len(lines) + 1))):
        if last and at > last + 1:
            yield "  ..."
        last = at
        mark = ">" if at in named else " "
        yield f"{mark} {at:4} | {in_lines(lines[at - 1].expandtabs(4), _LINE).rstrip()}"


def _sketch(code: str, evidence: Mapping[str, Any]) -> Iterator[str]:
    """What the judge saw, in lines: on which inputs, and where the numbers are wrong."""
    if family := str(evidence.get("family") or ""):
        yield f"on {_inputs(family)}"
    if code in _CRASHES and "calls" in evidence:
        after = _inputs(str(evidence.get("after_family") or ""))
        calls = evidence["calls"]
        yield (
            f"in the first call, or right after it, on {after}"
            if not calls
            else f"after {calls} call(s) whose answers were right, the last of them on {after}"
        )
    if output := evidence.get("output"):
        shape = evidence.get("shape")
        yield f"output {output}" + (f" of shape {shape}" if shape else "")
    told = evidence.get("sketch")
    if isinstance(told, list):
        lines = [str(line) for line in told[:40]]
        yield from lines
        if not family.startswith("special") and any(map(_NAN.search, lines)):
            yield POISON
    elif "got" in evidence and "expected" in evidence:
        # Evidence of an earlier version: the examples alone.
        yield from _examples(evidence)


def _inputs(family: str) -> str:
    """``wide @rows=3`` in words."""
    name, _, sizes = family.partition(" ")
    told = f"{name} inputs ({_FAMILIES[name]})" if name in _FAMILIES else f"{name} inputs"
    return f"{told} at the size {sizes.replace('@', '')}" if sizes else told


def _examples(evidence: Mapping[str, Any]) -> Iterator[str]:
    if "bad" in evidence and "total" in evidence:
        pattern = evidence.get("pattern", "")
        yield f"{evidence['bad']} of {evidence['total']} elements are wrong: {pattern}"
    got, expected = list(evidence["got"]), list(evidence["expected"])
    if got and expected:
        yield f"at {evidence.get('first')}: got {got[0]}, expected {expected[0]}"


def in_one_line(text: str, limit: int) -> str:
    """Foreign text as one bounded line of printable characters."""
    clean = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * limit]).split())
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def in_lines(text: str, limit: int) -> str:
    """Foreign text, printable and bounded; its lines stay."""
    kept = "".join(c if c.isprintable() or c == "\n" else " " for c in text[:limit])
    return kept + ("\n…" if len(text) > limit else "")
