"""What is in a cubin, read from its ELF file: kernels, their resources, symbols left open."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from agent.devices.cuda.occupancy import most_threads
from agent.devices.cuda.pure import refuse

_ATTRIBUTE_MAX_THREADS = 0x05
# Hopper and newer keep the first KiB of shared memory for the system; the section counts it.
_RESERVED = 1024
_SPILLS = r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
_SYSTEM = re.compile(
    r"\.nv\..*|__nv_reservedSMEM\w*|_?__assertfail|\$?__internal_\w+|__cuda_syscall_\w+"
)


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel takes: registers and threads as counts, the rest in bytes.

    ``shared`` is the static part, ``constant`` what the program declares ``__constant__``,
    ``max_threads`` the largest block that launch bounds and registers allow.
    """

    registers: int
    shared: int
    local: int
    spill_stores: int
    spill_loads: int
    constant: int
    max_threads: int


def read_cubin(cubin: bytes, log: str, arch_major: int) -> dict[str, Resources]:
    """The kernels of a cubin and what each takes.

    Args:
        cubin: The ELF file.
        log: What the assembler printed with ``-v``; says what is spilled.
        arch_major: Of the compute capability.

    Raises:
        BuildError: ``symbol``: something is left undefined; ``object``: it cannot be read.
    """
    try:
        elf = ELFFile(io.BytesIO(cubin))
        sections = {section.name: section for section in elf.iter_sections()}
        table = sections.get(".symtab")
        symbols = list(table.iter_symbols()) if table is not None else []
    except (ELFError, ValueError, KeyError) as error:
        raise refuse("object", f"the compiler's output cannot be read: {error}") from None
    for symbol in symbols:
        open_ = symbol["st_shndx"] == "SHN_UNDEF" and symbol.name
        if open_ and not _SYSTEM.fullmatch(symbol.name):
            raise refuse("symbol", f"{symbol.name[:80]} is not defined")
    kernels = {}
    said = _said(log)
    user = sections.get(".nv.constant3")
    for name in sorted(section[6:] for section in sections if section.startswith(".text.")):
        if f".nv.constant0.{name}" not in sections:
            continue  # a device function: only kernels have a bank of parameters
        registers = int(sections[f".text.{name}"]["sh_info"]) >> 24
        stack, stores, loads, logged = said.get(name, (0, 0, 0, 0))
        registers = logged or registers
        kernels[name] = Resources(
            registers=registers,
            shared=_shared(sections, name, arch_major),
            local=stack,
            spill_stores=stores,
            spill_loads=loads,
            constant=int(user["sh_size"]) if user is not None else 0,
            max_threads=min(_bound(sections.get(f".nv.info.{name}")), most_threads(registers)),
        )
    return kernels


def _shared(sections: dict[str, Any], name: str, arch_major: int) -> int:
    section = sections.get(f".nv.shared.{name}")
    if section is None:
        return 0
    return max(0, int(section["sh_size"]) - (_RESERVED if arch_major >= 9 else 0))


def _bound(section: Any) -> int:
    """Threads of a block by the kernel's launch bounds, from ``.nv.info``: 1024 without any."""
    data = section.data() if section is not None else b""
    at = 0
    while at + 4 <= len(data):
        form, kind, size = data[at], data[at + 1], int.from_bytes(data[at + 2 : at + 4], "little")
        value = data[at + 4 : at + 4 + size] if form == 4 else b""
        if kind == _ATTRIBUTE_MAX_THREADS and len(value) >= 12:
            x, y, z = (int.from_bytes(value[i : i + 4], "little") for i in (0, 4, 8))
            return min(1024, x * y * z)
        at += 4 + (size if form == 4 else 0)
    return 1024


def _said(log: str) -> dict[str, tuple[int, int, int, int]]:
    """By function: bytes of stack, of spill stores, of spill loads, and registers."""
    found: dict[str, tuple[int, int, int, int]] = {}
    name, of, numbers = "", "", (0, 0, 0)
    for line in log.split("\n"):
        if match := re.search(r"Compiling entry function '([^']*)'", line):
            name, numbers = match.group(1), (0, 0, 0)
        elif match := re.search(r"Function properties for (\S+)", line):
            of = match.group(1)
        elif name == of and (match := re.search(_SPILLS, line)):
            numbers = int(match.group(1)), int(match.group(2)), int(match.group(3))
        elif (match := re.search(r"Used (\d+) registers", line)) and name:
            found[name] = (*numbers, int(match.group(1)))
            name = ""
    return found
