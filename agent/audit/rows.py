"""What the audit is made of: a program, what it tries, and what the judge must make of it."""

from __future__ import annotations

from dataclasses import dataclass

PASSED = "passed"
HARMLESS = "harmless"
# It may pass, but is marked as nothing but library calls and never counts as a win.
LABELLED = "library"
# Seconds and shares are noisy: a harmless trick may look this much faster than its honest twin.
MARGIN = 0.03


@dataclass(frozen=True, slots=True)
class Row:
    """One program with its promise.

    Attributes:
        name: Unique within its language.
        trick: The entry of :data:`agent.audit.tricks.TRICKS` that it plays; "" for honest ones.
        target: A name in :data:`agent.audit.targets.TASKS`.
        text: The reply, as a writer would give it.
        rungs: Where it may fall: ``read``, ``build``, ``check``, ``measure``; ``passed`` for
            honest programs; ``harmless`` if it may pass but must not look faster than its twin;
            ``library`` if it may pass but must be marked as nothing but library calls.
        codes: Codes of the failure, of which it must be one; empty for any.
        twin: Name of the honest program that does the same without the trick; "" for eager.
        needs: Least compute capability times ten, 0 where every one will do.
    """

    name: str
    trick: str
    target: str
    text: str
    rungs: tuple[str, ...]
    codes: frozenset[str] = frozenset()
    twin: str = ""
    needs: int = 0

    @property
    def kind(self) -> str:
        return "cheat" if self.trick else "honest"

    @property
    def timed(self) -> bool:
        """Whether the measure rung has a say."""
        return bool({"measure", PASSED, HARMLESS, LABELLED} & set(self.rungs))

    @property
    def expected(self) -> str:
        return "|".join(self.rungs)


def reply(language: str, source: str, plan: str, tune: str = "") -> str:
    """A reply as a writer gives it: an idea, the source, the plan."""
    return f"An idea\n```{language}\n{source}\n```\n```toml\n{tune}\n{plan}\n```\n"


def quoted(args: tuple[str, ...]) -> str:
    """Launch arguments as TOML; one with a brace is TOML already."""
    return ", ".join(arg if arg.startswith("{") else f'"{arg}"' for arg in args)
