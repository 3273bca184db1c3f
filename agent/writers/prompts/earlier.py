"""The sections on what was tried before: rules, a person's hint, lineage, ideas, programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.writers.prompts.budget import Section
from agent.writers.prompts.clean import fenced, one_line
from agent.writers.prompts.figures import span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from agent.writers.brief import Brief, Failure, Rule, Tried, Written

_MOST_RULES, _MOST_TRIED, _MOST_LINEAGE, _MOST_ADVICE = 12, 12, 12, 6
_MOST_VARIANTS = 10
_HINT = 2000
# Of a source that is cut: characters, and when.
_SOURCE = ((60_000, 14), (40_000, 16), (27_000, 17), (18_000, 22), (12_000, 24), (8_000, 26),
           (5_000, 28), (3_000, 29))  # fmt: skip
_LOG = (7000, 3500, 1500)
_PLAN = 8000


def hint(text: str) -> Section:
    """A person's words; never left out."""
    if not text.strip():
        return Section(("",))
    told = "# From the person who runs this search: follow it wherever the contract allows\n"
    return Section((told + fenced(text, "text", _HINT),))


def rules(known: Sequence[Rule]) -> Section:
    """What earlier failures on this machine taught; the first to go."""
    lines = [
        f"{one_line(rule.text, 240)}{f' (seen {rule.count} times)' if rule.count > 1 else ''}"
        for rule in known[:_MOST_RULES]
    ]
    forms = [_block("# Mistakes made on this machine before: avoid them", lines[:most])
             for most in (_MOST_RULES, 6, 3, 0)]  # fmt: skip
    return Section(tuple(forms), (10, 14, 33))


def lineage(steps: Sequence[Tried]) -> Section:
    """From the branch's draft down to the parent, with what each step gained."""
    if len(steps) < 2:
        return Section(("",))
    lines = [_step(at, steps) for at in range(len(steps))]
    forms = [lines[-_MOST_LINEAGE:], lines[-5:], lines[-2:], []]
    title = "# How the program came to be, oldest first"
    return Section(tuple(_block(title, form) for form in forms), (11, 13, 36))


def _step(at: int, steps: Sequence[Tried]) -> str:
    item = steps[at]
    before = steps[at - 1].ratio if at else None
    told = f"node {item.node} ({one_line(item.action, 20)}) {_result(item)}"
    if before and item.ratio:
        told += f" ({100 * (item.ratio / before - 1):+.0f} %)"
    return f"{told}: {one_line(item.title, 160)}"


def _result(item: Tried) -> str:
    if item.failed.startswith("not judged"):
        return one_line(item.failed, 60)
    if item.failed:
        return f"FAILED ({one_line(item.failed, 200)})"
    return f"{item.ratio:.2f}x eager" if item.ratio is not None else "not judged"


def tried(brief: Brief) -> Section:
    """Ideas that a new program should not repeat."""
    lines = [
        f"node {item.node} {_result(item)}: {one_line(item.title, 160)}"
        for item in brief.tried[:_MOST_TRIED]
    ]
    title = (
        "# Other approaches that were tried"
        if brief.action == "draft"
        else "# What was made of it already"
    )
    forms = tuple(_block(title, lines[:most]) for most in (_MOST_TRIED, 6, 3, 0))
    return Section(forms, (12, 15, 35))


def _block(title: str, lines: list[str]) -> str:
    return f"{title}\n{fenced(chr(10).join(lines), 'text')}" if lines else ""


# -- programs --------------------------------------------------------------------------------------


def program(written: Written, title: str, language: str, *, last: bool) -> list[Section]:
    """A program with its plan and all that is known of it.

    Args:
        title: Of the section.
        language: ``"cpp"`` or ``"cuda"``, whose times are device times.
        last: Whether it is to be cut after everything else, for it is what is worked on.
    """
    late = 10 if last else 0
    head = [f"# {title}: node {written.node}", fenced(one_line(written.title, 160), "text")]
    head += _verdict(written, device=language == "cuda")
    parts = [Section(("\n".join(head),))]
    if written.source.strip():
        forms = tuple(fenced(written.source, language, most) for most, _ in _SOURCE)
        parts.append(Section(forms, tuple(late + rank for _, rank in _SOURCE[1:])))
    if written.plan.strip():
        parts.append(Section((fenced(written.plan, "toml", _PLAN),)))
    if written.failure is not None:
        return [*parts, _failure(written.failure)]
    costs, advice = [*_variants(written), *_costs(written)], list(_advice(written))
    parts.append(Section(("\n".join(costs), ""), (18 + late,)))
    forms = tuple("\n".join(advice[:most]) for most in (1 + _MOST_ADVICE, 3, 0))
    parts.append(Section(forms, (15 + late, 19 + late)))
    return parts


def _verdict(written: Written, *, device: bool) -> Iterator[str]:
    if written.tuned:
        values = ", ".join(f"{one_line(name, 64)} = {at}" for name, at in written.tuned.items())
        yield f"It {'failed' if written.failure else 'was fastest'} with {values}."
    if written.failure is not None or written.ratio is None:
        return
    told = f"Measured: {written.ratio:.2f}x eager"
    if written.low is not None and written.high is not None:
        told += f" (95 % interval {written.low:.2f} to {written.high:.2f})"
    if written.gain is not None:
        told += f", {written.gain:.2f}x the fastest baseline"
    if written.time_ns:
        told += f", {span(written.time_ns)} {'device time' if device else 'a call'}"
    if written.sol_share is not None:
        told += f", {100 * written.sol_share:.0f} % of the speed of light"
    yield told + (f". {one_line(written.outcome, 20)}." if written.outcome else ".")


def _variants(written: Written) -> Iterator[str]:
    """What other values of the tunables took."""
    if len(written.variants) < 2:
        return
    told = (
        " ".join(f"{one_line(name, 64)}={at}" for name, at in values.items()) + f": {span(ns)}"
        for values, ns in written.variants[:_MOST_VARIANTS]
    )
    yield f"Timed briefly while its tunables were searched: {'; '.join(told)}."


def _costs(written: Written) -> Iterator[str]:
    """Times of the steps, and what each kernel takes of an SM."""
    if len(written.steps) > 1:
        told = ", ".join(f"{one_line(name, 64)} {span(ns)}" for name, ns in written.steps[:24])
        yield f"Its steps: {told}."
    for name, known in list(written.kernels.items())[:12]:
        told = ", ".join(_resources(known))
        if told:
            yield f"Kernel {one_line(name, 64)}: {told}."


def _resources(known: Mapping[str, object]) -> Iterator[str]:
    for key, text in (
        ("registers", "{} registers a thread"),
        ("shared", "{} bytes of static shared memory"),
        ("blocks", "{} blocks an SM"),
    ):
        if known.get(key):
            yield text.format(known[key])
    share = known.get("share")
    if isinstance(share, int | float):
        yield f"occupancy {100 * share:.0f} %"
    if known.get("limiter"):
        yield f"limited by {one_line(str(known['limiter']), 20)}"
    spilt = [int(str(known.get(key) or 0)) for key in ("spill_stores", "spill_loads")]
    if any(spilt):
        yield f"SPILLS {spilt[0]} bytes stored and {spilt[1]} loaded a thread"
    elif known.get("local"):
        yield f"{known['local']} bytes of local memory a thread"


def _advice(written: Written) -> Iterator[str]:
    if not written.advice:
        return
    yield "What the judge says of it, the most costly first:"
    for item in written.advice[:_MOST_ADVICE]:
        finding, evidence, cure = (
            one_line(str(item.get(key, "")), 240) for key in ("finding", "evidence", "suggestion")
        )
        yield f"- {finding} ({evidence}); {cure}" if evidence else f"- {finding}; {cure}"


def _failure(failure: Failure) -> Section:
    """Why it failed: the first error with its lines, or a sketch of where numbers are wrong."""
    where = {
        "read": "when it was read",
        "build": "to build",
        "check": "the check",
        "measure": "in measuring",
    }.get(failure.rung, one_line(failure.rung, 20))
    head = f"It FAILED {where} ({one_line(failure.code, 40)}):"
    # A compiler's message is its log's first line again, without the place.
    said = failure.message.partition(": ")[2]
    told = [] if said and said in failure.log else [failure.message]
    told += [part for part in (failure.log, failure.sketch) if part.strip()]
    forms = [f"{head}\n{fenced(chr(10).join(told), 'text', most)}" for most in _LOG]
    return Section(tuple(dict.fromkeys(forms)), (31, 33))
