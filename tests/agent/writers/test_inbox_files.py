"""Replies' files: half-written ones are waited for, hostile ones are put aside, unread."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.writers import inbox
from agent.writers.ask import Prompt
from agent.writers.inbox import DOUBTFUL, POLL_S, SETTLED, Inbox, _Watch
from agent.writers.inbox_files import NoReply, page, read_reply, refuse, seems_cut, slug

if TYPE_CHECKING:
    from pathlib import Path

REPLY = "One pass\n\n```cpp\nvoid f() {}\n```\n```toml\n[[launch]]\n```\n"


@pytest.fixture
def reply(tmp_path: Path) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder / "0001-draft-x.reply.md"


def watch(reply: Path) -> _Watch:
    return _Watch(Inbox(reply.parent), reply.name.removesuffix(".reply.md"))


def looks(watched: _Watch, most: int = 60) -> tuple[str | None, int]:
    """What looking until something happens gives, and the number of looks."""
    for number in range(1, most + 1):
        text = watched.look()
        if text is not None or watched.trouble:
            return text, number
    return None, most


def test_a_file_counts_once_it_did_not_change_for_two_polls(reply: Path) -> None:
    watched = watch(reply)
    assert watched.look() is None
    for length in range(1, len(REPLY), 7):
        reply.write_text(REPLY[:length])
        assert watched.look() is None
    reply.write_text(REPLY)
    assert looks(watched) == (REPLY, 1 + SETTLED)


def test_the_times_are_those_of_the_docs() -> None:
    assert (SETTLED * POLL_S, DOUBTFUL * POLL_S) == (1, 10)


def test_an_empty_file_is_waited_for_as_long_as_it_takes(reply: Path) -> None:
    watched = watch(reply)
    reply.touch()
    assert looks(watched) == (None, 60)
    reply.write_text(REPLY)
    assert looks(watched) == (REPLY, 1 + SETTLED)


@pytest.mark.parametrize("cut", ["One pass\n```cpp\nvoid f() {", "Ends in an é"])
def test_an_upload_that_stalls_is_waited_for_longer(reply: Path, cut: str) -> None:
    watched = watch(reply)
    data = cut.encode()
    reply.write_bytes(data[:-1])
    for _ in range(DOUBTFUL):
        assert watched.look() is None
    reply.write_text(REPLY)  # the rest came
    assert looks(watched) == (REPLY, 1 + SETTLED)
    assert watched.trouble == ""


def test_a_reply_that_stays_open_is_taken_at_last(reply: Path) -> None:
    watched = watch(reply)
    reply.write_text("Idea\n```cpp\nvoid f() {")
    assert looks(watched) == ("Idea\n```cpp\nvoid f() {", 1 + DOUBTFUL)


def test_a_mark_of_the_byte_order_and_control_codes_are_taken_out(reply: Path) -> None:
    reply.write_bytes(b"\xef\xbb\xbfIdea \x1b[31m\x07red\x7f\r\n\tcode\n")
    assert looks(watch(reply))[0] == "Idea [31mred\r\n\tcode\n"


def secret(reply: Path) -> Path:
    outside = reply.parent.parent / "id_rsa"
    outside.write_text("a private key")
    return outside


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.symlink_to(secret(path)), "a link"),
        (lambda path: path.symlink_to(path.parent), "a link"),
        (lambda path: path.symlink_to("/dev/zero"), "a link"),
        (lambda path: path.symlink_to(path), "a link"),
        (lambda path: path.symlink_to("nowhere"), "a link"),
        (lambda path: path.mkdir(), "a folder"),
        (lambda path: (path / "in" / "it").mkdir(parents=True), "a folder"),
        (lambda path: os.mkfifo(path), "a pipe"),
        (lambda path: path.write_bytes(b"caf\xe9 au lait"), "not UTF-8"),
        (lambda path: path.write_bytes("Idea".encode("utf-16-le")), "NUL"),
        (lambda path: path.write_bytes(b"  \n\t \n"), "nothing in it"),
        (lambda path: path.write_bytes(b"x" * (512 * 1024 + 1)), "larger than 512 KiB"),
    ],
)  # fmt: skip
def test_what_is_no_reply_is_put_aside_with_the_reason(reply: Path, make: object, why: str) -> None:
    make(reply)  # type: ignore[operator]
    watched = watch(reply)
    text, _ = looks(watched)
    assert text is None
    assert why in watched.trouble
    assert not os.path.lexists(reply)
    aside = reply.with_name(reply.name + ".refused")
    assert os.path.lexists(aside)
    assert why in aside.with_name(aside.name + ".txt").read_text()
    reply.write_text(REPLY)
    assert looks(watched)[0] == REPLY


def test_a_socket_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path may not be long
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("0001-draft-x.reply.md")
        watched = watch(tmp_path / "0001-draft-x.reply.md")
        assert looks(watched)[0] is None
    assert "a socket" in watched.trouble


def test_a_huge_file_without_content_is_not_read_whole(reply: Path) -> None:
    with reply.open("wb") as file:
        file.truncate(1 << 40)
    watched = watch(reply)
    assert looks(watched)[0] is None
    assert "larger" in watched.trouble


def test_a_file_that_is_exchanged_for_a_link_is_not_followed(
    reply: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = secret(reply)
    reply.write_text(REPLY)
    opened = os.open

    def exchanged(path: object, *args: int) -> int:
        reply.unlink()
        reply.symlink_to(outside)
        return opened(path, *args)  # type: ignore[arg-type]

    watched = watch(reply)
    monkeypatch.setattr(os, "open", exchanged)
    for _ in range(1 + SETTLED):
        assert watched.look() is None
    assert watched.trouble == ""
    reply.unlink()
    reply.write_text(REPLY)
    with pytest.raises(NoReply, match="not a plain file"):
        read_reply(reply)
    monkeypatch.undo()
    assert os.path.lexists(reply)  # another file than that which was looked at: it stays, for now


def test_a_file_that_grows_while_it_is_read_is_waited_for(
    reply: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply.write_text("Half")
    watched = watch(reply)
    monkeypatch.setattr(inbox, "read_reply", lambda path: path.write_text(REPLY) and "Half")
    for _ in range(1 + SETTLED):
        assert watched.look() is None
    monkeypatch.undo()
    assert looks(watched) == (REPLY, 1 + SETTLED)


def test_what_cannot_be_renamed_is_told_and_not_looked_at_again(
    reply: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "refuse", lambda path, why: False)
    box = Inbox(reply.parent)
    watched = _Watch(box, "0001-draft-x")
    reply.write_bytes(b"caf\xe9 au lait")
    assert looks(watched)[0] is None
    monkeypatch.setattr(inbox, "read_reply", lambda path: pytest.fail("read again"))
    assert watched.look() is None
    assert not box.arriving("0001-draft-x")  # an engine that ends when all wait may end
    monkeypatch.undo()
    reply.write_text(REPLY)
    assert box.arriving("0001-draft-x")


def test_refusals_are_counted_and_bounded(reply: Path) -> None:
    for _ in range(99):
        reply.write_text("x")
        assert refuse(reply, "no")
    reply.write_text("x")
    assert not refuse(reply, "no")
    assert reply.exists()


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        (REPLY, False),
        ("no block", False),
        ("```cpp\nx", True),
        ("````text\n```cpp\n```\n", True),
        ("````text\n```cpp\n````\n", False),
        ("~~~cpp\n```\n~~~\n", False),
        ("~~~cpp\n```\n", True),
        ("Idea\n```cpp\nx\n```\n```toml\n[[launch]]", True),
        ("```cpp\nx\n```toml\n", True),
        ("```cpp\r\nx\r\n```\r\n", False),
    ],
)
def test_whether_a_block_is_open(text: str, cut: bool) -> None:
    assert seems_cut(text) is cut


@given(st.text(), st.text())
def test_any_text_gives_a_page_and_a_slug(text: str, session: str) -> None:
    made = page(session, 1, text, text, 1, "r.md", Prompt(text, text))
    assert made.splitlines()[0] == "---"
    assert "node: 1" in made
    assert set(slug(text)) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_pages_keep_braces_and_drop_control_codes() -> None:
    made = page("s", 1, "t", "draft", 1, "r.md", Prompt("a {system} b\0", "int {x}; \x1b[2J"))
    assert "a {system} b\n" in made
    assert "int {x}; [2J\n" in made


def test_a_file_that_may_not_be_read_is_put_aside(
    reply: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*args: object) -> int:
        raise PermissionError(13, "Permission denied")

    reply.write_text(REPLY)
    watched = watch(reply)
    monkeypatch.setattr(os, "open", denied)
    assert looks(watched)[0] is None
    assert "change its permissions" in watched.trouble
