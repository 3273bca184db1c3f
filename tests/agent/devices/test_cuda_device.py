"""The CUDA device without a GPU: facts by architecture, occupancy, and what is missing."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from agent.devices import open_device
from agent.devices.cuda import device, driver, headers, nvrtc
from agent.devices.cuda.arches import arch_of, limits_of
from agent.devices.cuda.occupancy import most_threads, occupancy
from agent.errors import MachineError

HOPPER = limits_of(9, 0)


def machine_error(code, call):
    with pytest.raises(MachineError) as caught:
        call()
    assert caught.value.code == code
    assert caught.value.cure
    return caught.value


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "blocks", "limiter"),
    [
        (32, 0, 1024, 2, "threads"),
        (32, 0, 256, 8, "threads"),
        (32, 0, 32, 32, "blocks"),
        (64, 0, 256, 4, "registers"),
        (65, 0, 256, 3, "registers"),
        (255, 0, 256, 1, "registers"),
        (128, 0, 1024, 0, "registers"),
        (168, 0, 384, 1, "registers"),
        (32, 113 << 10, 128, 2, "shared"),
        (32, (113 << 10) + 1, 128, 1, "shared"),
        (32, 227 << 10, 128, 1, "shared"),
        (32, (227 << 10) + 1, 128, 0, "shared"),
        (32, 0, 2048, 0, "threads"),
    ],
)  # fmt: skip
def test_occupancy_on_hopper(registers, shared, threads, blocks, limiter):
    found = occupancy(HOPPER, registers, shared, threads)
    assert (found["blocks"], found["limiter"]) == (blocks, limiter)
    assert found["warps"] == blocks * -(-threads // 32)
    assert found["share"] == pytest.approx(found["warps"] / 64)


def test_occupancy_on_smaller_sms():
    ada, ampere = limits_of(8, 9), limits_of(8, 6)
    assert occupancy(ada, 32, 0, 32)["blocks"] == 24
    assert occupancy(ampere, 32, 0, 32)["blocks"] == 16
    assert occupancy(ada, 32, 0, 1024) == {
        "blocks": 1, "warps": 32, "share": pytest.approx(32 / 48, abs=1e-4), "limiter": "threads"
    }  # fmt: skip
    assert occupancy(limits_of(12, 1), 32, 99 << 10, 128)["blocks"] == 1
    assert occupancy(limits_of(8, 0), 32, 0, 128)["limiter"] == "threads"


def test_the_largest_block_by_registers():
    assert [most_threads(n) for n in (16, 64, 65, 128, 255)] == [1024, 1024, 896, 512, 256]


def test_a_device_by_architecture_alone():
    opened = open_device("cuda", arch="sm_90a")
    facts = opened.facts()
    wanted = {
        "sms", "shared", "shared_sm", "l2", "warp", "max_threads", "registers", "major", "minor",
        "cluster",
    }  # fmt: skip
    assert wanted <= facts.keys()
    assert (facts["shared"], facts["cluster"]) == (227 << 10, 8)
    assert limits_of(8, 9)["cluster"] == 1
    assert limits_of(13, 0)["shared"] == limits_of(12, 1)["shared"]
    assert "sm_90a" in opened.key()
    assert opened.language == "cuda"
    assert [arch_of(*c) for c in ((8, 0), (8, 9), (9, 0), (10, 3), (12, 1))] == [
        "sm_80", "sm_89", "sm_90a", "sm_103a", "sm_121a"
    ]  # fmt: skip
    machine_error("arch-unknown", lambda: open_device("cuda", arch="gfx942"))
    machine_error("gpu-too-old", lambda: open_device("cuda", arch="sm_75"))


class FakeDriver:
    """Answers as ``cuda.bindings.driver`` does."""

    CUresult = SimpleNamespace
    CUdevice_attribute = SimpleNamespace

    def __init__(self, result="", newest=13000, capability=(9, 0)):
        self._result, self._newest, self._capability = result, newest, capability
        self.CUresult = lambda number: SimpleNamespace(name=result)
        self.CUdevice_attribute = AttributeNames()

    def cuInit(self, flags):
        if self._result == "absent":
            raise RuntimeError("libcuda.so.1 not found")
        return (1 if self._result else 0,)

    def cuDriverGetVersion(self):
        return 0, self._newest

    def cuDeviceGet(self, index):
        return 0, index

    def cuDeviceGetName(self, size, gpu):
        return 0, b"NVIDIA H200\0\0"

    def cuDeviceGetUuid(self, gpu):
        return 0, SimpleNamespace(bytes=bytes(range(16)))

    def cuDeviceGetAttribute(self, name, gpu):
        major, minor = self._capability
        known = {"CAPABILITY_MAJOR": major, "CAPABILITY_MINOR": minor, "PROCESSOR_COUNT": 132}
        return 0, next((value for end, value in known.items() if name.endswith(end)), 7)


class AttributeNames:
    def __getattr__(self, name):
        return name


@pytest.fixture
def fake_driver(monkeypatch):
    def put(fake):
        real = driver.cuda_python
        chosen = lambda name: fake if name == "cuda.bindings.driver" else real(name)  # noqa: E731
        monkeypatch.setattr(driver, "cuda_python", chosen)
        driver._first_gpu.cache_clear()

    yield put
    driver._first_gpu.cache_clear()


def test_a_gpu_is_known_without_a_context(fake_driver):
    fake_driver(FakeDriver())
    opened = open_device("cuda")
    assert opened.arch == "sm_90a"
    assert opened.facts()["sms"] == 132
    assert "GPU-00010203-0405-" in opened.key()
    assert "NVIDIA H200 | driver 13.0 | nvrtc" in opened.key()


def test_what_is_missing_is_said_with_a_cure(fake_driver, monkeypatch):
    fake_driver(FakeDriver("absent"))
    machine_error("no-driver", lambda: open_device("cuda"))
    fake_driver(FakeDriver("CUDA_ERROR_NO_DEVICE"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert "CUDA_VISIBLE_DEVICES" in machine_error("no-gpu", lambda: open_device("cuda")).message
    fake_driver(FakeDriver("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"))
    machine_error("no-driver", lambda: open_device("cuda"))
    fake_driver(FakeDriver(capability=(7, 5)))
    machine_error("gpu-too-old", lambda: open_device("cuda"))
    fake_driver(FakeDriver(newest=12080))
    assert "CUDA 12" in machine_error("driver-too-old", lambda: open_device("cuda")).message


def test_without_nvidias_python_packages(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    driver._first_gpu.cache_clear()
    error = machine_error("no-cuda-python", lambda: open_device("cuda"))
    assert "forge-tui[cuda]" in error.cure


def test_without_nvrtc(monkeypatch):
    class Absent:
        def nvrtcVersion(self):
            raise RuntimeError("libnvrtc.so.13 not found")

    monkeypatch.setattr(nvrtc, "cuda_python", lambda name: Absent())
    nvrtc._version.cache_clear()
    machine_error("no-nvrtc", nvrtc.version)
    assert "no compiler" in device.CudaDevice("sm_80").key()
    nvrtc._version.cache_clear()


def test_headers_come_from_the_toolkit_where_nvrtc_has_none(monkeypatch, tmp_path):
    old = SimpleNamespace()
    monkeypatch.setattr(headers, "cuda_python", lambda name: old)
    toolkit = tmp_path / "cuda"
    (toolkit / "include" / "cccl").mkdir(parents=True)
    (toolkit / "include" / "cuda_fp16.h").write_text("")
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    folders, named = headers.header_folders(tmp_path)
    assert folders == [toolkit / "include", toolkit / "include" / "cccl"]
    assert str(toolkit) in named
    monkeypatch.setattr(headers, "_toolkits", lambda: iter(()))
    error = machine_error("no-cuda-headers", lambda: headers.header_folders(tmp_path))
    assert "CUDA_HOME" in error.cure


def test_cutlass_is_where_the_variable_says(monkeypatch, tmp_path):
    monkeypatch.setenv("FORGE_CUTLASS", str(tmp_path))
    machine_error("no-cutlass", headers.cutlass_folder)
    (tmp_path / "include" / "cute").mkdir(parents=True)
    (tmp_path / "include" / "cute" / "tensor.hpp").write_text("")
    assert headers.cutlass_folder() == tmp_path / "include"


def test_cutlass_goes_with_the_headers_of_a_toolkit(monkeypatch, tmp_path):
    cutlass, toolkit = tmp_path / "cutlass", tmp_path / "cuda"
    (cutlass / "cute").mkdir(parents=True)
    (cutlass / "cute" / "tensor.hpp").write_text("")
    (toolkit / "include").mkdir(parents=True)
    (toolkit / "include" / "cuda_runtime_api.h").write_text("")
    monkeypatch.setenv("FORGE_CUTLASS", str(cutlass))
    monkeypatch.setattr(headers, "_toolkits", lambda: iter([toolkit / "include"]))
    folders, _ = headers.header_folders(tmp_path)
    assert folders == [toolkit / "include", cutlass]
    monkeypatch.setattr(headers, "_toolkits", lambda: iter(()))
    machine_error("no-cuda-headers", lambda: headers.header_folders(tmp_path))


def test_the_engine_needs_neither_cuda_nor_torch():
    import subprocess

    code = (
        "import sys; import agent.devices, agent.devices.cuda.build;"
        "print([m for m in sys.modules if m.partition('.')[0] in ('torch', 'cuda')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.gpu
def test_facts_read_off_the_driver():
    opened = open_device("cuda")
    facts = opened.facts()
    limits = limits_of(facts["major"], facts["minor"])
    for name in ("shared", "shared_sm", "shared_reserved", "threads_sm", "blocks_sm", "registers"):
        assert facts[name] == limits[name], name
    assert facts["l2"] > 1 << 20
    assert "GPU-" in opened.key()
