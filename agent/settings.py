"""PyTorch's settings for the whole process: other tasks and eager's times depend on them.

A task file that changed one would change what every later baseline is measured with: float32
products in tf32, say, or a cuDNN that tries algorithms out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Of the settings by backend and operator; "none" stands for the backend's own, then for the
# general one, and in the end for full precision.
_PRECISIONS = [
    ("generic", "all"),
    ("cuda", "all"),
    ("cuda", "matmul"),
    ("cuda", "conv"),
    ("cuda", "rnn"),
    ("mkldnn", "all"),
    ("mkldnn", "matmul"),
    ("mkldnn", "conv"),
    ("mkldnn", "rnn"),
]
_SWITCHES: dict[str, tuple[Any, str]] = {
    "backends.cudnn.enabled": (torch.backends.cudnn, "enabled"),
    "backends.cudnn.benchmark": (torch.backends.cudnn, "benchmark"),
    "backends.cudnn.deterministic": (torch.backends.cudnn, "deterministic"),
    "backends.mkldnn.enabled": (torch.backends.mkldnn, "enabled"),
} | {
    f"backends.cuda.matmul.{name}": (torch.backends.cuda.matmul, name)
    for name in (
        "allow_fp16_reduced_precision_reduction",
        "allow_bf16_reduced_precision_reduction",
        "allow_fp16_accumulation",
    )
}
_SDP: dict[str, tuple[Callable[[], bool], Callable[[bool], None]]] = {
    "backends.cuda.enable_flash_sdp": (
        torch.backends.cuda.flash_sdp_enabled,
        torch.backends.cuda.enable_flash_sdp,
    ),
    "backends.cuda.enable_mem_efficient_sdp": (
        torch.backends.cuda.mem_efficient_sdp_enabled,
        torch.backends.cuda.enable_mem_efficient_sdp,
    ),
    "backends.cuda.enable_math_sdp": (
        torch.backends.cuda.math_sdp_enabled,
        torch.backends.cuda.enable_math_sdp,
    ),
    "backends.cuda.enable_cudnn_sdp": (
        torch.backends.cuda.cudnn_sdp_enabled,
        torch.backends.cuda.enable_cudnn_sdp,
    ),
}


def snapshot() -> dict[str, Any]:
    """The settings by the names that the author of a file knows; what ``put_back`` takes."""
    denormal = torch.full((1,), 1e-40, device="cpu")
    precision = torch._C._get_fp32_precision_getter
    return {
        "set_default_dtype": torch.get_default_dtype(),
        "set_num_threads": torch.get_num_threads(),
        "set_default_device": _default_device(),
        "use_deterministic_algorithms": torch.get_deterministic_debug_mode(),
        "set_flush_denormal": bool((denormal * 0.5 == 0).item()),
        "set_float32_matmul_precision": _old_precision(),
        "backends.cudnn.allow_tf32": _old_tf32(),
        **{
            f"{backend} {operator} fp32_precision": precision(backend, operator)
            for backend, operator in _PRECISIONS
        },
        **{name: getattr(module, key) for name, (module, key) in _SWITCHES.items()},
        **{name: get() for name, (get, _) in _SDP.items()},
    }


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The name of a setting that differs, or ""."""
    for name, value in after.items():
        old = before[name]
        if name.endswith("fp32_precision"):
            old, value = (full if full != "none" else "ieee" for full in (old, value))
        if old != value:
            return name
    return ""


def put_back(settings: Mapping[str, Any]) -> None:
    torch.set_default_dtype(settings["set_default_dtype"])
    torch.set_num_threads(settings["set_num_threads"])
    if _default_device() != settings["set_default_device"]:
        torch.set_default_device(settings["set_default_device"])
    torch.set_deterministic_debug_mode(settings["use_deterministic_algorithms"])
    torch.set_flush_denormal(settings["set_flush_denormal"])
    # The old switches first: each sets some of the new ones, and neither may contradict the other.
    if settings["set_float32_matmul_precision"]:
        torch.set_float32_matmul_precision(settings["set_float32_matmul_precision"])
    if settings["backends.cudnn.allow_tf32"] is not None:
        torch._C._set_cudnn_allow_tf32(settings["backends.cudnn.allow_tf32"])
    for backend, operator in _PRECISIONS:
        value = settings[f"{backend} {operator} fp32_precision"]
        if torch._C._get_fp32_precision_getter(backend, operator) != value:
            torch._C._set_fp32_precision_setter(backend, operator, value)
    for name, (module, key) in _SWITCHES.items():
        if getattr(module, key) != settings[name]:
            setattr(module, key, settings[name])
    for name, (_, put) in _SDP.items():
        put(settings[name])


def _default_device() -> str | None:
    """The device that was set; None if none was, which costs each call less than any."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else str(context.device)


def _old_precision() -> str:
    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:  # set in the new way, by backend, which the old getter refuses to read
        return ""


def _old_tf32() -> bool | None:
    try:
        return bool(torch._C._get_cudnn_allow_tf32())
    except RuntimeError:
        return None
