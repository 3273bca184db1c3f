"""The CUDA programs of the README and of the test data compile for old and new GPUs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.devices import open_device
from agent.devices.cuda import nvrtc
from agent.devices.cuda.arches import arch_of
from agent.judge.gpu_rates import SOURCE
from agent.program import parse_reply

ROOT = Path(__file__).parents[3]
PROGRAMS = {path.stem: path.read_text() for path in (ROOT / "tests/data/programs").glob("*.md")}
PROGRAMS["README"] = re.findall(r"````text\n(.*?)````", (ROOT / "README.md").read_text(), re.S)[0]
SINCE_90 = {"group_norm"}  # clusters
NEWEST = arch_of(*divmod(nvrtc.supported()[-1], 10))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", NEWEST])
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_compiles_with_every_value_of_its_tunables(tmp_path, name, arch):
    if name in SINCE_90 and arch == "sm_80":
        pytest.skip("has clusters, which came with compute capability 9.0")
    device = open_device("cuda", arch)
    program = parse_reply(PROGRAMS[name], "cuda")
    for values in program.variants():
        built = device.build(program.source, values, program.kernels(), tmp_path)
        assert set(built.detail["kernels"]) == set(program.kernels())
        assert all(kernel["spill_stores"] == 0 for kernel in built.detail["kernels"].values())


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", NEWEST])
@pytest.mark.parametrize("unroll", [1, 2, 4])
def test_the_streaming_kernel_compiles_in_its_forms(tmp_path, unroll, arch):
    device = open_device("cuda", arch)
    for streaming, streams in [(0, 1), (1, 1), (0, 2), (1, 8)]:
        values = {"UNROLL": unroll, "STREAMING": streaming, "STREAMS": streams}
        built = device.build(SOURCE, values, ["stream"], tmp_path)
        assert built.detail["access"]["stream"]["load_bytes"] == 16
        assert built.detail["kernels"]["stream"]["spill_stores"] == 0
