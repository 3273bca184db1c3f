"""What a viewer knows of a session: rows by id, counters and curves, brought up to date by updates.

Pure: no textual, no I/O. The feed makes updates in its thread; the screen applies them.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from forge_tui.baselines import on_gpu
from forge_tui.series import Series
from forge_tui.settings import DOLLARS, INBOX
from forge_tui.words import cost_text, recorded_from
from store.rows import Spending

if TYPE_CHECKING:
    from collections.abc import Iterable

    from store.events import Event
    from store.rows import (
        CallRow,
        Heartbeat,
        NodeRow,
        Program,
        PromptText,
        ReplyText,
        SessionRow,
        StreamPiece,
        TargetRow,
        VariantRow,
        VerdictRow,
    )

KEPT_EVENTS = 200
STALE_S = 5.0
NOTHING = Spending(*([0] * 12))
ENGINE_UP = frozenset({"running", "pausing", "paused", "starting"})


@dataclass(frozen=True, slots=True)
class Update:
    """What came since the last update.

    Attributes:
        state: The session's state as it must be shown (``crashed`` when its engine is gone).
        nodes: New and changed nodes, in order of their ids.
        events: New events, in order.
        problem: Why the session cannot be read just now; empty when it can.
    """

    session: SessionRow | None
    state: str
    heartbeat: Heartbeat | None
    targets: tuple[TargetRow, ...]
    nodes: tuple[NodeRow, ...]
    events: tuple[Event, ...]
    spending: Spending = NOTHING
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Detail:
    """Everything about one node: its program, variants, verdicts and streamed text.

    Attributes:
        samples: How many pairs of times each verdict rests on, by the verdict's id.
        calls: How a writer was asked for it, oldest first.
        prompts, replies: What was asked, by its hash, and answered, by its call; None unless
            they were read, for somebody who looks at them.
    """

    node: NodeRow
    program: Program | None
    variants: tuple[VariantRow, ...]
    verdicts: tuple[VerdictRow, ...]
    stream: tuple[StreamPiece, ...]
    samples: dict[int, int] = field(default_factory=dict)
    calls: tuple[CallRow, ...] = ()
    prompts: dict[str, PromptText] | None = None
    replies: dict[int, ReplyText] = field(default_factory=dict)


@dataclass(slots=True)
class Model:
    """A session as one viewer sees it.

    Attributes:
        series: For each target, its ended nodes in the order in which they ended.
        stages: Seconds spent by stage over all ended nodes.
        waiting: The verb of a command of this viewer that the engine has not answered.
        starting: What an engine that this viewer starts is doing.
    """

    session: SessionRow | None = None
    state: str = "opening"
    heartbeat: Heartbeat | None = None
    targets: dict[int, TargetRow] = field(default_factory=dict)
    nodes: dict[int, NodeRow] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    series: dict[int, Series] = field(default_factory=dict)
    stages: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=KEPT_EVENTS))
    live: set[int] = field(default_factory=set)
    spending: Spending = NOTHING
    problem: str = ""
    waiting: str = ""
    starting: str = ""
    _paid: Counter[int] = field(default_factory=Counter)
    _unpriced: Counter[int] = field(default_factory=Counter)

    def apply(self, update: Update) -> None:
        self.session = update.session or self.session
        self.state = update.state
        self.heartbeat = update.heartbeat or self.heartbeat
        self.problem = update.problem
        self.spending = update.spending
        for target in update.targets:
            self.targets[target.id] = target
        self._take_nodes(update.nodes)
        self.events.extend(update.events)

    def _take_nodes(self, nodes: Iterable[NodeRow]) -> None:
        ended: list[NodeRow] = []
        for node in nodes:
            before = self.nodes.get(node.id)
            self.nodes[node.id] = node
            self._paid[node.target] += node.micro_dollars - (before.micro_dollars if before else 0)
            self._unpriced[node.target] += node.unpriced - (before.unpriced if before else 0)
            if before is None:
                self.counts[node.state] += 1
            elif before.state != node.state:
                self.counts[before.state] -= 1
                self.counts[node.state] += 1
            if node.state == "live":
                self.live.add(node.id)
            else:
                self.live.discard(node.id)
                if before is None or before.state == "live":
                    ended.append(node)
        for node in sorted(ended, key=lambda node: (node.finished_us or 0, node.id)):
            if node.state != "dropped":
                ratio = node.ratio if node.state == "scored" else None
                self.series.setdefault(node.target, Series()).add(ratio)
            for stage, seconds in (node.seconds or {}).items():
                self.stages[stage] += seconds

    # -- what follows from it ----------------------------------------------------------------------

    @property
    def working(self) -> bool:
        """Whether an engine is at work, as far as this viewer knows."""
        return self.state in ENGINE_UP

    def doing(self, target: int | None = None, node: int | None = None) -> str:
        """What the engine says it is doing, if that is about this target or node."""
        told = self.heartbeat.doing if self.heartbeat and self.working else None
        if not told or (target is not None and told.get("target") != target):
            return ""
        return "" if node is not None and told.get("node") != node else str(told.get("stage", ""))

    def waited_for(self, node: int) -> dict[str, Any]:
        """What the engine says of a node whose writer was asked: ``stage``, ``model``, ..."""
        told = (self.heartbeat.doing or {}).get("calls") if self.heartbeat else None
        if not self.working or not isinstance(told, list):
            return {}
        return next((one for one in told if isinstance(one, dict) and one.get("node") == node), {})

    @property
    def replies_awaited(self) -> int:
        """How many replies from the inbox are waited for, when nothing else is in work."""
        live = [self.nodes[node] for node in self.live]
        waiting = [node for node in live if node.writer == "inbox" and node.stage == "waiting"]
        return len(waiting) if len(waiting) == len(live) else 0

    def cost_of(self, target: int) -> str:
        """What the calls for a target cost, in words as for a node."""
        return cost_text(self._paid[target], self._unpriced[target])

    @property
    def asks(self) -> bool:
        """Whether language models are, or were, asked for programs: there is a cost."""
        return bool(self._config("models")) or self.spending.calls > 0

    @property
    def replays(self) -> str:
        """The session whose replies this search takes; "" when it searches itself."""
        return recorded_from(self.session.config) if self.session else ""

    @property
    def inbox(self) -> str:
        """Where the prompts are that somebody answers, in words; "" without."""
        folder = str(self._config("inbox") or "")
        own = f"{INBOX}/{self.session.session}, beside the session" if self.session else ""
        return own if folder == INBOX else folder

    def _config(self, name: str) -> Any:
        return self.session.config.get(name) if self.session else None

    def target_stage(self, target: int) -> str:
        """``measuring`` while its baselines are in work, ``ended`` once all is done, or nothing."""
        if self.doing(target=target).startswith("measuring"):
            return "measuring"
        return "ended" if self.state == "finished" else ""

    @property
    def on_gpu(self) -> bool:
        """Whether times are device times, with call times beside them."""
        return on_gpu(self.session.config.get("device")) if self.session else False

    @property
    def compared(self) -> bool:
        """Whether any target was compared with more than eager."""
        return any(len(target.baselines or {}) > 1 for target in self.targets.values())

    @property
    def why(self) -> str:
        """Why the search has failed; empty unless it has."""
        failed = self.session is not None and self.state == "failed" and not self.starting
        return (self.session.stop_reason or "") if failed and self.session else ""

    @property
    def total(self) -> int:
        return len(self.nodes)

    @property
    def done(self) -> int:
        return self.total - self.counts["live"]

    @property
    def active_s(self) -> float:
        """How long the search has been running, pauses left out."""
        last = self.events[-1].active_us if self.events else 0
        beat = self.heartbeat.active_us if self.heartbeat else 0
        return max(last, beat) / 1e6

    def beat_age_s(self, now_us: int) -> float | None:
        """Age of the heartbeat, for a session whose engine works; else None."""
        if self.heartbeat is None or self.state not in {"running", "pausing", "paused"}:
            return None
        return max(0.0, (now_us - self.heartbeat.at_us) / 1e6)

    def cap(self, name: str) -> float | None:
        """A cap of the config (``nodes``, ``minutes``, ``dollars``, ...), or None."""
        value = self._config(name)
        if name == "dollars" and value is None and self._config("models"):
            value = DOLLARS
        return float(value) if isinstance(value, int | float) and value > 0 else None

    def best(self) -> tuple[float, int] | None:
        """The best speedup so far over all targets, and its node; on this machine."""
        found = [
            node
            for node in map(self.best_node, self.targets)
            if node and node.ratio and not node.foreign
        ]
        return max(((node.ratio or 0.0, node.id) for node in found), default=None)

    @property
    def wins(self) -> int:
        """Nodes that a fresh process has confirmed."""
        return sum(1 for node in self.nodes.values() if node.confirmed == 1)

    def best_node(self, target: int) -> NodeRow | None:
        row = self.targets.get(target)
        return self.nodes.get(row.best_node) if row and row.best_node else None

    def newest_live(self) -> int | None:
        return max(self.live) if self.live else None

    def pruned_by(self, node: int) -> int | None:
        """The node whose closed branch this node lies in (itself, or an ancestor), or None."""
        at: int | None = node
        while at is not None and (row := self.nodes.get(at)) is not None:
            if row.pruned:
                return at
            at = row.parent
        return None

    def branch(self, node: int) -> list[NodeRow]:
        """A node and all that came from it, by primary parents."""
        inside = {node}
        for row in self.nodes.values():  # in order of ids, so a parent comes before its children
            if row.parent in inside:
                inside.add(row.id)
        return [self.nodes[one] for one in sorted(inside) if one in self.nodes]
