"""Turns a brief into a prompt. Pure: the same brief and budget give the same text.

The system part is the same for every ask of a language. The user part begins with the target, its
machine and the times to beat, which are the same for every ask of a target: providers cache both.
What a person, a compiler or a model wrote stands in fences that it cannot leave.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agent.writers.ask import Prompt
from agent.writers.prompts.budget import BYTES_A_TOKEN, Section, fit, size
from agent.writers.prompts.clean import fenced
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
_FENCES = re.compile(r"```|~~~|extern \"C\"|__global__")
_TARGET = re.compile(r"# Target: .*?(?=^# Machine)", re.S | re.M)


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


def repair_format(language: str, reply: str, error: str, cure: str, question: str = "") -> Prompt:
    """Asks for a reply again that could not be read; without the brief, for it is in the reply.

    Args:
        reply: As it came.
        error: What is wrong with its form.
        cure: What to do about it; may be "".
        question: The user part that it answered. Of it the target is told again; all of it, if
            the reply holds no program to be put right.
    """
    told = f"{error[:600]}{f' ({cure[:300]})' if cure else ''}"
    if _FENCES.search(reply) is None:
        user = (
            f"{question}\n\n# The last reply\nIt could not be read:\n{fenced(told, 'text')}\n"
            f"It was:\n{fenced(reply, 'text', _REPLY // 10)}\n"
            "Answer the question above, in the form of the contract."
        )
        return Prompt(CONTRACT[language], user)
    about = _TARGET.match(question)
    user = (
        f"{about[0] if about else ''}# Your task\n"
        "The reply below cannot be read as a program, for this reason:\n"
        f"{fenced(told, 'text')}\n"
        "Send it again in the form of the contract: one line with the idea, one "
        f"{language} block with the whole source, one toml block with the plan. Keep the "
        "algorithm; change only what the form asks for.\n\n"
        f"# The reply\n{fenced(reply, 'text', _REPLY)}\n"
    )
    return Prompt(CONTRACT[language], user)
