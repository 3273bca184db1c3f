"""compute-sanitizer: what its texts mean, and the one-shot process that it looks at."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from agent.errors import ProgramError
from agent.judge import sanitize as module
from agent.judge.nvidia_tools import ToolRun
from agent.judge.once_job import once_job
from agent.judge.sanitize import MISSING, TOOLS, command, sanitize, verdict
from agent.task import ArgSpec, OutputSpec, TargetSpec
from agent.workers import once

if TYPE_CHECKING:
    from collections.abc import Sequence

OK = '{"ok": true}\n'
TOP = "========= COMPUTE-SANITIZER\n"
WRITE = (
    TOP
    + """========= Invalid __global__ write of size 4 bytes
=========     at rows(const float *, float *, long)+0x70
=========     by thread (0,0,0) in block (1,0,0)
=========     Access to 0x7f3a2c000400 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f3a2c000000 of size 1024 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at other(float *)+0x70
========= Target application returned an error
========= ERROR SUMMARY: 33 errors
"""
)
OLD = TOP + (
    "========= Invalid __shared__ read of size 4 bytes\n"
    "=========     at 0x000000a0 in void rows<(int)4>(const float*)\n"
    "========= ERROR SUMMARY: 1 error\n"
)
UNWRITTEN = TOP + (
    "========= Uninitialized __global__ memory read of size 16 bytes\n"
    "=========     at rows+0x110\n"
    "=========     by thread (32,0,0) in block (0,0,0)\n"
    "========= ERROR SUMMARY: 2 errors\n"
)
RACE = TOP + (
    "========= Error: Race reported between Write access at reduce(float *)+0x1d0\n"
    "=========     and Read access at reduce(float *)+0x290 [124 hazards]\n"
    "=========\n"
    "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"
)
BARRIER = TOP + (
    "========= Barrier error detected. Divergent thread(s) in block.\n"
    "=========     at reduce(float *)+0x40\n"
    "========= ERROR SUMMARY: 1 error\n"
)
CLEAN = TOP + "========= ERROR SUMMARY: 0 errors\n"
NO_RACE = TOP + "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"


@pytest.mark.parametrize(
    ("log", "output", "said"),
    [
        (CLEAN, OK, "clean"),
        (NO_RACE, OK, "clean"),
        (CLEAN, "noise\n" + OK + "{broken\n", "clean"),
        (
            WRITE,
            '{"error": {"message": "crashed: kernel rows"}}\n',
            "33 errors: Invalid __global__ write of size 4 bytes, at rows "
            "(1 bytes after an allocation)",
        ),
        (OLD, OK, "1 error: Invalid __shared__ read of size 4 bytes, at rows"),
        (UNWRITTEN, OK, "2 errors: Uninitialized __global__ memory read of size 16 bytes, at rows"),
        (RACE, OK, "1 error: Race reported between Write access at reduce(float *)+0x1d0"),
        (BARRIER, OK,
         "1 error: Barrier error detected. Divergent thread(s) in block., at reduce"),
        (
            CLEAN,
            '{"error": {"message": "the driver refuses the launch"}}\n',
            "skipped: the call did not run under memcheck: the driver refuses the launch",
        ),
        (CLEAN, "", "skipped: the call did not run under memcheck: it ended early"),
        (
            TOP + "========= Error: Device not supported. Please refer to the list\n",
            "",
            "skipped: compute-sanitizer does not work here (device not supported)",
        ),
        ("", "Segmentation fault\n",
         "skipped: memcheck said nothing that can be read: Segmentation fault"),
        ("", "", "skipped: memcheck said nothing that can be read: nothing"),
    ],
)  # fmt: skip
def test_a_tool_s_text_becomes_one_line(log: str, output: str, said: str) -> None:
    assert verdict("memcheck", ToolRun(0, False, output, log)) == said


def test_what_is_shown_is_short_and_printable() -> None:
    text = TOP + "========= Invalid \x1b[31m" + "x" * 999 + "\n========= ERROR SUMMARY: 1 error\n"
    said = verdict("memcheck", ToolRun(0, False, OK, text))
    assert len(said) < 300
    assert said.isprintable()


def test_the_command_line() -> None:
    line = command("/opt/cs", "racecheck", Path("/tmp/j.json"), Path("/tmp/l"))
    assert line[:5] == ["/opt/cs", "--tool", "racecheck", "--log-file", "/tmp/l"]
    assert line[-4:] == ["-P", "-m", "agent.workers.once", "/tmp/j.json"]


# -- the job ---------------------------------------------------------------------------------------

X = ArgSpec("x", "input", "float32", (4, 3), (5, 1))
W = ArgSpec("w", "weight", "bfloat16", (3,), (0,))
SPEC = TargetSpec(
    "t", "cuda", (X, W), {}, (OutputSpec("out", "float32", (4, 3), (3, 1)),), 96, 48, 0, ""
)
KERNEL = {
    "kernel": "k", "args": [{"tensor": "x"}, {"tensor": "out"}], "grid": [1, 1, 1],
    "block": [32, 1, 1], "shared": 0, "cluster": None, "cooperative": False,
}  # fmt: skip
SCRATCH = {"name": "s", "dtype": "float16", "shape": [2, 5], "zero": True}


def call(op: str, args: Sequence[Any], to: str) -> dict[str, Any]:
    return {
        "call": op,
        "args": [{"tensor": a} if isinstance(a, str) else a for a in args],
        "to": to,
    }


def plan(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"scratch": [SCRATCH], "tensormaps": [], "steps": list(steps), "neighbours": [1]}


def arguments() -> list[torch.Tensor]:
    x = torch.arange(20, dtype=torch.float32).view(4, 5)[:, 1:4]
    return [x, torch.ones(1, dtype=torch.bfloat16).expand(3)]


def test_a_job_has_every_tensor_with_its_own_bytes() -> None:
    with once_job(SPEC, "a.cubin", plan(KERNEL), arguments()) as path:
        job = json.loads(path.read_text())
        data = Path(job["data"]).read_bytes()
    assert not path.exists()
    assert job["bound"].keys() == {"scratch", "tensormaps", "steps"}
    assert Path(job["library"]).is_absolute()
    sizes = {item["name"]: (item["bytes"], item["at"]) for item in job["tensors"]}
    assert sizes == {"x": (72, 0), "w": (2, 256), "out": (48, None), "s": (20, None)}
    assert torch.frombuffer(bytearray(data[:72]), dtype=torch.float32).tolist() == [*range(1, 19)]


def test_library_steps_before_the_kernels_are_done_beforehand() -> None:
    steps = [
        call("transpose", ["x", {"value": 0}, {"value": 1}], "xt"),
        call("mm", ["x", "xt"], "y"),
        KERNEL,
    ]
    with once_job(SPEC, "a.cubin", plan(*steps), arguments()) as path:
        job = json.loads(path.read_text())
    assert job["bound"]["steps"] == [KERNEL]
    sizes = {item["name"]: item["bytes"] for item in job["tensors"]}
    assert (sizes["xt"], sizes["y"]) == (72, 64)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([KERNEL, call("mm", ["x", "x"], "y")], "a library step follows a kernel"),
        ([call("transpose", ["x", {"value": 0}, {"value": 1}], "y")], "library steps only"),
        ([call("mm", ["x", "x"], "y"), KERNEL], "mm fails"),
        ([call("mm", ["s", "x"], "y"), KERNEL], "takes scratch that nothing has written"),
        ([call("mm", ["out", "x"], "y"), KERNEL], "takes an output"),
    ],
)
def test_programs_that_cannot_be_run_so_are_skipped(
    steps: list[dict[str, Any]], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ProgramError, match=words), once_job(SPEC, "", plan(*steps), arguments()):
        pass
    monkeypatch.setattr(module, "find_tool", lambda name: "/opt/cs")
    said = sanitize(SPEC, "", plan(*steps), arguments())
    assert said.keys() == TOOLS.keys()
    assert all(text.startswith("skipped: ") and words in text for text in said.values())


def test_a_tool_that_is_missing_or_slow_is_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_tool", lambda name: "")
    assert set(sanitize(SPEC, "", plan(KERNEL), arguments()).values()) == {MISSING}
    monkeypatch.setattr(module, "find_tool", lambda name: "/opt/cs")

    def fake(line: list[str], log: Path, seconds: float) -> ToolRun:
        tool = line[line.index("--tool") + 1]
        return ToolRun(0, tool == "racecheck", OK, CLEAN)

    monkeypatch.setattr(module, "run_tool", fake)
    said = sanitize(SPEC, "", plan(KERNEL), arguments(), {"memcheck": 5, "racecheck": 2})
    assert said == {"memcheck": "clean", "racecheck": "skipped: took longer than 2 s"}


# -- the process -----------------------------------------------------------------------------------


class Pretended:
    """A driver whose device memory is this process's."""

    def __init__(self) -> None:
        self.blocks: dict[int, Any] = {}

    def cuMemAlloc(self, size: int) -> tuple[int, int]:
        block = (ctypes.c_ubyte * size)()
        self.blocks[ctypes.addressof(block)] = block
        return 0, ctypes.addressof(block)

    def cuMemFree(self, place: int) -> tuple[int]:
        del self.blocks[place]
        return (0,)

    def cuMemcpyHtoD(self, place: int, source: int, size: int) -> tuple[int]:
        assert size <= len(self.blocks[place])
        ctypes.memmove(place, source, size)
        return (0,)

    def cuStreamSynchronize(self, stream: int) -> tuple[int]:
        return (0,)


def test_the_process_gives_each_tensor_an_allocation_of_its_size(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    driver, told = Pretended(), SimpleNamespace(addresses={}, steps=[])

    def bind(bound: dict[str, Any]) -> Any:
        def one_by_one(stream: int, after: Any) -> None:
            for step in bound["steps"]:
                told.steps.append(step["kernel"])
                after(step["kernel"])

        return SimpleNamespace(point=told.addresses.update, one_by_one=one_by_one)

    monkeypatch.setattr(once, "driver", driver)
    monkeypatch.setattr(once, "_start", lambda: None)
    monkeypatch.setattr(once, "Cubin", lambda path: SimpleNamespace(bind=bind))
    with once_job(SPEC, "a.cubin", plan(KERNEL), arguments()) as path:
        assert once.main(str(path)) == 0
    assert json.loads(capsys.readouterr().out) == {"ok": True}
    assert told.steps == ["k"]
    sizes = {name: len(driver.blocks[place]) for name, place in told.addresses.items()}
    assert sizes == {"x": 72, "w": 2, "out": 48, "s": 20}
    x = bytes(driver.blocks[told.addresses["x"]])
    assert torch.frombuffer(bytearray(x), dtype=torch.float32).tolist() == [*range(1, 19)]

    def refuse(path: str) -> Any:
        raise ProgramError("there is no kernel k", code="no-kernel")

    monkeypatch.setattr(once, "Cubin", refuse)
    with once_job(SPEC, "a.cubin", plan(KERNEL), arguments()) as path:
        assert once.main(str(path)) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "no-kernel"
