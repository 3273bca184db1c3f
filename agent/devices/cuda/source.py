"""What the text of a CUDA program may contain, read before the compiler sees it.

A path in an ``#include`` would put a file's text into an error message, and so into a prompt. So
directives are read as the compiler will read them, with splices and comments undone, and only
those on the allow-list pass. What the code does is read later, from its PTX and its cubin.

Line numbers in the errors are those of the program's own text.
"""

from __future__ import annotations

import re

from agent.devices.cuda.nvrtc import FILE_NAME
from agent.devices.cuda.prelude import STAND_INS
from agent.devices.lines import logical_lines
from agent.errors import BuildError

MAX_SOURCE = 1 << 20

_PLAIN = {
    "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cuda_fp6.h", "cuda_fp4.h", "cuda_tf32.h", "mma.h",
    "cooperative_groups.h", "cuda_pipeline.h", "cuda_pipeline_primitives.h", "cuda_awbarrier.h",
    "cuda_awbarrier_primitives.h", "math_constants.h", "cuComplex.h",
}  # fmt: skip
_WORD = r"[A-Za-z0-9]\w*"
_TREES = re.compile(
    rf"(cuda|nv|cub|cooperative_groups|thrust)(/(_{{0,2}}{_WORD}))+(\.(h|cuh|hpp|inl))?"
)
_CUTLASS = re.compile(rf"(cutlass|cute)(/{_WORD})+\.(h|hpp)")
_HOST = re.compile(
    r"(torch|ATen|c10|pybind11|caffe2)/.*|iostream|vector|string|map|memory|thread|chrono|mutex"
    r"|fstream|sstream|random|functional|unordered_map|stdexcept|Python\.h|nvrtc\.h"
    r"|cublas\w*\.h|cudnn\w*\.h|cusparse\w*\.h"
)
_DIRECTIVES = {"define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error"}
_PRAGMA = re.compile(
    r"(unroll\b[\w\s()+*/-]*|nounroll|once|(nv_)?diag(nostic\s+|_)"
    r"(push|pop|suppress|default|warning|remark|error|once)\b[\w\s,]*"
    r"|(GCC|clang)\s+(diagnostic|unroll|ivdep)\b[^\n]*|omp\s[^\n]*)?\s*"
)
_LITERAL_PRAGMA = re.compile(r'\b_Pragma\s*\(\s*"((?:[^"\\\n]|\\.)*)"\s*\)')
# Reserved names steer the system's headers; so do the switches of CCCL.
_RESERVED = re.compile(r"_[A-Z_]|.*__|(CUB|THRUST|CCCL|LIBCUDACXX|CUTLASS|CUTE)_")
_HARMLESS = re.compile(r"_GNU_SOURCE|_USE_MATH_DEFINES|_*[A-Z]\w*_(H|CUH|HPP|CU)_*")
_LINE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)[<"]([^<>"\n]+)[>"]', re.MULTILINE)
_HIDDEN = re.compile(r"(?:#|%:|\?\?=)[ \t]*(?:include\w*|embed|import|line|\d)|__has_\w+")
_NATIVE = "write device code only: kernels and functions over pointers and sizes"
_NO_HOST = (
    'write no host code: only __global__ kernels (extern "C"); memory, launches and library '
    "calls are lines of the plan"
)


def read_source(source: str, cutlass: bool) -> tuple[str, list[str]]:
    """Refuse a text that could reach for files; return it as the compiler is to see it.

    Includes in quotes become includes in angle brackets, so that nothing beside the source is
    searched; those that the prelude stands in for are blanked. Lines and columns stay.

    Args:
        cutlass: Whether headers of CUTLASS may be included.

    Returns:
        The text, and the headers that it includes whatever its conditions say, in order.

    Raises:
        BuildError: with evidence ``{"rung": "read", "log": ...}``; codes ``source-size``,
            ``source-text``, ``include``, ``directive``.
    """
    if len(source.encode("utf-8", "replace")) > MAX_SOURCE:
        raise _refused("source-size", f"the source is larger than {MAX_SOURCE >> 10} KiB", 1, "")
    for number, text in enumerate(source.split("\n"), 1):
        if any(ord(char) < 32 and char not in "\t\f" for char in text):
            raise _refused("source-text", "the source has a control character", number, text)
        if "??/" in text or "??=" in text:
            raise _refused("source-text", "trigraphs are not allowed", number, text)
        if "\ufeff" in text or re.search(r"\\[ \t\f]+$", text):
            message = "a byte-order mark, or spaces after a backslash at a line's end"
            raise _refused("source-text", message, number, text)
    includes: dict[int, str] = {}
    headers: list[str] = []
    raw, depth = False, 0
    for number, text in logical_lines(source):
        stripped = text.lstrip(" \t\f\v")
        raw = raw or 'R""' in text
        if stripped.startswith("%:"):
            raise _refused("directive", "a directive may not be spelt with digraphs", number, text)
        if re.match(r"(export\s+)?(import|module)\b\s*[\w<\":;]", stripped):
            raise _refused("directive", "modules are not allowed", number, text)
        if stripped.startswith("#"):
            name = _directive(stripped[1:].strip(" \t\f\v"), number, text, source)
            depth += _depth(stripped)
            if name is not None:
                includes[number] = _allowed(name, number, text, cutlass)
                if not depth and includes[number]:
                    headers.append(includes[number])
    _pragmas(source)
    return _rewritten(source, includes, raw), headers


def _depth(directive: str) -> int:
    """How a directive changes the number of open conditions."""
    word = re.match(r"#\s*(\w*)", directive)
    name = word.group(1) if word else ""
    return {"if": 1, "ifdef": 1, "ifndef": 1, "endif": -1}.get(name, 0)


def _directive(text: str, number: int, line: str, source: str) -> str | None:
    """Check one directive; the header's name, as written, if it is an include."""
    match = re.match(r"[A-Za-z_]\w*", text)
    name = match.group() if match else ""
    rest = text[len(name) :].strip()
    if not text:
        return None
    if "__has_include" in rest or "__has_embed" in rest:
        raise _refused("directive", "looking for files is not allowed", number, line)
    if name == "include":
        # Strings are blanked in logical lines: the name is read from the line as it stands.
        written = source.split("\n")[number - 1]
        found = _LINE.match(written)
        if found is None:
            message = "an #include stands on one line, with the name of a header"
            raise _refused("include", message, number, line)
        return found.group(2).strip()
    if name == "pragma":
        if not _PRAGMA.fullmatch(re.sub(r'""', "", rest)):
            raise _refused("directive", "this #pragma is not allowed", number, line)
    elif name not in _DIRECTIVES:
        shown = f"#{name}" if name else "a line marker"
        raise _refused("directive", f"{shown} is not allowed", number, line)
    if name in ("define", "undef"):
        word = re.match(r"\w*", rest)
        defined = word.group() if word else ""
        if _RESERVED.match(defined) and not _HARMLESS.fullmatch(defined):
            raise _refused("directive", f"the name {defined[:60]} is reserved", number, line)
    return None


def _allowed(name: str, number: int, line: str, cutlass: bool) -> str:
    """The header's name, if it may be included; "" if the prelude stands in for it."""
    if name in STAND_INS:
        return ""
    if name in _PLAIN or _TREES.fullmatch(name):
        return name
    if _CUTLASS.fullmatch(name):
        if cutlass:
            return name
        message = "CUTLASS is not on this machine"
        raise _refused("include", message, number, line, "write the kernel without CUTLASS")
    if _HOST.fullmatch(name):
        message = f"{name[:60]} is a host header"
        raise _refused("include", message, number, line, _NO_HOST)
    cure = f"use of: {', '.join(sorted(_PLAIN))}, cuda/*, cub/*, cooperative_groups/*"
    raise _refused("include", "this #include is not allowed", number, line, cure)


def _pragmas(source: str) -> None:
    """Refuse a ``_Pragma`` that is not a plain string with an allowed pragma."""
    left = _LITERAL_PRAGMA.sub(
        lambda match: "" if _PRAGMA.fullmatch(match.group(1).strip()) else match.group(), source
    )
    for number, text in logical_lines(left):
        if re.search(r"\b_Pragma\b", text):
            raise _refused("directive", "this _Pragma is not allowed", number, text)


def _rewritten(source: str, includes: dict[int, str], raw: bool) -> str:
    """The text with its includes made plain; with raw strings, nothing may look hidden in them."""
    lines = source.split("\n")
    for number, name in includes.items():
        plain = rf"\g<1><{name}>" if name else ""
        lines[number - 1] = _LINE.sub(plain, lines[number - 1], count=1)
    if raw:
        # Where a raw string ends is read here and by the compiler: were they to differ, a
        # directive could stand where none was seen. So no other text may look like one.
        for number, line in enumerate(lines, 1):
            if number not in includes and _HIDDEN.search(line):
                message = "beside raw strings nothing may look like a directive"
                raise _refused("source-text", message, number, line)
    return "\n".join(lines)


def _refused(code: str, message: str, number: int, line: str, cure: str = "") -> BuildError:
    shown = "".join(char if char.isprintable() else " " for char in line).strip()[:200]
    log = f"{FILE_NAME}:{number}: error: {message}\n    {number} | {shown}"
    return BuildError(
        f"line {number}: {message}",
        cure or _NATIVE,
        code=code,
        evidence={"rung": "read", "log": log},
    )
