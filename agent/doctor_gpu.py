"""What doctor says of the GPU, from what was found. Pure: nothing is asked or started here.

Without a GPU these lines are notes, and few.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.devices.cuda.nvml import HARMFUL

if TYPE_CHECKING:
    from collections.abc import Iterator

Line = dict[str, Any]

_GIB = 1 << 30
# Below this no spare process is started beside the one that runs programs.
SPARE_ROOM = 4 * _GIB
OLDEST = (8, 0)
# The driver that brings each major version of CUDA.
_DRIVERS = {12: "525.60", 13: "580.65"}
_MODPROBE = (
    "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | "
    "sudo tee /etc/modprobe.d/nvidia-profiling.conf, then restart the machine"
)
_HUNG = "the GPU does not answer: see nvidia-smi and dmesg (Xid), then restart the machine"
_NO_TOOL = "it comes with the CUDA toolkit; put it on PATH, or set CUDA_HOME"


@dataclass(frozen=True, slots=True)
class Found:
    """What was found out about this machine's GPUs.

    Attributes:
        gpus: ``agent.devices.cuda.nvml.survey()``; None if it did not come back in time.
        stages: Of ``agent.workers.probe``: by stage ``{"ok": ...}`` or ``{"error", "cure", ..}``.
        hung: The stage in which the probe was given up, or "".
        card: Whether an NVIDIA GPU is on the bus, driver or not.
        visible: ``CUDA_VISIBLE_DEVICES``, or None.
        sanitizer: Path of compute-sanitizer, or "".
        profiler: Path of ncu, or "".
        restricted: Whether the driver keeps its counters for the administrator, who we are not;
            None if it does not say.
        memory: Bytes of this machine's memory that are free.
    """

    gpus: list[dict[str, Any]] | None = field(default_factory=list)
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    hung: str = ""
    card: bool = False
    visible: str | None = None
    sanitizer: str = ""
    profiler: str = ""
    restricted: bool | None = None
    memory: int = 64 * _GIB

    @property
    def cuda(self) -> dict[str, Any]:
        """The GPU that CUDA would use; empty if it sees none."""
        return dict(self.stages.get("driver", {}).get("ok") or {})

    @property
    def gpu(self) -> dict[str, Any]:
        """The same GPU as NVML describes it; empty if that is not known."""
        uuid = self.cuda.get("uuid")
        gpus = self.gpus or []
        same = [gpu for gpu in gpus if gpu.get("uuid") == uuid]
        return same[0] if same else gpus[0] if len(gpus) == 1 and uuid else {}

    @property
    def expected(self) -> bool:
        """Whether this machine is meant to have a GPU that works."""
        return self.card or bool(self.gpus) or self.gpus is None or self.hung == "driver"


def line(check: str, ok: bool | None, what: str, cure: str = "") -> Line:
    """One check as doctor answers it; ``ok`` None is a note."""
    return {"check": check, "ok": ok, "what": what, "cure": cure}


def before_compiler(found: Found) -> Iterator[Line]:
    """The lines gpu, driver, nvrtc, headers, build."""
    yield _gpu(found)
    yield _driver(found)
    yield _nvrtc(found)
    yield _stage(found, "headers", lambda ok: str(ok["where"]))
    yield _stage(found, "build", lambda ok: f"five lines in {ok['seconds']:.2f} s")


def after_compiler(found: Found) -> Iterator[Line]:
    """The lines about a GPU that is there: memory, clocks, mode, others, tools. None without."""
    if not found.cuda:
        return
    yield _memory(found.gpu)
    yield _clocks(found.gpu)
    yield _mode(found.gpu)
    yield _others(found.gpu)
    if found.sanitizer:
        yield line("sanitizer", True, found.sanitizer)
    else:
        what = "compute-sanitizer is not there: wins are confirmed without it"
        yield line("sanitizer", None, what, _NO_TOOL)
    yield _counters(found)


def spare_worker(found: Found) -> Line:
    """Whether a second runner can stand by for when a program breaks the first."""
    check, enough = "spare worker", 4 * _GIB
    if found.memory < enough:
        what = f"none: {found.memory / _GIB:.1f} GiB of memory are free"
        return line(check, None, what, "free memory; each broken program costs seconds otherwise")
    mode, free = found.gpu.get("compute_mode", "default"), found.gpu.get("memory_free")
    if found.cuda and mode != "default":
        return line(check, None, f"none: the GPU is in the mode {mode}")
    if found.cuda and free is not None and free < SPARE_ROOM:
        what = f"none: {free / _GIB:.1f} GiB of GPU memory are free"
        return line(check, None, what, "end what else uses the GPU")
    return line(check, True, "possible")


def torch_line(version: str, cuda: str, found: Found) -> Line:
    """What PyTorch was built for, and whether that fits the machine.

    Args:
        cuda: The CUDA version of the build, such as ``13.0``; "" for a build without.
    """
    if not cuda:
        what = f"{version}, built for the CPU alone"
        if not found.expected:
            return line("torch", True, what)
        cure = "install a CUDA build (pytorch.org shows the command), or use --device cpu"
        return line("torch", False, f"{what}: it cannot use the GPU", cure)
    runs, major = found.cuda.get("runs"), cuda.partition(".")[0]
    if runs and major.isdigit() and runs[0] < int(major):
        what = f"{version}, built for CUDA {cuda}; the driver runs {runs[0]}.{runs[1]} at most"
        return line("torch", False, what, _newer_driver(int(major)))
    return line("torch", True, f"{version}, built for CUDA {cuda}")


# -- one line each ---------------------------------------------------------------------------------


def _gpu(found: Found) -> Line:
    cuda, gpu = found.cuda, found.gpu
    if not cuda:
        return _no_gpu(found)
    major, minor = cuda["capability"]
    memory = f", {gpu['memory_total'] / _GIB:.0f} GiB" if "memory_total" in gpu else ""
    what = f"{cuda['name']}{memory}, compute capability {major}.{minor}, {cuda['sms']} SMs"
    if (major, minor) < OLDEST:
        cure = "use a GPU of compute capability 8.0 or newer, or --device cpu"
        return line("gpu", False, f"{what}: too old", cure)
    if gpu.get("mig") or str(cuda["uuid"]).startswith("MIG-"):
        cure = "for figures that compare with others', turn it off: sudo nvidia-smi -mig 0"
        what += "; MIG is on: one part is used, and other users of the card are not seen"
        return line("gpu", None, what, cure)
    count = len(found.gpus or [])
    return line("gpu", True, f"{what}, one of {count} GPUs" if count > 1 else what)


def _no_gpu(found: Found) -> Line:
    if found.hung == "driver" or found.gpus is None:
        return line("gpu", False, "the driver does not come back", _HUNG)
    stage = found.stages.get("driver", {})
    if found.gpus:
        hidden = f" (CUDA_VISIBLE_DEVICES is {found.visible!r:.60})" if found.visible else ""
        if found.visible == "":
            hidden = " (CUDA_VISIBLE_DEVICES is empty)"
        what = f"{len(found.gpus)} on this machine, but CUDA sees none{hidden}"
        cure = "unset CUDA_VISIBLE_DEVICES" if hidden else str(stage.get("cure", ""))
        if stage.get("code") == "no-cuda-python":
            what, cure = str(stage["error"]), str(stage["cure"])
        return line("gpu", False, what, cure)
    if found.card:
        what = "an NVIDIA GPU is on the bus, but no driver answers for it"
        return line("gpu", False, what, "install NVIDIA's driver, or use --device cpu")
    return line("gpu", None, "none: programs run on the CPU")


def _driver(found: Found) -> Line:
    cuda = found.cuda
    if not cuda:
        stage = found.stages.get("driver", {})
        if found.expected:
            what = str(stage.get("error") or "not known")
            return line("driver", False, what, str(stage.get("cure") or _HUNG))
        return line("driver", None, "none")
    runs = tuple(cuda["runs"])
    version = found.gpu.get("driver", "")
    what = f"{version + ', ' if version else ''}runs CUDA {runs[0]}.{runs[1]}"
    compiler = (found.stages.get("nvrtc", {}).get("ok") or {}).get("version")
    if compiler and runs[0] < compiler[0]:
        # Within a major version the driver loads what a newer compiler made.
        what += f": older than NVRTC {compiler[0]}.{compiler[1]}, whose code it cannot load"
        cure = f"{_newer_driver(compiler[0])}, or pip install 'cuda-core[cu{runs[0]}]'"
        return line("driver", False, what, cure)
    return line("driver", True, what)


def _newer_driver(major: int) -> str:
    return f"install NVIDIA's driver {_DRIVERS.get(major, f'for CUDA {major}')} or newer"


def _nvrtc(found: Found) -> Line:
    def told(ok: dict[str, Any]) -> str:
        major, minor = ok["version"]
        arch = found.cuda.get("arch")
        return f"{major}.{minor}, compiles for {arch}" if arch else f"{major}.{minor}"

    ok = found.stages.get("nvrtc", {}).get("ok")
    if ok and found.cuda:
        capability = 10 * found.cuda["capability"][0] + found.cuda["capability"][1]
        if capability not in ok["supported"]:
            what = f"{told(ok)}, which it does not know"
            cure = "install an NVRTC that knows this GPU: pip install -U 'forge-tui[cuda]'"
            return line("nvrtc", False, what, cure)
    return _stage(found, "nvrtc", told)


def _stage(found: Found, name: str, told: Any) -> Line:
    """A stage of the probe: fine, failed (a note where no GPU is expected), or never reached."""
    stage = found.stages.get(name, {})
    if stage.get("ok"):
        return line(name, True if found.cuda else None, told(stage["ok"]))
    bad = False if found.expected else None
    if name == found.hung:
        return line(name, bad, "it does not come back", "try again; see the log of the system")
    if "error" in stage:
        return line(name, bad, str(stage["error"])[:300], str(stage.get("cure", "")))
    after = f": {found.hung} did not come back" if found.hung else ""
    return line(name, None, f"not looked at{after}")


def _memory(gpu: dict[str, Any]) -> Line:
    check = "gpu memory"
    if "memory_free" not in gpu:
        return line(check, None, "not known", "pip install nvidia-ml-py")
    text = f"{gpu['memory_free'] / _GIB:.1f} of {gpu['memory_total'] / _GIB:.1f} GiB free"
    if gpu["memory_free"] < SPARE_ROOM:
        return line(check, None, text, "end what else uses the GPU")
    return line(check, True, text)


def _clocks(gpu: dict[str, Any]) -> Line:
    if "sm_mhz" not in gpu:
        return line("clocks", None, "not known", "pip install nvidia-ml-py")
    most = f" of {gpu['max_sm_mhz']}" if "max_sm_mhz" in gpu else ""
    why = gpu.get("throttle", [])
    text = f"{gpu['sm_mhz']}{most} MHz" + (f" ({', '.join(why)})" if why else "")
    if "temperature" in gpu:
        text += f", {gpu['temperature']} °C"
    if "power_w" in gpu:
        text += f", {gpu['power_w']:.0f} W"
    if bad := [name for name in why if name in HARMFUL]:
        cure = "see to air and power; times taken meanwhile say little"
        return line("clocks", None, f"{text}: slowed down by {', '.join(bad)}", cure)
    if "held_sm_mhz" in gpu:
        cure = "fine for comparing; for full speed: sudo nvidia-smi -rac"
        return line("clocks", None, f"{text}, set to {gpu['held_sm_mhz']} MHz", cure)
    return line("clocks", True, text)


def _mode(gpu: dict[str, Any]) -> Line:
    mode = gpu.get("compute_mode", "default")
    if mode == "default":
        return line("compute mode", True, mode)
    why = "nothing may use the GPU" if mode == "prohibited" else "one process at a time may use it"
    what = f"{mode}: {why}, but the judge and the process that runs programs both must"
    return line("compute mode", False, what, "sudo nvidia-smi -c DEFAULT")


def _others(gpu: dict[str, Any]) -> Line:
    check = "other processes"
    users = gpu.get("processes")
    if users is None:
        return line(check, None, "not known")
    if not users:
        return line(check, True, "none on the GPU")
    shown = [
        f"{user['pid']} {user['name']}".strip()
        + (f" {user['memory'] / _GIB:.1f} GiB" if user.get("memory") else "")
        for user in users[:6]
    ]
    more = f" and {len(users) - 6} more" if len(users) > 6 else ""
    cure = "end those that work; one that only holds memory does no harm"
    return line(check, None, ", ".join(shown) + more, cure)


def _counters(found: Found) -> Line:
    if not found.profiler:
        return line("counters", None, "ncu is not there: no hardware counters", _NO_TOOL)
    if found.restricted:
        what = f"{found.profiler}, but the driver keeps them for the administrator"
        return line("counters", None, what, _MODPROBE)
    if found.restricted is None:
        return line("counters", None, f"{found.profiler}; whether it may is not known")
    return line("counters", True, found.profiler)
