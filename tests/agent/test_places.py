"""Which device is meant, and what its lease is called."""

from __future__ import annotations

import os

import pytest

from agent.errors import MachineError
from agent.places import choose_device, lease_name

UUID = "GPU-0f1e2d3c-0000-1111-2222-333344445555"


@pytest.fixture(autouse=True)
def _no_gpu_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.setenv(name, "")  # so that it is put back afterwards
        monkeypatch.delenv(name)


def test_a_device_without_a_number_leaves_the_environment_alone() -> None:
    assert [choose_device(name) for name in ("cpu", "cuda")] == ["cpu", "cuda"]
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_a_number_counts_as_nvidia_smi_does() -> None:
    assert choose_device("cuda:2") == "cuda"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2"
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_a_number_counts_among_those_that_are_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"5, {UUID}")
    choose_device("cuda:1")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == UUID
    with pytest.raises(MachineError) as caught:
        choose_device("cuda:1")
    assert caught.value.code == "no-gpu"


@pytest.mark.parametrize("name", ["", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "tpu", "cuda:1\n"])
def test_what_is_no_device_is_refused(name: str) -> None:
    with pytest.raises(MachineError) as caught:
        choose_device(name)
    assert caught.value.code == "device-unknown"


def test_a_lease_is_the_gpus_whatever_the_toolchain() -> None:
    assert lease_name("cpu", "any CPU | 2 cores") == "cpu"
    names = {lease_name("cuda", f"{UUID} | H200 | 580 | NVRTC {v}") for v in ("13.0", "13.5")}
    assert names == {UUID}
    odd = lease_name("cuda", "../../etc | of no UUID")
    assert odd.startswith("cuda-")
    assert odd.replace("-", "").isalnum()
