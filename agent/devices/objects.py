"""What a built C++ object may contain, read from its ELF file before anything loads it.

Loading a shared object can already run code (initialisers, resolvers), and a symbol that it
leaves open can be anything in the process that loads it. So the object file of the program is
read first, without the start-up code and libraries that the linker would add, and the linked
library once more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from agent.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_MATH = (
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh",
    "acosh", "atanh", "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "pow",
    "sqrt", "cbrt", "hypot", "erf", "erfc", "tgamma", "lgamma", "fabs", "floor", "ceil",
    "round", "roundeven", "trunc", "rint", "nearbyint", "lround", "llround", "lrint", "llrint",
    "fmod", "remainder", "remquo", "fma", "fmin", "fmax", "fdim", "copysign", "nextafter",
    "ldexp", "frexp", "modf", "scalbn", "scalbln", "ilogb", "logb", "sincos",
)  # fmt: skip
MATH_FUNCTIONS = frozenset(name + suffix for name in _MATH for suffix in ("", "f", "l"))

_ALLOWED = re.compile(
    r"""mem(cpy|move|set|cmp)(_chk)?|__mem(cpy|move|set)_chk
      | GOMP_(parallel\w*|loop_\w+|doacross_\w+|sections_?\w*|single_\w+|barrier\w*|atomic_\w+
        |critical_\w+|ordered_\w+|task\w*|cancel\w*|workshare_\w+|scope_\w+)
      | omp_(get_(thread_num|num_threads|max_threads|num_procs|level)|in_parallel)
      | _GLOBAL_OFFSET_TABLE_|__stack_chk_fail
      | __(mul|div)[sdxt]c3|__(trunc|extend)[sdhxbt]f[sdhxbt]f2|__float\w*f|__fix\w*[td]i
      | __pow[isdx]+2|__u?(div|mod)ti3|__(popcount|clz|ctz|ffs)[dst]i2|__muloti4
      | __\w+_finite""",
    re.VERBOSE,
)
_HEAP = {"malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc", "_Znwm", "_Znam"}
_CODE_TABLES = (".init_array", ".fini_array", ".preinit_array", ".ctors", ".dtors")
_LIBRARIES = re.compile(r"lib(m|c|stdc\+\+|gcc_s)\.so\.\d+|libmvec\.so\.1|ld-linux[\w.-]*\.so\.\d+")
_WRITE, _ALLOC, _TLS = 0x1, 0x2, 0x400
# Relocations of a direct call, by machine: x86-64's PLT32; AArch64's JUMP26 and CALL26.
_CALLS = {"EM_X86_64": {4}, "EM_AARCH64": {282, 283}}
# Look-up tables are small; more is an answer brought along, or a bomb.
MAX_CONSTANTS = 8 << 20


def check_object(path: Path, kernels: Sequence[str]) -> dict[str, Any]:
    """Refuse an object file that is more than pure functions.

    Args:
        path: The relocatable object (``.o``) of the program.
        kernels: Names that the plan launches; each must be a defined C symbol.

    Returns:
        Facts for the node pane: bytes of code and of constants, and the outside functions used.

    Raises:
        BuildError: ``static-storage``, ``initialiser``, ``ifunc``, ``symbol``, ``no-kernel``,
            ``object``, ``constants``.
    """
    with _open(path) as file:
        elf = _elf(file)
        code = constants = 0
        for section in elf.iter_sections():
            name, size = section.name, int(section["sh_size"])
            flags = int(section["sh_flags"])
            if not size or not flags & _ALLOC:
                continue
            if name.startswith(_CODE_TABLES) or name in (".init", ".fini"):
                raise _refuse("initialiser", f"code that would run at loading ({name})")
            if flags & _TLS or (flags & _WRITE and not name.startswith(".data.rel.ro")):
                raise _refuse(
                    "static-storage",
                    f"{size} bytes of writable static storage ({name})",
                    "make it const, local, or [[scratch]]: a kernel keeps nothing between calls",
                )
            code += size if flags & 0x4 else 0
            constants += 0 if flags & 0x4 else size
        if constants > MAX_CONSTANTS:
            raise _refuse("constants", f"{constants >> 20} MiB of constants", "use smaller tables")
        defined, outside = _symbols(elf)
        _only_called(elf)
    missing = [name for name in kernels if name not in defined]
    if missing:
        raise _refuse(
            "no-kernel",
            f"the source defines no function {missing[0][:80]}",
            'define it as extern "C" void, not static, with the name that the plan launches',
        )
    return {"code_bytes": code, "constant_bytes": constants, "calls": sorted(outside)}


def _symbols(elf: Any) -> tuple[set[str], set[str]]:
    """Names of the defined functions and of the undefined symbols, each checked."""
    defined: set[str] = set()
    outside: set[str] = set()
    table = elf.get_section_by_name(".symtab")
    for symbol in table.iter_symbols() if table is not None else ():
        kind, bind = symbol["st_info"]["type"], symbol["st_info"]["bind"]
        name = symbol.name
        if kind in ("STT_GNU_IFUNC", "STT_LOOS"):
            raise _refuse("ifunc", f"{name[:80]} is resolved by code that runs at loading")
        if symbol["st_shndx"] == "SHN_COMMON":
            raise _refuse("static-storage", f"writable static storage ({name[:80]})")
        if symbol["st_shndx"] != "SHN_UNDEF":
            if kind == "STT_FUNC" and bind == "STB_GLOBAL":
                defined.add(name)
        elif name:
            if name not in MATH_FUNCTIONS and not _ALLOWED.fullmatch(name):
                raise _refuse(
                    "symbol",
                    f"the function {name[:80]} is not one that a kernel may call",
                    "declare temporary memory as [[scratch]] in the plan"
                    if name in _HEAP
                    else "use arithmetic, libm, memcpy/memset and OpenMP only",
                )
            outside.add(name)
    return defined, outside


def _only_called(elf: Any) -> None:
    """Refuse the address of an outside function: from it the whole library can be reached."""
    direct = _CALLS.get(str(elf["e_machine"]))
    table = elf.get_section_by_name(".symtab")
    if direct is None or table is None:
        return
    for section in elf.iter_sections():
        if not isinstance(section, RelocationSection):
            continue
        for relocation in section.iter_relocations():
            symbol = table.get_symbol(relocation["r_info_sym"])
            name = symbol.name if symbol["st_shndx"] == "SHN_UNDEF" else ""
            if name in ("", "_GLOBAL_OFFSET_TABLE_") or relocation["r_info_type"] in direct:
                continue
            raise _refuse(
                "symbol",
                f"the address of {name[:80]} is taken; outside functions may only be called",
                "call it directly, or wrap the call in a lambda or a function of your own",
            )


def check_library(path: Path) -> None:
    """Refuse a linked library that would run code when loaded, or that pulls in others.

    Raises:
        BuildError: ``initialiser``, ``library``, ``object``.
    """
    with _open(path) as file:
        elf = _elf(file)
        dynamic = elf.get_section_by_name(".dynamic")
        for tag in dynamic.iter_tags() if dynamic is not None else ():
            kind = str(tag.entry.d_tag)
            if kind in ("DT_INIT", "DT_FINI") or kind.endswith("_ARRAY"):
                raise _refuse("initialiser", f"the library has code that runs at loading ({kind})")
            if kind == "DT_NEEDED" and not _LIBRARIES.fullmatch(tag.needed):
                raise _refuse("library", f"the library needs {tag.needed[:80]}")
            if kind in ("DT_AUDIT", "DT_DEPAUDIT", "DT_FILTER", "DT_AUXILIARY", "DT_TEXTREL"):
                raise _refuse("library", f"the library asks for {kind}")


def _open(path: Path) -> Any:
    return path.open("rb")


def _elf(file: Any) -> Any:
    try:
        return ELFFile(file)
    except ELFError as error:
        raise _refuse("object", f"the compiler's output cannot be read: {error}") from None


def _refuse(code: str, message: str, cure: str = "") -> BuildError:
    return BuildError(
        message,
        cure or "write a plain kernel: functions over pointers and sizes",
        code=code,
        evidence={"rung": "build", "log": f"error: {message}"},
    )
