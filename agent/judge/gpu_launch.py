"""Launches a cubin's kernels as a bound plan says, over addresses that can be moved. No torch here.

Everything is put down once: functions, sizes, the array of argument pointers. A call then only
launches, so it can be captured into a graph, and costs the host a few microseconds.

Sources: CUDA driver API reference (cuLaunchKernel, cuLaunchKernelEx, cuTensorMapEncodeTiled).
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver

from agent.errors import ProgramError
from agent.judge.gpu_faults import check, named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Step = Callable[[int], None]
    # Makes a library step: from the step's description and the plan's pointers.
    MakeCall = Callable[[dict[str, Any], dict[str, ctypes.c_void_p]], Step]

_TYPES: dict[str, Any] = {
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}
# A kernel may take this much shared memory without asking first.
_PLAIN_SHARED = 48 << 10
_MAP_BYTES, _MAP_ALIGNMENT = 128, 64
_MAP_TYPES = {
    "uint8": 0, "int32": 3, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
    "bool": 0, "int8": 0, "int16": 1,
}  # fmt: skip
_SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
_INTERLEAVES = {"none": 0, "16B": 1, "32B": 2}
_PROMOTIONS = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
_FILLS = {"zero": 0, "nan": 1}


class Launch:
    """The steps of one plan, in order.

    Attributes:
        pointers: By tensor name, the pointers that the steps read when they are called.
    """

    def __init__(
        self, steps: list[tuple[str, Step]], pointers: dict[str, ctypes.c_void_p], maps: list[_Map]
    ) -> None:
        self._steps = steps
        self._maps = maps
        self.pointers = pointers

    def point(self, addresses: Mapping[str, int]) -> None:
        """Set the pointers of all tensors but those that library steps bind; in bytes."""
        for name, pointer in self.pointers.items():
            if name in addresses:
                pointer.value = addresses[name]
        self.encode()

    def encode(self) -> None:
        """Make the tensor maps for the addresses that the pointers have now."""
        for item in self._maps:
            item.encode(self.pointers[item.tensor].value or 0)

    def __call__(self, stream: int) -> None:
        """Enqueue all steps on a stream (its handle).

        Raises:
            ProgramError: ``launch``: the driver refuses one; nothing of it ran.
        """
        for _, step in self._steps:
            step(stream)

    def one_by_one(self, stream: int, after: Callable[[str], None]) -> None:
        """The same, with a look after every step: ``after`` gets the step's name."""
        for name, step in self._steps:
            step(stream)
            after(name)


class Cubin:
    """A candidate's machine code, loaded into the current context.

    Raises:
        ProgramError: ``cubin``: the driver cannot load it.
    """

    def __init__(self, path: str) -> None:
        code, self._module = driver.cuModuleLoadData(Path(path).read_bytes())
        if int(code):
            raise ProgramError(
                f"the driver cannot load the machine code: {named(code)}",
                "build it for this GPU",
                code="cubin",
            )
        self._functions: dict[str, Any] = {}

    def close(self) -> None:
        driver.cuModuleUnload(self._module)

    def _function(self, name: str) -> Any:
        if name not in self._functions:
            code, function = driver.cuModuleGetFunction(self._module, name.encode())
            if int(code):
                raise ProgramError(f"there is no kernel {name[:60]}", code="no-kernel")
            self._functions[name] = function
        return self._functions[name]

    def bind(self, bound: dict[str, Any], make_call: MakeCall | None = None) -> Launch:
        """Put a bound plan's steps down; pointers are set later.

        Args:
            bound: As ``Bound.to_json`` gives it.
            make_call: Makes library steps; without it a plan that has any is refused.

        Raises:
            ProgramError: ``no-kernel``, ``launch``, ``call``.
        """
        pointers: dict[str, ctypes.c_void_p] = {}
        maps = [_Map(item) for item in bound["tensormaps"]]
        by_name = {item.name: item for item in maps}
        for item in maps:
            pointers.setdefault(item.tensor, ctypes.c_void_p())
        steps: list[tuple[str, Step]] = []
        for item in bound["scratch"]:
            pointer = pointers.setdefault(item["name"], ctypes.c_void_p())
            if item.get("zero"):
                steps.append((f"zero {item['name']}", _clear(pointer, scratch_bytes(item))))
        for step in bound["steps"]:
            if 0 in step.get("grid", ()):
                continue  # no blocks, no work: the driver would refuse it
            if "call" in step:
                if make_call is None:
                    raise ProgramError("library steps cannot run here", code="call")
                steps.append((step["call"], make_call(step, pointers)))
            else:
                function = self._function(step["kernel"])
                steps.append((step["kernel"], _kernel(function, step, pointers, by_name)))
        return Launch(steps, pointers, maps)


_ITEM_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2,
               "int16": 2, "int8": 1, "uint8": 1, "bool": 1}  # fmt: skip


def scratch_bytes(item: Mapping[str, Any]) -> int:
    """Bytes of a scratch tensor of a bound plan."""
    total = _ITEM_BYTES[item["dtype"]]
    for size in item["shape"]:
        total *= size
    return total


def _clear(pointer: ctypes.c_void_p, size: int) -> Step:
    def run(stream: int) -> None:
        if size:
            check(driver.cuMemsetD8Async(pointer.value or 0, 0, size, stream), "zero scratch")

    return run


def _kernel(
    function: Any,
    step: dict[str, Any],
    pointers: dict[str, ctypes.c_void_p],
    maps: Mapping[str, _Map],
) -> Step:
    values: list[Any] = []
    for arg in step["args"]:
        if "tensor" in arg:
            values.append(pointers.setdefault(arg["tensor"], ctypes.c_void_p()))
        elif "tensormap" in arg:
            values.append(maps[arg["tensormap"]].place)
        else:
            values.append(_TYPES[arg["type"]](arg["value"]))
    array = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(item) for item in values))
    grid, block, shared = step["grid"], step["block"], step["shared"]
    name = step["kernel"]
    if shared > _PLAIN_SHARED:
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _launched(driver.cuFuncSetAttribute(function, attribute, shared), name, step, function)
    address = ctypes.addressof(array)
    kept = (values, array)  # the array holds addresses only
    if step["cluster"] or step["cooperative"]:
        return _extended(function, step, address, kept)

    def run(stream: int, _kept: Any = kept) -> None:
        result = driver.cuLaunchKernel(function, *grid, *block, shared, stream, address, 0)
        if int(result[0]):
            _launched(result, name, step, function)

    return run


def _extended(function: Any, step: dict[str, Any], address: int, kept: Any) -> Step:
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = step["grid"]
    config.blockDimX, config.blockDimY, config.blockDimZ = step["block"]
    config.sharedMemBytes = step["shared"]
    attributes = []
    if step["cluster"]:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        size = attribute.value.clusterDim
        size.x, size.y, size.z = step["cluster"]
        attributes.append(attribute)
    if step["cooperative"]:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        attribute.value.cooperative = 1
        attributes.append(attribute)
    config.attrs = attributes
    config.numAttrs = len(attributes)

    def run(stream: int, _kept: Any = (kept, attributes)) -> None:
        config.hStream = driver.CUstream(stream)
        result = driver.cuLaunchKernelEx(config, function, address, 0)
        if int(result[0]):
            _launched(result, step["kernel"], step, function)

    return run


def _launched(result: Sequence[Any], name: str, step: Mapping[str, Any], function: Any) -> None:
    """Raise for a launch that the driver refused, with what it most likely objects to."""
    code = result[0]
    if not int(code):
        return
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
    _, most = driver.cuFuncGetAttribute(attribute, function)
    threads = step["block"][0] * step["block"][1] * step["block"][2]
    if threads > int(most):
        why = f"a block has {threads} threads; with its registers this kernel can have {most}"
    elif step["cooperative"]:
        why = "a cooperative launch needs all its blocks on the GPU at once: fewer or smaller ones"
    elif step["cluster"]:
        why = f"clusters of {step['cluster']} blocks with {step['shared']} bytes of shared memory"
    else:
        why = f"grid {step['grid']}, block {step['block']}, {step['shared']} bytes of shared memory"
    raise ProgramError(f"{name}: the driver refuses the launch ({named(code)}): {why}"[:400],
                       "change the plan's sizes", code="launch",
                       evidence={"kernel": name, "error": named(code)})  # fmt: skip


class _Map:
    """A tensor map of the plan, encoded anew when its tensor's address changes."""

    def __init__(self, item: Mapping[str, Any]) -> None:
        self.name, self.tensor = str(item["name"]), str(item["tensor"])
        self._item = item
        room = (ctypes.c_char * (_MAP_BYTES + _MAP_ALIGNMENT))()
        start = -ctypes.addressof(room) % _MAP_ALIGNMENT
        # The driver wants the map on a multiple of 64 bytes.
        self.place = (ctypes.c_char * _MAP_BYTES).from_buffer(room, start)
        self._address = -1

    def encode(self, address: int) -> None:
        """Raises ProgramError ``tensormap`` if the driver refuses the sizes."""
        if address == self._address or 0 in self._item["dims"]:
            return
        item, rank = self._item, len(self._item["dims"])
        code = _encode()(
            ctypes.addressof(self.place), _MAP_TYPES[item["dtype"]], rank, address,
            (ctypes.c_uint64 * rank)(*item["dims"]),
            (ctypes.c_uint64 * max(1, rank - 1))(*item["strides"]),
            (ctypes.c_uint32 * rank)(*item["box"]),
            (ctypes.c_uint32 * rank)(*item["element_strides"]),
            _INTERLEAVES[item["interleave"]], _SWIZZLES[item["swizzle"]], _PROMOTIONS[item["l2"]],
            _FILLS[item["fill"]],
        )  # fmt: skip
        if code:
            raise ProgramError(
                f"the driver refuses the tensor map {self.name} ({named(driver.CUresult(code))})",
                "check box, dims, strides (multiples of 16 bytes), swizzle and alignment",
                code="tensormap",
            )
        self._address = address


def _encode() -> Any:
    # cuda.bindings returns a map wherever Python put it; the alignment needs a place of our own.
    function = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
    function.argtypes = [
        ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p,
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int,
        ctypes.c_int,
    ]  # fmt: skip
    return function
