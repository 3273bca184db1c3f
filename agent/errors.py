"""What can go wrong in the engine and its workers, each with a message and a cure.

::

    ForgeError
    ├── TaskError          the reference cannot be used
    ├── ProgramError       a reply breaks the program contract
    ├── BuildError         the compiler, or our reading of what it built, refused the source
    ├── MachineError       this machine lacks something (compiler, memory, permission)
    ├── WorkerError        a worker died, hung, or answered nonsense
    └── ModelError         a language model could not be had, or gave no usable reply
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.writers.ask import Answer


class ForgeError(Exception):
    """A fault that a person can act on.

    Args:
        message: What happened and where, in one line.
        cure: What to do about it, in one line; may be empty.
        code: A stable short name, such as ``"task-random"``; tests and screens key on it.
        evidence: JSON-able facts for the node pane and the repair prompt.
    """

    def __init__(
        self,
        message: str,
        cure: str = "",
        *,
        code: str = "error",
        evidence: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure
        self.code = code
        self.evidence = evidence or {}

    def to_json(self) -> dict[str, Any]:
        return {
            "type": type(self).__name__,
            "code": self.code,
            "message": self.message,
            "cure": self.cure,
            "evidence": self.evidence,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> ForgeError:
        """Rebuild an error that crossed a process boundary; unknown types become ForgeError."""
        kind = _TYPES.get(str(data.get("type")), ForgeError)
        return kind(
            str(data.get("message", "")),
            str(data.get("cure", "")),
            code=str(data.get("code", "error")),
            evidence=dict(data.get("evidence") or {}),
        )


class TaskError(ForgeError):
    """The reference cannot be used as a target."""


class ProgramError(ForgeError):
    """A reply breaks the program contract."""


class BuildError(ForgeError):
    """The compiler refused the source, or the built object is not a pure kernel."""


class MachineError(ForgeError):
    """This machine lacks something that the job needs."""


class WorkerError(ForgeError):
    """A worker process died, ran past its time, or answered nonsense."""


class ModelError(ForgeError):
    """A language model could not be had, or gave no usable reply.

    Args:
        again: Whether the same call may succeed later.
        fatal: Whether no call of this model can succeed: a bad key, an unknown model.
        wait_s: How long the provider asks us to wait.
        partial: What came in before it failed, for the ledger: an ``agent.writers.ask.Answer``.
    """

    def __init__(
        self,
        message: str,
        cure: str = "",
        *,
        code: str = "model",
        evidence: dict[str, Any] | None = None,
        again: bool = False,
        fatal: bool = False,
        wait_s: float | None = None,
        partial: Answer | None = None,
    ) -> None:
        super().__init__(message, cure, code=code, evidence=evidence)
        self.again = again
        self.fatal = fatal
        self.wait_s = wait_s
        self.partial = partial


def describe(error: BaseException, limit: int = 300) -> str:
    """An error of foreign code for a message: its type and text in one bounded, printable line."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - its own __str__ may do anything
        text = "(its text cannot be had)"
    shown = f"{type(error).__name__[:80]}: {text[: 4 * limit]}"
    clean = " ".join("".join(c if c.isprintable() else " " for c in shown).split())
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


_TYPES = {
    kind.__name__: kind
    for kind in (
        ForgeError,
        TaskError,
        ProgramError,
        BuildError,
        MachineError,
        WorkerError,
        ModelError,
    )
}
