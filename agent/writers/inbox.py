"""A writer by files: prompts go out as Markdown, replies come in beside them.

For boxes without internet, for batch queues, and for people. Nothing lives in this process alone:
what was asked and what was answered lies in the folder, so an engine may end while it waits, and
folder and session may go on elsewhere. The layout is told in ``docs/inbox.md``.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import time
from typing import TYPE_CHECKING

from agent.errors import ModelError
from agent.writers.inbox_files import (
    Mark,
    NoReply,
    head,
    mark,
    move,
    page,
    printable,
    put,
    read_bytes,
    read_reply,
    refuse,
    seems_cut,
    slug,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from agent.writers.ask import Prompt

POLL_S = 0.5
SETTLED = 2  # polls without a change, after which a file counts as complete
DOUBTFUL = 20  # ... where it looks as if it had no end yet
MAX_ENTRIES = 20_000
_PAGE = re.compile(r"\d{4,}-[a-z0-9-]+\.md")
_UNFINISHED = re.compile(r"\.\d{4,}-[a-z0-9.-]+\.new")


def _unheard(text: str) -> None:
    """Where nobody listens."""


class Inbox:
    """One session's prompts and replies in a folder.

    Args:
        folder: Made with the first prompt. Other sessions may use it too.
        session: The session's id, which marks its prompts.
        poll_s: Seconds from one look at a reply to the next.
    """

    def __init__(self, folder: Path, session: str = "", *, poll_s: float = POLL_S) -> None:
        self.folder = folder
        self._session = session
        self._poll_s = poll_s
        self._posted: dict[str, str] = {}
        self._refused: set[tuple[str, Mark]] = set()
        self._closed = asyncio.Event()

    def post(self, node: int, target: str, action: str, attempt: int, prompt: Prompt) -> Path:
        """Put a prompt into the folder and return its file, whose stem is the name to wait for.

        The same node, action and attempt have the same name again, also in another process, and
        an unchanged prompt is not written again.

        Raises:
            ModelError: ``inbox-folder``, fatal: the folder or the file cannot be written.
        """
        tried = f"-try{attempt}" if attempt > 1 else ""
        parts = (f"{node:04d}", slug(action) or "write", slug(target) or "target")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            name = self._own_name("-".join(parts) + tried)
            reply = self.reply_path(name).name
            text = page(self._session, node, target, action, attempt, reply, prompt)
            put(self.folder / f"{name}.md", text)
        except OSError as error:
            raise ModelError(
                f"the prompt of node {node} cannot be written to the inbox "
                f"{printable(str(self.folder))}: {error.strerror or type(error).__name__}",
                "make it a folder with room that you may write to, or give another: --inbox DIR",
                code="inbox-folder",
                fatal=True,
            ) from None
        self._posted[name] = text
        return self.folder / f"{name}.md"

    def reply_path(self, name: str) -> Path:
        """Where the reply to a prompt is expected."""
        return self.folder / f"{name.removesuffix('.md')}.reply.md"

    def arriving(self, name: str) -> bool:
        """Whether something lies where the reply is expected that may turn out to be one."""
        try:
            found = mark(self.reply_path(name))
        except OSError:
            return False
        return found is not None and not found.empty and (name, found) not in self._refused

    async def wait(self, name: str, say: Callable[[str], None] = _unheard) -> str:
        """The reply to a prompt, once its file is complete. The file stays until ``answered``.

        Args:
            name: The stem of what ``post`` returned.
            say: Told once of each thing that stands in the way: a file that is no reply, a folder
                that cannot be read.

        Raises:
            ModelError: ``inbox-closed``: nobody waits any more.
        """
        name = name.removesuffix(".md")
        watch, told = _Watch(self, name), ""
        while not self._closed.is_set():
            try:
                text = await asyncio.to_thread(watch.look)
                if text is not None:
                    return text
                trouble = watch.trouble
            except OSError as error:
                why = error.strerror or type(error).__name__
                trouble = f"the inbox {printable(str(self.folder))} cannot be read: {why}"
            if trouble and trouble != told:
                say(trouble)
            told = trouble
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), self._poll_s)
        raise ModelError(f"the inbox was closed before {name} was answered", code="inbox-closed")

    def answered(self, name: str) -> bool:
        """Move prompt and reply to ``answered/``, once the reply is stored; whether that worked.

        Where it did not, the files stay and do no harm: what is stored is not asked again.
        """
        return self._away(name, "answered")

    def withdraw(self, name: str) -> bool:
        """Move a prompt that is no longer wanted to ``withdrawn/``; whether that worked."""
        return self._away(name, "withdrawn")

    def withdraw_node(self, node: int) -> None:
        """Withdraw a node's prompts, also such as an earlier engine posted."""
        for file in self._entries():
            if _PAGE.fullmatch(file.name) and _node_of(file) == node and self._whose(file) is True:
                self.withdraw(file.stem)

    def tidy(self, nodes: Collection[int]) -> None:
        """Withdraw this session's prompts but those of some nodes: what an engine starts with."""
        for file in self._entries():
            if _UNFINISHED.fullmatch(file.name):
                with contextlib.suppress(OSError):
                    if time.time() - file.lstat().st_mtime > 3600:
                        file.unlink()
            elif (
                _PAGE.fullmatch(file.name)
                and _node_of(file) not in nodes
                and self._whose(file) is True
            ):
                self.withdraw(file.stem)

    def close(self) -> None:
        """End every wait. Prompts stay in the folder, to be answered while nobody looks."""
        self._closed.set()

    def _entries(self) -> list[Path]:
        found: list[Path] = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                if len(found) >= MAX_ENTRIES:
                    break
                if _PAGE.fullmatch(entry.name) or _UNFINISHED.fullmatch(entry.name):
                    found.append(self.folder / entry.name)
        return found

    def _away(self, name: str, place: str) -> bool:
        name = name.removesuffix(".md")
        self._posted.pop(name, None)
        # The prompt first: one that was left behind would ask for work that is done.
        files = [self.folder / f"{name}.md", self.reply_path(name)]
        return move(files, self.folder / place)

    def _own_name(self, base: str) -> str:
        """The first name whose prompt, open or moved away, is no other session's.

        Raises:
            OSError: All of them are taken.
        """
        other = f"{base}-{slug(self._session) or 'session'}"
        places = (self.folder, self.folder / "answered", self.folder / "withdrawn")
        for name in (base, other, *(f"{other}-{number}" for number in range(2, 10))):
            if all(self._whose(place / f"{name}.md") is not False for place in places):
                return name
        raise OSError(errno.EEXIST, f"other files are in the way of {other}.md")

    def _whose(self, path: Path) -> bool | None:
        """Whether a prompt is this session's; None where nothing lies that must be kept."""
        own = head(self._session).encode("utf-8", "replace")
        try:
            return read_bytes(path, len(own) - 1)[: len(own)] == own
        except NoReply:
            return False if path.is_dir() and not path.is_symlink() else None
        except (FileNotFoundError, NotADirectoryError):
            return None

    def make_again(self) -> None:
        """Put the open prompts back where the folder was deleted.

        Raises:
            OSError: That is not possible.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in list(self._posted.items()):
            put(self.folder / f"{name}.md", text)

    def was_refused(self, name: str, found: Mark) -> bool:
        return (name, found) in self._refused

    def turn_away(self, name: str, found: Mark, why: str) -> str:
        """Put aside a file that is no reply; returns what a person should be told."""
        path = self.reply_path(name)
        if not refuse(path, why):
            self._refused.add((name, found))  # it cannot be renamed: do not look at it again
        return f"{path.name} was not taken: {why}"


def _node_of(page: Path) -> int:
    return int(page.name.partition("-")[0])


class _Watch:
    """Looks at one reply's file from time to time, until it is complete."""

    def __init__(self, inbox: Inbox, name: str) -> None:
        self._inbox = inbox
        self._name = name
        self._path = inbox.reply_path(name)
        self._mark: Mark | None = None
        self._same = 0
        self.trouble = ""

    def look(self) -> str | None:
        """The reply, or None as long as there is none.

        Raises:
            OSError: The folder cannot be looked into, or the file cannot be read.
        """
        self.trouble = ""
        found = mark(self._path)
        if found is None and not self._inbox.folder.is_dir():
            self._inbox.make_again()
            self.trouble = "the inbox was gone: it was made again, with the open prompts"
        if found != self._mark:
            self._mark, self._same = found, 0
            return None
        self._same += 1
        if found is None or found.empty or self._inbox.was_refused(self._name, found):
            return None
        return self._read(found) if self._same >= SETTLED else None

    def _read(self, found: Mark) -> str | None:
        try:
            text = read_reply(self._path)
        except FileNotFoundError:
            return None
        except NoReply as error:
            if mark(self._path) != found or (error.unsure and self._same < DOUBTFUL):
                return None
            self.trouble = self._inbox.turn_away(self._name, found, error.why)
            return None
        if mark(self._path) != found or (seems_cut(text) and self._same < DOUBTFUL):
            return None
        return text
