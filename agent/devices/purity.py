"""What the text of a C++ program may contain, read before anything of it is compiled or run.

A program is device code only: it computes from its arguments to its outputs. Two readings keep
it so. :func:`scan_directives` reads the text as written, before the preprocessor may act on it:
a path in an ``#include`` would put a file's text into an error message, and so into a prompt.
:func:`scan_tokens` reads the text after preprocessing, where no macro can hide a word any more.
What neither can see (a symbol that the compiler adds, memory that outlives a call) is read from
the object file by :mod:`agent.devices.objects`.

Line numbers in the errors are those of the program's own text.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from agent.devices.lines import logical_lines
from agent.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SOURCE = 256 << 10
MAX_TOKENS = 400_000
FILE_NAME = "program.cpp"

HEADERS = (
    "cstdint", "cmath", "cstring", "cstddef", "algorithm", "limits", "type_traits", "cfloat",
    "climits", "array", "utility", "tuple", "numeric", "stdint.h", "math.h", "string.h",
    "stddef.h", "float.h", "limits.h", "omp.h", "immintrin.h",
)  # fmt: skip

_DIRECTIVES = {"define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error"}
_PRAGMA = re.compile(
    r"omp\b(?!\s+(target|declare\s+target|requires|begin|metadirective)\b)|GCC\s+(ivdep|unroll|diagnostic)\b"
    r"|unroll\b|STDC\s+FP_CONTRACT\b|once\s*$"
)
# OpenMP is used through its pragmas: called by name, its entry points can leave work behind.
_LINKED = re.compile(r"GOMP_\w+|GOACC_\w+|_GLOBAL_OFFSET_TABLE_|_DYNAMIC|__dso_handle")
_NATIVE = "only OpenMP and unrolling pragmas are allowed; -O3 -march=native are set already"
# Reserved names steer the system's headers; these two are habits that steer nothing here.
_RESERVED = re.compile(r"_[A-Z_]|.*__")
_HARMLESS = {"_GNU_SOURCE", "_USE_MATH_DEFINES"}

_TOKEN = re.compile(
    r"""(?P<marker>^\#[^\n]*$)
      | (?P<string>(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*")
      | (?P<char>(?:u8|[uUL])?'(?:[^'\\\n]|\\.)*')
      | (?P<number>\.?\d(?:'?[\w.]|[eEpP][+-])*)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<open>\[\s*\[|<:\s*<:|%:|\?\?[=/'()!<>-])
      | (?P<other>\\|\n|.)""",
    re.VERBOSE | re.MULTILINE,
)

_ASSEMBLY = {"asm", "__asm", "__asm__"}
_STORAGE = {"thread_local", "__thread"}
_RAW = {"R", "u8R", "uR", "UR", "LR"}
_ATTRIBUTES = {
    "always_inline", "noinline", "aligned", "vector_size", "may_alias", "unused", "hot", "const",
    "pure", "flatten", "maybe_unused", "likely", "unlikely", "fallthrough", "nodiscard", "gnu",
}  # fmt: skip
# A kernel needs no clock, no random numbers, and no way to change how the caller computes.
_FORBIDDEN = re.compile(
    r"""_+(builtin_ia32_|mm_|m_)?(
        rdtscp?|rdpmc|rdrand\w*|rdseed\w*|rdpid\w*|xbegin|xend|xabort|xtest|clflush\w*|clwb
      | cldemote|wbinvd|wbnoinvd|(get|set)csr|(ld|st)mxcsr|fxsave\w*|fxrstor\w*|xsave\w*|xrstor\w*
      | xgetbv|xsetbv|(rd|wr|read|write)(fs|gs)base\w*|pconfig\w*|encl[suv]\w*|monitorx?|mwaitx?
      | umonitor|umwait|tpause
      | serialize|enqcmds?|movdir64b|ptwrite\w*|(read|write)eflags\w*|hreset|senduipi|clui|stui
      | testui|invpcid|loadiwkey|inc?sspd?q?|cpuid\w*|halt|directstoreu_u\w*
    )
    | _MM_SET_(FLUSH_ZERO_MODE|DENORMALS_ZERO_MODE|ROUNDING_MODE|EXCEPTION_\w+)""",
    re.VERBOSE,
)
_BUILTINS = re.compile(
    r"""__builtin_(
        ia32_\w+|shuffle\w*|convertvector|expect\w*|assume_aligned|assume|prefetch|unreachable
      | clz\w*|ctz\w*|popcount\w*|ffs\w*|parity\w*|clrsb\w*|bswap\w*|bit_cast|constant_p
      | is_constant_evaluated|choose_expr|types_compatible_p|(add|sub|mul)_overflow\w*
      | mem(cpy|move|set|cmp)|alloca|is(nan|inf|finite|normal|inf_sign|greater\w*|less\w*|unordered)
      | signbit\w*|inf[fl]?|nans?[fl]?|huge_val[fl]?|fpclassify|trap|complex|object_size|offsetof
      | (sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|asinh|acosh|atanh|exp|exp2|exp10|expm1
        |log|log2|log10|log1p|pow|powi|sqrt|cbrt|hypot|erf|erfc|tgamma|lgamma|fabs|abs|labs|llabs
        |floor|ceil|round|roundeven|trunc|rint|nearbyint|l?lround|l?lrint|fmod|remainder|fma|fmin
        |fmax|fdim|copysign|ldexp|frexp|modf|scalbn|scalbln|ilogb|logb|sincos|nextafter)[fl]?
    )""",
    re.VERBOSE,
)


def scan_directives(source: str) -> None:
    """Refuse a text whose preprocessor directives are not on the allow-list.

    Comments and line splices are undone first, as the compiler does; raw strings, in which a
    comment or a directive could hide, are refused.

    Raises:
        BuildError: with evidence ``{"rung": "read", "log": ...}``; codes ``source-size``,
            ``source-text``, ``include``, ``directive``.
    """
    if len(source.encode("utf-8", "replace")) > MAX_SOURCE:
        raise _read("source-size", f"the source is larger than {MAX_SOURCE >> 10} KiB", 1, "")
    for number, text in enumerate(source.split("\n"), 1):
        if any(ord(char) < 32 and char not in "\t\f" for char in text):
            raise _read("source-text", "the source has a control character", number, text)
    for number, text in logical_lines(source):
        if 'R""' in text:
            raise _read("source-text", "raw strings are not allowed", number, text)
        stripped = text.lstrip(" \t\f\v")
        if stripped.startswith(("%:", "??=")):
            raise _read("directive", "a directive may not be spelt with digraphs", number, text)
        if stripped.startswith("#"):
            _directive(stripped[1:].strip(" \t\f\v"), number, text)


def _directive(text: str, number: int, line: str) -> None:
    match = re.match(r"[A-Za-z_]\w*", text)
    name = match.group() if match else ""
    rest = text[len(name) :].strip()
    if not text:
        return
    if name == "include":
        _include(rest, number, line)
    elif name == "pragma":
        if not _PRAGMA.match(rest):
            raise _read("directive", _NATIVE, number, line)
    elif name not in _DIRECTIVES:
        shown = f"#{name}" if name else "a line marker"
        raise _read("directive", f"{shown} is not allowed", number, line)
    if name in ("define", "undef"):
        word = re.match(r"\w*", rest)
        defined = word.group() if word else ""
        if _RESERVED.match(defined) and defined not in _HARMLESS:
            raise _read("directive", f"the name {defined[:60]} is reserved", number, line)
    if "__has_include" in rest or "__has_embed" in rest:
        raise _read("directive", "looking for files is not allowed", number, line)


def _include(rest: str, number: int, line: str) -> None:
    match = re.fullmatch(r"<\s*([\w.]+)\s*>", rest)
    if match is None or match.group(1) not in HEADERS:
        raise _read(
            "include", "this #include is not allowed", number, line, f"use of: {', '.join(HEADERS)}"
        )


def scan_tokens(preprocessed: str) -> None:
    """Refuse words and attributes in the preprocessed text that a pure kernel cannot need.

    Args:
        preprocessed: Output of ``g++ -E``; only text that its line markers ascribe to
            :data:`FILE_NAME` is read, so that the system's headers may use what they like.

    Raises:
        BuildError: with evidence ``{"rung": "build", "log": ...}``; codes ``assembly``,
            ``attribute``, ``builtin``, ``intrinsic``, ``static-storage``, ``directive``,
            ``symbol``, ``source-text``, ``source-size``.
    """
    tokens = list(itertools.islice(_own_tokens(preprocessed), MAX_TOKENS + 1))
    if len(tokens) > MAX_TOKENS:
        message = f"the macros make more than {MAX_TOKENS} words"
        raise _built("source-size", message, tokens[-1][2])
    for index, (kind, text, number) in enumerate(tokens):
        if kind == "pragma":
            if not _PRAGMA.match(text):
                raise _built("directive", _NATIVE, number)
        elif kind == "open":
            if text[0] not in "[<":
                raise _built("directive", "digraphs are not allowed", number)
            _attribute(tokens, index, number)
        elif kind == "word":
            _word(text, number)
            if text in ("__attribute__", "__attribute"):
                _attribute(tokens, index + 1, number)
            elif text in _RAW and index + 1 < len(tokens) and tokens[index + 1][0] == "string":
                raise _built("source-text", "raw strings are not allowed", number)
        elif text == "\\":
            raise _built("source-text", "a backslash outside of a string", number)


def _word(text: str, number: int) -> None:
    if text in _ASSEMBLY:
        raise _built("assembly", f"assembly is not allowed ({text})", number)
    if text in _STORAGE:
        raise _built("static-storage", f"memory that outlives a call: {text}", number)
    if text in ("__declspec", "_Pragma", "__pragma"):
        raise _built("directive", f"{text} is not allowed here", number)
    if _LINKED.fullmatch(text):
        raise _built("symbol", f"{text[:60]} may not be used by name", number)
    if _FORBIDDEN.fullmatch(text):
        raise _built("intrinsic", f"{text} is not allowed: it computes nothing", number)
    if text.startswith("__builtin_") and not _BUILTINS.fullmatch(text):
        raise _built("builtin", f"{text[:80]} is not on the list of allowed builtins", number)


def _attribute(tokens: list[tuple[str, str, int]], index: int, number: int) -> None:
    """Check the names between the two brackets that open at ``index``."""
    opened, nested = 0, 0
    for kind, text, _ in tokens[index:]:
        if kind == "open" and not opened:
            opened = 2
        elif kind == "word" and not nested:
            if text.strip("_") not in _ATTRIBUTES:
                hint = "; -march=native is set already" if "target" in text else ""
                raise _built("attribute", f"the attribute {text[:60]} is not allowed{hint}", number)
        elif text == "(":
            if opened < 2:
                opened += 1
            else:
                nested += 1
        elif text in (")", "]"):
            if not nested:
                return
            nested -= 1


def _own_tokens(preprocessed: str) -> Iterator[tuple[str, str, int]]:
    own, number = False, 0
    marker = re.compile(r'#\s*(?:line\s+)?(\d+)\s+"((?:[^"\\]|\\.)*)"')
    for match in _TOKEN.finditer(preprocessed):
        kind, text = match.lastgroup or "other", match.group()
        if kind == "marker":
            place = marker.match(text)
            if place:
                own = place.group(2) == FILE_NAME
                number = int(place.group(1)) - 1
            elif own:
                yield "pragma", re.sub(r"^#\s*pragma\s*", "", text), number
        elif text == "\n":
            number += 1
        elif own and not text.isspace():
            yield kind, text, number


def _read(code: str, message: str, number: int, line: str, cure: str = "") -> BuildError:
    shown = "".join(char if char.isprintable() else " " for char in line).strip()[:200]
    log = f"{FILE_NAME}:{number}: error: {message}\n    {number} | {shown}"
    return BuildError(
        f"line {number}: {message}",
        cure or "write a plain kernel: functions over pointers and sizes",
        code=code,
        evidence={"rung": "read", "log": log},
    )


def _built(code: str, message: str, number: int) -> BuildError:
    return BuildError(
        f"line {number}: {message}",
        "write a plain kernel: functions over pointers and sizes",
        code=code,
        evidence={"rung": "build", "log": f"{FILE_NAME}:{number}: error: {message}"},
    )
