"""A search in which language models write, told as events: paid, unknown, lost, waiting calls."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from store.sessions import create
from store.writing import SessionWriter
from tests.forge_tui.saga import PLAN, SOURCE, Saga

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "anthropic/claude-sonnet-4"
LOCAL = "openai/qwen3-coder"
CONFIG: dict[str, Any] = {
    "tasks": ["suite:softmax"], "device": "cpu", "nodes": 24, "minutes": 10.0, "patience": 10,
    "seed": 0, "demo": False, "parallel": 4, "dollars": None, "tokens": None, "calls": None,
    "drafts": 2, "inbox": None, "replay": None,
    "models": [{"name": MODEL, "api_base": "", "params": {}, "price": None},
               {"name": LOCAL, "api_base": "http://localhost:8000/v1", "params": {}}],
}  # fmt: skip
SYSTEM = "You write programs for one CPU.\n" + "\n".join(f"Rule {n}." for n in range(60))
USER = (
    "# Target\nsoftmax of [4096, 4096], float32\n# Asked for\nA new approach, unlike those tried."
)
REPLY = f"One pass online, 16 lanes\n```cpp\n{SOURCE}```\n```toml\n{PLAN}```\n"
THINKING = "The rows fit into the second cache, so one pass is enough."


class ModelSaga(Saga):
    """Writes a search by models as an engine would."""

    def ask(self, node: int, model: str = MODEL, **more: Any) -> int:
        """A call in flight: the prompt is stored and its worst case set aside."""
        call = self.writer.next_id("model_calls")
        user = more.pop("user", USER)
        values = {
            "micro_dollars": 31_000 if model == MODEL else None, "action": "improve",
            "purpose": "write", "writer": "model", "tokens": 21_000, "attempt": 1,
        }  # fmt: skip
        key = self.writer.store_prompt(SYSTEM, user)
        self.emit("CallReserved", target=1, node=node, call=call, model=model,
                  **(values | {"prompt": key} | more))  # fmt: skip
        return call

    def settle(self, node: int, call: int, micro: int | None, state: str = "paid",
               text: str = REPLY, thinking: str = THINKING, **more: Any) -> None:  # fmt: skip
        values = {"tokens_in": 9_812, "tokens_out": 2_113, "tokens_cached": 8_192,
                  "tokens_reasoning": 1_024, "estimated": False, "error": None, "finish": "stop",
                  "seconds": 12.4}  # fmt: skip
        if text:
            self.writer.store_reply(call, node, text, thinking)
            self.writer.stream(node, "thinking", thinking[:20])
            self.writer.stream(node, "thinking", thinking[20:])
            self.writer.stream(node, "model", text[:30])
            self.writer.stream(node, "model", text[30:])
        self.clock_s += 12.4
        self.emit("CallSettled", target=1, node=node, call=call, state=state, micro_dollars=micro,
                  **(values | more))  # fmt: skip

    def model_node(self, parent: int | None, model: str = MODEL, writer: str = "model") -> int:
        number = self.writer.next_id("nodes")
        self.emit("NodeCreated", target=1, node=number, parent=parent, second_parent=None,
                  action="draft" if parent is None else "improve", writer=writer,
                  model=model if writer == "model" else None, step="large")  # fmt: skip
        self.emit("NodeStage", target=1, node=number, stage="asking")
        return number

    def written(self, node: int, title: str) -> None:
        at = {"target": 1, "node": node}
        key = f"hash{node}"
        self.writer.store_program(key, "cpp", SOURCE, PLAN, title)
        self.emit("ProgramWritten", **at, program=key, language="cpp", title=title, schedule=None)
        self.emit("NodeStage", **at, stage="building")

    def waits(self, node: int, **more: Any) -> dict[str, Any]:
        """A node that waits, for the heartbeat's ``calls``."""
        self.emit("NodeStage", target=1, node=node, stage="waiting")
        return {"node": node, "stage": "waiting", "since_us": time.time_ns() // 1000, **more}

    def beat(self, *calls: dict[str, Any]) -> None:
        self.writer.active_us = int(self.clock_s * 1e6)
        self.writer.beat(4242, {"stage": "judging", "calls": list(calls)}, {})


def begun(**config: Any) -> ModelSaga:
    """A session with one target, measured."""
    path = create("suite:softmax", CONFIG | config)
    saga = ModelSaga(path, SessionWriter(path))
    saga.emit("EngineStarted", pid=4242, host="box", version="0.1.0", machine={})
    spec = {"name": "softmax", "device": "cpu", "args": [], "outputs": []}
    saga.emit("TargetAdded", target=1, name="softmax", spec=spec, task={"kind": "suite"})
    saga.emit("TargetMeasured", target=1, eager_ns=4_210_000, sol_ns=1_320_000, floor_ns=1,
              baselines={}, detail={})  # fmt: skip
    return saga


def told(**config: Any) -> ModelSaga:
    """Eight nodes: free, paid, of unknown price, lost, refused, asking, writing, waiting."""
    saga = begun(**config)
    free = saga.start_node(1, None, "two passes, rows over threads")
    saga.score(1, free, 1.4)
    saga.best(1, free, 1.4)
    good = saga.model_node(None)
    first = saga.ask(good, action="draft")
    saga.settle(good, first, 0, "failed", "", error="model-rate", tokens_in=0, tokens_out=0,
                tokens_cached=None, tokens_reasoning=None, finish=None, seconds=None)  # fmt: skip
    saga.emit("CallWaiting", target=1, node=good, call=first, model=MODEL, seconds=4.0, attempt=1,
              reason="rate limit: 429")  # fmt: skip
    saga.settle(good, saga.ask(good, action="draft", attempt=2), 13_450)
    saga.written(good, "One pass online, 16 lanes")
    saga.score(1, good, 2.4)
    saga.best(1, good, 2.4)
    saga.confirm(1, good, 2.41)
    saga.emit("HintGiven", target=1, node=good, text="try 32 lanes and no division", by="person")
    unknown = saga.model_node(good, LOCAL)
    saga.settle(unknown, saga.ask(unknown, LOCAL), None, estimated=True)
    saga.written(unknown, "Two rows at a time")
    saga.score(1, unknown, 2.1)
    lost = saga.model_node(good)
    saga.settle(
        lost,
        saga.ask(lost),
        31_000,
        "lost",
        "",
        tokens_out=0,
        tokens_cached=None,
        tokens_reasoning=None,
        seconds=None,
        error="lost",
    )
    saga.settle(lost, saga.ask(lost), 11_200, text="I am sorry, I cannot.", thinking="")
    saga.settle(lost, saga.ask(lost, purpose="format", user="Put it right."), 900, text="No.",
                thinking="")  # fmt: skip
    saga.emit("NodeFailed", target=1, node=lost, rung="read", code="no-source", seconds={},
              reason="the reply holds no block of source")  # fmt: skip
    asking, writing, waiting = (saga.model_node(good) for _ in range(3))
    for node in (asking, writing, waiting):
        saga.ask(node)
    saga.emit("NodeStage", target=1, node=writing, stage="writing")
    saga.writer.stream(writing, "thinking", "Which tile is best? ")
    saga.writer.stream(writing, "model", "Tiles of 64 ")
    told_of = saga.waits(waiting, model=MODEL, reason="rate limit: 429 too many requests",
                         until_us=time.time_ns() // 1000 + 12_600_000)  # fmt: skip
    saga.beat({"node": asking, "stage": "asking", "model": MODEL, "since_us": 1},
              {"node": writing, "stage": "writing", "model": MODEL, "since_us": 1},
              told_of)  # fmt: skip
    return saga


def posted(**config: Any) -> tuple[ModelSaga, Path]:
    """Two nodes whose prompts wait in the inbox."""
    saga = begun(models=[], inbox="inbox", **config)
    calls = []
    for _ in range(2):
        node = saga.model_node(None, writer="inbox")
        saga.ask(node, "inbox", writer="inbox", tokens=None)
        calls.append(saga.waits(node, model="inbox", reason=f"{node:04d}-draft-softmax.reply.md"))
    saga.beat(*calls)
    return saga, saga.path.parent / "inbox" / saga.path.name.removesuffix(".forge.db")
