"""One call of a program as files: what :mod:`agent.workers.once` runs under NVIDIA's tools."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from agent.errors import ProgramError
from agent.judge.arena import span_bytes, torch_dtype
from agent.plan.calls import split_keywords
from agent.plan.parts import ITEM_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agent.task import TargetSpec

MOST_BYTES = 4 << 30
_ALIGNED = 256


@contextmanager
def once_job(
    spec: TargetSpec, library: str, bound: dict[str, Any], args: Sequence[torch.Tensor]
) -> Iterator[Path]:
    """The path of a job, in a folder that is gone afterwards.

    Args:
        spec: The target.
        library: The candidate's cubin.
        bound: Its plan, checked; neighbours are left out.
        args: Arguments as the reference takes them, on any device.

    Raises:
        ProgramError: ``once``: the program cannot be run so; the message says why.
    """
    steps, known = _after_calls(spec, bound, args)
    shared = Path("/dev/shm")
    total = sum(_span(value) for value in known.values())
    if total > MOST_BYTES:
        raise _cannot(f"its arguments are {total >> 20} MiB, more than {MOST_BYTES >> 20}")
    fits = shared.is_dir() and shutil.disk_usage(shared).free > 2 * total
    with tempfile.TemporaryDirectory(prefix="forge-once-", dir=shared if fits else None) as name:
        folder = Path(name)
        places = _write(folder / "data", known)
        tensors = [
            {"name": name, "bytes": size, "at": places.get(name)}
            for name, size in _sizes(spec, bound, known).items()
        ]
        plan = {"scratch": bound["scratch"], "tensormaps": bound["tensormaps"], "steps": steps}
        job = folder / "job.json"
        job.write_text(
            json.dumps({
                "library": str(Path(library).resolve()),
                "bound": plan,
                "tensors": tensors,
                "data": str(folder / "data"),
            })
        )  # fmt: skip
        yield job


def _after_calls(
    spec: TargetSpec, bound: dict[str, Any], args: Sequence[torch.Tensor]
) -> tuple[list[dict[str, Any]], dict[str, torch.Tensor]]:
    """The kernels' steps, and the tensors that exist before them: library steps are done here."""
    known = dict(zip((arg.name for arg in spec.args), args, strict=True))
    steps = list(bound["steps"])
    scratch = {item["name"] for item in bound["scratch"]}
    while steps and "call" in steps[0]:
        step = steps.pop(0)
        given = [
            _taken(known, arg["tensor"], scratch) if "tensor" in arg else arg["value"]
            for arg in step["args"]
        ]
        values, keywords = split_keywords(step["call"], given)
        try:
            known[step["to"]] = getattr(torch.ops.aten, step["call"])(*values, **keywords)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise _cannot(f"{step['call']} fails: {' '.join(str(error).split())[:200]}") from None
    if any("call" in step for step in steps):
        raise _cannot("a library step follows a kernel")
    if not steps:
        raise _cannot("it has library steps only")
    return steps, known


def _taken(known: dict[str, torch.Tensor], name: str, scratch: set[str]) -> torch.Tensor:
    if name not in known:
        what = "scratch" if name in scratch else "an output"
        raise _cannot(f"a library step takes {what} that nothing has written")
    return known[name]


def _sizes(
    spec: TargetSpec, bound: dict[str, Any], known: dict[str, torch.Tensor]
) -> dict[str, int]:
    """Bytes of every tensor that a kernel may be given."""
    sizes = {name: _span(value) for name, value in known.items()}
    for out in spec.outputs:
        sizes.setdefault(out.name, span_bytes(out.dtype, out.shape, out.strides))
    for item in bound["scratch"]:
        count = 1
        for size in item["shape"]:
            count *= size
        sizes[item["name"]] = count * ITEM_BYTES[item["dtype"]]
    return sizes


def _span(value: torch.Tensor) -> int:
    dtype = str(value.dtype).removeprefix("torch.")
    return span_bytes(dtype, tuple(value.shape), value.stride())


def _write(path: Path, known: dict[str, torch.Tensor]) -> dict[str, int]:
    """All tensors' bytes one after another, gaps between strided elements included; offsets."""
    places: dict[str, int] = {}
    with path.open("wb") as file:
        for name, value in known.items():
            file.seek(-file.tell() % _ALIGNED, 1)
            places[name] = file.tell()
            span = _span(value)
            if span:
                width = torch_dtype(str(value.dtype).removeprefix("torch.")).itemsize
                flat = value.detach().as_strided((span // width,), (1,)).cpu().contiguous()
                file.write(memoryview(flat.view(torch.uint8).numpy()))
    return places


def _cannot(why: str) -> ProgramError:
    return ProgramError(why, code="once")
