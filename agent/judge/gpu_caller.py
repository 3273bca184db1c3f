"""Calls a cubin's plan on torch tensors, library steps included. Used in the runner only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from cuda.bindings import driver

from agent.judge.arena import contiguous_strides, torch_dtype
from agent.judge.gpu_faults import fault
from agent.judge.library_steps import Environment, same_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent.judge.gpu_launch import Cubin, Launch


def run_checked(
    cubin: Cubin, bound: dict[str, Any], tensors: Mapping[str, torch.Tensor], outputs: Sequence[str]
) -> None:
    """One call on given tensors, with a look at the device after every step.

    Raises:
        ProgramError: A launch that the driver refuses, a library step that fails.
        WorkerError: ``crashed``; this process is of no use any more.
    """
    environment = Environment()
    environment.tensors = {name: tensors[name] for name in tensors if name not in outputs}
    environment.places = {name: tensors[name] for name in outputs}
    launch = cubin.bind(bound, environment.make_call)
    launch.point({name: value.data_ptr() for name, value in tensors.items()})
    stream = torch.cuda.current_stream().cuda_stream

    def after(name: str) -> None:
        code = driver.cuStreamSynchronize(stream)[0]
        if int(code):
            raise fault(code, f"kernel {name}")

    launch.one_by_one(stream, after)
    after("end")


class GpuCaller:
    """Calls a plan on ordinary tensors as eager is called: fresh outputs and scratch each time."""

    def __init__(
        self,
        cubin: Cubin,
        names: Sequence[str],
        outputs: Sequence[dict[str, Any]],
        bound: dict[str, Any],
    ) -> None:
        self._environment = Environment()
        self._launch: Launch = cubin.bind(bound, self._environment.make_call)
        self._names = list(names)
        called = {step["to"] for step in bound["steps"] if "call" in step}
        self._outputs = [item["name"] for item in outputs]
        self._made = [(item, _maker(item)) for item in outputs if item["name"] not in called]
        self._scratch = [(item, _maker({**item, "strides": None})) for item in bound["scratch"]]
        self._called = [item for item in outputs if item["name"] in called]
        self._kept: dict[str, torch.Tensor] = {}

    @property
    def scratch(self) -> list[torch.Tensor]:
        """The scratch tensors of the latest call."""
        return [self._kept[item["name"]] for item, _ in self._scratch]

    def __call__(self, *args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.step_by_step(args, None)

    def step_by_step(
        self, args: Sequence[torch.Tensor], after: Callable[[str], None] | None
    ) -> tuple[torch.Tensor, ...]:
        """A call; ``after`` is told each step's name once it is enqueued."""
        tensors = dict(zip(self._names, args, strict=True))
        for item, make in (*self._made, *self._scratch):
            tensors[item["name"]] = make()
        self._environment.tensors = tensors
        self._kept = tensors
        self._launch.point({name: value.data_ptr() for name, value in tensors.items()})
        stream = torch.cuda.current_stream().cuda_stream
        if after is None:
            self._launch(stream)
        else:
            self._launch.one_by_one(stream, after)
        for item in self._called:
            value = tensors[item["name"]]
            same_kind("the library", value, torch_dtype(item["dtype"]), tuple(item["shape"]))
            if value.stride() != tuple(item["strides"]):
                fresh = torch.empty_strided(value.shape, item["strides"], dtype=value.dtype,
                                            device=value.device)  # fmt: skip
                tensors[item["name"]] = fresh.copy_(value)
        return tuple(tensors[name] for name in self._outputs)


def _maker(item: dict[str, Any]) -> Callable[[], torch.Tensor]:
    shape, dtype = tuple(item["shape"]), torch_dtype(item["dtype"])
    strides = item["strides"] and tuple(item["strides"])
    if strides is None or strides == contiguous_strides(shape):
        return lambda: torch.empty(shape, dtype=dtype, device="cuda")
    return lambda: torch.empty_strided(shape, strides, dtype=dtype, device="cuda")
