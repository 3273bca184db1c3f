"""How long the light commands take, from start to exit: median milliseconds of fresh processes.

Run it on a quiet machine: ``python -m tests.benchmarks.cli_start``. The bar is 150 ms.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BAR_MS = 150
COMMANDS = (["--help"], ["ls"], ["status"], ["status", "--json"], ["run", "--help"])


def once(args: list[str]) -> float:
    """Milliseconds of one process."""
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "forge_tui", *args], stdout=subprocess.DEVNULL, check=True
    )
    return (time.perf_counter() - started) * 1e3


def main(rounds: int = 15) -> int:
    """Print the table; 1 if a median is above the bar."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FORGE_HOME"] = folder
        os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
        from tests.forge_tui.saga import told

        told().close()
        slow = 0
        print(f"{'command':<18}{'median':>8}{'least':>8}{'most':>8}   ms of {rounds}")
        for args in COMMANDS:
            once(args)
            times = [once(args) for _ in range(rounds)]
            median = statistics.median(times)
            slow += median > BAR_MS
            name = " ".join(args)
            print(f"{name:<18}{median:>8.0f}{min(times):>8.0f}{max(times):>8.0f}")
    print(f"bar {BAR_MS} ms: {'missed' if slow else 'held'}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
