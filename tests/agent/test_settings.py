from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from agent import settings

if TYPE_CHECKING:
    from collections.abc import Callable

CHANGES: dict[str, Callable[[], None]] = {
    "float32 precision": lambda: torch.set_float32_matmul_precision("high"),
    "allow_tf32": lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True),
    "cudnn tf32": lambda: setattr(torch.backends.cudnn, "allow_tf32", False),
    "general precision": lambda: setattr(torch.backends, "fp32_precision", "tf32"),
    "product precision": lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "convolution precision": lambda: setattr(torch.backends.cudnn.conv, "fp32_precision", "ieee"),
    "benchmark": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "cudnn off": lambda: setattr(torch.backends.cudnn, "enabled", False),
    "mkldnn off": lambda: setattr(torch.backends.mkldnn, "enabled", False),
    "bf16 sums": lambda: setattr(
        torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction", False
    ),
    "flash": lambda: torch.backends.cuda.enable_flash_sdp(False),
    "deterministic": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "default device": lambda: torch.set_default_device("meta"),
    "device context": lambda: torch.set_default_device("cpu"),
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "denormals": lambda: torch.set_flush_denormal(True) and None,
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_seen_and_undone(name: str) -> None:
    before = settings.snapshot()
    try:
        CHANGES[name]()
        assert settings.changed(before, settings.snapshot())
    finally:
        settings.put_back(before)
    assert not settings.changed(before, settings.snapshot())
    # Neither the old nor the new getters may refuse afterwards.
    assert torch.get_float32_matmul_precision() == "highest"
    assert torch.backends.cudnn.allow_tf32


def test_what_is_set_to_what_it_is_changes_nothing() -> None:
    before = settings.snapshot()
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = False
    assert not settings.changed(before, settings.snapshot())
