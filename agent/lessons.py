"""What a failure teaches for every later program on this machine, as one short rule. Pure.

A rule is made only of a mistake that any target can bring about again: a name that is not known
here, a header that is refused, a launch that does not fit, arithmetic that is too coarse. What is
wrong with one program's own index is no rule. The same mistake gives the same key, so that the
store can count it. Nothing of a program's text gets into a rule but single names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.writers.brief import Failure

MOST_CHARS = 240
_CPP, _CUDA = "cpp", "cuda"


@dataclass(frozen=True, slots=True)
class _Lesson:
    """One sort of mistake.

    Attributes:
        codes: Of the failures that may show it; empty for any.
        seen: Found in the failure's message, log or sketch; its group, if any, is the name.
        key, text: With ``{}`` for the name.
        language: Where it applies; "" for all.
    """

    codes: frozenset[str]
    seen: re.Pattern[str]
    key: str
    text: str
    language: str = ""


def _lesson(codes: str, seen: str, key: str, text: str, language: str = "") -> _Lesson:
    return _Lesson(frozenset(codes.split()), re.compile(seen), key, text, language)


_NAME = r"([A-Za-z_]\w{0,60})"
# Names that only a library or the compiler could define; others are a program's own slips.
_LIBRARY = (
    r"((?:__|_mm|cuda|cub|thrust|cute|cutlass|nvcuda|wmma|mbarrier|make_|atomic|warp|h2|hexp|hlog"
    r"|hsqrt|FLT_|DBL_|INT\d*_|UINT\d*_|CUDART_|M_[A-Z])\w{0,60}|INFINITY|NAN|half2?|bfloat16"
    r"|nv_bfloat162?)"
)
_OWN_MACRO = r"([A-Z][A-Z0-9_]{1,60})"

_LESSONS = (
    # -- what the source may not have
    _lesson("include", r"(?:#\s*include\s*[<\"]|error: )([\w./+-]{1,80}?)(?:[>\"]| is a host)",
            "include {}", "Do not include {}: it is refused. Use the headers that are allowed."),
    _lesson("include", r"#include", "include", "Include only the headers that are allowed."),
    _lesson("directive", r"#(\w{1,30}) is not allowed", "directive {}",
            "Do not use #{} in the source."),
    _lesson("directive", r"[Pp]ragma", "pragma",
            "Use no pragmas but OpenMP's and those for unrolling: flags are set already."),
    _lesson("directive", rf"the name {_NAME} is reserved", "reserved {}",
            "Do not #define {}: the name is reserved."),
    _lesson("source-text", r"raw strings", "raw-string", "Write no raw strings."),
    _lesson("static-storage", r"", "static-storage",
            "Keep nothing between calls: no writable static or global variables. Use local or "
            "shared memory, or [[scratch]] of the plan."),
    _lesson("initialiser ifunc", r"", "initialiser",
            "Have no globals with constructors: no code may run when the program is loaded."),
    _lesson("assembly", r"not allowed", "assembly", "Write no inline assembly: it is refused.",
            _CPP),
    _lesson("builtin", rf"{_NAME} is not on the list", "builtin {}",
            "Do not use {}: it is refused."),
    _lesson("intrinsic", rf"{_NAME} is not allowed", "intrinsic {}",
            "Do not use {}: it is refused."),
    _lesson("attribute", rf"the attribute {_NAME} is not allowed", "attribute {}",
            "Do not use the attribute {}: it is refused."),
    _lesson("symbol", r"", "symbol",
            "Call only what the source defines, and plain mathematics: no other functions are "
            "linked."),
    _lesson("printf", r"", "printf", "Print nothing."),
    _lesson("heap", r"", "heap", "Allocate nothing in a kernel: use [[scratch]] of the plan."),
    _lesson("dynamic-parallelism", r"", "dynamic-parallelism",
            "Launch no kernels from kernels: each launch is a step of the plan."),
    _lesson("clock", r"", "clock", "Read no clocks or timers in a kernel."),
    _lesson("constants", r"", "constants", "Use small tables: large constant arrays are refused."),
    _lesson("host-code", r"", "host-code",
            "Write no host code: give the kernels alone, and a plan that launches them."),
    # -- what the compiler refuses
    _lesson("compile", r"'(?:std::)?(\w{1,60})' is not a member of 'std'", "std {}",
            "Do not use std::{}: it is not there in a kernel."),
    _lesson("compile", r'namespace "std" has no member "(\w{1,60})"', "std {}",
            "Do not use std::{}: it is not there in a kernel."),
    _lesson("compile", rf"identifier \"{_LIBRARY}\" is undefined", "unknown {}",
            "Do not use {} without its header or a definition: it is not known here."),
    _lesson("compile", rf"'{_LIBRARY}' was not declared", "unknown {}",
            "Do not use {} without its header or a definition: it is not known here."),
    _lesson("compile", rf"(?:identifier \"{_OWN_MACRO}\" is undefined|"
            r"'[A-Z][A-Z0-9_]{1,60}' was not declared)", "own-macro",
            "Define every name in capitals: as a tunable under [tune], or with #define."),
    _lesson("compile", r"Instruction '([\w.:]{1,60})' not supported on \.target", "instruction {}",
            "Do not use the instruction {}: this GPU does not have it.", _CUDA),
    _lesson("compile", r"(?:Feature|Modifier) '([\w.:]{1,60})'[^\n]{0,60}(?:not supported on|"
            r"requires) \.target", "instruction {}",
            "Do not use {}: this GPU does not have it.", _CUDA),
    _lesson("compile", r"Not a name of any known instruction: '([\w.]{1,60})'", "instruction {}",
            "Do not use the instruction {}: there is none of that name.", _CUDA),
    _lesson("compile", r"uses too much shared data", "static-shared",
            "Ask for large shared memory with extern __shared__ and the plan's shared, not as a "
            "static array.", _CUDA),
    _lesson("compile", r"Unresolved extern", "extern",
            "Define every function that is called: there is nothing to link with."),
    _lesson("compile", r"undefined reference to", "extern",
            "Define every function that is called: there is nothing to link with."),
    _lesson("compile-limits compile-timeout", r"", "compile-limits",
            "Keep programs small enough to compile: less unrolling, fewer template instances."),
    _lesson("no-kernel", r"", "no-kernel",
            'Define each kernel that the plan launches as extern "C", by that very name, and not '
            "as a template."),
    # -- launches that do not fit
    _lesson("", r"block \[[^\]]*\] is \d+ threads", "threads",
            "Launch at most 1024 threads in a block.", _CUDA),
    _lesson("", r"grid \[[^\]]*\] is not a multiple of cluster", "cluster-grid",
            "Round the grid up to a multiple of the cluster.", _CUDA),
    _lesson("", r"cluster \[[^\]]*\] is \d+ blocks", "cluster-size",
            "Use at most 8 blocks in a cluster.", _CUDA),
    _lesson("launch", r"bytes of shared memory|OUT_OF_RESOURCES|INVALID_VALUE", "launch-resources",
            "Keep a block's threads, registers and shared memory within what device.NAME says of "
            "this GPU.", _CUDA),
    _lesson("crashed", r"needs more resources than there are", "launch-resources",
            "Keep a block's threads, registers and shared memory within what device.NAME says of "
            "this GPU.", _CUDA),
    _lesson("", r"cooperative launch has more blocks than fit", "cooperative",
            "Launch no more blocks cooperatively than fit on the GPU at once: size the grid by "
            "device.sms.", _CUDA),
    _lesson("tensormap", r"", "tensormap",
            "Keep tensor maps within the limits: strides of multiples of 16 bytes, an inner box "
            "side of at most the swizzle's bytes.", _CUDA),
    _lesson("scratch-size", r"", "scratch-size", "Ask for less scratch memory."),
    # -- what goes wrong when it runs
    _lesson("crashed", r"misaligned address", "misaligned",
            "Use vector loads and stores only where every row's start is aligned to them: odd row "
            "lengths need a scalar path.", _CUDA),
    _lesson("crashed", r"illegal address|signal (?:11|7)\b", "illegal-address",
            "Check every index against its size before each access, in tails and partial tiles "
            "too."),
    _lesson("crashed", r"signal 8\b", "divide", "Do not divide whole numbers by zero."),
    _lesson("crashed", r"stack overflowed|signal 6\b", "stack",
            "Use small local arrays and no recursion."),
    _lesson("hung", r"", "hung",
            "Make every loop end and every thread reach each barrier: a block waits for others "
            "only in a cooperative launch."),
    _lesson("out-of-bounds", r"", "out-of-bounds",
            "Write only inside the outputs and the scratch memory: guard the tail of every row "
            "and tile."),
    _lesson("argument-changed", r"", "argument-changed",
            "Never write to an argument that the target does not change itself."),
    _lesson("output-changed", r"", "output-changed",
            "Write only to the outputs of this call: keep no pointers from an earlier one."),
    _lesson("unstable", r"", "unstable",
            "Compute every output from the arguments alone, without races: what the outputs held "
            "before is garbage."),
    # -- numbers
    _lesson("wrong-answer wrong-when-timed unstable", r"NaN out of finite inputs", "reads-nan",
            "Read only inside the tensors, and scratch memory only where it was written or asked "
            "for with zero: all else holds NaN."),
    _lesson("wrong-answer wrong-when-timed imprecise", r"arithmetic of lower precision|less exact",
            "imprecise",
            "Compute in float32 with exact functions: fast approximations, tf32 and 16-bit sums "
            "are told apart from honest rounding, and fail."),
    _lesson("wrong-answer wrong-when-timed", r"number where NaN is expected", "drops-nan",
            "Let NaN through: fmax, fmin and comparisons such as x > 0 ? x : 0 drop it."),
    _lesson("wrong-answer wrong-when-timed", r"never written", "unwritten",
            "Write every element of every output at each call, in partial tiles too: they hold "
            "garbage before."),
    _lesson("wrong-when-timed", r"once a few elements changed", "keeps-answers",
            "Compute anew at every call: arguments change in place between calls."),
)  # fmt: skip


def lesson(failure: Failure, language: str) -> tuple[str, str] | None:
    """The rule that a failure teaches: a stable key, and one imperative sentence or two.

    Returns:
        None for a mistake that says something about this one program alone.
    """
    told = "\n".join((failure.message, failure.log, failure.sketch))
    for item in _LESSONS:
        if item.codes and failure.code not in item.codes:
            continue
        if item.language not in ("", language):
            continue
        found = item.seen.search(told)
        if found is not None:
            name = found.group(1) if "{}" in item.key else ""
            return item.key.format(name)[:100], item.text.format(name)[:MOST_CHARS]
    return None
