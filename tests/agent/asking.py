"""Whole searches whose programs come from the test server: what the tests of them share."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.agent.landscape import REPLY, Landscape, new_session, run
from tests.agent.model_server import says

if TYPE_CHECKING:
    from tests.agent.model_server import Script, Server

TOY = Path(__file__).with_name("toy_task.py")


def programs() -> Script:
    """A server that writes another program each time."""
    count = itertools.count(1)
    return lambda request: says(REPLY.format(n=next(count)))


def session_with(server: Server, **config: Any) -> Path:
    """A session that the server's model writes alone."""
    models = config.pop("models", None) or [server.model()]
    return new_session(**{"models": models, "drafts": 0, "nodes": 6, **config})


async def search(path: Path, workshop: Landscape | None = None) -> str:
    """Search to the end; the speed of light is far away."""
    return await asyncio.wait_for(run(path, workshop or Landscape(sol_ns=1)), 60)
