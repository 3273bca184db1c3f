"""The tree of one target: its nodes, their branches' best rewards, and who may still grow.

networkx holds nodes and edges (a second parent is an extra edge that backup and prune ignore); the
statistics that selection reads hang on the nodes and are kept up to date along the path to the
root, so that a step costs the depth of the tree and not its size.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import networkx as nx

ROOT = 0


@dataclass(slots=True)
class Stat:
    """What selection knows of a node.

    Attributes:
        reward: Own reward; None for the root, for failed and for live nodes.
        value: Best reward in the branch, pruned branches left out; None when there is none.
        visits: Nodes of the branch that came to an end, this one included.
        pruned: A person closed the branch here.
        spent: Actions that have nothing more to give at this node.
        repairs: How many repairs led to this node in a row.
    """

    id: int
    parent: int
    action: str
    reward: float | None = None
    value: float | None = None
    visits: int = 0
    state: str = "live"
    rung: str = ""
    pruned: bool = False
    repairs: int = 0
    spent: set[str] = field(default_factory=set)
    children: list[int] = field(default_factory=list)


class Tree:
    """Nodes of one target. The root stands for the target itself; its children are drafts.

    Attributes:
        repair_record: Repairs that ended, and how many of them passed.
    """

    def __init__(self) -> None:
        self.graph = nx.DiGraph()
        self.stats: dict[int, Stat] = {}
        self.repair_record = (0, 0)
        self._put(Stat(ROOT, ROOT, "root", state="root"))

    def _put(self, stat: Stat) -> None:
        self.graph.add_node(stat.id)
        self.stats[stat.id] = stat

    def __getitem__(self, node: int) -> Stat:
        return self.stats[node]

    def __contains__(self, node: int) -> bool:
        return node in self.stats

    def __len__(self) -> int:
        return len(self.stats) - 1

    def add(self, node: int, parent: int | None, action: str, second: int | None = None) -> Stat:
        """A new node in work below ``parent`` (None for a draft)."""
        above = ROOT if parent is None else parent
        repairs = self[above].repairs + 1 if action == "repair" else 0
        stat = Stat(node, above, action, repairs=repairs)
        self._put(stat)
        self.graph.add_edge(above, node, primary=True)
        if second is not None:
            self.graph.add_edge(second, node, primary=False)
        self[above].children.append(node)
        return stat

    def path(self, node: int) -> list[int]:
        """From the node up to and including the root, along primary parents."""
        path = [node]
        while path[-1] != ROOT:
            path.append(self[path[-1]].parent)
        return path

    def branch(self, node: int) -> list[int]:
        """The node and everything below it along primary edges."""
        found, stack = [], [node]
        while stack:
            current = stack.pop()
            found.append(current)
            stack.extend(self[current].children)
        return found

    def closed(self, node: int) -> bool:
        """Whether the node or one above it is pruned."""
        return any(self[above].pruned for above in self.path(node))

    # -- what happens to nodes ---------------------------------------------------------------------

    def score(self, node: int, reward: float) -> None:
        """The node is done with a reward: max-biased backup, one visit for each ancestor."""
        self._end(node, "scored", reward, "")

    def fail(self, node: int, rung: str) -> None:
        """The node is done and failed: a visit without a reward (never minus infinity)."""
        self._end(node, "failed", None, rung)

    def _end(self, node: int, state: str, reward: float | None, rung: str) -> None:
        stat = self[node]
        first = stat.state == "live"  # a node that is judged again is no second visit
        stat.state, stat.reward, stat.rung = state, reward, rung
        if first:
            self._visit(node)
        else:
            self._back_up(node)

    def drop(self, node: int) -> None:
        """The node's work was given up; it counts for nothing."""
        self[node].state = "dropped"

    def prune(self, node: int, pruned: bool) -> None:
        """Close a branch, or open it again; ancestors' values follow."""
        self[node].pruned = pruned
        self._back_up(node)

    def _visit(self, node: int) -> None:
        if self[node].action == "repair":
            tried, worked = self.repair_record
            self.repair_record = (tried + 1, worked + (self[node].state == "scored"))
        for above in self.path(node):
            self[above].visits += 1
        self._back_up(node)

    def _back_up(self, node: int) -> None:
        for above in self.path(node):
            stat = self[above]
            values = [
                self[child].value
                for child in stat.children
                if not self[child].pruned and self[child].value is not None
            ]
            known = [value for value in [stat.reward, *values] if value is not None]
            stat.value = max(known) if known else None

    def best(self, branch: int = ROOT) -> int | None:
        """The node of a branch with the highest reward outside pruned branches."""
        node, target = branch, self[branch].value
        if target is None:
            return None
        while self[node].reward != target:
            node = next(
                child
                for child in self[node].children
                if not self[child].pruned and self[child].value == target
            )
        return node
