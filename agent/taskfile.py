"""Task files by their syntax tree: their format and what they declare. Nothing in them is run.

Two declarations may stand at the top level of a file, as literals: ``RANGES`` and ``MUTATES``;
``agent.task`` has an example of each.
"""

from __future__ import annotations

import ast
import difflib
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from agent.errors import TaskError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# A dimension larger than this fits into no machine.
MAX_SIZE = 1 << 40
MAX_RANGED = 5

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Declared:
    """What a task file declares of itself.

    Attributes:
        ranges: Lowest and highest size of the ranged dimensions, by name.
        mutates: Names of the arguments that the reference changes in place by intent.
    """

    ranges: dict[str, Range] = field(default_factory=dict)
    mutates: tuple[str, ...] = ()


def kind_of(text: str, shown: str) -> Literal["kernelbench", "plain"]:
    """The format of a task file by what it defines at its top level.

    Raises:
        TaskError: ``task-syntax``, ``task-no-inputs``, ``task-no-reference``, ``task-format``.
    """
    names = set(_bound(parse(text, shown).body))
    model, reference = "Model" in names, "reference" in names
    if model and "get_inputs" in names:
        return "kernelbench"
    if reference and "inputs" in names:
        return "plain"
    file = short(shown)
    if model:
        raise TaskError(
            f"{file} has a Model but no get_inputs()",
            "add get_inputs(), which returns the list of tensors that forward() takes",
            code="task-no-inputs",
        )
    if reference:
        raise TaskError(
            f"{file} has a reference but no inputs()",
            "add inputs(), which returns the tensors that reference() takes",
            code="task-no-inputs",
        )
    if names & {"inputs", "get_inputs"}:
        raise TaskError(
            f"{file} gives inputs, but nothing to run on them",
            "add reference(...), or a class Model(nn.Module), at the top level of the file",
            code="task-no-reference",
        )
    raise TaskError(
        f"{file} defines no task",
        "define reference(...) and inputs(), or a class Model(nn.Module) and get_inputs()",
        code="task-format",
    )


def declared(text: str, kind: str, shown: str) -> Declared:
    """The file's ``RANGES`` and ``MUTATES``, as far as they can be checked without running it.

    Args:
        text: The file.
        kind: ``"kernelbench"``, ``"plain"`` or ``"suite"``.
        shown: The file's name for messages.

    Raises:
        TaskError: ``task-syntax``, ``task-ranges``, ``task-mutates``.
    """
    tree = parse(text, shown)
    names = set(_bound(tree.body))
    ranges = _ranges(_literal(tree, "RANGES", "task-ranges")) if "RANGES" in names else {}
    mutates = _mutates(_literal(tree, "MUTATES", "task-mutates")) if "MUTATES" in names else ()
    for name, limits in ranges.items():
        default = _module_size(tree, name) if kind == "kernelbench" else _parameter(tree, name)
        if default is not None:
            check_default(name, default, limits)
    if kind != "kernelbench":
        _check_parameters(tree, mutates)
    return Declared(ranges, mutates)


def check_default(name: str, value: object, limits: Range) -> int:
    """The size that a ranged dimension has when the file says nothing else.

    Raises:
        TaskError: ``task-ranges``: not an integer, or outside of the range.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise _bad_range(
            f"{name} is ranged, but its value is no integer", f"give {name} the size to tune for"
        )
    low, high = limits
    if not low <= value <= high:
        raise _bad_range(
            f"{name} = {value} lies outside of its range ({low}, {high})",
            "widen the range, or tune for a size in it",
        )
    return value


def resized(text: str, filename: str, sizes: Mapping[str, int]) -> ast.Module:
    """The file as if its author had written other numbers for these top-level names."""
    tree = ast.parse(text, filename)
    for statement in tree.body:
        for name in _targets(statement):
            if name in sizes:
                assigned = cast("ast.Assign", statement)
                assigned.value = ast.copy_location(ast.Constant(sizes[name]), assigned.value)
    return tree


def parse(text: str, shown: str) -> ast.Module:
    """The syntax tree.

    Raises:
        TaskError: ``task-syntax``, with the line.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        line, reason = error.lineno or 1, error.msg
    except (RecursionError, MemoryError, ValueError) as error:
        line, reason = 1, str(error) or "nested too deeply"
    raise TaskError(
        f"{short(shown)}, line {line}: not Python: {reason}",
        "correct the line, or name another file",
        code="task-syntax",
        evidence={"line": line},
    )


def short(text: str, limit: int = 120) -> str:
    """Text from outside for one line of a message: no control codes, the end kept."""
    clean = "".join(char if char.isprintable() else "?" for char in text)
    return clean if len(clean) <= limit else "…" + clean[1 - limit :]


def _literal(tree: ast.Module, name: str, code: str) -> Any:
    """The value of a name that is assigned once, plainly, at the top level."""
    assigned = [statement for statement in tree.body if name in _targets(statement)]
    if len(assigned) == 1 and list(_bound(tree.body)).count(name) == 1:
        try:
            return ast.literal_eval(cast("ast.Assign", assigned[0]).value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            pass
    example = '{"rows": (1, 8192)}' if name == "RANGES" else '("x",)'
    raise TaskError(
        f"{name} is no plain literal",
        f"write it out once, at the top level of the file: {name} = {example}",
        code=code,
    )


def _ranges(value: Any) -> dict[str, Range]:
    if not isinstance(value, dict):
        raise _bad_range("RANGES is no dict", 'write it so: RANGES = {"rows": (1, 8192)}')
    if len(value) > MAX_RANGED:
        raise _bad_range(
            f"RANGES has {len(value)} dimensions", f"let at most {MAX_RANGED} of them vary"
        )
    ranges: dict[str, Range] = {}
    for name, pair in value.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise _bad_range(f"RANGES names {short(repr(name))}", "name a parameter of inputs()")
        numbers = pair if isinstance(pair, tuple | list) else ()
        if len(numbers) != 2 or not all(type(number) is int for number in numbers):
            raise _bad_range(
                f"the range of {name} is not two integers", f'write it so: "{name}": (1, 8192)'
            )
        low, high = numbers
        if not 0 <= low <= high <= MAX_SIZE:
            raise _bad_range(
                f"the range of {name} is ({low}, {high})",
                "write the lowest size first, from 0, then the highest",
            )
        ranges[name] = (low, high)
    return ranges


def _mutates(value: Any) -> tuple[str, ...]:
    if not isinstance(value, tuple | list) or not all(
        isinstance(name, str) and name.isidentifier() for name in value
    ):
        raise TaskError(
            "MUTATES is no tuple of argument names",
            'write it so: MUTATES = ("x",)',
            code="task-mutates",
        )
    return tuple(dict.fromkeys(value))


def _module_size(tree: ast.Module, name: str) -> object:
    """What a top-level name is set to; None if that takes running the file."""
    plain = [statement for statement in tree.body if name in _targets(statement)]
    names = list(_bound(tree.body))
    if not plain and name not in names:
        raise _unknown(name, "name of the file's top level", names)
    if len(plain) != 1 or names.count(name) != 1:
        raise _bad_range(
            f"{name} is ranged, but not set by one plain assignment",
            f"write {name} = 4096 once, at the top level of the file",
        )
    return _constant(cast("ast.Assign", plain[0]).value)


def _parameter(tree: ast.Module, name: str) -> object:
    """The default of a parameter of inputs(); None if that takes running the file."""
    make = _function(tree, "inputs")
    if make is None:
        return None
    positional = [*make.args.posonlyargs, *make.args.args]
    defaults = dict(
        zip(
            [arg.arg for arg in reversed(positional)],
            list(reversed(make.args.defaults)),
            strict=False,
        )
    )
    pairs = zip(make.args.kwonlyargs, make.args.kw_defaults, strict=True)
    defaults |= {arg.arg: node for arg, node in pairs if node is not None}
    known = [arg.arg for arg in [*make.args.args, *make.args.kwonlyargs]]
    if name not in known:
        raise _unknown(name, "parameter of inputs()", known)
    if name not in defaults:
        raise _bad_range(
            f"the parameter {name} of inputs() has no default",
            f"give it the size to tune for: {name}=4096",
        )
    return _constant(defaults[name])


def _check_parameters(tree: ast.Module, mutates: Sequence[str]) -> None:
    """Each name must be a parameter of reference(), or one of a nested value such as xs_0."""
    target = _function(tree, "reference")
    if target is None:
        return
    args = target.args
    star = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    known = [a.arg for a in [*args.posonlyargs, *args.args, *args.kwonlyargs, *star]]
    for name in mutates:
        # Reserved words of the program contract get an underscore: out becomes out_.
        if not any(name in (base, f"{base}_") or name.startswith(f"{base}_") for base in known):
            raise unknown_argument(name, known)


def unknown_argument(name: str, known: Sequence[str]) -> TaskError:
    """The error for a name in MUTATES that no argument has."""
    return TaskError(
        f"MUTATES names {short(name)}, which is no argument of the reference",
        _suggestion(name, known),
        code="task-mutates",
    )


def _unknown(name: str, what: str, known: Sequence[str]) -> TaskError:
    return _bad_range(f"RANGES names {short(name)}, which is no {what}", _suggestion(name, known))


def _suggestion(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(map(short, close))}?"
    return f"one of: {', '.join(map(short, known[:20]))}" if known else "there is none to name"


def _bad_range(message: str, cure: str) -> TaskError:
    return TaskError(message, cure, code="task-ranges")


def _constant(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _function(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return found[-1] if found and list(_bound(tree.body)).count(name) == 1 else None


def _targets(statement: ast.stmt) -> list[str]:
    """The names that a plain assignment sets."""
    match statement:
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            return [name]
    return []


def _bound(body: Iterable[ast.stmt]) -> Iterable[str]:
    """The names that these statements bind at the top level of a module, branches included."""
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                names = (node for target in targets for node in ast.walk(target))
                yield from (node.id for node in names if isinstance(node, ast.Name))
            case ast.AnnAssign():
                yield from _targets(statement)
            case ast.AugAssign(target=ast.Name(id=name)):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name for alias in aliases)
            case ast.Try() | ast.If() | ast.With():
                for block in ("body", "orelse", "finalbody"):
                    yield from _bound(cast("list[ast.stmt]", getattr(statement, block, [])))
                for handler in getattr(statement, "handlers", []):
                    yield from _bound(handler.body)
