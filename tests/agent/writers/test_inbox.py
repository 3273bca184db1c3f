"""Prompts out as files, replies in as files: names, completeness, and folders that misbehave."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from agent.errors import ModelError
from agent.writers import inbox as inbox_module
from agent.writers import inbox_files
from agent.writers.ask import Prompt
from agent.writers.inbox import Inbox

PROMPT = Prompt("Only kernels.", "Make rmsnorm faster.\n\n```cpp\nint {x};\n```")
DOCS = Path(__file__).parents[3] / "docs" / "inbox.md"
REPLY = "One pass\n\n```cpp\nvoid f() {}\n```\n```toml\n[[launch]]\n```\n"
NAME = "0007-improve-rmsnorm-bf16"


def posted(folder: Path, session: str = "soft-ab2c", **changed: object) -> tuple[Inbox, str]:
    inbox = Inbox(folder, session, poll_s=0.001)
    asked = {"node": 7, "target": "rmsnorm bf16", "action": "improve", "attempt": 1}
    return inbox, inbox.post(**{**asked, "prompt": PROMPT, **changed}).stem  # type: ignore[arg-type]


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_prompt_is_a_page_that_says_how_it_is_answered(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "inbox"
    _, name = posted(folder)
    assert name == NAME
    text = (folder / f"{name}.md").read_text()
    front, _, rest = text.removeprefix("---\n").partition("\n---\n")
    assert front.splitlines() == [
        'session: "soft-ab2c"', "node: 7", 'target: "rmsnorm bf16"', 'action: "improve"',
        "attempt: 1", f"reply: {NAME}.reply.md",
    ]  # fmt: skip
    assert f"`{NAME}.reply.md`" in rest
    assert "512 KiB" in rest
    assert rest.index(PROMPT.system) < rest.index(PROMPT.user)
    assert files(folder) == [f"{NAME}.md"]  # nothing unfinished is left


def test_posting_again_leaves_the_file_alone_also_from_another_engine(tmp_path: Path) -> None:
    _, name = posted(tmp_path)
    before = (tmp_path / f"{name}.md").stat()
    inbox, again = posted(tmp_path)
    assert again == name
    after = (tmp_path / f"{name}.md").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    inbox.post(7, "rmsnorm bf16", "improve", 1, Prompt("Only kernels.", "Tried: three more."))
    assert "three more" in (tmp_path / f"{name}.md").read_text()
    assert files(tmp_path) == [f"{NAME}.md"]


@pytest.mark.parametrize(
    "target",
    [
        "../../etc/passwd",
        "a/b\\c",
        ".hidden",
        "",
        "né\n---\nnode: 9",
        "x" * 500,
        "\x1b[2J\0",
        "-rf",
    ],
)
def test_any_target_name_gives_a_safe_file_name(tmp_path: Path, target: str) -> None:
    folder = tmp_path / "inbox"
    _, name = posted(folder, target=target)
    assert [path.name for path in folder.iterdir()] == [f"{name}.md"]
    assert name.startswith("0007-improve-")
    assert len(name) < 80
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    front = (folder / f"{name}.md").read_text().split("\n---\n")[0]
    assert len(front.splitlines()) == 7
    assert front.isascii() is target.isascii()
    assert "\x1b" not in front


def test_another_attempt_is_another_name(tmp_path: Path) -> None:
    _, first = posted(tmp_path)
    _, second = posted(tmp_path, attempt=2)
    assert second == f"{first}-try2"


def test_two_sessions_in_one_folder_keep_apart(tmp_path: Path) -> None:
    one, first = posted(tmp_path, "one")
    two, second = posted(tmp_path, "two")
    assert (first, second) == (NAME, f"{NAME}-two")
    assert 'session: "one"' in (tmp_path / f"{first}.md").read_text()
    # A late reply to the first must not answer the second, even when the first is gone.
    one.withdraw(first)
    (tmp_path / f"{first}.reply.md").write_text(REPLY)
    assert posted(tmp_path, "two")[1] == second
    assert posted(tmp_path, "three")[1] == f"{NAME}-three"
    assert not two.arriving(second)
    two.tidy([])
    assert 'session: "three"' in (tmp_path / f"{NAME}-three.md").read_text()
    assert not (tmp_path / f"{second}.md").exists()


def test_foreign_files_are_not_overwritten_and_folders_stepped_around(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.md").write_text("my own notes")
    (tmp_path / f"{NAME}-soft-ab2c.md").mkdir()
    _, name = posted(tmp_path)
    assert name == f"{NAME}-soft-ab2c-2"
    assert (tmp_path / f"{NAME}.md").read_text() == "my own notes"


def test_a_link_in_the_place_of_a_prompt_is_replaced_not_followed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "inbox", tmp_path / "outside"
    folder.mkdir()
    outside.write_text("precious")
    (folder / f"{NAME}.md").symlink_to(outside)
    _, name = posted(folder)
    assert name == NAME
    assert outside.read_text() == "precious"
    assert not (folder / f"{name}.md").is_symlink()


async def test_a_reply_is_taken_once_complete_and_stays_until_it_is_stored(tmp_path: Path) -> None:
    inbox, name = posted(tmp_path)
    waiting = asyncio.create_task(inbox.wait(f"{name}.md"))
    (tmp_path / "draft.txt").write_text(REPLY)
    (tmp_path / "draft.txt").rename(inbox.reply_path(name))
    assert await waiting == REPLY
    assert files(tmp_path) == [f"{name}.md", f"{name}.reply.md"]
    assert inbox.answered(name)
    assert files(tmp_path) == [f"answered/{name}.md", f"answered/{name}.reply.md"]


async def test_a_reply_that_came_while_no_engine_ran_is_found(tmp_path: Path) -> None:
    first, name = posted(tmp_path / "here")
    first.close()
    shutil.copytree(tmp_path / "here", tmp_path / "there")  # on to another machine
    (tmp_path / "there" / f"{name}.reply.md").write_text(REPLY)
    inbox, again = posted(tmp_path / "there")
    assert again == name
    assert inbox.arriving(name)
    assert await inbox.wait(name) == REPLY


async def test_a_refused_reply_is_put_aside_with_its_reason_and_the_next_is_taken(
    tmp_path: Path,
) -> None:
    inbox, name = posted(tmp_path)
    said: list[str] = []
    refused = asyncio.Event()

    def say(text: str) -> None:
        said.append(text)
        refused.set()

    waiting = asyncio.create_task(inbox.wait(name, say))
    for bad in (b"\xff\xfeN\0o\0", b"\xe9\xe9", b"x" * (512 * 1024 + 1)):
        inbox.reply_path(name).write_bytes(bad)
        await refused.wait()
        refused.clear()
        assert not waiting.done()
    reasons = ["it is not UTF-8", "it is not UTF-8", "it is larger than 512 KiB"]
    assert [text.split(": ")[1] for text in said] == reasons
    assert "is not UTF-8" in (tmp_path / f"{name}.reply.md.refused.txt").read_text()
    assert "larger" in (tmp_path / f"{name}.reply.md.refused-3.txt").read_text()
    inbox.reply_path(name).write_text(REPLY)
    assert await waiting == REPLY


async def test_close_ends_every_wait_and_leaves_the_prompts(tmp_path: Path) -> None:
    inbox, name = posted(tmp_path)
    waits = [asyncio.create_task(inbox.wait(name)) for _ in range(2)]
    await asyncio.sleep(0)
    inbox.close()
    for ended in await asyncio.gather(*waits, return_exceptions=True):
        assert isinstance(ended, ModelError)
        assert (ended.code, ended.fatal) == ("inbox-closed", False)
    assert files(tmp_path) == [f"{name}.md"]


async def test_a_folder_that_is_deleted_is_made_again_with_its_prompts(tmp_path: Path) -> None:
    inbox, name = posted(tmp_path / "inbox")
    gone = asyncio.Event()
    waiting = asyncio.create_task(inbox.wait(name, lambda text: gone.set()))
    shutil.rmtree(tmp_path / "inbox")
    await gone.wait()
    assert files(tmp_path / "inbox") == [f"{name}.md"]
    inbox.reply_path(name).write_text(REPLY)
    assert await waiting == REPLY


async def test_a_folder_that_became_a_file_is_told_once_and_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    inbox, name = posted(folder)
    said: list[str] = []
    told = asyncio.Event()

    def say(text: str) -> None:
        said.append(text)
        told.set()

    waiting = asyncio.create_task(inbox.wait(name, say))
    folder.rename(tmp_path / "kept")
    folder.write_text("in the way")
    await told.wait()
    folder.unlink()
    (tmp_path / "kept").rename(folder)
    inbox.reply_path(name).write_text(REPLY)
    assert await waiting == REPLY
    assert len([text for text in said if "cannot be read" in text]) == 1


async def test_a_folder_that_cannot_be_read_for_a_while_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox, name = posted(tmp_path)
    inbox.reply_path(name).write_text(REPLY)
    failures = [errno.ESTALE] * 4 + [errno.EIO] * 4

    def failing(path: Path) -> inbox_files.Mark | None:
        if failures:
            code = failures.pop(0)
            raise OSError(code, os.strerror(code))
        return inbox_files.mark(path)

    said: list[str] = []
    monkeypatch.setattr(inbox_module, "mark", failing)
    assert await inbox.wait(name, said.append) == REPLY
    assert [text.rpartition(": ")[2] for text in said] == [
        os.strerror(errno.ESTALE),
        os.strerror(errno.EIO),
    ]


def test_a_folder_that_cannot_be_made_ends_the_session_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "inbox", Path("/proc/none/inbox")):
        with pytest.raises(ModelError) as caught:
            posted(folder)
        assert (caught.value.code, caught.value.fatal) == ("inbox-folder", True)
        assert "--inbox" in caught.value.cure


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_read_only_folder_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def full(handle: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(inbox_files.os, "fsync", full)
    with pytest.raises(ModelError, match=os.strerror(code)):
        posted(tmp_path)
    assert files(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ModelError, match="Permission denied"):
        posted(tmp_path)


def test_moving_away_never_leaves_the_folder(tmp_path: Path) -> None:
    folder, outside = tmp_path / "inbox", tmp_path / "outside"
    outside.mkdir()
    inbox, name = posted(folder)
    (folder / "answered").symlink_to(outside)
    assert not inbox.answered(name)
    assert files(outside) == []
    (folder / "withdrawn").write_text("")
    assert not inbox.withdraw(name)
    assert (folder / f"{name}.md").exists()


def test_a_withdrawn_prompt_takes_its_reply_along_and_may_come_again(tmp_path: Path) -> None:
    inbox, name = posted(tmp_path)
    inbox.reply_path(name).write_text(REPLY)
    assert inbox.withdraw(name)
    assert files(tmp_path) == [f"withdrawn/{name}.md", f"withdrawn/{name}.reply.md"]
    assert posted(tmp_path)[1] == name
    assert inbox.withdraw(name)
    assert inbox.withdraw(name)  # nothing is left to move


def test_tidy_withdraws_what_an_earlier_engine_left(tmp_path: Path) -> None:
    _, kept = posted(tmp_path)
    _, left = posted(tmp_path, node=8)
    (tmp_path / "0009-notes.md").write_text("a person's")
    old = tmp_path / f".{kept}.0a1b2c3d.new"
    young = tmp_path / f".{kept}.0a1b2c3e.new"
    old.write_text("half")
    young.write_text("half")
    os.utime(old, (0, 0))
    posted(tmp_path)[0].tidy([7])
    assert files(tmp_path) == sorted(
        [young.name, "0009-notes.md", f"{kept}.md", f"withdrawn/{left}.md"]
    )


def test_the_head_in_the_docs_is_that_of_a_page(tmp_path: Path) -> None:
    _, name = posted(tmp_path, target="rmsnorm")
    shown = re.search(r"```text\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    assert shown is not None
    assert (tmp_path / f"{name}.md").read_text().startswith(shown.group(1))


async def test_the_script_in_the_docs_answers_every_prompt_once(tmp_path: Path) -> None:
    inbox, first = posted(tmp_path)
    second = inbox.post(8, "softmax", "draft", 1, PROMPT).stem
    inbox.reply_path(second).write_text(REPLY)  # it has one already
    shown = re.search(r"```sh\ncd letters\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    assert shown is not None
    model = "my-model() { printf 'Echo\\n'; sed -n 's/^node: //p'; }\n"
    for _ in range(2):
        subprocess.run(["bash", "-ec", model + shown.group(1)], cwd=tmp_path, check=True)
    replies = [await inbox.wait(name) for name in (first, second)]
    assert replies == ["Echo\n7\n", REPLY]
    assert len(files(tmp_path)) == 4
