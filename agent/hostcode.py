"""Host code in a reply: what answers hold that were written for another harness."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agent.errors import ProgramError

if TYPE_CHECKING:
    from collections.abc import Iterable

_SKIPPED = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|\\.|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S
)
_INCLUDE = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*[<\"](?:torch|ATen|c10|pybind11|caffe2)/|^[ \t]*#[ \t]*include"
    r"[ \t]*[<\"](?:Python|torch|cublas\w{0,20}|cudnn\w{0,20})\.h[>\"]"
)
_WORDS = re.compile(
    r"<<<|\bPYBIND11_MODULE\b|\bTORCH_(?:LIBRARY|CHECK)\w{0,20}\b|\b(?:at|torch)::(?=\w)"
    r"|\bcuda(?:Malloc|Memcpy|Memset|Free|LaunchKernel|Stream|Event|DeviceSynchronize"
    r"|FuncSetAttribute|GetLastError|SetDevice)\w{0,30}\b|\b(?:int|auto)[ \t]{1,8}main[ \t]{0,8}\("
)
_SHOWN = {"<<<": "a launch <<<...>>>", "at::": "at::Tensor", "torch::": "torch::Tensor"}
_MOST = 3


def host_code(source: str) -> list[str]:
    """What of a source runs on the host, each with its line; at most three, empty if nothing."""
    found = [
        f"line {number}: {line.strip()[:60]}"
        for number, line in enumerate(source.split("\n"), 1)
        if "include" in line and _INCLUDE.match(line)
    ]
    seen: set[str] = set()
    number, start = 1, 0
    bare = _SKIPPED.sub(lambda match: "\n" * match.group().count("\n") or " ", source)
    for match in _WORDS.finditer(bare):
        if len(found) >= _MOST:
            break
        number += bare.count("\n", start, match.start())
        start = match.start()
        word = match.group().rstrip("( \t")
        if word not in seen:
            found.append(f"line {number}: {_SHOWN.get(word, word)}")
        seen.add(word)
    return [_printable(item) for item in found[:_MOST]]


def refused(found: Iterable[str], language: str) -> ProgramError:
    """The error for host code: what was found, and what is wanted in its place."""
    kernel = "__global__ functions" if language == "cuda" else 'extern "C" functions'
    return ProgramError(
        f"the reply has host code ({'; '.join(found)}); "
        "host code is not accepted: give the kernel alone and a plan",
        f"keep only {kernel} and their helpers in the ```{language} block; what is launched, with "
        "which arguments and which scratch memory, is said in the ```toml block",
        code="host-code",
    )


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
