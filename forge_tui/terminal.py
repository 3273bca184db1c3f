"""Two faults of terminals that a viewer must outlive: odd mouse bytes, and a terminal gone.

Textual 8.2 decodes its input strictly. A terminal that falls back to X10 mouse reports (tmux
re-attach, an editor's reload) sends bytes above 0x7F that are no UTF-8, and the app dies. After a
hang-up its input loop spins and an orderly exit can hang, so the watchdog leaves at once: a viewer
owns nothing that could be lost.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from codecs import getincrementaldecoder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

WATCH_S = 1.0
HUNG_UP = 129  # 128 + SIGHUP, as a shell reports it


def tolerate_odd_input() -> None:
    """Let Textual's input thread replace bytes that are no UTF-8 instead of raising."""
    from textual.drivers import linux_driver

    def tolerant(encoding: str) -> Callable[..., Any]:
        return lambda errors="replace": getincrementaldecoder(encoding)(errors)

    vars(linux_driver)["getincrementaldecoder"] = tolerant


def leave_with_terminal() -> None:
    """Watch standard input's terminal; when it is gone, end this process within two seconds."""

    def watch() -> None:
        while True:
            time.sleep(WATCH_S)
            try:
                there = os.isatty(sys.__stdin__.fileno()) if sys.__stdin__ else False
            except (OSError, ValueError):
                there = False
            if not there:
                os._exit(HUNG_UP)

    threading.Thread(target=watch, name="terminal-watch", daemon=True).start()
