"""The choices that make one draft differ from another."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

FIELDS: dict[str, tuple[str, ...]] = {
    "launches": ("rows", "chunks"),
    "passes": ("two", "one"),
    "keep": ("recompute", "row", "output"),
    "vector": ("simd", "lanes", "auto"),
    "threads": ("static", "dynamic", "one"),
    "store": ("plain", "stream"),
    "divide": ("reciprocal", "exact"),
    "walk": ("plain", "ahead", "tiles"),
}
# In this order a neighbour is tried.
FIELDS_BY_PROMISE = (
    "keep", "walk", "store", "passes", "launches", "vector", "threads", "divide",
)  # fmt: skip
_WORDS = {
    ("launches", "rows"): "",
    ("launches", "chunks"): "rows cut into chunks, one launch a step",
    ("passes", "two"): "",
    ("passes", "one"): "statistics in one pass over blocks",
    ("keep", "recompute"): "",
    ("keep", "row"): "values kept in a thread's row",
    ("keep", "output"): "values kept in the output row",
    ("vector", "simd"): "",
    ("vector", "lanes"): "explicit lanes",
    ("vector", "auto"): "left to the vectoriser",
    ("threads", "static"): "",
    ("threads", "dynamic"): "rows handed out in chunks",
    ("threads", "one"): "one thread",
    ("store", "plain"): "",
    ("store", "stream"): "streaming stores",
    ("divide", "reciprocal"): "",
    ("divide", "exact"): "exact division",
    ("walk", "plain"): "",
    ("walk", "ahead"): "next row fetched ahead",
    ("walk", "tiles"): "in tiles",
}


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a draft is written; every field changes the code.

    Attributes:
        launches: ``rows`` (one thread does a whole row, all steps in one launch) or ``chunks``
            (rows are cut into pieces; each step is a launch, totals go through scratch).
        passes: ``two`` (maximum, then sum; mean, then squares) or ``one`` (both in one walk over
            blocks that stay in the first cache, rescaled or combined between blocks).
        keep: What later steps of a row need again: ``recompute`` it, keep it in a thread's own
            ``row``, or in the row of the ``output``.
        vector: ``simd`` (OpenMP simd loops), ``lanes`` (partial results in an array), ``auto``.
        threads: ``static``, ``dynamic`` (chunks of rows), or ``one``.
        store: ``plain``, or ``stream`` past the caches.
        divide: by what is fixed in a loop: times the ``reciprocal``, or ``exact``.
        walk: ``plain``, with the next row fetched ``ahead`` while a row is finished, or, where one
            tensor is walked across the other, in ``tiles``.
    """

    launches: str = "rows"
    passes: str = "two"
    keep: str = "recompute"
    vector: str = "simd"
    threads: str = "static"
    store: str = "plain"
    divide: str = "reciprocal"
    walk: str = "plain"

    def __post_init__(self) -> None:
        for name, choices in FIELDS.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is one of {', '.join(choices)}")

    @property
    def key(self) -> str:
        """A short stable name, such as ``rows-two-row-simd-static-plain-reciprocal-plain``."""
        return "-".join(getattr(self, field.name) for field in fields(self))

    @property
    def title(self) -> str:
        """One line for people."""
        words = [_WORDS[name, getattr(self, name)] for name in FIELDS]
        return ", ".join(word for word in words if word) or "one row at a time"

    def title_after(self, parent: Schedule) -> str:
        """One line for people who look at the parent's too: what is different."""
        changed = [name for name in FIELDS if getattr(self, name) != getattr(parent, name)]
        words = [
            _WORDS[name, getattr(self, name)] or f"without {_WORDS[name, getattr(parent, name)]}"
            for name in changed
        ]
        return ", ".join(words) or self.title

    def to_json(self) -> dict[str, str]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Schedule:
        return Schedule(**data)


@dataclass(frozen=True, slots=True)
class Options:
    """Which choices make a difference for one reference, for each field, the likeliest first."""

    choices: dict[str, tuple[str, ...]]

    def drafts(self) -> list[Schedule]:
        """Different approaches, the most promising first."""
        first = self.first()
        found = [first]
        # Approaches: the fields that change most, one after the other and two together.
        for name in ("keep", "passes", "walk", "launches", "store"):
            found += [self.fit(replace(first, **{name: choice})) for choice in self.choices[name]]
        for keep in self.choices["keep"]:
            stores = self.choices["store"]
            found += [self.fit(replace(first, keep=keep, store=store)) for store in stores]
        return list(dict.fromkeys(found))

    def first(self) -> Schedule:
        return self.fit(Schedule(**{name: options[0] for name, options in self.choices.items()}))

    def neighbours(self, schedule: Schedule) -> list[Schedule]:
        """Schedules in which exactly one choice differs, the most promising first."""
        found = []
        for name in FIELDS_BY_PROMISE:
            for choice in self.choices[name]:
                other = replace(schedule, **{name: choice})
                if other != schedule and self.fit(other) == other:
                    found.append(other)
        return found

    def plainer(self, schedule: Schedule) -> Schedule | None:
        """The schedule with its most daring choice taken back, or None at the plainest."""
        plain = {
            "store": "plain", "passes": "two", "keep": "recompute", "divide": "exact",
            "launches": "rows", "walk": "plain", "vector": "auto", "threads": "static",
        }  # fmt: skip
        for name, choice in plain.items():
            if getattr(schedule, name) != choice and choice in self.choices[name]:
                return self.fit(replace(schedule, **{name: choice}))
        return None

    def fit(self, schedule: Schedule) -> Schedule:
        """The schedule without choices that do not go with its others.

        Values are kept for the rest of a row, so chunks have none, and no next row; what streams
        past the caches is not read back, and tiles are not streamed.
        """
        if schedule.launches == "chunks":
            schedule = replace(schedule, keep="recompute")
            if schedule.threads == "dynamic":
                schedule = replace(schedule, threads="static")
            if schedule.walk == "ahead":
                schedule = replace(schedule, walk="plain")
        if schedule.walk == "tiles":
            schedule = replace(schedule, store="plain", launches="rows")
        if schedule.keep == "output" and schedule.store == "stream":
            keep = "row" if "row" in self.choices["keep"] else "recompute"
            schedule = replace(schedule, keep=keep)
        return schedule
