"""What every step of a search works with: the session, the workers, the device, the clock."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.clock import ActiveClock
from agent.devices.cuda.arches import arch_of
from agent.knowledge import Knowledge

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agent.devices import Device
    from agent.workers.workshop import Workshop
    from agent.writers.brief import Rule
    from store.lease import DeviceLease
    from store.writing import SessionWriter

LEASE_TURN_S = 0.1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a search's programs run, as far as the engine needs to know.

    Attributes:
        device: ``"cpu"`` or ``"cuda"``.
        language: What programs for it are written in.
        key: What figures measured there depend on: device, driver, toolchain.
        facts: Numbers that plans may use as ``device.NAME``.
        arch: Of a GPU, such as ``sm_90a``: what a builder needs to know, and no more.
    """

    device: str
    language: str
    key: str
    facts: dict[str, int]
    arch: str = ""

    @staticmethod
    def of(device: Device) -> Place:
        """The place that an opened device is.

        Raises:
            MachineError: The device cannot be asked.
        """
        facts = device.facts()
        arch = arch_of(facts["major"], facts["minor"]) if device.name == "cuda" else ""
        return Place(device.name, device.language, device.key(), facts, arch)


class Context:
    """The session's file, the workers, the place, and what is being done right now.

    Args:
        session: The session, locked for this engine.
        holder: The session's name, for others that wait for the device.
        lease: The right to load the device, shared with other sessions; None needs none.

    Attributes:
        clock: Running time, pauses left out.
        doing: For the heartbeat: ``stage``, and ``node`` and ``target`` where there is one.
        working_on: The node that is being judged, 0 for none.
        calls: For the heartbeat: what each node waits for whose writer was asked, by node.
        knowledge: What earlier searches found out about this machine.
    """

    def __init__(
        self,
        session: SessionWriter,
        workshop: Workshop,
        place: Place,
        holder: str,
        lease: DeviceLease | None,
        knowledge: Knowledge | None = None,
    ) -> None:
        self.session = session
        self.workshop = workshop
        self.place = place
        self.clock = ActiveClock(session.active_us)
        self.doing: dict[str, Any] = {"stage": "starting"}
        self.working_on = 0
        self.calls: dict[int, dict[str, Any]] = {}
        self.knowledge = knowledge or Knowledge(None, place)
        self._holder = holder
        self._lease = lease

    @property
    def rates(self) -> dict[str, float]:
        """What was measured of the machine, by name: bytes or operations per second."""
        return self.knowledge.rates

    @property
    def rules(self) -> tuple[Rule, ...]:
        """What earlier failures on this machine taught."""
        return self.knowledge.rules

    def say(self, kind: str, *, target: int = 0, node: int = 0, **payload: Any) -> None:
        """Append an event."""
        self.session.active_us = self.clock.us()
        self.session.emit(kind, target=target, node=node, **payload)

    def note(self, level: str, text: str, *, target: int = 0) -> None:
        """Append a line for people."""
        self.say("Noted", target=target, level=level, text=text[:500])

    def sign_of_life(self) -> dict[str, Any]:
        """What the heartbeat says: what is done, and which writers are waited for."""
        waiting = [{"node": node, **of} for node, of in sorted(self.calls.items())]
        return {**self.doing, "calls": waiting} if waiting else self.doing

    def awaits(self, target: int, node: int, stage: str, **more: Any) -> None:
        """Tell what a node waits for: an event when it is another stage, and the heartbeat."""
        known = self.calls.get(node)
        if known is None or known["stage"] != stage:
            self.say("NodeStage", target=target, node=node, stage=stage)
        self.calls[node] = {"stage": stage, "since_us": time.time_ns() // 1000, **more}

    def does(self, stage: str, **of: int) -> None:
        """Tell the heartbeat what is being done, and for which ``node`` and ``target``."""
        self.doing = {"stage": stage, **of}

    @asynccontextmanager
    async def leased(self) -> AsyncIterator[None]:
        """The right to load the device; waits while another session measures."""
        if self._lease is None:
            yield
            return
        doing = self.doing
        while not self._lease.try_take(self._holder):
            self.doing = {**doing, "stage": f"waiting for {self._lease.holder()}"}
            await asyncio.sleep(LEASE_TURN_S)
        self.doing = doing
        try:
            yield
        finally:
            self._lease.give_back()
