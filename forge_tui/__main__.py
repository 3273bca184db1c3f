"""``python -m forge_tui``."""

from __future__ import annotations

from forge_tui.cli import main

if __name__ == "__main__":
    main()
