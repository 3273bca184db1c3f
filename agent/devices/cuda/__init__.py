"""CUDA GPUs: asked for their facts, and compiled for, without ever making a context."""

from __future__ import annotations

from agent.devices.cuda.device import CudaDevice

__all__ = ["CudaDevice"]
