"""The machine of a target: the numbers and features that decide a program's shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.judge.sol import product_dtype
from agent.writers.prompts.clean import one_line
from agent.writers.prompts.figures import at_rate, room_of, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agent.writers.brief import TargetBrief

# What a GPU can do, by compute capability. Source: the CUDA programming guide and the PTX manual
# (the target architectures of each instruction).
_EVERY = "cp.async, ldmatrix, bf16 and tf32 mma.sync, redux.sync"
_ADA = "fp8 mma.sync"
_HOPPER = "TMA ([[tensormap]]), mbarrier, clusters with DSMEM, wgmma (fp8 too), setmaxnreg"
_BLACKWELL = "TMA, mbarrier, clusters with DSMEM, tcgen05 with tensor memory (fp8 to fp4); no wgmma"
_CONSUMER = "TMA, mbarrier, clusters with DSMEM, fp8 to fp4 mma.sync; no wgmma, no tcgen05"
_VECTORS = {64: "AVX-512", 32: "AVX2"}


def machine(told: TargetBrief) -> Iterator[str]:
    """The lines on the machine."""
    yield f"# Machine: {one_line(told.machine, 100)}"
    yield from _gpu(told.facts) if told.language == "cuda" else _cpu(told.facts)
    for name, text in (("read", "memory is read"), ("cache-read", "all L2 caches are read")):
        if told.rates.get(name, 0) > 0:
            yield f"- measured: {text} at up to {size_of(told.rates[name])}/s"
    dtype = product_dtype(told.spec)
    rate = told.rates.get(f"products-{dtype}", 0.0)
    if told.spec.flops and rate > 0:
        yield f"- measured: torch.mm of {dtype} reaches {at_rate(rate)}FLOP/s"


def _gpu(facts: Mapping[str, int]) -> Iterator[str]:
    if facts.get("major"):
        major, minor = facts["major"], facts.get("minor", 0)
        yield f"- compute capability {major}.{minor}: {features(major, minor)}"
    if facts.get("sms"):
        yield f"- {facts['sms']} SMs, L2 {room_of(facts.get('l2', 0))}"
    each = [
        f"{facts[name]} {text}"
        for name, text in (
            ("threads_sm", "threads"), ("blocks_sm", "blocks"), ("registers", "registers"),
            ("shared_sm", "bytes of shared memory"),
        )
        if facts.get(name)
    ]  # fmt: skip
    if each:
        yield f"- an SM holds {', '.join(each)}"
    if facts.get("shared"):
        yield f"- a block has up to {facts['shared']} bytes of shared memory (49152 if static)"


def features(major: int, minor: int) -> str:
    """The instructions that matter for kernels like ours."""
    if major >= 12:
        return f"{_EVERY}, {_CONSUMER}"
    if major in (10, 11):
        return f"{_EVERY}, {_BLACKWELL}"
    if major == 9:
        return f"{_EVERY}, {_HOPPER}"
    more = f", {_ADA}" if (major, minor) >= (8, 9) else ""
    return f"{_EVERY}{more}; no TMA, no clusters, no [[tensormap]]"


def _cpu(facts: Mapping[str, int]) -> Iterator[str]:
    told = [f"{facts['cores']} cores"] if facts.get("cores") else []
    for name in ("l1", "l2", "l3"):
        if facts.get(name):
            whose = "in all" if name == "l3" else "a core"
            told.append(f"{name.upper()} {room_of(facts[name])} {whose}")
    if facts.get("vector"):
        kind = _VECTORS.get(facts["vector"])
        told.append(f"vectors of {facts['vector']} bytes{f' ({kind})' if kind else ''}")
    if told:
        yield f"- {', '.join(told)}"
