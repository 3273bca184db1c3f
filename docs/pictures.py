"""Makes the README's pictures from a session, through the real app.

``python docs/pictures.py SESSION_FILE [FOLDER]`` writes watch-80x24.svg and watch-160x50.svg.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

SIZES = ((80, 24), (160, 50))
PATIENCE_S = 10.0


async def picture(session: Path, size: tuple[int, int], folder: Path) -> Path:
    """Open the session in a terminal of this size, go to the best node, save the screen."""
    from forge_tui.app import ForgeApp

    app = ForgeApp(session, read_only=False)
    async with app.run_test(size=size) as pilot:
        screen = app._watch_screen
        end = time.monotonic() + PATIENCE_S
        while not (screen.is_mounted and screen.model.nodes):
            if time.monotonic() > end:
                raise SystemExit(f"{session} shows no nodes")
            await pilot.pause(0.05)
        await pilot.press("b")
        while screen.looked_at != screen.tree_view.cursor and time.monotonic() < end:
            await pilot.pause(0.05)
        await pilot.pause(0.2)
        name = f"watch-{size[0]}x{size[1]}.svg"
        svg = app.export_screenshot(title="forge-tui")
    path = folder / name
    # Some viewers drop leading blanks of a text unless they are told to keep them.
    path.write_text(svg.replace("<svg class", '<svg xml:space="preserve" class', 1))
    return path


def main() -> int:
    """Make every picture."""
    if len(sys.argv) not in {2, 3}:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    os.environ.pop("NO_COLOR", None)
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    session = Path(sys.argv[1]).absolute()
    folder = Path(sys.argv[2]) if len(sys.argv) == 3 else Path(__file__).parent
    for size in SIZES:
        sys.stdout.write(f"{asyncio.run(picture(session, size, folder))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
