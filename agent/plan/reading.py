"""Reading a plan: the tables of its TOML text as frozen parts, nothing evaluated yet.

The order of the ``[[launch]]`` and ``[[call]]`` headers is the order of the steps. Which entries a
``[[launch]]`` has depends on the language: ``cuda`` wants a grid and a block, ``cpp`` has neither.
"""

from __future__ import annotations

import math
import re
import tomllib
from typing import TYPE_CHECKING, Any

from agent.errors import ProgramError
from agent.plan.calls import OPERATIONS
from agent.plan.parts import (
    FILLS,
    INTERLEAVES,
    ITEM_BYTES,
    PROMOTIONS,
    SCALAR_TYPES,
    SWIZZLES,
    Argument,
    Call,
    Launch,
    Plan,
    Scratch,
    TensorMap,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_VARIANTS = 4096
MAX_ENTRIES = 1024
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_ENTRIES = {
    "cpp": frozenset({"tune", "scratch", "launch", "call"}),
    "cuda": frozenset({"tune", "scratch", "tensormap", "launch", "call"}),
}
_GEOMETRY = ("grid", "block", "shared", "cluster", "cooperative")


def read_plan(language: str, text: str) -> Plan:
    """The parts of a plan.

    Raises:
        ProgramError: ``plan``: not TOML, an unknown entry, or one that is not as it must be.
    """
    try:
        data = tomllib.loads(text)
        # A number of thousands of digits, which can be written in hex, cannot be shown.
        str(data)
    except (ValueError, RecursionError) as error:
        raise _bad(f"the plan is not TOML: {str(error)[:300]}") from None
    if language not in _ENTRIES:
        raise _bad(f"there is no language {language[:40]!r}; there are {', '.join(_ENTRIES)}")
    known = _ENTRIES[language]
    if unknown := sorted(data.keys() - known):
        raise ProgramError(
            f"the plan has unknown entries: {', '.join(unknown)[:200]}",
            f"in {language} it has " + ", ".join(sorted(known)),
            code="plan",
        )
    tune = _tune(data.get("tune", {}))
    scratch = tuple(_scratch(item) for item in _tables(data, "scratch"))
    maps = tuple(_tensormap(item) for item in _tables(data, "tensormap"))
    launches = [_launch(language, item) for item in _tables(data, "launch")]
    calls = [_call(item) for item in _tables(data, "call")]
    if not launches and not calls:
        raise _bad("the plan has no [[launch]]")
    steps: list[Launch | Call] = [*launches, *calls]
    if launches and calls:
        order = _order(text, len(launches), len(calls))
        waiting: dict[str, Iterator[Launch | Call]] = {
            "launch": iter(launches),
            "call": iter(calls),
        }
        steps = [next(waiting[kind]) for kind in order]
        data = {**data, "order": order}
    return Plan(tune, scratch, maps, tuple(steps), data)


_TEXT_OR_COMMENT = re.compile(
    r'"""(?:\\.|(?!""")[^\\])*"{3,5}|'
    r"'''(?:(?!''').)*'{3,5}|"
    r'"(?:\\.|[^"\\\n])*"|'
    r"'[^'\n]*'|"
    r"#[^\n]*",
    re.S,
)
_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*(launch|call)[ \t]*\]\][ \t]*\r?$", re.M)


def _order(text: str, launches: int, calls: int) -> list[str]:
    """``launch`` or ``call`` for each step, by its header in the text, which is valid TOML.

    With texts and comments taken out, a line ``[[launch]]`` can be nothing but a header: as part
    of an array it would be a bare word, which is no value.
    """
    bare = _TEXT_OR_COMMENT.sub(lambda found: "" if found[0][0] == "#" else '""', text)
    order = _HEADER.findall(bare)
    if order.count("launch") != launches or order.count("call") != calls:
        raise _bad("write each step under its own header, [[launch]] or [[call]]: order matters")
    return order


def _tables(data: dict[str, Any], name: str) -> list[dict[str, Any]]:
    tables = data.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(item, dict) for item in tables):
        raise _bad(f"{name} is written as [[{name}]]")
    if len(tables) > MAX_ENTRIES:
        raise _bad(f"the plan has {len(tables)} [[{name}]] entries, more than {MAX_ENTRIES}")
    return tables


def _tune(data: Any) -> dict[str, tuple[int, ...]]:
    if not isinstance(data, dict):
        raise _bad("[tune] is a table of NAME = [values]")
    tune: dict[str, tuple[int, ...]] = {}
    for name, values in data.items():
        if (
            not _NAME.match(name)
            or not isinstance(values, list)
            or not values
            or not all(type(value) is int for value in values)
        ):
            raise _bad(f"[tune] {name[:64]} is not NAME = [whole numbers]")
        if len(set(values)) != len(values) or any(abs(value) >= 2**31 for value in values):
            raise _bad(f"[tune] {name}: values repeat or are too large")
        tune[name] = tuple(values)
    if math.prod(len(values) for values in tune.values()) > MAX_VARIANTS:
        raise _bad(f"[tune] makes more than {MAX_VARIANTS} variants")
    return tune


def _scratch(item: dict[str, Any]) -> Scratch:
    name, dtype, zero = item.get("name"), item.get("dtype"), item.get("zero", False)
    shape = _sizes(item.get("shape"), 0)
    if (
        item.keys() - {"zero"} != {"name", "dtype", "shape"}
        or not _is_name(name)
        or dtype not in ITEM_BYTES
        or shape is None
        or type(zero) is not bool
    ):
        raise _bad(f"[[scratch]] wants name, dtype, shape and may have zero = true; got {item}")
    return Scratch(str(name), str(dtype), shape, zero)


_CHOICES = {"swizzle": SWIZZLES, "interleave": INTERLEAVES, "l2": PROMOTIONS, "fill": FILLS}
_LISTS = ("dims", "strides", "element_strides")


def _tensormap(item: dict[str, Any]) -> TensorMap:
    name, tensor, box = item.get("name"), item.get("tensor"), _sizes(item.get("box"), 1)
    lists = {key: _sizes(item[key], 0) for key in _LISTS if key in item}
    known = {"name", "tensor", "box", *_LISTS, *_CHOICES}
    if (
        not item.keys() <= known
        or not _is_name(name)
        or not _is_name(tensor)
        or box is None
        or None in lists.values()
    ):
        raise _bad(
            "[[tensormap]] wants name, tensor, box = [innermost size, ...] and may have "
            f"{', '.join((*_LISTS, *_CHOICES))}; got {item}"
        )
    for key, allowed in _CHOICES.items():
        if item.get(key, allowed[0]) not in allowed:
            raise _bad(f"tensormap {name}: {key} is one of {', '.join(allowed)}")
    dims, strides, steps = (lists.get(key) or () for key in _LISTS)
    chosen = (str(item.get(key, allowed[0])) for key, allowed in _CHOICES.items())
    return TensorMap(str(name), str(tensor), box, dims, strides, steps, *chosen)


def _launch(language: str, item: dict[str, Any]) -> Launch:
    kernel, args = item.get("kernel"), item.get("args")
    if (
        not item.keys() <= {"kernel", "args", *_GEOMETRY}
        or not _is_name(kernel)
        or not isinstance(args, list)
    ):
        raise _bad(f"[[launch]] wants kernel and args; got {item}")
    launch = Launch(str(kernel), tuple(_argument(str(kernel), arg) for arg in args))
    given = [entry for entry in _GEOMETRY if entry in item]
    if language == "cuda":
        return _with_geometry(launch, item)
    if given:
        raise ProgramError(
            f"{kernel}: {', '.join(given)} in a plan for {language}",
            "leave it out; a program for the GPU is in a block labelled cuda",
            code="plan",
        )
    return launch


def _with_geometry(launch: Launch, item: dict[str, Any]) -> Launch:
    sizes: dict[str, tuple[str, ...]] = {}
    for entry in ("grid", "block", "cluster"):
        if entry not in item:
            if entry == "cluster":
                continue
            raise _bad(f"{launch.kernel}: [[launch]] wants {entry} = size or [x, y, z]")
        found = _sizes(item[entry], 1)
        if found is None or len(found) > 3:
            raise _bad(f"{launch.kernel}: {entry} is one to three numbers or expressions")
        sizes[entry] = found
    shared, cooperative = item.get("shared", 0), item.get("cooperative", False)
    if type(cooperative) is not bool:
        raise _bad(f"{launch.kernel}: cooperative is true or false")
    if not _is_size(shared):
        raise _bad(f"{launch.kernel}: shared is a number of bytes or an expression")
    return Launch(
        launch.kernel, launch.args, sizes["grid"], sizes["block"], str(shared),
        sizes.get("cluster", ()), cooperative,
    )  # fmt: skip


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
    raise _bad(
        f"{kernel}: the argument {str(arg)[:100]} is neither a name, an expression nor "
        '{expr = "...", type = "int32|int64|float32|float64"}'
    )


def _call(item: dict[str, Any]) -> Call:
    op, args, to = item.get("op"), item.get("args"), item.get("to")
    if item.keys() != {"op", "args", "to"} or not isinstance(args, list) or not _is_name(to):
        raise _bad(f"[[call]] wants op, args and to; got {item}")
    if op not in OPERATIONS:
        raise ProgramError(
            f"[[call]] {str(op)[:60]}: no such library step; there are {', '.join(OPERATIONS)}",
            "use one of them, or write a kernel",
            code="plan",
        )
    given: list[str | tuple[str, ...]] = []
    for arg in args:
        sizes = _sizes(arg, 0) if isinstance(arg, list) else None
        if isinstance(arg, list) and sizes is not None:
            given.append(sizes)
        elif isinstance(arg, str | int | float):
            given.append(arg.strip() if isinstance(arg, str) else str(arg))
        else:
            raise _bad(f"[[call]] {op}: the argument {str(arg)[:100]} is of no known kind")
    return Call(str(op), tuple(given), str(to))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and _NAME.match(value) is not None


def _is_size(value: Any) -> bool:
    return type(value) is int or isinstance(value, str)


def _sizes(value: Any, least: int) -> tuple[str, ...] | None:
    """Sizes as texts, from one or a list of numbers and expressions; None if it is neither."""
    items = value if isinstance(value, list) else [value]
    if len(items) < least or len(items) > 16 or not all(_is_size(item) for item in items):
        return None
    return tuple(str(item).strip() for item in items)


def _bad(message: str) -> ProgramError:
    return ProgramError(message[:600], code="plan")
