"""What the compiled baselines are: their names, their process's environment, their records.

A baseline is PyTorch's own compiler on the reference, as a person would call it. ``compile`` is
``torch.compile`` as it comes. ``compile-max`` is its longest search, in the mode
``max-autotune-no-cudagraphs``: mode ``max-autotune`` would also wrap the function in CUDA graphs of
its own, which cannot be captured inside the graph that device time is taken with, copy their
arguments to fixed addresses first, and return the same memory at each call.

This module never imports torch: the engine reads it.
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import TYPE_CHECKING, Any

from agent.judge.process import ALLOCATOR, runner_environment
from agent.judge.statistics import median, ratio
from agent.judge.verdict import JUDGE_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MODES = {"compile": "default", "compile-max": "max-autotune-no-cudagraphs"}
MODULE = "agent.workers.baseline"
COMPILE_SECONDS = 300.0
# What compilers are found by; a runner has no use for them.
_PASSED_ON = ("CXX", "CC")


def environment(folder: Path) -> dict[str, str]:
    """The whole environment that the baseline worker must be started with.

    It is a runner's, so that outputs are allocated as in every other measurement; besides, what
    the compiler keeps goes to a folder of its own in the data folder, never to the cache that the
    user's own programs share. That folder may be removed at any time.

    Args:
        folder: The data folder.
    """
    place = folder / "compiled"
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {
        **kept,
        **runner_environment(str(place), "cuda"),  # a CPU's needs no less, and is not disturbed
        "TMPDIR": tempfile.gettempdir(),
        "TORCHINDUCTOR_CACHE_DIR": str(place / "inductor"),
    }


def unsuited(env: Mapping[str, str]) -> str:
    """Why times taken in a process with this environment would not count; ``""`` if they do."""
    wrong = [name for name, value in ALLOCATOR.items() if env.get(name) != value]
    if "TORCHINDUCTOR_CACHE_DIR" not in env:
        wrong.append("TORCHINDUCTOR_CACHE_DIR")
    return f"the baseline worker was started without {', '.join(wrong)}" if wrong else ""


def record_key(
    name: str, task_sha: str, sizes: Mapping[str, int], torch: str, triton: str, threads: int
) -> str:
    """The key of a baseline's record; the machine's own key goes beside it.

    Args:
        torch: Version of PyTorch.
        triton: Version of Triton, "" without.
        threads: That PyTorch uses on the CPU.
    """
    at = json.dumps(dict(sorted(sizes.items())), separators=(",", ":"))
    versions = [f"torch {torch}", f"triton {triton}", f"judge {JUDGE_VERSION}"]
    return " | ".join([name, task_sha, at, *versions, f"{threads} threads"])


def summary(
    samples: Sequence[tuple[float, float]], calls: Sequence[tuple[float, float]]
) -> dict[str, Any]:
    """What the pairs say: ``ratio``, ``low``, ``high`` of first over second, and the times.

    Args:
        samples: Nanoseconds (first, second) of the primary time, pair by pair.
        calls: The same of the call time; empty where the primary time is the call time.

    Returns:
        ``ns`` and ``call_ns`` are the second side's medians, ``eager_ns`` the first side's.
    """
    found = ratio(samples)
    ns = median([second for _, second in samples])
    call = median([second for _, second in calls]) if calls else ns
    return {
        "ratio": found.value,
        "low": found.low,
        "high": found.high,
        "ns": round(ns),
        "call_ns": round(call),
        "eager_ns": round(median([first for first, _ in samples])),
        "pairs": len(samples),
    }
