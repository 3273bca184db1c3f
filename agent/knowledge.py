"""What earlier searches on this machine found out: its rates, and rules that failures taught."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.writers.brief import Rule

if TYPE_CHECKING:
    from agent.context import Place
    from store.machine import MachineStore

_DTYPES = ("float32", "bfloat16", "float16", "float64")
# A mistake seen once may be one model's slip; a rule is told when it was made again.
TOLD_FROM = 2


class Knowledge:
    """The machine's records, as far as a prompt tells them.

    Args:
        records: None knows nothing and learns nothing.
        place: Whose records.
        learns: Whether failures count: those of a replayed session did when they happened.
    """

    def __init__(self, records: MachineStore | None, place: Place, *, learns: bool = True) -> None:
        self._records = records
        self._place = place
        self._learns = learns

    @property
    def rates(self) -> dict[str, float]:
        """Bytes a second that can be ``read`` from memory or ``cache-read``; operations a second
        of ``products-DTYPE``. What was never measured is left out."""
        found = {}
        for name, record, field, scale in (
            ("read", "device-read", "bytes_per_ns", 1e9),
            ("cache-read", "cache-read", "bytes_per_ns", 1e9),
            *((f"products-{d}", f"products-{d}", "flops_per_s", 1.0) for d in _DTYPES),
        ):
            value = self._get(record).get(field)
            if isinstance(value, int | float) and value > 0:
                found[name] = float(value) * scale
        return found

    def _get(self, key: str) -> dict[str, object]:
        if self._records is None:
            return {}
        return self._records.get("rate", self._place.key, key) or {}

    @property
    def rules(self) -> tuple[Rule, ...]:
        """What to tell a writer, the most frequent first; what a person muted is left out."""
        if self._records is None:
            return ()
        known = self._records.rules(self._place.key, self._place.language)
        told = sorted((row for row in known if row.count >= TOLD_FROM), key=lambda row: -row.count)
        return tuple(Rule(row.text, row.count) for row in told)

    def learn(self, key: str, text: str) -> None:
        """Count a mistake that a writer made."""
        if self._records is not None and self._learns:
            self._records.learn(self._place.key, self._place.language, key, text)
