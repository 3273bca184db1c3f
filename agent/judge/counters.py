"""Hardware counters of a program's kernels by Nsight Compute, where it is installed and allowed.

A few metrics only; they explain a time and never change a verdict. Whatever goes wrong here is a
reason in words. Sources: Nsight Compute CLI and Profiling Guide (metrics, ``ERR_NVGPUCTRPERM``).
"""

from __future__ import annotations

import csv
import functools
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.judge.nvidia_tools import find_tool, run_tool

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_KERNELS = 8
_PER_WARP = "smsp__average_warps_issue_stalled_"
_PER_ISSUE = "_per_issue_active.ratio"
STALLS = (
    "barrier", "branch_resolve", "dispatch_stall", "drain", "imc_miss", "lg_throttle",
    "long_scoreboard", "math_pipe_throttle", "membar", "mio_throttle", "no_instruction",
    "short_scoreboard", "sleeping", "tex_throttle", "wait", "gmma",
)  # fmt: skip
# Our names for metrics; those after the first six differ between architectures.
METRICS = {
    "ns": "gpu__time_duration.sum",
    "dram_read": "dram__bytes_read.sum",
    "dram_write": "dram__bytes_write.sum",
    "l2_hit": "lts__t_sector_hit_rate.pct",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "load_sectors": "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    "store_sectors": "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
    "bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "shared_waves": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "tensor": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "tensor_old": "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
}
_CORE = 6
_ADMIN = (
    "run as root (in a container: --cap-add=SYS_ADMIN), or let everybody read counters: put "
    "'options nvidia NVreg_RestrictProfilingToAdminUsers=0' into /etc/modprobe.d/nvidia.conf "
    "and load the driver anew"
)


@dataclass(frozen=True, slots=True)
class Access:
    """Whether counters can be read: ``why`` not, and what to do about it."""

    ok: bool
    why: str = ""
    cure: str = ""


@dataclass(frozen=True, slots=True)
class KernelCounters:
    """One launch of one kernel; None where a metric is not to be had.

    Attributes:
        ns: Its time under the profiler: slower clocks, cold caches.
        dram_read, dram_write: Bytes.
        l2_hit, occupancy, tensor: Shares from 0 to 1: sectors found in the second-level cache,
            warps of those that could be there, use of the tensor cores' pipe.
        load_sectors, store_sectors: 32-byte sectors for one request of a warp to global memory.
        bank_conflicts: Extra passes over shared memory for each pass.
        stalls: What warps wait for most, with the average number of warps at each issue.
    """

    kernel: str
    ns: int | None
    dram_read: int | None
    dram_write: int | None
    l2_hit: float | None
    occupancy: float | None
    load_sectors: float | None
    store_sectors: float | None
    bank_conflicts: float | None
    tensor: float | None
    stalls: tuple[tuple[str, float], ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def command(tool: str, job: Path, log: Path, *, core: bool = False) -> list[str]:
    """The command line that profiles one call of a program.

    Args:
        tool: Path of ``ncu``.
        job: What :mod:`agent.workers.once` is to run.
        log: Where the table goes.
        core: Only the metrics that every architecture has.
    """
    names = list(METRICS.values())
    wanted = names[:_CORE] if core else [*names, *(_PER_WARP + s + _PER_ISSUE for s in STALLS)]
    return [
        tool, "--csv", "--log-file", str(log), "--force-overwrite", "--page", "details",
        "--print-units", "base", "--clock-control", "none", "--target-processes",
        "application-only", "--launch-count", str(MOST_KERNELS), "--metrics", ",".join(wanted),
        sys.executable, "-P", "-m", "agent.workers.once", str(job),
    ]  # fmt: skip


def collect(job: Path, seconds: float = 60.0) -> tuple[list[KernelCounters], str]:
    """Counters of one call.

    Args:
        job: What :mod:`agent.workers.once` is to run; its folder is written to.
        seconds: Time limit.

    Returns:
        One entry for each kernel's launch, and why there are none.
    """
    tool = find_tool("ncu")
    if not tool:
        return [], "Nsight Compute (ncu) is not installed"
    why = ""
    for core in (False, True):
        log = job.parent / "counters.csv"
        done = run_tool(command(tool, job, log, core=core), log, seconds)
        if done.late:
            return [], f"reading counters took longer than {seconds:.0f} s"
        found = parse(done.log)
        if found:
            return found, ""
        access = judged(done.log + done.output)
        if access.why:
            return [], access.why
        why = done.last_line or "ncu printed nothing"
    return [], why


@functools.cache
def access(seconds: float = 60.0) -> Access:
    """Whether counters can be read here, found out once with a kernel that does nothing."""
    tool = find_tool("ncu")
    if not tool:
        return Access(False, "Nsight Compute (ncu) is not installed", "install the CUDA toolkit")
    with tempfile.TemporaryDirectory(prefix="forge-ncu-") as folder:
        job = Path(folder) / "job.json"
        job.write_text(json.dumps({"empty": True}))
        log = job.parent / "counters.csv"
        done = run_tool(command(tool, job, log, core=True), log, seconds)
    if done.late:
        return Access(False, f"ncu took longer than {seconds:.0f} s")
    if parse(done.log):
        return Access(True)
    found = judged(done.log + done.output)
    return found if found.why else Access(False, done.last_line or "ncu printed nothing")


def judged(text: str) -> Access:
    """What ncu's complaint means; ``why`` is "" if it is none that is known."""
    if "ERR_NVGPUCTRPERM" in text:
        return Access(False, "this user may not read the GPU's counters", _ADMIN)
    if "LibraryNotLoaded" in text or "Failed to initialize the profiler" in text:
        why = "some virtual machines and containers do not let counters through"
        return Access(False, "ncu cannot start its profiler here", why)
    if "ERR_NVCMPGPUPERM" in text or "another instance" in text.lower():
        return Access(False, "another profiler holds the counters", "end it, then try again")
    if "Cuda driver is not compatible" in text or "driver is incompatible" in text.lower():
        return Access(False, "this ncu and the driver do not fit", "install ncu of the same CUDA")
    return Access(False)


def parse(text: str) -> list[KernelCounters]:
    """Launches out of ncu's ``--csv --page details`` table; [] if there is none in the text."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    launches: dict[str, tuple[str, dict[str, float]]] = {}
    for row in csv.DictReader(lines[start:]):
        number, kernel = row.get("ID") or "", row.get("Kernel Name") or ""
        metric, value = row.get("Metric Name"), _number(row.get("Metric Value"))
        if not number or not kernel or not metric:
            continue
        _, metrics = launches.setdefault(number, (kernel, {}))
        if value is not None:
            metrics[metric] = value
    return [_counters(kernel, metrics) for kernel, metrics in list(launches.values())[:64]]


def _counters(kernel: str, metrics: dict[str, float]) -> KernelCounters:
    found = {name: metrics.get(metric) for name, metric in METRICS.items()}

    def whole(name: str) -> int | None:
        value = found[name]
        return None if value is None else round(value)

    def share(name: str) -> float | None:
        value = found[name]
        return None if value is None else round(value / 100, 4)

    waits = [(stall, metrics.get(_PER_WARP + stall + _PER_ISSUE, 0.0)) for stall in STALLS]
    waits = sorted((item for item in waits if item[1] > 0), key=lambda item: -item[1])[:3]
    conflicts, waves = found["bank_conflicts"], found["shared_waves"]
    extra = None if conflicts is None or not waves else round(conflicts / waves, 4)
    tensor = share("tensor") if found["tensor"] is not None else share("tensor_old")
    return KernelCounters(
        kernel.partition("(")[0][:64], whole("ns"), whole("dram_read"), whole("dram_write"),
        share("l2_hit"), share("occupancy"), found["load_sectors"], found["store_sectors"],
        extra, tensor, tuple((name, round(value, 3)) for name, value in waits),
    )  # fmt: skip


def _number(text: Any) -> float | None:
    try:
        return float(str(text).replace(",", ""))
    except ValueError:
        return None


def total(launches: Sequence[KernelCounters]) -> int | None:
    """Bytes that all launches moved from and to the GPU's memory; None if unknown."""
    moved = [(item.dram_read, item.dram_write) for item in launches]
    if not moved or any(read is None or write is None for read, write in moved):
        return None
    return sum((read or 0) + (write or 0) for read, write in moved)
