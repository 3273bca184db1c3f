"""The ledger: what a session's calls came to, and what was had for it.

Three things are kept apart that a bare number would mix: what is known to have been paid, calls
that cost nobody knows what, and calls not over yet. Money is in micro-dollars.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from store.reading import sound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from store.reading import SessionReader
    from store.rows import CallRow, NodeRow


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the ledger: one target's calls of one action by one writer, with their nodes.

    Attributes:
        target, action, writer, model: What it is about; ``model`` is "" for writers that are
            none. A merged line has 0 and "" for what its parts differ in.
        calls: Calls made, those in flight included; ``failed`` and ``lost`` are among them.
        in_flight, reserved: Calls not over, and the most that those with a known price may cost.
        micro_dollars: What the settled calls are known to have cost.
        unpriced: Settled calls that cost nobody knows what.
        estimated: Settled calls whose tokens were counted by us.
        nodes, wins: Nodes made, and how many of them a fresh process confirmed as faster.
    """

    target: int = 0
    action: str = ""
    writer: str = ""
    model: str = ""
    calls: int = 0
    in_flight: int = 0
    reserved: int = 0
    failed: int = 0
    lost: int = 0
    micro_dollars: int = 0
    unpriced: int = 0
    estimated: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    tokens_reasoning: int = 0
    nodes: int = 0
    wins: int = 0

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    @property
    def micro_dollars_per_node(self) -> float | None:
        """None when it is not known, or when there is no node."""
        return self._money_for(self.nodes)

    @property
    def micro_dollars_per_win(self) -> float | None:
        """None when it is not known, or when nothing was won."""
        return self._money_for(self.wins)

    @property
    def tokens_per_node(self) -> float | None:
        return self.tokens / self.nodes if self.nodes else None

    @property
    def tokens_per_win(self) -> float | None:
        return self.tokens / self.wins if self.wins else None

    def _money_for(self, count: int) -> float | None:
        return self.micro_dollars / count if count and not self.unpriced else None


_KEY = ("target", "action", "writer", "model")
_COUNTED = [field.name for field in fields(Entry) if field.name not in _KEY]


def ledger(reader: SessionReader) -> list[Entry]:
    """The session's calls and nodes by target, action, writer and model, in order of these.

    Nodes that took no call have a line too: what came free is what paid calls are to be compared
    with.
    """
    with sound(reader.path):
        nodes = {node.id: node for node in reader.nodes()}
        parts = [of_node(node) for node in nodes.values()]
        parts += [of_call(call, nodes.get(call.node)) for call in reader.calls()]
        return merged(parts, lambda part: (part.target, part.action, part.writer, part.model))


def merged(parts: Iterable[Entry], by: Callable[[Entry], tuple[int | str, ...]]) -> list[Entry]:
    """The lines added up by a key, in order of it."""
    groups: dict[tuple[int | str, ...], Entry] = {}
    for part in parts:
        key = by(part)
        groups[key] = _sum(groups[key], part) if key in groups else part
    return [groups[key] for key in sorted(groups)]


def total(parts: Iterable[Entry]) -> Entry:
    """All lines as one."""
    return next(iter(merged(parts, lambda part: ())), Entry())


def _sum(one: Entry, two: Entry) -> Entry:
    merged_line = replace(
        one,
        target=one.target if one.target == two.target else 0,
        action=one.action if one.action == two.action else "",
        writer=one.writer if one.writer == two.writer else "",
        model=one.model if one.model == two.model else "",
    )
    counts = {name: getattr(one, name) + getattr(two, name) for name in _COUNTED}
    return replace(merged_line, **counts)


def of_node(node: NodeRow) -> Entry:
    """One node as a line, without its calls."""
    return Entry(
        target=node.target,
        action=node.action,
        writer=node.writer,
        model=(node.model or "") if node.writer == "model" else "",
        nodes=1,
        wins=int(node.confirmed == 1),
    )


def of_call(call: CallRow, node: NodeRow | None) -> Entry:
    """One call as a line; what an older session does not say of it is its node's."""
    open_still = call.state == "reserved"
    writer = call.writer or "model"
    return Entry(
        target=call.target,
        action=call.action or (node.action if node else ""),
        writer=writer,
        model=call.model if writer == "model" else "",
        calls=1,
        in_flight=int(open_still),
        reserved=(call.reserved or 0) if open_still else 0,
        failed=int(call.state == "failed"),
        lost=int(call.state == "lost"),
        micro_dollars=0 if open_still else call.micro_dollars or 0,
        unpriced=int(call.unpriced),
        estimated=int(bool(call.estimated)),
        tokens_in=call.tokens_in or 0,
        tokens_out=call.tokens_out or 0,
        tokens_cached=call.tokens_cached or 0,
        tokens_reasoning=call.tokens_reasoning or 0,
    )
