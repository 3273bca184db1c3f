"""Files of an inbox: pages that appear whole, and replies that are looked at with care.

A reply's file comes from a person, a script or another machine, so nothing about it is trusted: it
may be a link that leads elsewhere, a pipe that blocks, half of a text, or no text at all.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.program import MAX_REPLY

if TYPE_CHECKING:
    from pathlib import Path

    from agent.writers.ask import Prompt

MAX_REFUSALS = 99
_CALM = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KINDS = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe",
          stat.S_IFSOCK: "a socket"}  # fmt: skip
_FENCE = re.compile(r"^[ ]{0,3}(`{3,}|~{3,})([^\n]*)$", re.M)
_CONTROL = dict.fromkeys([*(c for c in range(32) if chr(c) not in "\n\r\t"), 127])

PAGE = """{head}node: {node}
target: {target}
action: {action}
attempt: {attempt}
reply: {reply}
---

# How to answer

Write the reply into a file `{reply}` in this folder: UTF-8, at most {most} KiB.
Give it that name when it is complete: write it under another name, or elsewhere, and rename it.
What it must hold is said below. This file and the reply are moved away once the reply was read.

# The rules

{system}

# The question

{user}
"""


@dataclass(frozen=True, slots=True)
class Mark:
    """What changes when a file does."""

    kind: int
    inode: int
    size: int
    changed_ns: int

    @property
    def empty(self) -> bool:
        return self.kind == stat.S_IFREG and self.size == 0


class NoReply(Exception):
    """A file that cannot be a reply, and why.

    Args:
        unsure: Whether more of the file may be on its way.
    """

    def __init__(self, why: str, *, unsure: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.unsure = unsure


def slug(text: str, limit: int = 40) -> str:
    """Small letters, digits and hyphens: safe as a part of a file's name anywhere; may be ""."""
    return re.sub(r"[^a-z0-9]+", "-", text[:400].lower()).strip("-")[:limit].strip("-")


def printable(text: str, limit: int = 200) -> str:
    """The text as one bounded line without control codes."""
    kept = "".join(char if char.isprintable() else " " for char in text[: 4 * limit])
    return " ".join(kept.split())[:limit]


def head(session: str) -> str:
    """How a page of the session begins: by that its pages are told from others."""
    return f"---\nsession: {json.dumps(printable(session), ensure_ascii=False)}\n"


def page(
    session: str, node: int, target: str, action: str, attempt: int, reply: str, prompt: Prompt
) -> str:
    """A prompt as Markdown; texts are put in one by one, for they may hold braces."""
    system, user = (part.strip("\n").translate(_CONTROL) for part in (prompt.system, prompt.user))
    return PAGE.format(
        head=head(session),
        node=node,
        target=json.dumps(printable(target), ensure_ascii=False),
        action=json.dumps(printable(action), ensure_ascii=False),
        attempt=attempt,
        reply=reply,
        most=MAX_REPLY >> 10,
        system=system,
        user=user,
    )


def put(path: Path, text: str) -> None:
    """Write a file that is there whole or not at all; one with this text already is left alone.

    Raises:
        OSError: It cannot be written.
    """
    data = text.encode("utf-8", "replace")
    with contextlib.suppress(OSError, NoReply):
        if read_bytes(path, len(data)) == data:
            return
    unfinished = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.new")
    try:
        with unfinished.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)  # a link of that name is replaced, not followed
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise


def mark(path: Path) -> Mark | None:
    """The file as it is now; None where there is none.

    Raises:
        OSError: The folder cannot be looked into.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return Mark(stat.S_IFMT(found.st_mode), found.st_ino, found.st_size, found.st_mtime_ns)


def read_bytes(path: Path, most: int) -> bytes:
    """At most ``most`` + 1 bytes of a plain file; neither links nor pipes are opened.

    Raises:
        NoReply: It is no plain file, or may not be read.
        OSError: It is gone, or cannot be read.
    """
    kind = stat.S_IFMT(path.lstat().st_mode)
    if kind != stat.S_IFREG:
        raise NoReply(f"it is {_KINDS.get(kind, 'a device')}, not a plain file")
    try:
        handle = os.open(path, _CALM)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            raise NoReply("it may not be read: change its permissions") from None
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NoReply("it is not a plain file") from None
        raise
    with open(handle, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # it was exchanged since
            raise NoReply("it is not a plain file")
        data = bytearray()
        while len(data) <= most and (piece := file.read(most + 1 - len(data))):
            data += piece
        return bytes(data)


def read_reply(path: Path) -> str:
    """A reply's text, without control codes.

    Raises:
        NoReply: It is too large, not UTF-8, blank, no plain file, or seems to be cut off.
        OSError: It is gone, or cannot be read.
    """
    data = read_bytes(path, MAX_REPLY)
    if len(data) > MAX_REPLY:
        raise NoReply(f"it is larger than {MAX_REPLY >> 10} KiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        cut = error.reason == "unexpected end of data"
        raise NoReply("it is not UTF-8: save it as UTF-8", unsure=cut) from None
    if "\0" in text:
        raise NoReply("it is not a text: it holds NUL characters (save it as UTF-8)")
    text = text.translate(_CONTROL)
    if not text.strip():
        raise NoReply("there is nothing in it", unsure=True)
    return text


def seems_cut(text: str) -> bool:
    """Whether the last block is still open: the rest of the file may be on its way."""
    open_with = ""
    for found in _FENCE.finditer(text):
        fence, label = found.groups()
        if not open_with:
            open_with = fence
        elif fence.startswith(open_with) and not label.strip():
            open_with = ""
    return bool(open_with)


def refuse(path: Path, why: str) -> bool:
    """Rename a file that is no reply, with the reason in a text beside it; whether that worked."""
    for number in range(1, MAX_REFUSALS + 1):
        aside = path.with_name(path.name + (".refused" if number == 1 else f".refused-{number}"))
        reason = aside.with_name(aside.name + ".txt")
        if os.path.lexists(aside) or os.path.lexists(reason):
            continue
        try:
            path.rename(aside)
        except OSError:
            return False
        with contextlib.suppress(OSError):  # a full disk: the reason is said elsewhere too
            put(reason, f"{path.name} was not taken: {why}.\nWrite {path.name} again.\n")
        return True
    return False


def move(files: list[Path], place: Path) -> bool:
    """Move those of the files that are there into a folder beside them; whether that worked.

    The folder is held open while its entries are made, so that no link leads them elsewhere.
    """
    try:
        place.mkdir(exist_ok=True)
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    moved = True
    try:
        for file in files:
            try:
                os.replace(file, file.name, dst_dir_fd=folder)
            except FileNotFoundError:
                continue
            except OSError:
                moved = False
    finally:
        os.close(folder)
    return moved
