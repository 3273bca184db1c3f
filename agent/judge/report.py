"""Turns a wrong answer into evidence: where, what was expected, and what the pattern says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.judge.arena import UNWRITTEN, bits
from agent.judge.sketch import imprecise, sketch
from agent.judge.tolerance import FloatAnswer
from agent.judge.verdict import Failure
from agent.judge.wrong import SHOWN, Wrong, first_of, index_of, number

if TYPE_CHECKING:
    import torch

    from agent.judge.cases import Case
    from agent.judge.tolerance import Answer, Deviation
    from agent.task import OutputSpec


def describe(
    case: Case, out: OutputSpec, value: torch.Tensor, expected: Answer, found: Deviation
) -> Failure:
    """The failure for an output that differs from what is allowed."""
    evidence: dict[str, Any] = {"family": case.family, "output": out.name, "shape": list(out.shape)}
    if found.bad is None:
        assert found.percentile is not None
        at, ulps, limit = found.percentile
        evidence |= {"percentile": round(100 * at), "ulps": ulps, "allowed_ulps": limit}
        if isinstance(expected, FloatAnswer):
            evidence["sketch"] = imprecise(value, expected)
        message = (
            f"{out.name} is less exact than {out.dtype} arithmetic gives ({case.family} inputs): "
            f"{100 * at:.0f} % of its errors are below {ulps:.3g} ulps, allowed {limit:.3g}"
        )
        return Failure("check", "imprecise", message, evidence)
    flat = value.reshape(-1)
    bad = int(found.bad.sum())
    shown = first_of(found.bad, SHOWN)
    right = expected.exact if isinstance(expected, FloatAnswer) else expected.answers[0]
    evidence |= {
        "bad": bad,
        "total": flat.numel(),
        "first": index_of(shown[0], out.shape),
        "expected": [number(right[at]) for at in shown],
        "got": [number(flat[at]) for at in shown],
        "pattern": _pattern(found.bad, flat, right, out),
    }
    allowed = expected.allowed if isinstance(expected, FloatAnswer) else None
    if allowed is not None:
        evidence["allowed"] = [float(allowed[at]) for at in shown]
    evidence["sketch"] = sketch(Wrong(out.shape, flat, right, allowed, found.bad, bad, shown))
    message = (
        f"{out.name} is wrong in {bad} of {flat.numel()} elements ({case.family} inputs; "
        f"{evidence['pattern']}): at {evidence['first']} got {evidence['got'][0]}, "
        f"expected {evidence['expected'][0]}"
    )
    return Failure("check", "wrong-answer", message, evidence)


def _pattern(bad: torch.Tensor, flat: torch.Tensor, right: torch.Tensor, out: OutputSpec) -> str:
    """One phrase for where the wrong elements are; the first that fits."""
    if flat.is_floating_point():
        if _all(bits(flat) == UNWRITTEN[flat.element_size()], bad):
            return "never written" if bool(bad.all()) else "some elements never written"
        nan = flat.isnan()
        if _all(nan, bad):
            return "NaN where a number is expected"
        if _all(right.isnan() & ~nan, bad):
            return "a number where NaN is expected"
        if _all(flat == 0, bad):
            return "zero"
    if bool(bad.all()):
        return "everywhere"
    width = out.shape[-1] if out.shape else 1
    rows = bad.view(-1, max(1, width))
    columns = rows.any(0).nonzero()[:, 0]
    if width > 1 and int(columns[0]) > 0 and int(columns[-1]) == width - 1:
        share = len(columns) / (width - int(columns[0]))
        if share > 0.5 and int(columns[0]) >= width // 2:
            return f"tail of the rows, from column {int(columns[0])}"
    touched = rows.any(1)
    if len(touched) > 1 and not bool(touched.all()) and float(rows[touched].double().mean()) > 0.5:
        first = int(touched.nonzero()[0, 0])
        return f"whole rows: {int(touched.sum())} of {len(touched)}, the first {first}"
    return "scattered"


def _all(found: torch.Tensor, bad: torch.Tensor) -> bool:
    """Whether something is found at all the wrong elements."""
    return not bool((bad & ~found).any())
