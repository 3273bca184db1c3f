"""Measures this machine: the streaming kernel on given bytes, cache reads, matrix products."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.judge import sol
from agent.judge.arena import Wanted, lay_out
from agent.judge.measure import QUIET, Load, copies_needed
from agent.judge.statistics import median

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent.devices import Device
    from agent.judge.host import Host
    from agent.task import TargetSpec

_SECONDS = 120.0
_BUDGET_MS = 100
_LEAST = 15
_TRIES = 3


class Rates:
    """Figures of this machine, from the records or measured now.

    Args:
        cache: Where the streaming kernel's forms are built.
        records: Where figures are kept, or None.
    """

    def __init__(
        self, device: Device, host: Host, cache: Path, records: sol.Records | None
    ) -> None:
        self._device = device
        self._host = host
        self._cache = cache
        self._records = records
        self._facts = device.facts()

    def cache_read(self) -> dict[str, Any]:
        """``bytes_per_ns`` at which all cores read what lies in their second-level caches."""
        size = self._facts["l2"] * self._facts["cores"] // 2
        return self._known("rate", "cache-read", lambda: self._stream(size, 64, 1))

    def moved(self, reads: int, writes: int) -> dict[str, Any]:
        """``ns`` in which the best streaming kernel reads and writes so many bytes."""
        copies = copies_needed(reads, self._facts["l2"], self._facts["cores"])
        key = f"{reads}/{writes}"
        return self._known("sol", key, lambda: self._stream(reads, writes, copies))

    def products(self, spec: TargetSpec) -> dict[str, Any]:
        """``flops_per_s`` of ``torch.mm`` in the dtype of the target's products."""
        dtype = sol.product_dtype(spec)
        request = {"dtype": dtype, "size": sol.PRODUCT_SIZE}
        return self._known(
            "rate", f"products-{dtype}", lambda: self._host.ask("products", request, _SECONDS)
        )

    def _known(self, kind: str, key: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        machine = self._device.key()
        known = self._records.get(kind, machine, key) if self._records is not None else None
        if known is not None:
            return known
        value = measure()
        if self._records is not None and value.get("others", 0.0) < QUIET:
            self._records.put(kind, machine, key, value)
        return value

    def _stream(self, reads: int, writes: int, copies: int) -> dict[str, Any]:
        """The fastest form of the streaming kernel, on whole vectors of 64 bytes."""
        reads, writes = max(64, reads // 64 * 64), max(64, writes // 64 * 64)
        forms = self._forms(reads, writes)
        sides = [side for _, side in forms]
        layout = lay_out([Wanted("in", "uint8", (reads,), (1,))])
        memory = self._host.space(layout)
        memory.tensor(layout.slots["in"]).random_()
        request = {
            "cases": [[layout.slots["in"].to_json()]],
            "copies": copies,
            "mutated": [],
            "fresh": True,
        }
        self._host.ask("fill", request, _SECONDS)
        self._host.filled = None
        best: dict[str, Any] = {"ns": float("inf"), "others": 1.0}
        for _ in range(_TRIES):
            load = Load([self._host.ready().pid])
            taken = self._taken(sides, writes)
            fastest = min(range(len(forms)), key=taken.__getitem__)
            others = load.others()
            if taken[fastest] < best["ns"]:
                best = {"ns": taken[fastest], "form": forms[fastest][0], "others": others}
            if others < QUIET:
                break
        rate = (reads + writes) / best["ns"]
        return {**best, "ns": round(best["ns"]), "bytes_per_ns": rate}

    def _taken(self, sides: list[dict[str, Any]], writes: int) -> list[float]:
        return [self._once(sides[0], side, writes) for side in sides]

    def _forms(self, reads: int, writes: int) -> list[tuple[str, dict[str, Any]]]:
        """The forms of the streaming kernel that are worth trying: a name and a side each."""
        return [
            (form.name, self._side(sol.SOURCE, form.values, sol.plan(reads, writes)))
            for form in sol.forms(reads + writes)
        ]

    def _side(self, source: str, values: dict[str, int], plan: dict[str, Any]) -> dict[str, Any]:
        built = self._device.build(source, values, ["stream"], self._cache)
        self._host.allow(built.library)
        return {"library": built.library, "bound": plan, "names": ["in"]}

    def _once(self, first: dict[str, Any], side: dict[str, Any], writes: int) -> float:
        outputs = [{"name": "out", "dtype": "uint8", "shape": [writes], "strides": [1]}]
        request = {
            "sides": [first, side],
            "outputs": outputs,
            "budget_ms": _BUDGET_MS,
            "least": _LEAST,
            "calls": 0,
        }
        answer = self._host.ask("time", request, _SECONDS)
        return median([pair[1] for pair in answer["samples"]])


@contextmanager
def machine_records(machine: str) -> Iterator[sol.Records | None]:
    """The machine's store at that path, closed afterwards; None for ``""``."""
    if not machine:
        yield None
        return
    from store.machine import MachineStore

    store = MachineStore(Path(machine))
    try:
        yield store
    finally:
        store.close()
