"""Turns a brief into a prompt. Pure: the same brief and budget give the same text.

The system part is the same for every ask of a language. The user part begins with the target, its
machine and the times to beat, which are the same for every ask of a target: providers cache both.
What a person, a compiler or a model wrote stands in fences that it cannot leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.writers.ask import Prompt
from agent.writers.prompts.budget import BYTES_A_TOKEN, Section, fit, size
from agent.writers.prompts.clean import fenced, one_line
from agent.writers.prompts.contract import CONTRACT
from agent.writers.prompts.earlier import hint, lineage, program, rules, tried
from agent.writers.prompts.request import request
from agent.writers.prompts.target import target_sections

if TYPE_CHECKING:
    from agent.writers.brief import Brief

__all__ = ["CONTRACT", "render", "repair_format"]

# Of what the contract leaves, the most that target, machine and times may take.
_TARGET_SHARE = 0.4
_REPLY = 60_000


def render(brief: Brief, budget_tokens: int) -> Prompt:
    """The prompt for one ask.

    Args:
        brief: All that may be told.
        budget_tokens: Of system and user part together, at :data:`BYTES_A_TOKEN`. The least
            useful parts are left out first, and a cut is marked. The contract, what the target is
            given and makes, a person's hint and the request stay, whatever the budget.
    """
    system = CONTRACT[brief.target.language]
    room = round(budget_tokens * BYTES_A_TOKEN) - size(system)
    # Fitted alone, so that it does not depend on what else this ask has to tell.
    stable = fit(target_sections(brief.target), round(room * _TARGET_SHARE))
    rest = fit(_changing(brief), room - size(stable) - 2)
    return Prompt(system, f"{stable}\n\n{rest}\n")


def _changing(brief: Brief) -> list[Section]:
    language = brief.target.language
    parts = [rules(brief.rules), hint(brief.hint), lineage(brief.lineage)]
    if brief.parent is not None:
        parts += program(brief.parent, "The program", language, last=True)
    if brief.second is not None:
        parts += program(brief.second, "The second program", language, last=False)
    return [*parts, tried(brief), Section((request(brief),))]


def repair_format(language: str, reply: str, error: str, cure: str) -> Prompt:
    """Asks for a reply again that could not be read; without the brief, for it is in the reply.

    Args:
        reply: As it came.
        error: What is wrong with its form.
        cure: What to do about it; may be "".
    """
    told = f"{one_line(error, 600)}{f' ({one_line(cure, 300)})' if cure else ''}"
    user = (
        "# Your task\n"
        "The reply below cannot be read as a program, for this reason:\n"
        f"{fenced(told, 'text')}\n"
        "Send it again in the form of the contract: one line with the idea, one "
        f"{language} block with the whole source, one toml block with the plan. Keep the "
        "algorithm; change only what the form asks for.\n\n"
        f"# The reply\n{fenced(reply, 'text', _REPLY)}\n"
    )
    return Prompt(CONTRACT[language], user)
