"""What programs are measured against: eager, its limits, and compiled baselines, on this machine.

Figures that an earlier engine took on another machine stay in the session and are set apart: they
count for nothing until they are measured here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.errors import ForgeError, MachineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.context import Context
    from agent.search.target import Target

BUSY = 0.25
DEFAULTS = {"cpu": ("compile",), "cuda": ("compile", "compile-max")}


def wanted_baselines(config: Mapping[str, Any], device: str) -> tuple[str, ...]:
    """The baselines to measure besides eager, which is always measured."""
    names = config.get("baselines")
    chosen = DEFAULTS[device] if names is None else [str(name) for name in names]
    return tuple(name for name in chosen if name != "eager")


async def calibrate(context: Context, target: Target) -> None:
    """Measure eager, SOL and floor of a target.

    Raises:
        ForgeError: It cannot be measured; a MachineError is no fault of the target's.
    """
    context.does("measuring eager", target=target.id)
    async with context.leased():
        found = await context.workshop.calibrate(target.id)
    detail = {**(found.get("detail") or {}), "machine": context.place.key}
    target.measured, target.machine = True, context.place.key
    target.progress.eager_ns, target.progress.sol_ns = found["eager_ns"], found["sol_ns"]
    eager = {"ns": found["eager_ns"], "call_ns": found.get("eager_call_ns")}
    target.merge_baselines({"eager": eager})
    context.say(
        "TargetMeasured", target=target.id, eager_ns=found["eager_ns"], sol_ns=found["sol_ns"],
        floor_ns=found["floor_ns"], baselines={"eager": eager}, detail=detail,
    )  # fmt: skip
    others = float(detail.get("others", 0.0))
    target.measured_busy = others >= BUSY
    if target.measured_busy:
        text = f"other programs use {others:.0%} of the machine: times are uncertain"
        context.note("warning", text, target=target.id)


async def measure_baseline(context: Context, target: Target, name: str) -> None:
    """Measure one compiled baseline; that it cannot be had is worth a note and no more.

    Raises:
        MachineError: The machine lacks something.
    """
    context.does(f"measuring {name}", target=target.id)
    try:
        async with context.leased():
            value = await context.workshop.baseline(target.id, name)
    except MachineError:
        raise
    except ForgeError as error:
        value = {"error": error.message[:300]}
    with context.session.together():
        context.say("BaselineMeasured", target=target.id, name=name, value=value)
        if error_text := value.get("error"):
            text = f"the baseline {name} cannot be had: {error_text}"
            context.note("warning", text, target=target.id)
    target.merge_baselines({name: value})


def set_apart(context: Context, target: Target) -> None:
    """Mark what was measured on another machine, and have it measured again here."""
    elsewhere = target.machine not in ("", context.place.key)
    if not (target.measured and elsewhere):
        return
    with context.session.together():
        # Without baselines it was set apart before, by an engine that came no further.
        if target.baselines:
            context.say("VerdictsForeign", target=target.id, machine=target.machine)
            text = f"recorded on {target.machine}, measured again here"
            context.note("warning", text, target=target.id)
        if target.best is not None:
            reason = "it was measured on another machine"
            context.say("BestWithdrawn", target=target.id, reason=reason)
    target.become_foreign()
