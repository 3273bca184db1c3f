"""The catalogue of events: what an engine may say, and with which fields.

Events are the session's truth. Every row that the screen shows is the result of applying them in
order (``store.project``), so any past moment can be rebuilt (``store.rebuild``). A kind's fields
may grow by such as may be null, which older sessions lack (``complete``); a change of meaning
raises its version.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from store.errors import EventError

_SCALARS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "str": (str,),
    "bool": (bool,),
    "json": (dict, list),
}


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    Attributes:
        seq: Position in the session, from 1, without gaps.
        at_us: UTC time of day in microseconds.
        active_us: How long the search had been running (pauses left out), in microseconds.
        target: The target it is about, 0 for the whole session.
        node: The node it is about, 0 for none.
    """

    seq: int
    at_us: int
    active_us: int
    kind: str
    version: int
    target: int
    node: int
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of event: its version and the type of each field; ``?`` marks one that may be null."""

    version: int
    fields: dict[str, str]
    what: str


def _kind(what: str, version: int = 1, /, **fields: str) -> Kind:
    return Kind(version, fields, what)


EVENTS: dict[str, Kind] = {
    "SessionCreated": _kind(
        "a person asked for a search", session="str", name="str", task="str", config="json"
    ),
    "EngineStarted": _kind(
        "an engine took the session up", pid="int", host="str", version="str", machine="json"
    ),
    "EngineStopped": _kind("the engine ended in order", state="str", reason="str"),
    "SearchPausing": _kind("nothing new starts; work in hand finishes"),
    "SearchPaused": _kind("nothing is in hand; the clock stands still"),
    "SearchResumed": _kind("the search goes on"),
    "BudgetChanged": _kind("a person changed a cap", caps="json"),
    "BudgetReached": _kind("a cap was reached", which="str", spent="float", cap="float"),
    "TargetAdded": _kind("a reference was accepted", name="str", spec="json", task="json"),
    "TargetRefused": _kind(
        "a reference cannot be used", name="str", code="str", message="str", cure="str"
    ),
    # Since version 2 ``baselines["eager"]`` is ``{"ns", "call_ns"}`` and no longer a number.
    "TargetMeasured": _kind(
        "eager and the limits were measured",
        2,
        eager_ns="int",
        sol_ns="int?",
        floor_ns="int?",
        baselines="json",
        detail="json",
    ),
    "BaselineMeasured": _kind("a compiled form of the reference was measured", name="str",
                              value="json"),
    "VerdictsForeign": _kind(
        "what was measured on another machine counts no more until it is measured here",
        machine="str",
    ),
    "TargetClosed": _kind("no more work goes into a target", reason="str", code="str"),
    "NodeCreated": _kind(
        "the search chose what to try",
        parent="int?",
        second_parent="int?",
        action="str",
        writer="str",
        model="str?",
        step="str?",
    ),
    "NodeStage": _kind("a node's work moved on", stage="str"),
    "NodeRequeued": _kind("unfinished work is taken up again", reason="str", died="bool"),
    "ProgramWritten": _kind(
        "a writer answered", program="str", language="str", title="str", schedule="json?",
        library="bool?",
    ),
    "VariantBuilt": _kind(
        "a variant was compiled", variant="int", values="json", seconds="float", cached="bool",
        detail="json",
    ),
    "VariantFailed": _kind(
        "a variant failed a rung",
        variant="int", values="json", rung="str", code="str", reason="str", evidence="json",
    ),
    "VariantScreened": _kind(
        "a variant was timed briefly, for tuning", variant="int", time_ns="int", ratio="float"
    ),
    "VariantJudged": _kind(
        "a variant has a verdict",
        variant="int",
        verdict="int",
        key="str",
        outcome="str",
        time_ns="int",
        eager_ns="int",
        ratio="float",
        low="float",
        high="float",
        timing="str",
        confirm="bool",
        evidence="json",
        call_ns="int?",
        eager_call_ns="int?",
        advice="json?",
    ),
    "NodeScored": _kind(
        "a node is done: its best variant counts",
        variant="int",
        outcome="str",
        time_ns="int",
        ratio="float",
        low="float",
        high="float",
        sol_fraction="float?",
        reward="float",
        seconds="json",
    ),
    "NodeFailed": _kind(
        "a node is done: no variant passed", rung="str", code="str", reason="str", seconds="json"
    ),
    "NodeDropped": _kind("a person pruned a node in work", reason="str"),
    "NodeConfirmed": _kind(
        "a node's best variant was judged again in a fresh process",
        variant="int", ok="bool", outcome="str", ratio="float", low="float", high="float",
        reason="str", against="json?", sanitizer="json?",
    ),
    "BestImproved": _kind(
        "a target has a new best node", variant="int", ratio="float", time_ns="int", of_nodes="int"
    ),
    "BestWithdrawn": _kind("a best node did not hold", reason="str"),
    "BranchPruned": _kind("a branch is closed, reversibly", nodes="int", by="str", reason="str"),
    "BranchUnpruned": _kind("a branch is open again", nodes="int", by="str"),
    # The most that the call may cost; no micro_dollars: no price of the model is known.
    "CallReserved": _kind(
        "money is set aside before a writer is asked",
        call="int",
        micro_dollars="int?",
        model="str",
        action="str?",
        purpose="str?",
        writer="str?",
        tokens="int?",
        prompt="str?",
        attempt="int?",
    ),
    # No micro_dollars: what it cost is not known; a call answered by hand costs nothing.
    "CallSettled": _kind(
        "a call is over: paid, failed, lost (with an engine that died) or answered (by hand)",
        call="int",
        state="str",
        micro_dollars="int?",
        tokens_in="int?",
        tokens_out="int?",
        tokens_cached="int?",
        tokens_reasoning="int?",
        estimated="bool?",
        error="str?",
        finish="str?",
        seconds="float?",
    ),
    "CallWaiting": _kind(
        "a node waits to ask again", call="int", model="str", reason="str", seconds="float",
        attempt="int",
    ),
    "HintGiven": _kind("a person told the writers something", text="str", by="str"),
    "CommandAnswered": _kind(
        "the engine answered a person", command="int", verb="str", ok="bool", answer="str"
    ),
    "Noted": _kind("something worth a line", level="str", text="str"),
}  # fmt: skip


_ABSENT = {
    kind: dict.fromkeys(name for name, wanted in entry.fields.items() if wanted.endswith("?"))
    for kind, entry in EVENTS.items()
}


def complete(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """The payload with null where a field that may be null is missing."""
    return {**_ABSENT.get(kind, {}), **payload}


def encode(kind: str, payload: dict[str, Any]) -> str:
    """A complete payload as compact JSON, checked against the catalogue.

    Raises:
        EventError: Unknown kind; a field is missing, unknown, of a wrong type, or not finite.
    """
    if kind not in EVENTS:
        raise EventError(f"unknown event {kind}")
    fields = EVENTS[kind].fields
    if payload.keys() != fields.keys():
        odd = sorted(payload.keys() ^ fields.keys())
        raise EventError(f"{kind}: fields missing or unknown: {', '.join(odd)}")
    for name, wanted in fields.items():
        value = payload[name]
        if value is None and wanted.endswith("?"):
            continue
        types = _SCALARS[wanted.rstrip("?")]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise EventError(f"{kind}.{name} is {type(value).__name__}, not {wanted}")
    try:
        return json.dumps(payload, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise EventError(f"{kind}: {error}") from None
