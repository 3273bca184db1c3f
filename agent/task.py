"""What a person wants to be faster: task files, read without running them, and target descriptions.

A task file is Python in one of two formats:

* *kernelbench*: ``class Model(nn.Module)``, ``get_inputs()`` and, if the model takes arguments,
  ``get_init_inputs()``. The model's parameters and buffers become named arguments.
* *plain*: ``reference(...)`` and ``inputs()``, which returns the tensors and Python scalars that
  ``reference`` takes, as a tuple, list or dict. ``inputs`` may have a parameter ``device`` and is
  then given ``"cpu"`` or ``"cuda"``; otherwise its tensors are moved.

``suite:NAME`` names one of the operators in ``agent/suite``, which are plain files.

Both formats may declare, as literals at the top level:

* ``RANGES``, the dimensions that vary, with their lowest and highest size. A program is then tuned
  for one size and proved at others too. In a plain file the name is a parameter of ``inputs`` with
  the size to tune for as its default::

      RANGES = {"rows": (1, 8192)}

      def reference(x):
          return x.softmax(-1)

      def inputs(device, rows=4096):
          return torch.randn(rows, 1024, device=device)

  In a kernelbench file it is a number at the top level, ``rows = 4096``, that ``get_inputs`` uses;
  for another size the file is run as if that number stood there.

* ``MUTATES``, the arguments that the reference changes in place by intent. Their final values are
  then results like the outputs; to return one of them as well adds nothing::

      MUTATES = ("cache",)

      def reference(cache, new, at):
          cache.index_copy_(1, at, new)

      def inputs(device):
          cache = torch.zeros(8, 4096, 128, device=device)
          at = torch.randint(4096, (1,), device=device)
          return cache, torch.randn(8, 1, 128, device=device), at

This module never imports torch: the engine reads it.
"""

from __future__ import annotations

import difflib
import hashlib
import math
import tomllib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from agent.errors import TaskError
from agent.taskfile import Range, declared, kind_of, short

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
        mutated: Whether the reference changes it, as ``MUTATES`` says.
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
        outputs: Flattened results but for the mutated arguments; none if those are all.
        read_bytes: The least that must be read; of an argument that is only gathered or sliced
            from, the part touched.
        write_bytes: The bytes of the outputs, and of mutated arguments the part changed.
        flops: Of products and convolutions; 0 when there are none.
        source_sha: SHA-256 of the task's text.
        sizes: What the ranged dimensions are here, by name; empty where none is ranged.
        ranges: Lowest and highest size of the ranged dimensions.
        neighbours: The target at up to six other sizes, which have no neighbours themselves.
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
    sizes: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, Range] = field(default_factory=dict)
    neighbours: tuple[TargetSpec, ...] = ()

    @property
    def tensors(self) -> tuple[ArgSpec | OutputSpec, ...]:
        """All that a program is given: the arguments, then the outputs."""
        return (*self.args, *self.outputs)

    def to_json(self) -> dict[str, Any]:
        data = asdict(replace(self, neighbours=()))
        data["neighbours"] = [spec.to_json() for spec in self.neighbours]
        # JSON has no infinities: they travel as text.
        data["scalars"] = {
            name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in self.scalars.items()
        }
        return data

    @staticmethod
    def from_json(data: dict[str, Any]) -> TargetSpec:
        """The spec that ``to_json`` wrote, or an older one without ranges."""
        ranges = data.get("ranges", {})
        return TargetSpec(
            **{
                **data,
                "args": tuple(ArgSpec.from_json(arg) for arg in data["args"]),
                "outputs": tuple(OutputSpec.from_json(out) for out in data["outputs"]),
                "scalars": {
                    name: float(value) if isinstance(value, str) else value
                    for name, value in data["scalars"].items()
                },
                "ranges": {name: (low, high) for name, (low, high) in ranges.items()},
                "neighbours": tuple(map(TargetSpec.from_json, data.get("neighbours", ()))),
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
            ``task-syntax``, ``task-no-inputs``, ``task-no-reference``, ``task-format``,
            ``task-ranges``, ``task-mutates``.
    """
    if device not in DEVICES:
        raise TaskError(
            f"there is no device {short(device)}",
            "use cpu, or cuda on a machine with an NVIDIA GPU",
            code="task-device",
        )
    if spec.startswith("suite:"):
        name = spec.removeprefix("suite:")
        path = SUITE / _suite_file(name)
        return TaskSource("suite", name, str(path), _read(path), device)
    path = Path(spec).expanduser()
    text = _read(path)
    kind = kind_of(text, path.name)
    declared(text, kind, path.name)
    return TaskSource(kind, path.stem, str(path.resolve()), text, device)


def _suite_file(name: str) -> str:
    index = suite_index()
    if name in index:
        return index[name]["file"]
    close = difflib.get_close_matches(name.lower(), index, n=3, cutoff=0.5)
    cure = f"did you mean {' or '.join(close)}?" if close else f"one of: {', '.join(index)}"
    raise TaskError(f"the suite has no operator {short(name)}", cure, code="task-suite-name")


def _read(path: Path) -> str:
    shown = short(str(path))
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
