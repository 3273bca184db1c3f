"""Compiles what the drafter writes, runs it, and compares it with PyTorch."""

from __future__ import annotations

import ctypes
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from agent.program import Bound, Program, parse_reply
from agent.reference import Reference, load
from agent.task import TaskSource
from agent.writers.drafter import Drafter, Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

QUICK = ["-std=gnu++17", "-O1", "-march=native", "-fopenmp", "-fPIC"]
AS_BUILT = [
    "-std=gnu++17", "-O3", "-march=native", "-fopenmp", "-fno-math-errno",
    "-fno-trapping-math", "-fPIC", "-fvisibility=default", "-Wall", "-Werror",
]  # fmt: skip
FACTS = {"cores": 2, "l2": 1 << 20}
C_TYPES = {"int64": ctypes.c_int64, "int32": ctypes.c_int32, "float32": ctypes.c_float}


def reference(body: str, inputs: str, name: str = "case") -> Reference:
    """A reference from ``def reference`` text and an expression for its inputs."""
    text = (
        "import torch\nimport torch.nn.functional as F\n\n"
        f"{body}\n\n\ndef inputs():\n    return {inputs}\n"
    )
    return load(TaskSource("plain", name, "", text, "cpu"))


@dataclass
class Built:
    """A compiled program, ready to be called with the reference's arguments."""

    reference: Reference
    schedule: Schedule
    program: Program
    bound: Bound
    library: ctypes.CDLL
    prefix: str

    def __call__(self, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        spec = self.reference.spec
        tensors = dict(zip((arg.name for arg in spec.args), args, strict=True))
        outs = []
        for out in spec.outputs:
            dtype = getattr(torch, out.dtype)
            tensors[out.name] = torch.empty_strided(out.shape, out.strides, dtype=dtype)
            poison = float("nan") if dtype.is_floating_point else 1
            tensors[out.name].fill_(poison)
            outs.append(tensors[out.name])
        for item in self.bound.scratch:
            tensors[item["name"]] = torch.empty(item["shape"], dtype=getattr(torch, item["dtype"]))
        for launch in self.bound.steps:
            values = [
                ctypes.c_void_p(tensors[arg["tensor"]].data_ptr())
                if "tensor" in arg
                else C_TYPES[arg["type"]](arg["value"])
                for arg in launch["args"]
            ]
            getattr(self.library, self.prefix + launch["kernel"])(*values)
        return outs


def build(
    written: Sequence[tuple[Reference, Schedule, str, dict[str, int]]],
    folder: Path,
    flags: Sequence[str] = QUICK,
) -> list[Built]:
    """Compile many replies as one file: each in a namespace, its functions with a prefix."""
    pieces, programs = [], []
    headers: dict[str, None] = {}
    for number, (_, _, text, values) in enumerate(written):
        program = parse_reply(text, "cpp")
        chosen = program.defaults() | {k: v for k, v in values.items() if k in program.tune}
        prefix = f"p{number}_"
        lines = program.source.splitlines()
        headers |= dict.fromkeys(line for line in lines if line.startswith("#include"))
        body = "\n".join(line for line in lines if not line.startswith("#include"))
        for kernel in program.kernels():
            body = re.sub(rf"void {kernel}\(", f"void {prefix}{kernel}(", body)
        defines = "".join(f"#define {name} {value}\n" for name, value in chosen.items())
        undefines = "".join(f"#undef {name}\n" for name in chosen)
        pieces.append(f"namespace n{number} {{\n{defines}{body}\n{undefines}}}\n")
        programs.append((program, chosen, prefix))
    source, library = folder / "all.cpp", folder / "all.so"
    source.write_text("\n".join([*headers, *pieces]))
    made = subprocess.run(
        ["g++", *flags, "-c", str(source), "-o", str(folder / "all.o")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr[:4000]
    gomp = next((Path(torch.__file__).parent / "lib").glob("libgomp*"), None)
    extra = [] if gomp else ["-fopenmp"]
    if gomp:
        ctypes.CDLL(str(gomp), ctypes.RTLD_GLOBAL)
    subprocess.run(
        ["g++", "-shared", *extra, str(folder / "all.o"), "-o", str(library)], check=True
    )
    loaded = ctypes.CDLL(str(library))
    return [
        Built(ref, schedule, program, program.bind(ref.spec, chosen, FACTS), loaded, prefix)
        for (ref, schedule, _, _), (program, chosen, prefix) in zip(written, programs, strict=True)
    ]


def write(
    ref: Reference, schedules: Sequence[Schedule] | None = None, **values: int
) -> list[tuple[Reference, Schedule, str, dict[str, int]]]:
    drafter = Drafter(ref)
    chosen = drafter.drafts() if schedules is None else schedules
    return [(ref, schedule, drafter.write(schedule), values) for schedule in chosen]


def faults(built: Built, args: Sequence[torch.Tensor], ulps: float = 4) -> list[str]:
    """What is wrong with the program's answers on these arguments; empty when all is right."""
    ref = built.reference
    want, exact = ref.function(*args), ref.float64(args)
    found = []
    got = built(args)
    for spec, out, eager, truth in zip(ref.spec.outputs, got, want, exact, strict=True):
        where = f"{built.schedule.key}: {spec.name}"
        if not out.dtype.is_floating_point:
            if not torch.equal(out, eager):
                found.append(f"{where}: {out.flatten()[:8]} is not {eager.flatten()[:8]}")
            continue
        found += _float_faults(where, out, eager, truth, ulps)
    return found


def _float_faults(where: str, out: Any, eager: Any, truth: Any, ulps: float) -> list[str]:
    odd = ~torch.isfinite(out)
    same = (out == eager) | (out.isnan() & eager.isnan())
    as_truth = (out == truth.to(out.dtype)) | (out.isnan() & truth.isnan())
    if bool((odd & ~same & ~as_truth).any()):
        return [f"{where}: non-finite where PyTorch's is not"]
    finite = torch.isfinite(out) & torch.isfinite(eager) & torch.isfinite(truth)
    if bool((~odd & ~finite & torch.isfinite(truth.to(out.dtype)) & torch.isfinite(eager)).any()):
        return [f"{where}: finite where PyTorch's is not"]
    if not bool(finite.any()):
        return []
    error = (out.double() - truth)[finite].abs().max().item()
    eager_error = (eager.double() - truth)[finite].abs().max().item()
    scale = truth[finite].abs().max().item() or 1.0
    allowed = max(8 * eager_error, ulps * torch.finfo(out.dtype).eps * scale)
    return [] if error <= allowed else [f"{where}: error {error:.3g}, allowed {allowed:.3g}"]
