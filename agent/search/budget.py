"""When to stop: caps of a session, and what makes a target not worth more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

GAIN = 1.01
NEAR_SOL = 0.95
# No program is so much faster than streaming its bytes: then that was measured on a busy machine.
IMPLAUSIBLE = 1.25


@dataclass(frozen=True, slots=True)
class Caps:
    """The limits that a person set.

    Attributes:
        nodes: Nodes for each target.
        minutes: Minutes of running time for the session, pauses left out.
        patience: Nodes of a target without a new best before it is closed.
        sol_stop: Fraction of SOL at which a target is done.
    """

    nodes: int = 24
    minutes: float = 10.0
    patience: int = 10
    sol_stop: float = NEAR_SOL

    @staticmethod
    def of(config: Mapping[str, Any]) -> Caps:
        known = {name: config[name] for name in Caps.__slots__ if config.get(name) is not None}
        return Caps(**known)

    def minutes_left(self, active_us: int) -> float:
        return self.minutes - active_us / 60e6


@dataclass(slots=True)
class Progress:
    """How a target stands.

    Attributes:
        nodes: Nodes begun.
        since_gain: Nodes ended since the best improved by 1 % or more.
        best_low: Lower bound of the best speedup against eager; 0 before the first.
        best_ratio: The best node's speedup against eager.
        baseline, baseline_name: The fastest baseline and its speedup against eager, at least 1.
    """

    eager_ns: int
    sol_ns: int | None
    nodes: int = 0
    ended: int = 0
    since_gain: int = 0
    best_low: float = 0.0
    best_ratio: float = 0.0
    baseline: float = 1.0
    baseline_name: str = "eager"

    def ended_with(self, low: float | None, ratio: float | None) -> None:
        """Count a node that ended, with its speedup and its lower bound if it has them."""
        self.ended += 1
        self.since_gain += 1
        self.found(low, ratio)

    def begin_again(self) -> None:
        """What was found so far counts no more; how much was tried does."""
        self.since_gain, self.best_low, self.best_ratio = 0, 0.0, 0.0

    def found(self, low: float | None, ratio: float | None) -> None:
        """Take a speedup and its lower bound up, of a node that was counted before."""
        if low is not None and ratio is not None and low > self.best_low:
            if low > self.best_low * GAIN:
                self.since_gain = 0
            self.best_low, self.best_ratio = low, ratio

    @property
    def sol_speedup(self) -> float | None:
        """Eager time over SOL time."""
        return None if not self.sol_ns else self.eager_ns / self.sol_ns

    def sol_fraction(self, ratio: float) -> float | None:
        """How near to SOL a speedup is; 1.0 is the speed of light.

        From the ratio, which was measured in pairs, and not from the time: the machine may have
        been busier than when SOL was measured.
        """
        return None if self.sol_speedup is None else ratio / self.sol_speedup

    @property
    def sol_in_doubt(self) -> bool:
        """Whether what was measured since shows that SOL was measured wrong."""
        fastest = self.sol_fraction(max(self.best_ratio, self.baseline))
        return fastest is not None and fastest > IMPLAUSIBLE

    @property
    def headroom(self) -> float:
        """How much faster than the best so far SOL is; 1.0 is none."""
        if self.sol_speedup is None:
            return 2.0
        return max(self.sol_speedup / max(self.best_low, self.baseline), 1.0)


def hopeless(progress: Progress) -> tuple[str, str] | None:
    """Why a target is not worth a single program: its fastest baseline is within 5 % of SOL."""
    fraction = progress.sol_fraction(progress.baseline)
    if fraction is not None and fraction > NEAR_SOL and not progress.sol_in_doubt:
        name = progress.baseline_name
        return "near-sol", f"{name} already runs at {fraction:.0%} of the speed of light"
    return None


def closing(progress: Progress, caps: Caps) -> tuple[str, str] | None:
    """Why a target gets no more work: (code, words), or None."""
    fraction = progress.sol_fraction(progress.best_ratio)
    if fraction is not None and fraction >= caps.sol_stop and not progress.sol_in_doubt:
        return "sol", f"the best program runs at {fraction:.0%} of the speed of light"
    if progress.nodes >= caps.nodes:
        return "nodes", f"its cap of {caps.nodes} nodes is reached"
    if progress.since_gain >= caps.patience:
        return "patience", f"no gain in {progress.since_gain} nodes"
    return None


def next_target(open_targets: Mapping[int, Progress], drafts: int) -> int | None:
    """Which target gets the next node.

    Each gets its first drafts in turn; from then on the one with the largest headroom for each node
    that has not paid since its last gain.
    """
    if not open_targets:
        return None
    early = {target: p.nodes for target, p in open_targets.items() if p.nodes < drafts}
    if early:
        return min(early, key=lambda target: (early[target], target))
    return max(
        open_targets,
        key=lambda target: (
            (open_targets[target].headroom - 1) / (1 + open_targets[target].since_gain),
            -open_targets[target].nodes,
            -target,
        ),
    )
