"""A plan for a reply that has none: only where one kernel's parameters leave nothing to choose.

Every parameter must bear the name of a tensor, a scalar or a ranged size of the target, with a
type that fits it, or name the number of elements where all tensors have the same one. A CUDA
kernel must moreover compute its index in the usual way and compare it with that bound, so that
the grid is certain too.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.task import TargetSpec

_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.S)
_ENTRY = {
    "cuda": re.compile(r"\b__global__\b"),
    "cpp": re.compile(r"\bextern[ \t]*\"C\""),
}
_TOKEN = re.compile(r"\w+|[(){};,]")
_ATTRIBUTES = frozenset({"__launch_bounds__", "__attribute__", "__cluster_dims__", "alignas"})
_QUALIFIERS = frozenset({"const", "__restrict__", "__restrict", "restrict", "volatile"})
_MAX_HEAD = 4000
_MOST = 128
_COUNTS = frozenset(
    {"n", "N", "numel", "size", "total", "count", "num_elements", "n_elements", "total_elements"}
)
_DTYPES = {
    "float": "float32", "double": "float64", "half": "float16", "__half": "float16",
    "__nv_bfloat16": "bfloat16", "nv_bfloat16": "bfloat16", "int": "int32", "int32_t": "int32",
    "int64_t": "int64", "long long": "int64", "long": "int64", "int16_t": "int16",
    "short": "int16", "int8_t": "int8", "signed char": "int8", "uint8_t": "uint8",
    "unsigned char": "uint8", "bool": "bool",
}  # fmt: skip
_INTEGERS = {
    "int": "int32", "int32_t": "int32", "unsigned": "int32", "unsigned int": "int32",
    "uint32_t": "int32", "int64_t": "int64", "long long": "int64", "long": "int64",
    "long int": "int64", "size_t": "int64", "uint64_t": "int64", "unsigned long long": "int64",
}  # fmt: skip
_REALS = {"float": "float32", "double": "float64"}
_WIDE = r"(?:\((?:int64_t|long long|size_t|long|unsigned|int)\))?"
_INDEX = re.compile(
    rf"\b(\w{{1,64}})={_WIDE}\(?{_WIDE}(?:(?:int64_t|size_t|long)\()?blockIdx\.x\)?"
    rf"\*{_WIDE}(?:(?:int64_t|size_t|long)\()?(blockDim\.x|[A-Z]\w{{0,63}})\)?\+threadIdx\.x\)?;"
    rf"|\b(\w{{1,64}})=threadIdx\.x\+{_WIDE}blockIdx\.x\*{_WIDE}(blockDim\.x|[A-Z]\w{{0,63}});"
)
_SHARED = re.compile(
    r"__shared__|__syncthreads|__shfl|__cluster|cooperative_groups|\b(?:blockIdx|threadIdx)\.[yz]"
)
_BLOCKS = ("BLOCK", "BLOCK_SIZE", "BLOCK_DIM", "THREADS", "THREADS_PER_BLOCK", "NUM_THREADS")


class Uncertain(Exception):
    """Why no plan can be inferred, in words that end a sentence."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its type without qualifiers and ``*``."""

    name: str
    type: str
    pointer: bool
    const: bool


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function that a plan can launch.

    Attributes:
        parameters: None where they cannot be read.
        bounds: What stands in ``__launch_bounds__``, or "".
        body: From ``{`` to the end of the text.
        template: Whether it is one, which no plan can name.
    """

    name: str
    parameters: tuple[Parameter, ...] | None
    bounds: str
    body: str
    template: bool


def kernels_in(source: str, language: str) -> list[Kernel]:
    """The functions that are defined, not only declared, in plain sight of macros; in order."""
    text = _COMMENT.sub(" ", source)
    found: list[Kernel] = []
    for entry in itertools.islice(_ENTRY[language].finditer(text), _MOST):
        kernel = _kernel(text, entry.start(), entry.end())
        if kernel is not None:
            found.append(kernel)
    return found


def _kernel(text: str, start: int, end: int) -> Kernel | None:
    head = text[end : end + _MAX_HEAD]
    word, name, bounds, depth, begun = "", "", "", 0, 0
    attribute = False
    for token in _TOKEN.finditer(head):
        match token.group():
            case "(":
                depth += 1
                if depth == 1:
                    attribute, begun = word in _ATTRIBUTES, token.end()
                    name = name if attribute else word
            case ")":
                depth -= 1
                if depth == 0 and attribute:
                    bounds = head[begun : token.start()] if _is_bounds(head, begun) else bounds
                elif depth == 0:
                    after = head[token.end() :].lstrip()
                    if not after.startswith("{") or not name:
                        return None
                    before = text[max(0, start - 300) : start].rstrip()
                    template = re.search(r"template[ \t]*<[^;{}]*>\s*$", before) is not None
                    body = text[end + token.end() :]
                    return Kernel(name, _parameters(head[begun : token.start()]), bounds, body,
                                  template)  # fmt: skip
            case "{" | "}" | ";" if depth == 0:
                return None
            case other:
                word = other
    return None


def _is_bounds(head: str, begun: int) -> bool:
    return head[: begun - 1].rstrip().endswith("__launch_bounds__")


def _parameters(text: str) -> tuple[Parameter, ...] | None:
    if text.strip() in ("", "void"):
        return ()
    found = []
    for item in text.split(","):
        words = re.findall(r"\w+", item)
        if not words or re.search(r"[<>\[\]&=():]", item):
            return None
        kept = [word for word in words[:-1] if word not in _QUALIFIERS]
        pointer = item.count("*")
        if pointer > 1:
            return None
        const = "const" in re.findall(r"\w+", item.partition("*")[0])
        found.append(Parameter(words[-1], " ".join(kept), bool(pointer), const))
    return tuple(found)


def infer_plan(source: str, language: str, spec: TargetSpec) -> str:
    """The TOML plan of a source with one kernel.

    Raises:
        Uncertain: More than one plan would do, or none.
    """
    kernels = kernels_in(source, language)
    if len(kernels) != 1 or len(_ENTRY[language].findall(_COMMENT.sub(" ", source))) != 1:
        raise Uncertain(f"the source has {len(kernels)} kernels in plain sight, not one")
    kernel = kernels[0]
    if kernel.parameters is None or kernel.template:
        raise Uncertain(f"the parameters of {kernel.name} are more than pointers and numbers")
    args = [_argument(item, spec) for item in kernel.parameters]
    named = {item.name for item in kernel.parameters}
    wanted = [out.name for out in spec.outputs] + [arg.name for arg in spec.args if arg.mutated]
    if missing := [name for name in wanted if name not in named]:
        raise Uncertain(f"{kernel.name} has no parameter named {missing[0]}")
    lines = ["[[launch]]", f'kernel = "{kernel.name}"']
    if language == "cuda":
        names = [item.name for item in kernel.parameters]
        grid, block = _geometry(source, kernel, dict(zip(names, args, strict=True)))
        lines += [f'grid = "{grid}"', f"block = {block}"]
    shown = [
        f'{{expr = "{text}", type = "{kind}"}}' if kind else f'"{text}"' for text, kind in args
    ]
    return "\n".join([*lines, f"args = [{', '.join(shown)}]", ""])


def _argument(item: Parameter, spec: TargetSpec) -> tuple[str, str]:
    """An argument's expression and, for a number, its type."""
    tensor = next((each for each in spec.tensors if each.name == item.name), None)
    if item.pointer:
        if tensor is None:
            raise Uncertain(f"no tensor is named {item.name}")
        halves = tensor.dtype in ("float16", "bfloat16") and item.type in (
            "uint16_t", "unsigned short",
        )  # fmt: skip
        if _DTYPES.get(item.type) != tensor.dtype and not halves:
            raise Uncertain(f"{item.name} is {tensor.dtype}, the parameter is {item.type}*")
        if item.const and tensor in spec.outputs:
            raise Uncertain(f"{item.name} is an output, the parameter is const")
        return item.name, ""
    kind = _INTEGERS.get(item.type) or _REALS.get(item.type)
    if kind is None or tensor is not None:
        raise Uncertain(f"the parameter {item.type} {item.name} is neither a pointer nor a number")
    if item.name in spec.sizes or item.name in spec.scalars:
        value = spec.sizes.get(item.name, spec.scalars.get(item.name))
        if isinstance(value, float) and item.type in _INTEGERS:
            raise Uncertain(f"{item.name} is {value}, the parameter is {item.type}")
        return item.name, kind
    if item.name in _COUNTS and item.type in _INTEGERS and _same_numel(spec):
        return f"{spec.tensors[-1].name}.numel", kind
    raise Uncertain(f"nothing of the target is named {item.name}")


def _same_numel(spec: TargetSpec) -> bool:
    return len({math.prod(each.shape) for each in spec.tensors}) == 1


def _geometry(source: str, kernel: Kernel, args: dict[str, tuple[str, str]]) -> tuple[str, int]:
    """Grid and block of a kernel with one thread for each element."""
    text = _COMMENT.sub(" ", source)
    if _SHARED.search(text):
        raise Uncertain("its threads work together, so that the block is a choice")
    tight = re.sub(r" ?([^\w ]) ?", r"\1", re.sub(r"\s+", " ", kernel.body))
    found = _INDEX.search(tight)
    if found is None or text.count("blockIdx") != 1:
        raise Uncertain("the grid is not plain from blockIdx.x * blockDim.x + threadIdx.x")
    index = found.group(1) or found.group(3)
    bounds = set(
        re.findall(rf"[;(]{index}<(\w{{1,64}})[);]", tight)
        + re.findall(rf"\({index}>=(\w{{1,64}})\)\{{?return;", tight)
    )
    bound = bounds.pop() if len(bounds) == 1 else ""
    count = bound if bound.isdecimal() else args.get(bound, ("", ""))[0]
    if not count:
        raise Uncertain(f"how far {index} goes is not plain")
    block = _block(source, kernel, found.group(2) or found.group(4))
    return f"ceil_div({count}, {block})", block


def _block(source: str, kernel: Kernel, step: str) -> int:
    """Threads of a block: as the source says it, or 256."""
    bounds = kernel.bounds.partition(",")[0].strip()
    names = [bounds] if bounds else []
    names += [] if step == "blockDim.x" else [step]
    names += [] if names else _BLOCKS
    for name in names:
        value = name if name.isdecimal() else _constant(source, name)
        if value and 0 < int(value) <= 1024:
            return int(value)
    if bounds or step != "blockDim.x":
        raise Uncertain("the size of a block is not plain")
    return 256


def _constant(source: str, name: str) -> str:
    word = re.escape(name[:64])
    found = re.search(
        rf"^[ \t]*#[ \t]*define[ \t]+{word}[ \t]+(\d{{1,4}})[ \t]*$"
        rf"|\bconst(?:expr)?[ \t]+(?:int|unsigned)[ \t]+{word}[ \t]*=[ \t]*(\d{{1,4}})[ \t]*;",
        _COMMENT.sub(" ", source), re.M,
    )  # fmt: skip
    return (found.group(1) or found.group(2)) if found else ""
