"""The program contract: a reply is one source block and one TOML plan, and nothing that runs here.

``parse_reply`` reads what a writer said, ``Program.bind`` turns the plan into plain launches for
one target and one choice of tunables. Host code is ours alone: it allocates, launches and times.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import tomllib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from agent.errors import ProgramError
from agent.expressions import Scope, evaluate, evaluate_int

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.task import TargetSpec

LANGUAGES = {"cpp": frozenset({"cpp", "c++", "cxx", "cc", "c"})}
DTYPES = frozenset(
    {"float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
     "bool"}
)  # fmt: skip
SCALAR_TYPES = frozenset({"int32", "int64", "float32", "float64"})
MAX_REPLY = 512 * 1024
MAX_VARIANTS = 4096
MAX_SCRATCH_BYTES = 2**34
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_FENCE = re.compile(r"^[ \t]*```[ \t]*([A-Za-z+#]*)[^\n]*\n(.*?)^[ \t]*```[ \t]*$", re.M | re.S)
_ITEM_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2,
               "int16": 2, "int8": 1, "uint8": 1, "bool": 1}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scratch:
    """Memory for between the launches: a name, a dtype, and a shape of expressions."""

    name: str
    dtype: str
    shape: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """A launch argument: a tensor's name, or an expression with a C type."""

    text: str
    type: str = "int64"


@dataclass(frozen=True, slots=True)
class Launch:
    """One call of a function of the source."""

    kernel: str
    args: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """A plan with every number filled in, for one target and one choice of tunables.

    Attributes:
        scratch: ``{"name", "dtype", "shape"}`` of each scratch tensor.
        launches: ``{"kernel", "args"}``; an argument is ``{"tensor": name}`` or
            ``{"type": "int64", "value": 4096}``.
    """

    scratch: tuple[dict[str, Any], ...]
    launches: tuple[dict[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Bound:
        return Bound(tuple(data["scratch"]), tuple(data["launches"]))


@dataclass(frozen=True, slots=True)
class Program:
    """A candidate: device-only source and plan, tunables open.

    Attributes:
        tune: Tunables with their values; the first is the default.
        key: SHA-256 over language, source without comments and spare blanks, and the plan: two
            programs with one key are the same program.
    """

    language: str
    source: str
    plan: str
    title: str
    tune: dict[str, tuple[int, ...]]
    scratch: tuple[Scratch, ...]
    launches: tuple[Launch, ...]
    key: str

    def defaults(self) -> dict[str, int]:
        return {name: values[0] for name, values in self.tune.items()}

    def variants(self) -> list[dict[str, int]]:
        """Every choice of tunables, the default first."""
        names = list(self.tune)
        return [
            dict(zip(names, chosen, strict=True))
            for chosen in itertools.product(*self.tune.values())
        ]

    def kernels(self) -> list[str]:
        """The functions that the plan launches, each once."""
        return list(dict.fromkeys(launch.kernel for launch in self.launches))

    def bind(self, spec: TargetSpec, values: Mapping[str, int], facts: Mapping[str, int]) -> Bound:
        """The plan's launches as plain numbers and tensor names.

        Args:
            spec: The target.
            values: A value for each tunable.
            facts: Device facts that expressions may use, such as ``cores``.

        Raises:
            ProgramError: An expression or a name does not fit the target.
        """
        if values.keys() != self.tune.keys():
            raise ProgramError(f"tunables are {list(self.tune)}, not {list(values)}", code="plan")
        scope = Scope.of(spec, values, facts)
        tensors = {arg.name for arg in spec.args} | {out.name for out in spec.outputs}
        scratch, total = [], 0
        for item in self.scratch:
            if item.name in tensors:
                raise ProgramError(f"scratch {item.name} has a tensor's name", code="plan")
            shape = [evaluate_int(size, scope) for size in item.shape]
            if any(size < 0 for size in shape):
                raise ProgramError(f"scratch {item.name} has shape {shape}", code="plan")
            total += math.prod(shape) * _ITEM_BYTES[item.dtype]
            scratch.append({"name": item.name, "dtype": item.dtype, "shape": shape})
        if total > MAX_SCRATCH_BYTES:
            raise ProgramError(f"the plan asks for {total} bytes of scratch", code="plan")
        names = tensors | {item.name for item in self.scratch}
        launches = [
            {"kernel": launch.kernel, "args": [_bound(arg, names, scope) for arg in launch.args]}
            for launch in self.launches
        ]
        written = {arg.text for launch in self.launches for arg in launch.args}
        for out in spec.outputs:
            if out.name not in written:
                raise ProgramError(f"no launch is given the output {out.name}", code="plan")
        return Bound(tuple(scratch), tuple(launches))


def _bound(arg: Argument, names: set[str], scope: Scope) -> dict[str, Any]:
    if arg.text in names:
        return {"tensor": arg.text}
    value = evaluate(arg.text, scope)
    if arg.type.startswith("int"):
        if not isinstance(value, int):
            raise ProgramError(f"{arg.text!r} is {value}, not a whole number", code="plan")
        if arg.type == "int32" and not -(2**31) <= value < 2**31:
            raise ProgramError(f"{arg.text!r} is {value}: too large for int32", code="plan")
        return {"type": arg.type, "value": value}
    return {"type": arg.type, "value": float(value)}


def parse_reply(text: str, language: str) -> Program:
    """Read a reply: an idea line, one fenced source block, one fenced ``toml`` plan.

    Raises:
        ProgramError: What is missing or wrong, in words that a writer can act on.
    """
    if len(text) > MAX_REPLY:
        raise ProgramError(f"the reply is longer than {MAX_REPLY} characters", code="reply")
    blocks = [(m.group(1).lower(), m.group(2)) for m in _FENCE.finditer(text)]
    sources = [body for label, body in blocks if label in LANGUAGES[language]]
    plans = [body for label, body in blocks if label == "toml"]
    if len(sources) != 1 or len(plans) != 1:
        raise ProgramError(
            f"a reply has one ```{language} block and one ```toml block; "
            f"this one has {len(sources)} and {len(plans)}",
            code="reply",
        )
    source = sources[0].replace("\r\n", "\n")
    prose = _FENCE.sub("", text)
    title = next((line.strip(" #*\t") for line in prose.splitlines() if line.strip(" #*\t")), "")
    return read_program(language, source, plans[0], title[:200] or "untitled")


def read_program(language: str, source: str, plan: str, title: str) -> Program:
    """A program from its parts, as stored.

    Raises:
        ProgramError: The plan is not valid.
    """
    try:
        data = tomllib.loads(plan)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ProgramError(f"the plan is not TOML: {error}", code="plan") from None
    unknown = sorted(data.keys() - {"tune", "scratch", "launch"})
    if unknown:
        raise ProgramError(
            f"the plan has unknown entries: {', '.join(unknown)[:200]}",
            "it has [tune], [[scratch]] and [[launch]]",
            code="plan",
        )
    tune = _tune(data.get("tune", {}))
    scratch = tuple(_scratch(item) for item in _tables(data, "scratch"))
    launches = tuple(_launch(item) for item in _tables(data, "launch"))
    if not launches:
        raise ProgramError("the plan has no [[launch]]", code="plan")
    key = _key(language, source, plan)
    return Program(language, source, plan, title, tune, scratch, launches, key)


def _tables(data: dict[str, Any], name: str) -> list[dict[str, Any]]:
    tables = data.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(item, dict) for item in tables):
        raise ProgramError(f"{name} is written as [[{name}]]", code="plan")
    return tables


def _tune(data: Any) -> dict[str, tuple[int, ...]]:
    if not isinstance(data, dict):
        raise ProgramError("[tune] is a table of NAME = [values]", code="plan")
    tune: dict[str, tuple[int, ...]] = {}
    for name, values in data.items():
        if (
            not _NAME.match(name)
            or not isinstance(values, list)
            or not values
            or not all(type(value) is int for value in values)
        ):
            raise ProgramError(f"[tune] {name[:64]} is not NAME = [whole numbers]", code="plan")
        if len(set(values)) != len(values) or any(abs(value) >= 2**31 for value in values):
            raise ProgramError(f"[tune] {name}: values repeat or are too large", code="plan")
        tune[name] = tuple(values)
    if math.prod(len(values) for values in tune.values()) > MAX_VARIANTS:
        raise ProgramError(f"[tune] makes more than {MAX_VARIANTS} variants", code="plan")
    return tune


def _scratch(item: dict[str, Any]) -> Scratch:
    name, dtype, shape = item.get("name"), item.get("dtype"), item.get("shape")
    sizes = shape if isinstance(shape, list) else [shape]
    if (
        item.keys() != {"name", "dtype", "shape"}
        or not isinstance(name, str)
        or not _NAME.match(name)
        or dtype not in DTYPES
        or not all(type(size) is int or isinstance(size, str) for size in sizes)
    ):
        raise ProgramError(f"[[scratch]] wants name, dtype, shape; got {item}"[:300], code="plan")
    return Scratch(name, str(dtype), tuple(str(size) for size in sizes))


def _launch(item: dict[str, Any]) -> Launch:
    kernel, args = item.get("kernel"), item.get("args")
    if (
        item.keys() != {"kernel", "args"}
        or not isinstance(kernel, str)
        or not _NAME.match(kernel)
        or not isinstance(args, list)
    ):
        raise ProgramError(f"[[launch]] wants kernel and args; got {item}"[:300], code="plan")
    return Launch(kernel, tuple(_argument(kernel, arg) for arg in args))


def _argument(kernel: str, arg: Any) -> Argument:
    match arg:
        case bool():
            return Argument(str(int(arg)))
        case int():
            return Argument(str(arg))
        case float():
            return Argument(repr(arg), "float64")
        case str():
            return Argument(arg.strip())
        case {"expr": str(text), "type": str(kind), **rest} if not rest and kind in SCALAR_TYPES:
            return Argument(text.strip(), kind)
    raise ProgramError(
        f"{kernel}: the argument {str(arg)[:100]} is neither a name, an expression nor "
        '{expr = "...", type = "int32|int64|float32|float64"}',
        code="plan",
    )


_COMMENT_OR_TEXT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.S
)


def normalise(source: str) -> str:
    """The source without comments and spare blanks: what makes two programs the same."""
    bare = _COMMENT_OR_TEXT.sub(lambda match: match.group(1) or " ", source)
    return "\n".join(
        " ".join(line.split()) for line in bare.splitlines() if line.strip()
    )  # lines stay, for preprocessor directives end with one


def _key(language: str, source: str, plan: str) -> str:
    parsed = json.dumps(tomllib.loads(plan), sort_keys=True, default=str)
    text = "\0".join((language, normalise(source), parsed))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
