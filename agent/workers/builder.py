"""The worker that turns a program's source into a library; it never imports torch.

Verb ``build``: ``{source, values, kernels, cache, device?, arch?}`` to
``{library, seconds, cached, flags, detail}``. A refused or failing source is a ``BuildError``.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

from agent.devices import open_device
from agent.workers.serve import serve

# NVRTC runs in this process, and macros or templates can have it ask for any amount of memory.
# Under this limit it says so, or this worker dies alone.
MAX_DATA = 4 << 30


def build(args: dict[str, Any]) -> dict[str, Any]:
    device = open_device(args.get("device", "cpu"), args.get("arch", ""))
    built = device.build(args["source"], args["values"], args["kernels"], Path(args["cache"]))
    return built.to_json()


def _limit_memory() -> None:
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    soft = MAX_DATA if hard == resource.RLIM_INFINITY else min(MAX_DATA, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    _limit_memory()
    serve({"build": build})
