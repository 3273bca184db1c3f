"""What a person wants to be faster: task files, read without running them, and target descriptions.

A task file is Python in one of two formats:

* *kernelbench*: ``class Model(nn.Module)``, ``get_inputs()`` and, if the model takes arguments,
  ``get_init_inputs()``. The model's parameters and buffers become named arguments.
* *plain*: ``reference(...)`` and ``inputs()``, which returns the tensors and Python scalars that
  ``reference`` takes, as a tuple, list or dict. ``inputs`` may have a parameter ``device`` and is
  then given ``"cpu"`` or ``"cuda"``; otherwise its tensors are moved.

``suite:NAME`` names one of the operators in ``agent/suite``, which are plain files.

This module never imports torch: the engine reads it.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import math
import tomllib
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from agent.errors import TaskError

if TYPE_CHECKING:
    from collections.abc import Iterable

SUITE = Path(__file__).parent / "suite"
DEVICES = ("cpu", "cuda")
MAX_BYTES = 1 << 20

Kind = Literal["kernelbench", "plain", "suite"]
Scalar = int | float | bool


@dataclass(frozen=True, slots=True)
class TaskSource:
    """A task as opened: what runs from then on is ``text``, whatever becomes of the file.

    Attributes:
        kind: ``"kernelbench"``, ``"plain"`` or ``"suite"`` (a plain file of ours).
        name: The suite name, or the file's stem.
        path: Where the text came from, absolute; may be gone later, may be empty.
        text: The whole source.
        device: ``"cpu"`` or ``"cuda"``.
    """

    kind: Kind
    name: str
    path: str
    text: str
    device: str

    @property
    def sha(self) -> str:
        """SHA-256 of the text, in hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> TaskSource:
        return TaskSource(**data)


@dataclass(frozen=True, slots=True)
class ArgSpec:
    """One tensor argument.

    Attributes:
        name: A valid identifier, unique in the target; never that of an output.
        kind: ``"input"`` or ``"weight"`` (a parameter or buffer of the model).
        dtype: As torch names it, without the prefix: ``"float32"``.
        shape: Sizes.
        strides: In elements; 0 where the argument repeats itself.
        alignment: Bytes that its address is a multiple of.
        mutated: Whether the reference writes to it.
    """

    name: str
    kind: Literal["input", "weight"]
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    alignment: int = 64
    mutated: bool = False

    @staticmethod
    def from_json(data: dict[str, Any]) -> ArgSpec:
        return ArgSpec(**{**data, "shape": tuple(data["shape"]), "strides": tuple(data["strides"])})


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """One tensor result: ``out``, ``out1``, ...; sizes and strides in elements as eager gives."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def from_json(data: dict[str, Any]) -> OutputSpec:
        return OutputSpec(
            **{**data, "shape": tuple(data["shape"]), "strides": tuple(data["strides"])}
        )


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """One operator call pattern: what a program is written for and proved on.

    Attributes:
        name: The task's name.
        device: ``"cpu"`` or ``"cuda"``.
        args: Inputs in the order of the reference's parameters, then the weights that it uses.
        scalars: Python numbers that the reference gets, by name.
        outputs: Flattened results.
        read_bytes: The least that must be read; of an argument that is only gathered or sliced
            from, the part touched.
        write_bytes: The bytes of the outputs.
        flops: Of products and convolutions; 0 when there are none.
        source_sha: SHA-256 of the task's text.
    """

    name: str
    device: str
    args: tuple[ArgSpec, ...]
    scalars: dict[str, Scalar]
    outputs: tuple[OutputSpec, ...]
    read_bytes: int
    write_bytes: int
    flops: int
    source_sha: str

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        # JSON has no infinities: they travel as text.
        data["scalars"] = {
            name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in self.scalars.items()
        }
        return data

    @staticmethod
    def from_json(data: dict[str, Any]) -> TargetSpec:
        return TargetSpec(
            **{
                **data,
                "args": tuple(ArgSpec.from_json(arg) for arg in data["args"]),
                "outputs": tuple(OutputSpec.from_json(out) for out in data["outputs"]),
                "scalars": {
                    name: float(value) if isinstance(value, str) else value
                    for name, value in data["scalars"].items()
                },
            }
        )


def suite_index() -> dict[str, dict[str, str]]:
    """The operators of the suite, by name, in the index's order."""
    with (SUITE / "index.toml").open("rb") as file:
        entries = tomllib.load(file)["operator"]
    return {entry["name"]: entry for entry in entries}


def open_task(spec: str, device: str) -> TaskSource:
    """Read a task and tell its format by its syntax tree; nothing in it is run.

    Args:
        spec: ``suite:NAME`` or the path of a Python file.
        device: ``"cpu"`` or ``"cuda"``.

    Raises:
        TaskError: ``task-device``, ``task-suite-name``, ``task-missing``, ``task-directory``,
            ``task-not-a-file``, ``task-unreadable``, ``task-too-large``, ``task-binary``,
            ``task-syntax``, ``task-no-inputs``, ``task-no-reference``, ``task-format``.
    """
    if device not in DEVICES:
        raise TaskError(
            f"there is no device {_short(device)}",
            "use cpu, or cuda on a machine with an NVIDIA GPU",
            code="task-device",
        )
    if spec.startswith("suite:"):
        name = spec.removeprefix("suite:")
        path = SUITE / _suite_file(name)
        return TaskSource("suite", name, str(path), _read(path), device)
    path = Path(spec).expanduser()
    text = _read(path)
    return TaskSource(_format(text, path.name), path.stem, str(path.resolve()), text, device)


def _suite_file(name: str) -> str:
    index = suite_index()
    if name in index:
        return index[name]["file"]
    close = difflib.get_close_matches(name.lower(), index, n=3, cutoff=0.5)
    cure = f"did you mean {' or '.join(close)}?" if close else f"one of: {', '.join(index)}"
    raise TaskError(f"the suite has no operator {_short(name)}", cure, code="task-suite-name")


def _read(path: Path) -> str:
    shown = _short(str(path))
    try:
        if path.is_dir():
            raise TaskError(
                f"{shown} is a directory", "name one Python file in it", code="task-directory"
            )
        if path.exists() and not path.is_file():
            raise TaskError(
                f"{shown} is not a regular file", "name a Python file", code="task-not-a-file"
            )
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise TaskError(
            f"there is no file {shown}",
            "check the path; for an operator of the suite write suite:NAME",
            code="task-missing",
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TaskError(
            f"{shown} cannot be read: {reason}",
            "check the path and its permissions",
            code="task-unreadable",
        ) from None
    if len(data) > MAX_BYTES:
        raise TaskError(
            f"{shown} is larger than {MAX_BYTES >> 20} MiB",
            "keep only the reference and its inputs in the file",
            code="task-too-large",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise TaskError(
            f"{shown} is not text in UTF-8", "name a Python source file", code="task-binary"
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _format(text: str, shown: str) -> Kind:
    names = set(_bound(_parse(text, shown).body))
    model, reference = "Model" in names, "reference" in names
    if model and "get_inputs" in names:
        return "kernelbench"
    if reference and "inputs" in names:
        return "plain"
    file = _short(shown)
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


def _parse(text: str, shown: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        line, reason = error.lineno or 1, error.msg
    except (RecursionError, MemoryError, ValueError) as error:
        line, reason = 1, str(error) or "nested too deeply"
    raise TaskError(
        f"{_short(shown)}, line {line}: not Python: {reason}",
        "correct the line, or name another file",
        code="task-syntax",
        evidence={"line": line},
    )


def _bound(body: Iterable[ast.stmt]) -> Iterable[str]:
    """The names that these statements bind at the top level of a module, branches included."""
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name for alias in aliases)
            case ast.Try() | ast.If() | ast.With():
                for block in ("body", "orelse", "finalbody"):
                    yield from _bound(cast("list[ast.stmt]", getattr(statement, block, [])))
                for handler in getattr(statement, "handlers", []):
                    yield from _bound(handler.body)


def _short(text: str, limit: int = 120) -> str:
    """Text from outside for one line of a message: no control codes, the end kept."""
    clean = "".join(char if char.isprintable() else "?" for char in text)
    return clean if len(clean) <= limit else "…" + clean[1 - limit :]
