"""What the CUDA driver's error codes mean for whoever asked: program, machine, or gone for good.

Source: CUDA driver API reference, ``CUresult``: which errors leave the process unusable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuda.bindings import driver

from agent.errors import ForgeError, MachineError, WorkerError

if TYPE_CHECKING:
    from collections.abc import Sequence

# After these the process must end; a program did it.
_STICKY = {
    700: "an illegal address was read or written",
    701: "a launch needs more resources than there are",
    702: "a kernel ran past the system's time limit",
    709: "the context is gone",
    710: "an assertion in a kernel failed",
    714: "a thread's stack overflowed",
    715: "an illegal instruction, or a trap",
    716: "a misaligned address",
    717: "an address in the wrong address space",
    718: "a jump to nowhere",
    719: "a kernel failed",
    720: "a cooperative launch has more blocks than fit at once",
    721: "a tensor memory was not freed",
}
_OUT_OF_MEMORY = 2
_LOST = {3, 4, 46, 100, 101, 201, 214, 226, 304, 802, 803, 999}


def named(code: Any) -> str:
    """``CUDA_ERROR_...`` and its number."""
    found, text = driver.cuGetErrorName(code)
    name = text.decode() if not int(found) and text else "CUDA_ERROR"
    return f"{name}, {int(code)}"


def lost(code: Any, where: str) -> MachineError:
    """The error for a GPU that cannot be used any more."""
    return MachineError(
        f"the GPU is gone or unusable ({where}: {named(code)})",
        "run forge-tui doctor; when the GPU is back, resume the session",
        code="gpu-lost",
    )


def fault(code: Any, where: str) -> ForgeError:
    """The error to raise for a driver's code that is not success.

    Args:
        code: A ``CUresult``.
        where: What was going on, such as a kernel's name.

    Returns:
        ``WorkerError`` (``crashed``) for what a program did; ``MachineError`` (``gpu-memory``,
        ``gpu-lost``) for what it cannot do.
    """
    number = int(code)
    if number == _OUT_OF_MEMORY:
        return MachineError(
            f"the GPU's memory is full ({where})",
            "free memory on the GPU: end other programs, or use smaller inputs",
            code="gpu-memory",
        )
    if number in _LOST:
        return lost(code, where)
    what = _STICKY.get(number, "the driver reports an error")
    return WorkerError(f"crashed: {where}: {what} ({named(code)})", code="crashed")


def check(result: Sequence[Any], where: str) -> Any:
    """The value of a driver call; its error raised.

    Raises:
        ForgeError: What :func:`fault` makes of the code.
    """
    if int(result[0]):
        raise fault(result[0], where)
    return result[1] if len(result) > 1 else None
