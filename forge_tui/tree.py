"""The tree in display order: which rows are seen, in which place, without recursion.

A row is an integer key: a node's id, a target as its negative id, and a row that stands for several
dead children as ``GROUP`` plus their parent's key. Fold state is kept by key, so that it survives
every update. Changes are spliced into the list of rows; only the block of the parent they belong
to is walked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from store.rows import NodeRow

GROUP = 1 << 40
_REBUILD_AT = 24


def target_key(target: int) -> int:
    return -target


def group_key(parent: int) -> int:
    return GROUP + parent


def is_target(key: int) -> bool:
    return key < 0


def is_group(key: int) -> bool:
    return key > GROUP // 2


def parent_key(node: NodeRow) -> int:
    return node.parent if node.parent is not None else target_key(node.target)


class Tree:
    """Rows of the tree, top to bottom.

    Attributes:
        rows: Keys in display order.
        depth: Depth of every visible row; a target is 0.
        nodes: The nodes as shown (a frozen view keeps older rows than the model).
        revision: Raised whenever rows come, go or move.
    """

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.depth: dict[int, int] = {}
        self.nodes: dict[int, NodeRow] = {}
        self.targets: list[int] = []
        self.revision = 0
        self._children: dict[int, list[int]] = {}
        self._open: dict[int, int] = {}
        self._live_below: dict[int, int] = {}
        self._dead: set[int] = set()
        self._last: dict[int, int] = {}
        self._folded: set[int] = set()
        self._opened_groups: set[int] = set()
        self._below: dict[int, int] = {}

    # -- structure ---------------------------------------------------------------------------------

    def update(self, targets: Iterable[int], nodes: Iterable[NodeRow]) -> bool:
        """Take new and changed rows (a parent before its children); True if rows moved."""
        dirty: set[int] = set()
        known = set(self.targets)
        added = [target for target in targets if target not in known]
        self.targets = sorted([*self.targets, *added])
        for node in nodes:
            self._take(node, dirty)
        if added or len(dirty) > _REBUILD_AT:
            self._rebuild()
        else:
            for key in sorted(dirty, key=lambda key: self.depth.get(key, 0)):
                self._splice(key)
        if added or dirty:
            self.revision += 1
        return bool(added or dirty)

    def _take(self, node: NodeRow, dirty: set[int]) -> None:
        before = self.nodes.get(node.id)
        self.nodes[node.id] = node
        parent = parent_key(node)
        if before is None:
            self._children.setdefault(parent, []).append(node.id)
            self._open[parent] = self._open.get(parent, 0) + 1
            dirty.add(parent)
            if node.parent is not None:
                self._judge(node.parent, dirty)  # a dead node that is taken up again lives
            if self._below:
                self._forget_sizes(parent)
        was_live = before is not None and before.state == "live"
        if was_live != (node.state == "live"):
            self._count_live(node.id, -1 if was_live else 1, dirty)
        if node.pruned != (before.pruned if before else 0):
            (self._folded.add if node.pruned else self._folded.discard)(node.id)
            dirty.add(node.id)
        self._judge(node.id, dirty)

    def _count_live(self, node: int, step: int, dirty: set[int]) -> None:
        at: int | None = node
        closed = []
        while at is not None and at in self.nodes:
            self._live_below[at] = self._live_below.get(at, 0) + step
            if self.nodes[at].pruned:
                closed.append(at)
            at = self.nodes[at].parent
        for one in closed:
            self._judge(one, dirty)

    def _judge(self, node: int, dirty: set[int]) -> None:
        """Decide whether a node is dead (ended without use), and carry that to its ancestors."""
        at: int | None = node
        while at is not None and at in self.nodes:
            row = self.nodes[at]
            if row.state == "live" or self._live_below.get(at, 0):
                dead = False
            else:
                ended = row.state in {"failed", "dropped"} and not self._open.get(at, 0)
                dead = bool(row.pruned) or ended
            if dead == (at in self._dead):
                return
            (self._dead.add if dead else self._dead.discard)(at)
            parent = parent_key(row)
            self._open[parent] = self._open.get(parent, 0) + (-1 if dead else 1)
            dirty.add(parent)
            at = row.parent

    def children(self, key: int) -> list[int]:
        """The rows right below a row; two or more dead children become one row, the last."""
        if is_group(key):
            return self.members(key)
        found = self._children.get(key, [])
        if len(found) - self._open.get(key, 0) < 2:
            return found
        return [child for child in found if child not in self._dead] + [group_key(key)]

    def members(self, group: int) -> list[int]:
        """The dead nodes that a group row stands for."""
        return [child for child in self._children.get(group - GROUP, []) if child in self._dead]

    def parent(self, key: int) -> int | None:
        """The row above a row in the tree; None for a target."""
        if is_target(key):
            return None
        if is_group(key):
            return key - GROUP
        parent = parent_key(self.nodes[key])
        group = group_key(parent)
        if key in self._dead and len(self._children[parent]) - self._open.get(parent, 0) >= 2:
            return group
        return parent

    # -- folding -----------------------------------------------------------------------------------

    def is_folded(self, key: int) -> bool:
        return key not in self._opened_groups if is_group(key) else key in self._folded

    def set_folded(self, key: int, folded: bool) -> None:
        if is_group(key):
            (self._opened_groups.discard if folded else self._opened_groups.add)(key)
        else:
            (self._folded.add if folded else self._folded.discard)(key)
        self._splice(key)
        self.revision += 1

    def fold_all(self, folded: bool) -> None:
        """Fold every node that has children (targets stay open), or open everything but groups."""
        self._folded = {key for key in self._children if key > 0} if folded else set()
        self._opened_groups.clear()
        self._rebuild()
        self.revision += 1

    def reveal(self, key: int) -> bool:
        """Open whatever hides a row; False if there is no such row."""
        if not is_target(key) and not is_group(key) and key not in self.nodes:
            return False
        hidden = []
        at = self.parent(key)
        while at is not None:
            if self.is_folded(at):
                hidden.append(at)
            at = self.parent(at)
        for one in reversed(hidden):
            self.set_folded(one, False)
        return key in self.depth

    def visible(self, key: int) -> int | None:
        """The row itself, or the nearest row above it that is seen."""
        at: int | None = key
        while at is not None and at not in self.depth:
            if not is_target(at) and not is_group(at) and at not in self.nodes:
                return None
            at = self.parent(at)
        return at

    # -- the list ----------------------------------------------------------------------------------

    def _walk(self, key: int, depth: int) -> list[int]:
        rows: list[int] = []
        stack = [(key, depth)]
        while stack:
            at, level = stack.pop()
            rows.append(at)
            self.depth[at] = level
            if self.is_folded(at):
                continue
            below = self.children(at)
            if below:
                self._last[at] = below[-1]
                stack.extend((child, level + 1) for child in reversed(below))
        return rows

    def _rebuild(self) -> None:
        self.depth.clear()
        self._last.clear()
        self.rows = []
        for target in self.targets:
            self.rows += self._walk(target_key(target), 0)

    def _splice(self, key: int) -> None:
        """Walk a visible row's block again."""
        depth = self.depth.get(key)
        if depth is None:
            return
        start = self.rows.index(key)
        end = start + 1
        while end < len(self.rows) and self.depth[self.rows[end]] > depth:
            end += 1
        for old in self.rows[start:end]:
            del self.depth[old]
        self.rows[start:end] = self._walk(key, depth)

    # -- looks -------------------------------------------------------------------------------------

    def below(self, key: int) -> int:
        """How many nodes lie below a row."""
        if is_group(key):
            return len(self.members(key))
        if key not in self._below:
            count, stack = 0, list(self._children.get(key, ()))
            while stack:
                at = stack.pop()
                count += 1
                stack.extend(self._children.get(at, ()))
            self._below[key] = count
        return self._below[key]

    def _forget_sizes(self, key: int) -> None:
        at: int | None = key
        while at is not None:
            self._below.pop(at, None)
            at = None if at < 0 or at not in self.nodes else parent_key(self.nodes[at])

    def lasts(self, key: int, levels: int) -> list[bool]:
        """Whether each of the last ``levels`` rows on the way down to ``key`` is a last child."""
        flags: list[bool] = []
        at = key
        while len(flags) < levels and (above := self.parent(at)) is not None:
            flags.append(self._last.get(above) == at)
            at = above
        return flags[::-1]
