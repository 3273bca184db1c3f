"""A cap in dollars holds whatever eight calls at once do, against a server with real prices."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

from agent.calls import Calls, CapReached, Order
from agent.context import Context
from agent.errors import ModelError
from agent.writers.ask import Prompt
from agent.writers.llm import retry
from agent.writers.llm.prices import listed
from store.reading import SessionReader
from store.writing import SessionWriter
from tests.agent.landscape import PLACES, Landscape, new_session
from tests.agent.model_server import Fails, Says, fails, says, serving

if TYPE_CHECKING:
    from agent.search.purse import Purse
    from store.rows import CallRow
    from tests.agent.model_server import Request

CAP = 0.05
PARALLEL = 8
# A real model's name, for its price in litellm's list; the server is ours.
MODELS = ("openai/gpt-4o-mini", "openai/gpt-4o")


BROKEN = "half a reply, and then"


class Provider:
    """Answers, fails, breaks off and reports tokens by chance; counts what it would bill.

    Attributes:
        billed: In dollars.
    """

    def __init__(self, seed: int, prices: tuple[float, float]) -> None:
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self._prices = prices
        self.billed = 0.0

    def __call__(self, request: Request) -> Says | Fails:
        with self._lock:
            kind = self._chance.choices(
                ("full", "short", "rate", "server", "drop", "empty"), (3, 6, 1, 1, 1, 1)
            )[0]
            if kind in ("rate", "server"):
                return fails(429 if kind == "rate" else 500)
            most = int(request.body.get("max_tokens") or request.body["max_completion_tokens"])
            size = len(str(request.body["messages"]))
            tokens_in = size if kind == "full" else self._chance.randint(size // 6, size // 2)
            tokens_out = most if kind == "full" else self._chance.randint(1, most)
            if kind == "drop":
                tokens_out = len(BROKEN)  # as many as there can be
            self.billed += tokens_in * self._prices[0] + tokens_out * self._prices[1]
        how: dict[str, Any] = {"tokens": (tokens_in, tokens_out)}
        if kind == "drop":
            return says(BROKEN, drop=True, **how)  # and billed for what was sent
        return says("" if kind == "empty" else "a reply", **how)


async def spend(calls: Calls, target: int, model: str) -> list[str]:
    """Ask as long as the cap lets us, eight at once."""
    ended: list[str] = []

    async def one(node: int) -> None:
        while True:
            prompt = Prompt("You write kernels." * 5, f"node {node}")
            try:
                await calls.ask(Order(target, node, model, "draft"), prompt)
            except CapReached as reached:
                ended.append(reached.which)
                return
            except ModelError as error:
                if error.fatal:
                    raise

    await asyncio.gather(*(one(node) for node in range(1, PARALLEL + 1)))
    return ended


async def schedule(seed: int) -> tuple[Purse, list[CallRow], float]:
    """One random schedule: what is left of the purse, the ledger, and what the provider bills."""
    name = MODELS[seed % len(MODELS)]
    price = listed(name)
    assert price is not None
    provider = Provider(seed, (price.rates[0].tokens_in / 1e6, price.rates[0].tokens_out / 1e6))
    with serving(provider) as server:
        config = {"models": [{"name": name, "api_base": server.url, "params": {}, "price": None}],
                  "dollars": CAP, "max_tokens": 1500 if seed % 3 else 16_000}  # fmt: skip
        path = new_session(**config)
        session = SessionWriter(path)
        context = Context(session, Landscape(), PLACES["cpu"], "toy", None)
        session.emit("EngineStarted", pid=1, host="h", version="0", machine={})
        for node in range(1, PARALLEL + 1):
            session.emit("NodeCreated", target=1, node=node, parent=None, second_parent=None,
                         action="draft", writer="model", model=name)  # fmt: skip
        calls = Calls(context, config, asyncio.Event())
        ended = await asyncio.wait_for(spend(calls, 1, name), 60)
        reader = SessionReader(path, session.conn)
        spending, rows = reader.spending(), reader.calls()
        session.close()
    assert ended == ["dollars"] * PARALLEL
    assert spending.reserved == 0
    assert calls.purse.spent >= spending.micro_dollars
    return calls.purse, rows, provider.billed


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("seed", range(20))
async def test_eight_calls_at_once_never_spend_more_than_the_cap(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``tests.benchmarks.caps`` runs 200 of these."""
    monkeypatch.setattr(retry, "delay", lambda error, attempt, chance: 0.0 if attempt < 3 else None)
    purse, rows, billed = await schedule(seed)
    assert 0 < purse.spent <= CAP * 1e6
    assert billed <= CAP  # also of what was broken off, which nobody counted for us
    assert any(row.state == "paid" for row in rows)
