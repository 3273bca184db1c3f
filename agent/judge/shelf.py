"""Room for what is costly to make and cheap to have: the cases of all targets of a judge.

On a GPU the runner needs most of the card, and the allocator keeps what was once used: so before
anything large is made it is asked whether there is room, and afterwards what is left over goes
back to the driver.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import psutil
import torch
from torch import fx
from torch.utils import _pytree as pytree

from agent.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

_SHARE = 10
_GIB = 1 << 30


class Shelf:
    """Things kept while there is room for them, by owner and key.

    The owner that was used longest ago makes room for another. Of its own things an owner loses
    none: they are used in rounds, and whoever throws out the oldest then has always just thrown
    out what comes next.

    Args:
        device: Whose memory the things lie in.
        room: Bytes; None for a tenth of the device's memory.
    """

    def __init__(self, device: str, room: int | None = None) -> None:
        self.device = device
        self.room = _memory(device) // _SHARE if room is None else room
        self._held: OrderedDict[Hashable, dict[Hashable, tuple[Any, int]]] = OrderedDict()

    def get(self, owner: Hashable, key: Hashable) -> Any:
        """What was kept, or None."""
        if owner not in self._held:
            return None
        self._held.move_to_end(owner)
        return self._held[owner].get(key, (None, 0))[0]

    def put(self, owner: Hashable, key: Hashable, value: Any, size: int) -> None:
        """Keep it if there is room, also after others have made some."""
        mine = self._held.setdefault(owner, {})
        self._held.move_to_end(owner)
        while self._used() + size > self.room and len(self._held) > 1:
            self._held.popitem(last=False)
        if self._used() + size <= self.room:
            mine[key] = (value, size)

    def clear(self) -> None:
        self._held.clear()

    def _used(self) -> int:
        return sum(size for held in self._held.values() for _, size in held.values())

    def make_room(self, need: int, what: str) -> None:
        """On a GPU: see that so many bytes can be had, at the cost of all that is kept.

        Raises:
            MachineError: ``device-memory``.
        """
        if self.device != "cuda" or need <= _free():
            return
        self.clear()
        torch.cuda.empty_cache()
        if need > _free():
            raise self.too_large(need, what)

    def too_large(self, need: int, what: str) -> MachineError:
        """The error for what cannot be had."""
        free = _free() if self.device == "cuda" else psutil.virtual_memory().available
        return MachineError(
            f"proving {what} takes about {need / _GIB:.1f} GiB of memory, "
            f"{free / _GIB:.1f} GiB are free on {self.device}",
            "end what else uses the memory, or make the inputs smaller",
            code="device-memory",
        )

    def give_back(self) -> None:
        """Hand the driver what the allocator keeps, if it is more than the shelf may hold."""
        if self.device == "cuda":
            spare = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
            if spare > self.room:
                torch.cuda.empty_cache()


def _memory(device: str) -> int:
    if device == "cuda":
        return int(torch.cuda.mem_get_info()[1])
    return int(psutil.virtual_memory().total)


def _free() -> int:
    """What this process can still allocate: free on the card, or kept by its allocator."""
    spare = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    return int(torch.cuda.mem_get_info()[0] + spare)


def peak_bytes(graph: fx.GraphModule) -> int:
    """The most that a graph's tensors take at once when it is evaluated in float64.

    Each value lives from its node to its last use; a view counts as if it were a copy.
    """
    order = list(graph.graph.nodes)
    last = {user: at for at, node in enumerate(order) for user in node.all_input_nodes}
    leaving: dict[int, int] = {}
    held = peak = 0
    for at, node in enumerate(order):
        size = _wide_bytes(pytree.tree_leaves(node.meta.get("val")))
        held += size
        peak = max(peak, held)
        end = last.get(node, at)
        leaving[end] = leaving.get(end, 0) + size
        held -= leaving.pop(at, 0)
    return peak


def _wide_bytes(values: Iterable[Any]) -> int:
    """Bytes of these tensors with 8 for each element, whatever its dtype."""
    return sum(8 * value.numel() for value in values if isinstance(value, torch.Tensor))
