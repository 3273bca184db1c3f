"""The worker that turns a program's source into a library; it never imports torch.

Verb ``build``: ``{source, values, kernels, cache, device?}`` to
``{library, seconds, cached, flags, detail}``. A refused or failing source is a ``BuildError``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.devices import open_device
from agent.workers.serve import serve


def build(args: dict[str, Any]) -> dict[str, Any]:
    device = open_device(args.get("device", "cpu"))
    built = device.build(args["source"], args["values"], args["kernels"], Path(args["cache"]))
    return built.to_json()


if __name__ == "__main__":
    serve({"build": build})
