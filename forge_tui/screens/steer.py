"""Steering a search from a screen: commands, their answers, and starting an engine.

A command is a row that the feed writes; its answer is an event. Until the engine's state follows,
the status line says what is awaited.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from textual.message import Message
from textual.screen import Screen

from forge_tui import tree
from forge_tui.launch import LaunchError
from forge_tui.model import Model
from forge_tui.screens.dialogs import Question, Words
from forge_tui.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from forge_tui.app import ForgeApp
    from forge_tui.feed import Feed
    from store.events import Event

NOTE_S = 8.0
ERROR_S = 30.0
_KEPT_ANSWERS = 64


class SteerScreen(Screen[None]):
    """A screen over one session that can ask things of its engine."""

    app: ForgeApp
    feed: Feed

    class Sent(Message):
        """A command was written, or could not be."""

        def __init__(self, verb: str, command: int, problem: str) -> None:
            super().__init__()
            self.verb, self.command, self.problem = verb, command, problem

    class Starting(Message):
        """An engine that we start says what it does, or why it did not start."""

        def __init__(self, stage: str, error: str = "") -> None:
            super().__init__()
            self.stage, self.error = stage, error

    def __init__(self, session: Path) -> None:
        super().__init__()
        self.session = session
        self.model = Model()
        self._asked: dict[int, str] = {}
        self._answers: dict[int, dict[str, Any]] = {}
        self._note: tuple[str, str, float] | None = None
        self._written = False  # something was asked while no engine was at work

    # -- what the screen must offer ----------------------------------------------------------------

    def show_status(self) -> None:
        """Draw the status line and the event line again."""
        raise NotImplementedError

    @property
    def cursor(self) -> int | None:
        """The row under the cursor."""
        raise NotImplementedError

    # -- notes and answers -------------------------------------------------------------------------

    def tell(self, message: Message) -> None:
        """Post a message from any thread, unless the screen is gone."""
        if self.is_attached:
            self.post_message(message)

    def note(self, text: str, role: str = "strong", seconds: float = NOTE_S) -> None:
        """Say something in the event line for some seconds."""
        self._note = (text, role, time.monotonic() + seconds)
        self.show_status()

    @property
    def noted(self) -> tuple[str, str] | None:
        return self._note[:2] if self._note else None

    def forget_note(self) -> bool:
        """Drop a note whose time is over; True if there was one."""
        if self._note is None or time.monotonic() < self._note[2]:
            return False
        self._note = None
        return True

    def hear(self, events: Iterable[Event]) -> None:
        """Find answers to our own commands, and see whether what is awaited has come."""
        for event in events:
            if event.kind != "CommandAnswered":
                continue
            command = int(event.payload["command"])
            if verb := self._asked.pop(command, ""):
                self._answered(verb, event.payload)
                continue
            # Another viewer's, or ours and quicker than the word that it was written.
            self._answers[command] = event.payload
            while len(self._answers) > _KEPT_ANSWERS:
                self._answers.pop(next(iter(self._answers)))
        model = self.model
        come = {"pause": model.state == "paused", "resume": model.state == "running"}
        if come.get(model.waiting) or not model.working:
            model.waiting = ""
        if model.state in {"running", "pausing", "paused"}:
            model.starting = ""

    def _answered(self, verb: str, payload: dict[str, Any]) -> None:
        answer = str(payload["answer"])
        if payload["ok"]:
            self.note(f"{verb}: {answer}" if answer else f"{verb}: done")
        else:
            self.model.waiting = ""
            self.note(f"{verb} was refused: {answer}", "bad")

    def on_steer_screen_sent(self, message: Sent) -> None:
        if message.problem:
            self.model.waiting = ""
            self.note(f"{message.verb}: {message.problem}", "bad", ERROR_S)
        elif message.command in self._answers:
            self._answered(message.verb, self._answers.pop(message.command))
        else:
            self._asked[message.command] = message.verb
        self.show_status()

    def on_steer_screen_starting(self, message: Starting) -> None:
        self.model.starting = "" if message.error else message.stage
        if message.error:
            self.note(message.error, "bad", ERROR_S)
        self.show_status()

    # -- actions -----------------------------------------------------------------------------------

    def _may_write(self) -> bool:
        if self.app.read_only:
            self.note("this viewer is read-only: attach without --read-only to steer the search")
            return False
        return True

    def _send(self, verb: str, **args: int | str) -> None:
        if verb in {"pause", "resume", "stop"}:
            self.model.waiting = verb
        self.feed.command(verb, **args)
        self.show_status()

    def action_pause(self) -> None:
        if not self._may_write():
            return
        if not self.model.working:
            self.note("no engine is at work; r resumes the search")
        elif self.model.waiting:
            self.note("the engine has not answered yet")
        else:
            self._send("resume" if self.model.state in {"paused", "pausing"} else "pause")

    def action_stop(self) -> None:
        if not self._may_write():
            return
        if not self.model.working:
            self.note("no engine is at work")
            return
        live = len(self.model.live)
        busy = f"{live} in work {'is' if live == 1 else 'are'} dropped" if live else "none in work"
        effect = (
            f"The engine ends: {self.model.total} nodes, {busy}. Everything is saved, and r takes "
            "the search up again."
        )
        self._confirm("Stop the search?", effect, "stop")

    def _confirm(self, title: str, effect: str, verb: str, **args: int | str) -> None:
        def answered(yes: bool | None) -> None:
            if yes:
                self._send(verb, **args)

        self.app.push_screen(Question(title, effect), answered)

    def action_prune(self) -> None:
        key = self.cursor
        if not self._may_write() or key is None:
            return
        if key < 0 or tree.is_group(key):
            self.note("only a node's branch can be pruned: put the cursor on a node")
            return
        closed = self.model.pruned_by(key)
        if closed is not None:
            where = "" if closed == key else f" with #{closed}"
            self.note(f"#{key} is pruned already{where}; u opens it again")
            return
        branch = self.model.branch(key)
        if len(branch) == 1:
            self._send_branch("prune", key)
            return
        live = sum(1 for node in branch if node.state == "live")
        running = f", {live} of them in work" if live else ""
        later = "" if self.model.working else " It applies when the search is resumed."
        effect = (
            f"{len(branch)} nodes are closed{running}. Nothing new is tried below #{key}; u opens "
            f"the branch again.{later}"
        )
        self._confirm(f"Prune #{key}?", effect, "prune", node=key)

    def action_unprune(self) -> None:
        key = self.cursor
        if not self._may_write() or key is None:
            return
        closed = self.model.pruned_by(key) if key > 0 and not tree.is_group(key) else None
        if closed is None:
            self.note("no closed branch here")
        else:
            self._send_branch("unprune", closed)

    def _send_branch(self, verb: str, node: int) -> None:
        self._send(verb, node=node)
        if not self.model.working:
            self._written = True
            self.note(f"{verb} #{node} is written; it applies when the search is resumed")

    def action_hint(self) -> None:
        key = self.cursor
        if not self._may_write() or key is None:
            return
        if tree.is_group(key):
            self.note("only a node or a target can have a hint: put the cursor on one")
            return
        row = self.model.targets[-key] if key < 0 else self.model.nodes[key]
        where = one_line(self.model.targets[-key].name, 40) if key < 0 else f"#{key}"
        about = {"target": -key} if key < 0 else {"node": key}

        def written(text: str | None) -> None:
            if not text:
                return
            self._send("hint", **about, text=text)
            if not self.model.working:
                self._written = True
                self.note("the hint is written; it applies when the search is resumed")

        whose = "of this target" if key < 0 else f"of all later nodes below #{key}"
        title, effect = f"A hint for the writers of {where}", f"It goes into the prompts {whose}."
        self.app.push_screen(Words(title, effect, row.hint or ""), written)

    def action_resume(self) -> None:
        if not self._may_write():
            return
        if self.model.starting:
            self.note("an engine is starting")
        elif self.model.state in {"paused", "pausing"}:
            self._send("resume")
        elif self.model.working:
            self.note("the search is running")
        elif self.model.state == "finished" and not self._written:
            self.note("the search is finished: nothing is left to resume; forge-tui run starts one")
        else:
            self._start_engine()

    def _start_engine(self) -> None:
        """Start an engine in a thread; its stages and its refusal come back as messages."""

        def start() -> None:
            try:
                self.app.launcher(self.session, lambda stage: self.tell(self.Starting(stage)))
            except LaunchError as error:
                cure = f" ({error.cure})" if error.cure else ""
                self.tell(self.Starting("", f"not started: {error.message}{cure}"))

        self.model.starting = "engine"
        self._written = False
        self.show_status()
        threading.Thread(target=start, name="launch", daemon=True).start()
