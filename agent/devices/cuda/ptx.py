"""PTX as a list of functions and module variables, and how wide a kernel's accesses are."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEXT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_FUNCTION = re.compile(r"\.(entry|func)\b")
# A function's result comes before its name, in parentheses.
_SIGNATURE = re.compile(
    r"\s*(?:\((?P<results>[^)]*)\)\s*)?(?P<name>[A-Za-z_$%][\w$]*)\s*"
    r"(?:\((?P<parameters>[^)]*)\))?"
)
_NAME = re.compile(r"[A-Za-z_$%][\w$]*")
_VARIABLE = re.compile(
    r"\.(?P<space>global|const|tex)\b(?P<names>[^;={}]*)"
    r"(?P<value>=[^;]*)?;"
)
_INSTRUCTION = re.compile(
    r"(?:@!?\s*(?P<guard>[\w$%]+)\s+)?(?P<op>[a-z][\w.:]*)(?P<rest>.*)", re.DOTALL
)
_BITS = re.compile(r"\.[bsuf](8|16|32|64|128)\b")
_TYPES = {"f16": 2, "bf16": 2, "f16x2": 4, "bf16x2": 4}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its guard predicate, its opcode with modifiers, its operands as text."""

    guard: str
    opcode: str
    operands: str

    @property
    def names(self) -> list[str]:
        """Registers and symbols among the operands, in order."""
        return _NAME.findall(self.operands)


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel (``entry``) or a device function, with its body."""

    name: str
    entry: bool
    parameters: frozenset[str]
    results: frozenset[str]
    body: tuple[Instruction, ...]

    @property
    def calls(self) -> set[str]:
        return {name for line in self.body if line.opcode.startswith("call") for name in line.names}


@dataclass(frozen=True, slots=True)
class Variable:
    """A module variable.

    Attributes:
        space: ``global``, ``const``, or ``tex``.
        kind: ``managed`` or a kind of texture reference; empty for plain memory.
        holds: The symbols whose addresses it begins with.
    """

    name: str
    space: str
    kind: str
    holds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Module:
    """One PTX text.

    Attributes:
        text: Without comments and strings.
        functions: Those with a body.
        whole: Whether every block of code belongs to one of them, and nothing else is unclear.
        outside: Names of functions that are declared and left open.
        variables: In global and constant memory, wherever they are declared.
    """

    text: str
    functions: tuple[Function, ...]
    whole: bool
    outside: frozenset[str]
    variables: tuple[Variable, ...]

    @property
    def entries(self) -> list[str]:
        return sorted(function.name for function in self.functions if function.entry)


def parse(ptx: str) -> Module:
    """Read a PTX text; what is not understood is left out, never an error."""
    text = _TEXT.sub(lambda match: '""' if match.group()[0] == '"' else " ", ptx)
    functions: list[Function] = []
    declared: set[str] = set()
    for match in _FUNCTION.finditer(text):
        head, body = _head_and_body(text, match.end())
        named = _SIGNATURE.match(head)
        if named is None:
            continue
        name = named["name"]
        if body is None:
            declared.add(name)
        else:
            lines = tuple(_instructions(body))
            entry = match.group(1) == "entry"
            parameters, results = (
                symbols(named["parameters"] or ""),
                symbols(named["results"] or ""),
            )
            functions.append(Function(name, entry, parameters, results, lines))
    variables = tuple(
        Variable(name, match["space"], _kind(match["names"]), symbols(match["value"] or ""))
        for match in _VARIABLE.finditer(text)
        if not _is_instruction(text, match.start())
        for name in symbols(match["names"])
    )
    outside = frozenset(declared - {function.name for function in functions})
    # Whether a backslash escapes a quote, only the assembler knows.
    whole = _blocks(text) == len(functions) and "\\" not in text
    return Module(text, tuple(functions), whole, outside, variables)


def symbols(text: str) -> frozenset[str]:
    """The names in a piece of PTX that are neither numbers nor directives."""
    return frozenset(re.findall(r"(?<![\w$.%])[A-Za-z_$%][\w$]*", text))


def accesses(module: Module) -> dict[str, dict[str, Any]]:
    """Widths of the global accesses of each kernel, with those of the functions it calls.

    Returns:
        By kernel: ``load_bytes`` and ``store_bytes``, the widest access of one thread (bulk
        copies are ``bulk`` in ``loads`` and ``stores`` and count as 16); ``loads`` and ``stores``,
        how many instructions of each width; ``atomics``, how many on global memory. Accesses
        without a stated space count as global.
    """
    own = {function.name: _own_accesses(function) for function in module.functions}
    calls = {function.name: function.calls & own.keys() for function in module.functions}
    found = {}
    for function in module.functions:
        if not function.entry:
            continue
        seen, todo = {function.name}, [function.name]
        while todo:
            for name in calls[todo.pop()] - seen:
                seen.add(name)
                todo.append(name)
        total: Counter[tuple[str, str]] = sum((own[name] for name in seen), Counter())
        loads = {width: n for (kind, width), n in sorted(total.items()) if kind == "load"}
        stores = {width: n for (kind, width), n in sorted(total.items()) if kind == "store"}
        found[function.name] = {
            "load_bytes": max((_bytes(width) for width in loads), default=0),
            "store_bytes": max((_bytes(width) for width in stores), default=0),
            "loads": loads,
            "stores": stores,
            "atomics": total["atomic", ""],
        }
    return found


def _kind(names: str) -> str:
    match = re.search(r"\.(managed|texref|surfref|samplerref)\b", names)
    return match.group(1) if match else ""


def _bytes(width: str) -> int:
    return 16 if width == "bulk" else int(width)


def _own_accesses(function: Function) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for line in function.body:
        words = line.opcode.split(".")
        generic = not {"shared", "local", "param", "const", "shared::cta", "shared::cluster"} & {
            *words
        }
        if words[0] in ("ld", "ldu") and ("global" in words or generic):
            found["load", str(_width(line.opcode))] += 1
        elif words[0] == "st" and ("global" in words or generic):
            found["store", str(_width(line.opcode))] += 1
        elif words[0] in ("atom", "red") and ("global" in words or generic):
            found["atomic", ""] += 1
        elif words[:3] == ["cp", "async", "bulk"] and "prefetch" not in words:
            _bulk(words, found)
        elif words[:3] in (["cp", "async", "ca"], ["cp", "async", "cg"]):
            size = re.search(r"\]\s*,\s*\[[^\]]*\]\s*,\s*(\d+)", line.operands)
            found["load", size.group(1) if size else "16"] += 1
        elif words[:2] == ["cp", "reduce"]:
            found["atomic", ""] += 1
    return found


def _bulk(words: list[str], found: Counter[tuple[str, str]]) -> None:
    spaces = [word.partition("::")[0] for word in words if word.startswith(("shared", "global"))]
    if spaces[:2] == ["global", "shared"]:
        found["store", "bulk"] += 1
    elif spaces[:2] == ["shared", "global"]:
        found["load", "bulk"] += 1


def _width(opcode: str) -> int:
    """Bytes that one thread moves by a load or store."""
    lanes = re.search(r"\.v([248])\b", opcode)
    last = opcode.rsplit(".", 1)[-1]
    bits = _BITS.search("." + last)
    each = int(bits.group(1)) // 8 if bits else _TYPES.get(last, 4)
    return each * (int(lanes.group(1)) if lanes else 1)


def _head_and_body(text: str, start: int) -> tuple[str, str | None]:
    """From after ``.entry``: all up to the body, and the body; None for a declaration."""
    end = re.compile(r"[{;]").search(text, start)
    while end and end.group() == ";" and ".pragma" in text[start : end.start()].rpartition(";")[2]:
        # A pragma may stand between a function's name and its body.
        end = re.compile(r"[{;]").search(text, end.end())
    if end is None:
        return text[start:], None
    if end.group() == ";":
        return text[start : end.start()], None
    depth = 0
    for brace in re.compile(r"[{}]").finditer(text, end.start()):
        depth += 1 if brace.group() == "{" else -1
        if not depth:
            return text[start : end.start()], text[end.start() + 1 : brace.start()]
    return text[start : end.start()], text[end.start() + 1 :]


def _blocks(text: str) -> int:
    """How many blocks in braces there are that stand in no other and give no variable's value."""
    depth = blocks = 0
    for brace in re.finditer(r"[{}]", re.sub(r"=\s*\{[^{}]*\}", "", text)):
        blocks += not depth and brace.group() == "{"
        depth += 1 if brace.group() == "{" else -1
    return -1 if depth else blocks


def _instructions(body: str) -> Iterator[Instruction]:
    # Braces also stand around vector operands, which hold no semicolon.
    for part in re.split(r";", body):
        line = re.sub(r"^(?:[\s{}]|[A-Za-z_$%][\w$]*\s*:(?!:))+", "", part)
        match = _INSTRUCTION.match(line)
        if match:
            yield Instruction(match["guard"] or "", match["op"], match["rest"])


def _is_instruction(text: str, at: int) -> bool:
    """Whether a ``.global`` found there is a modifier, as in ``ld.global``."""
    return at > 0 and (text[at - 1].isalnum() or text[at - 1] in "_:.")
