"""What could make a measured program faster, read off its plan, its build and its time. Pure.

For people and for the prompts of writers: each finding has its evidence in numbers and one thing
to try. Nothing here changes a verdict.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from agent.devices.cuda.occupancy import occupancy
from agent.judge.plan_bytes import PlanBytes, plan_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agent.task import TargetSpec

MOST = 6
# What a kernel costs beyond its work when it follows another in a graph; seen on an H200.
LAUNCH_NS = 1200.0
NEAR = 1.05
WIDE = 16
_TAIL, _FULL, _CALM = 0.85, 0.5, 1.15
_SMALL_SHARE = 4096


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that could be better.

    Attributes:
        name: A stable short name, such as ``"narrow-access"``.
        finding: What is the matter, in one line.
        evidence: The numbers that show it.
        suggestion: What to try.
        weight: About which share of the time it may cost, 0 to 1: for the order only.
    """

    name: str
    finding: str
    evidence: str
    suggestion: str
    weight: float = field(default=0.0, compare=False)

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        del data["weight"]
        return data


@dataclass(frozen=True, slots=True)
class Measurement:
    """What is known of one measured variant.

    Attributes:
        spec: The target.
        bound: The plan as ``Bound.to_json`` gives it.
        detail: ``Built.detail``; ``kernels`` and ``access`` may be missing.
        facts: Of the device.
        ns: Device time of one call.
        sol_ns: Speed of light.
        step_ns: Device time of single steps by kernel's or operation's name, where known.
    """

    spec: TargetSpec
    bound: Mapping[str, Any]
    detail: Mapping[str, Any]
    facts: Mapping[str, Any]
    ns: int
    sol_ns: int
    step_ns: Mapping[str, int] = field(default_factory=dict)

    @property
    def over(self) -> float:
        """How many times the speed of light it takes."""
        return self.ns / max(1, self.sol_ns)

    def launches(self) -> list[dict[str, Any]]:
        return [step for step in self.bound["steps"] if "kernel" in step]

    def share(self, step: Mapping[str, Any]) -> float:
        """A step's share of the time; all of them alike where nothing was measured."""
        name = step.get("kernel") or step["call"]
        if name in self.step_ns:
            return min(1.0, self.step_ns[name] / max(1, self.ns))
        return 1.0 / len(self.bound["steps"])

    def kernel(self, name: str) -> Mapping[str, Any]:
        return dict(self.detail.get("kernels", {}).get(name, {}))

    def access(self, name: str) -> Mapping[str, Any]:
        return dict(self.detail.get("access", {}).get(name, {}))


def advise(measured: Measurement, more: list[Finding] | None = None) -> list[Finding]:
    """Findings on a CUDA program, worst first, at most :data:`MOST`.

    Args:
        measured: The variant.
        more: Findings from elsewhere (counters), put in order with the rest.
    """
    if measured.over <= NEAR:
        return [_near(measured)]
    moved = plan_bytes(measured.spec, measured.bound)
    found = list(more or [])
    for step in measured.launches():
        share = measured.share(step)
        found += [_scaled(item, share) for item in _of_launch(measured, step, moved)]
    found += _of_plan(measured, moved)
    best: dict[str, Finding] = {}
    for item in sorted(found, key=lambda item: -item.weight):
        best.setdefault(item.name, item)
    return list(best.values())[:MOST]


def occupied(measured: Measurement) -> dict[str, dict[str, Any]]:
    """Each kernel's occupancy, as :func:`occupancy` gives it; of its last launch in the plan."""
    found: dict[str, dict[str, Any]] = {}
    for step in measured.launches():
        kernel = measured.kernel(step["kernel"])
        if "registers" in kernel:
            shared = int(kernel.get("shared", 0)) + int(step["shared"])
            threads = math.prod(step["block"])
            found[step["kernel"]] = occupancy(
                dict(measured.facts), int(kernel["registers"]), shared, threads
            )
    return found


def _scaled(item: Finding, share: float) -> Finding:
    return Finding(item.name, item.finding, item.evidence, item.suggestion, item.weight * share)


def _near(measured: Measurement) -> Finding:
    return Finding(
        "near-sol", "it is as fast as moving the bytes",
        f"{_us(measured.ns)}; a streaming kernel of the same bytes takes {_us(measured.sol_ns)}",
        "nothing: more can only come from moving fewer bytes",
    )  # fmt: skip


def _of_launch(
    measured: Measurement, step: Mapping[str, Any], moved: PlanBytes
) -> Iterator[Finding]:
    name = str(step["kernel"])
    kernel, access = measured.kernel(name), measured.access(name)
    yield from _memory_of_threads(name, kernel)
    yield from _narrow(measured, step, access, moved)
    # A grid barrier is an atomic too, of one thread in a block.
    if access.get("atomics") and measured.over > _CALM and not step["cooperative"]:
        threads = math.prod(step["grid"]) * math.prod(step["block"])
        if threads > 32 * measured.facts["sms"]:
            yield Finding(
                "atomics", f"{name}: threads may wait for each other at atomics",
                f"{access['atomics']} atomic instructions, {threads} threads",
                "add up within a warp (shuffles) and a block first, one atomic for each block",
                0.15,
            )  # fmt: skip
    if "registers" in kernel:
        yield from _geometry(measured, step, kernel)


def _memory_of_threads(name: str, kernel: Mapping[str, Any]) -> Iterator[Finding]:
    spilt = int(kernel.get("spill_stores", 0)) + int(kernel.get("spill_loads", 0))
    if spilt:
        yield Finding(
            "spills", f"{name}: registers are spilled to memory",
            f"{kernel.get('spill_stores', 0)} bytes stored and {kernel.get('spill_loads', 0)} "
            f"loaded a thread, {kernel.get('registers', '?')} registers",
            "keep fewer values alive: smaller tiles a thread, less unrolling, "
            "or __launch_bounds__ with fewer threads",
            0.4,
        )  # fmt: skip
    elif kernel.get("local"):
        yield Finding(
            "local-memory", f"{name}: an array lives in memory instead of registers",
            f"a stack frame of {kernel['local']} bytes a thread",
            "unroll the loops over it wholly, so that every index is a constant",
            0.35,
        )  # fmt: skip


def _narrow(
    measured: Measurement, step: Mapping[str, Any], access: Mapping[str, Any], moved: PlanBytes
) -> Iterator[Finding]:
    """Loads or stores that could be of 16 bytes; not where the bulk copy engine does the work."""
    if any("tensormap" in arg for arg in step["args"]) or measured.over <= _CALM:
        return
    name = str(step["kernel"])
    given = [arg["tensor"] for arg in step["args"] if "tensor" in arg]
    for side, word, names in (
        ("load_bytes", "reads", [item for item in given if item in moved.reads]),
        ("store_bytes", "writes", [item for item in given if item in moved.writes]),
    ):
        width = int(access.get(side) or WIDE)
        # Small tensors are not worth it, and rows of odd length cannot be read so.
        large = [item for item in names if moved.sizes[item] * 8 >= moved.least]
        wide = [item for item in large if moved.units[item] % WIDE == 0]
        if width < WIDE and wide:
            yield Finding(
                "narrow-access", f"{name} {word} {width} bytes at a time",
                f"the rows of {', '.join(wide[:4])} allow {WIDE} bytes an instruction",
                f"use 16-byte vectors (float4, or 8 halves in a uint4) where it {word}",
                0.25 if side == "load_bytes" else 0.15,
            )  # fmt: skip


def _geometry(
    measured: Measurement, step: Mapping[str, Any], kernel: Mapping[str, Any]
) -> Iterator[Finding]:
    facts, name = measured.facts, str(step["kernel"])
    blocks, threads = math.prod(step["grid"]), math.prod(step["block"])
    shared = int(kernel.get("shared", 0)) + int(step["shared"])
    fit = occupancy(facts, int(kernel["registers"]), shared, threads)
    sms, room = int(facts["sms"]), int(facts["sms"]) * max(1, int(fit["blocks"]))
    size = measured.spec.read_bytes + measured.spec.write_bytes
    if blocks < sms:
        if size > _SMALL_SHARE * sms:
            yield Finding(
                "few-blocks", f"{name} leaves SMs idle",
                f"{blocks} blocks on {sms} SMs",
                "cut the work into more blocks: split rows, and join partial results",
                0.8 * (1 - blocks / sms),
            )  # fmt: skip
        return
    waves = blocks / room
    filled = waves / math.ceil(waves)
    if 1 < waves < 8 and filled < _TAIL:
        yield Finding(
            "tail-effect", f"{name}: the last wave of blocks leaves the GPU half empty",
            f"{blocks} blocks, {room} at once: {waves:.2f} waves, the last one filled to "
            f"{100 * (waves - math.floor(waves)):.0f} %",
            f"choose a grid of a multiple of {room} blocks, or {room} blocks that loop",
            0.7 * (1 - filled),
        )  # fmt: skip
    tiled = any("tensormap" in arg for arg in step["args"])
    if fit["share"] < _FULL and measured.over > 1.25 and not tiled and fit["blocks"]:
        yield Finding(
            "occupancy", f"{name}: few warps hide the memory's latency",
            f"{fit['warps']} warps on an SM ({100 * fit['share']:.0f} %), limited by "
            f"{_limiter(str(fit['limiter']), kernel, shared, threads)}",
            "fewer registers or less shared memory a block, or more loads in flight a thread",
            0.3 * (1 - fit["share"]),
        )  # fmt: skip


def _limiter(limiter: str, kernel: Mapping[str, Any], shared: int, threads: int) -> str:
    told = {
        "registers": f"{kernel['registers']} registers a thread",
        "shared": f"{shared} bytes of shared memory a block",
        "threads": f"{threads} threads a block",
        "blocks": f"blocks of only {threads} threads",
    }
    return told.get(limiter, limiter)


def _of_plan(measured: Measurement, moved: PlanBytes) -> Iterator[Finding]:
    steps = measured.bound["steps"]
    zeroed = sum(1 for item in measured.bound["scratch"] if item.get("zero"))
    spare = (len(steps) + zeroed - 1) * LAUNCH_NS / max(1, measured.ns)
    if spare > 0.08:
        yield Finding(
            "launch-count", "starting kernels takes a good part of the time",
            f"{len(steps) + zeroed} steps a call at about {LAUNCH_NS / 1000:.1f} µs between two, "
            f"of {_us(measured.ns)}",
            "join steps: one kernel, a cluster, or a cooperative grid with a grid barrier",
            min(1.0, spare),
        )  # fmt: skip
    if moved.extra * 10 > moved.least:
        # What stays in the second-level cache between two steps costs about a third.
        cost = 1.0 if moved.extra > measured.facts["l2"] // 2 else 0.3
        yield Finding(
            "bytes-moved", "the steps move more than the least",
            f"at least {_mb(moved.least + moved.extra)} where {_mb(moved.least)} would do"
            + (f"; scratch goes out and in again: {_mb(moved.scratch)}" if moved.scratch else ""),
            "keep values in registers or shared memory between the steps, and join the steps",
            cost * moved.extra / (moved.least + moved.extra),
        )  # fmt: skip
    for name, times in moved.again.items():
        row = moved.rows[name]
        if row <= measured.facts["shared"] and moved.sizes[name] * 4 >= moved.least:
            yield Finding(
                "single-pass", f"{name} is read by {times} steps",
                f"a row of {row} bytes fits into one block ({measured.facts['shared']} bytes)",
                "read each row once, keep it in registers or shared memory, do all steps on it",
                moved.sizes[name] / (moved.least + moved.extra),
            )  # fmt: skip
    calls = [step for step in steps if "call" in step]
    if calls:
        share = sum(measured.share(step) for step in calls)
        yield Finding(
            "library-share", "part of the time is the library's",
            f"{', '.join(str(step['call']) for step in calls[:4])}: about {100 * share:.0f} %",
            "what a kernel can win is only the rest, unless it does that step's work too",
            0.05,
        )  # fmt: skip


def _us(ns: float) -> str:
    return f"{ns / 1000:.1f} µs"


def _mb(size: float) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
