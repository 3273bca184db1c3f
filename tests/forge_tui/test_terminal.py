"""On a real pseudo-terminal: drawing, odd input, and a terminal that goes away."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING

import pytest

from forge_tui import settings
from forge_tui.glyphs import ASCII, UNICODE
from tests.forge_tui.conftest import environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.forge_tui.saga import Saga


class Terminal:
    """A child on a pty of its own."""

    def __init__(self, home: Path, *args: str, before: str = "", **env: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        program = f"{before}\nfrom forge_tui.cli import main\nmain({list(args)!r})"
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=slave, stdout=slave, stderr=slave,
            env=environment(home, **{"TERM": "xterm-256color"} | env), close_fds=True,
            preexec_fn=_own_terminal,
        )  # fmt: skip
        os.close(slave)
        self.seen = b""

    def until(self, text: str, seconds: float = 10.0) -> None:
        end = time.monotonic() + seconds
        while text.encode() not in self.seen:
            assert time.monotonic() < end, self.seen[-2000:]
            self.read(0.05)

    def read(self, seconds: float) -> None:
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.seen += os.read(self.master, 65536)
            except OSError:
                time.sleep(seconds)

    def leaves(self, seconds: float) -> int:
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, "still there"
            time.sleep(0.02)
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.master >= 0:
            os.close(self.master)

    def hang_up(self) -> None:
        os.close(self.master)
        self.master = -1


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def opened(saga: Saga) -> Iterator[list[Terminal]]:
    made: list[Terminal] = []
    yield made
    for one in made:
        one.close()


def attach(saga: Saga, opened: list[Terminal], *args: str, **env: str) -> Terminal:
    opened.append(Terminal(saga.path.parents[1], "attach", *args, **env))
    return opened[-1]


def test_it_draws_leaves_and_says_how_to_come_back(saga: Saga, opened: list[Terminal]) -> None:
    one = attach(saga, opened)
    one.until("confirmed")
    os.write(one.master, b"q")
    one.until("watch it again")
    assert one.leaves(5) == 0
    assert b"40 nodes, best 1.86x" in one.seen


def test_a_dropped_terminal_ends_the_viewer(saga: Saga, opened: list[Terminal]) -> None:
    one = attach(saga, opened)
    one.until("confirmed")
    one.hang_up()
    assert one.leaves(3) == -signal.SIGHUP


def test_a_dropped_terminal_ends_it_even_when_hang_ups_are_ignored(
    saga: Saga, opened: list[Terminal]
) -> None:
    before = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    one = attach(saga, opened, before=before)
    one.until("confirmed")
    one.hang_up()
    assert one.leaves(3) == 129


def test_x10_mouse_bytes_do_not_kill_it(saga: Saga, opened: list[Terminal]) -> None:
    one = attach(saga, opened, "--no-mouse")
    one.until("confirmed")
    os.write(one.master, b"\x1b[M \xe5\xf0" * 3 + b"\xff\xfe")
    time.sleep(0.4)
    assert one.process.poll() is None
    os.write(one.master, b"q")
    one.until("watch it again")
    assert one.leaves(5) == 0


def test_no_mouse_asks_for_no_mouse(saga: Saga, opened: list[Terminal]) -> None:
    one = attach(saga, opened, "--no-mouse")
    one.until("confirmed")
    assert b"\x1b[?1000h" not in one.seen
    other = attach(saga, opened)
    other.until("confirmed")
    assert b"\x1b[?1000h" in other.seen


def test_no_color_and_plain_locale_draw_neither(saga: Saga, opened: list[Terminal]) -> None:
    one = attach(saga, opened, NO_COLOR="1", LC_ALL="C")
    one.until("confirmed")
    drawn = one.seen.decode()
    assert drawn.isascii()
    codes = {code for sgr in re.findall(r"\x1b\[([0-9;]*)m", drawn) for code in sgr.split(";")}
    # Reset, bold, dim, underline, reverse, and the terminal's own two colours.
    assert codes <= {"", "0", "1", "2", "4", "7", "39", "49"}


@pytest.mark.parametrize("term", ["dumb", "unknown", "", "xtrem-typo"])
def test_a_terminal_that_shows_no_screen_gets_lines(
    saga: Saga, opened: list[Terminal], term: str
) -> None:
    saga.close()
    one = attach(saga, opened, TERM=term)
    one.until("FASTER confirmed")
    assert one.leaves(5) == 0
    assert b"Traceback" not in one.seen
    assert b"\x1b" not in one.seen


@pytest.mark.parametrize(
    ("env", "glyphs"),
    [({"LC_ALL": "C"}, ASCII), ({"LC_ALL": "en_US.UTF-8"}, UNICODE),
     ({"LC_ALL": "", "LC_CTYPE": "", "LANG": "de_DE.ISO-8859-1"}, ASCII),
     ({"LC_ALL": "", "LC_CTYPE": "C.utf8", "LANG": "C"}, UNICODE),
     ({"LC_ALL": "", "LC_CTYPE": "", "LANG": ""}, UNICODE),
     ({"LC_ALL": "C.UTF-8", "TERM": "linux"}, ASCII)],
)  # fmt: skip
def test_the_alphabet_follows_the_locale(
    env: dict[str, str], glyphs: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert settings.glyphs(False) is glyphs
    assert settings.glyphs(True) is ASCII


@pytest.mark.parametrize(
    ("term", "colorterm", "sixteen"),
    [("screen", "", True), ("xterm", "", True), ("xterm-256color", "", False),
     ("xterm", "truecolor", False), ("xterm-kitty", "", False), ("linux", "", True)],
)  # fmt: skip
def test_few_colours_are_noticed(
    term: str, colorterm: str, sixteen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLORTERM", colorterm)
    assert settings.sixteen_colours() is sixteen
