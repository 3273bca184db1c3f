"""What a model wrote, read as a program: tolerant of form, exact in what it refuses.

A reply is an idea in a line, one block of source and one ``toml`` block with its plan; models add
thinking, prose, earlier drafts, other labels. Where more than one program could be meant the last
complete one is: a plan that reads, with a source that has its kernels. All else is a
:class:`~agent.errors.ProgramError`, whose words go back to the model as they are.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.answers import Answer, Part, mended
from agent.errors import ProgramError
from agent.fences import without_thinking
from agent.hostcode import host_code, refused
from agent.inferring import Uncertain, infer_plan, kernels_in
from agent.plan.parts import Launch
from agent.plan.reading import read_plan
from agent.program import MAX_REPLY, Program, read_program
from agent.titles import comment_of, first_line

if TYPE_CHECKING:
    from agent.task import TargetSpec

MAX_PLAN = 64 * 1024
# Of the sources and of the plans in a reply, the last so many are looked at.
_MOST = 12
_UNSEEN = re.compile("[\ufeff\u200b\u2060]")
_WORD = re.compile(r"[A-Za-z_]\w*")
_NO_FENCE = "the last fence was missing"


def read_reply(text: str, language: str | None, spec: TargetSpec | None = None) -> Program:
    """The program in a reply; its ``notes`` say what had to be mended or guessed.

    Args:
        text: The whole reply.
        language: ``"cpp"`` or ``"cuda"``; None where the source itself decides.
        spec: What it is for; with it a plan that is missing may be inferred.

    Raises:
        ProgramError: ``reply`` (a part is missing, or not in the language), ``reply-cut`` (it
            ends in the middle of one), ``host-code``, ``plan``.
    """
    if len(text) > MAX_REPLY:
        raise ProgramError(
            f"the reply is longer than {MAX_REPLY} characters",
            "give one source and its plan, nothing else",
            code="reply",
        )
    # Half a surrogate pair, which JSON can hold, could not be stored.
    text = _UNSEEN.sub("", text).encode("utf-8", "replace").decode()
    said, thinking = without_thinking(text.replace("\r\n", "\n").replace("\r", "\n"))
    answer = Answer(said)
    notes: list[str] = []
    if not answer.sources and not answer.python and thinking:
        thought = Answer(thinking)
        if thought.sources or thought.python:
            answer.take_thinking(thought)
            notes.append("the program stood in the thinking, not in the answer")
    if language is None:
        language = "cuda" if any(_is_cuda(part.text) for part in answer.sources) else "cpp"
    program = _Choice(answer, language, spec, notes).program()
    return replace(program, notes=tuple(dict.fromkeys(notes)))


class _Choice:
    """Which source and which plan of an answer are the program."""

    def __init__(
        self, answer: Answer, language: str, spec: TargetSpec | None, notes: list[str]
    ) -> None:
        self._answer = answer
        self._language = language
        self._spec = spec
        self._notes = notes
        self._sources = answer.sources[-_MOST:]
        self._plans = answer.plans[-_MOST:]
        kept = {*self._sources, *self._plans}
        self._parts = [part for part in answer.parts if part in kept]
        self._words = {part: set(_WORD.findall(part.text)) for part in self._sources}
        # Of what was passed over the last failure is told, for it is what the model meant.
        self._error: ProgramError | None = None
        self._why_not_inferred = ""

    def program(self) -> Program:
        chosen = self._complete() if self._plans else self._inferred()
        if chosen is None:
            raise self._missing()
        source, plan, kernels = chosen
        self._check_language(source, kernels)
        if found := host_code(source):
            raise refused(found, self._language)
        if self._answer.python:
            self._notes.append("a block of Python was left out")
        title = self._answer.title or comment_of(source) or "untitled"
        return read_program(self._language, source, plan, title)

    # -- the last complete pair --------------------------------------------------------------------

    def _complete(self) -> tuple[str, str, set[str]] | None:
        for plan in reversed(self._plans):
            try:
                text, kernels = self._read(plan.text)
            except ProgramError as error:
                self._error = self._error or (error if plan.closed else _cut("plan"))
                continue
            source = self._source_of(self._parts.index(plan), kernels)
            if source is None:
                if not self._cut_source():
                    self._error = self._error or self._unknown(kernels)
                continue
            if not plan.closed:
                if not self._defined(source) <= kernels:
                    self._error = self._error or _cut("plan")
                    continue
                self._notes.append(_NO_FENCE)
            if plan is not self._plans[-1] or self._cut_source():
                self._notes.append("the last complete program was taken, not what came after it")
            elif len(self._sources) > 1:
                self._notes.append(f"the answer has {len(self._sources)} blocks of source")
            return source, text, kernels
        return None

    def _read(self, plan: str) -> tuple[str, set[str]]:
        """The plan, mended where that makes it read, and the kernels that it launches."""
        if len(plan) > MAX_PLAN:
            raise ProgramError(
                f"the plan is longer than {MAX_PLAN} characters",
                "write only [tune], [[scratch]] and the steps",
                code="plan",
            )
        try:
            return plan, self._launched(plan)
        except ProgramError:
            better = mended(plan)
            if better == plan:
                raise
            try:
                kernels = self._launched(better)
            except ProgramError:
                kernels = None
            if kernels is None:
                raise
            self._notes.append("the plan's punctuation was mended")
            return better, kernels

    def _launched(self, plan: str) -> set[str]:
        steps = read_plan(self._language, plan).steps
        return {step.kernel for step in steps if isinstance(step, Launch)}

    def _source_of(self, at: int, kernels: set[str]) -> str | None:
        """The source for the plan at a place among the parts.

        One that follows the plan and defines its kernels is a second version; else the nearest
        before it that has them, else any after it.
        """
        before = [part for part in self._parts[:at] if part.kind == "source"]
        after = [part for part in self._parts[at + 1 :] if part.kind == "source"]
        later = [part for part in reversed(after) if kernels <= self._defined(part.text)]
        for part in (*later, *reversed(before), *after):
            if self._whole(part) and self._has([part], kernels):
                if not part.closed:
                    self._notes.append(_NO_FENCE)
                return part.text
        if not kernels and not self._sources:
            self._notes.append("there was no source; the plan needs none")
            return "// library steps alone\n"
        # Each kernel may have a block of its own.
        closed = [part for part in before if part.closed]
        if len(closed) > 1 and self._has(closed, kernels):
            self._notes.append("blocks of source were joined")
            return "\n".join(part.text for part in closed)
        return None

    def _whole(self, part: Part) -> bool:
        text = part.text.rstrip()
        return part.closed or (text.endswith("}") and text.count("{") == text.count("}"))

    def _cut_source(self) -> bool:
        last = self._parts[-1] if self._parts else None
        return last is not None and last.kind == "source" and not self._whole(last)

    def _has(self, parts: list[Part], kernels: set[str]) -> bool:
        # A name may be put together by a macro, out of sight.
        words: set[str] = set().union(*(self._words[part] for part in parts))
        return kernels <= words or any("##" in part.text for part in parts)

    def _defined(self, source: str) -> set[str]:
        return {kernel.name for kernel in kernels_in(source, self._language)}

    def _inferred(self) -> tuple[str, str, set[str]] | None:
        last = self._sources[-1] if self._sources else None
        if last is None or not last.closed or self._spec is None:
            return None
        try:
            plan = infer_plan(last.text, self._language, self._spec)
        except Uncertain as reason:
            self._why_not_inferred = f", and none can be inferred: {reason}"
            return None
        self._notes.append("the plan was missing; it was inferred from the kernel's parameters")
        return last.text, plan, self._defined(last.text)

    # -- words for what is wrong -------------------------------------------------------------------

    def _missing(self) -> ProgramError:
        """Why there is no complete program."""
        foreign = [] if self._plans else self._foreign()
        if foreign:
            return refused(foreign, self._language)
        if self._error is not None:
            return self._error
        if self._sources and not self._sources[-1].closed:
            return _cut("source block")
        if not self._sources:
            plan = "; it has a plan" if self._plans else ""
            return ProgramError(
                self._answer.flaw
                or f"the reply has no ```{self._language} block with a source{plan}",
                f"answer with the idea in one line, one ```{self._language} block with the whole "
                "source and one ```toml block with the plan",
                code="reply",
            )
        return ProgramError(
            f"the reply has no ```toml block with a plan{self._why_not_inferred}",
            f"add one with a [[launch]] for each kernel: {self._example()}",
            code="reply",
        )

    def _foreign(self) -> list[str]:
        """What there is of an answer to another question: host code, Python."""
        found = [f"Python: {first_line(self._answer.python)}"] if self._answer.python else []
        for part in self._sources:
            found += host_code(part.text)
        return found[:3]

    def _example(self) -> str:
        """How a launch of the source's last kernel would begin."""
        kernels = kernels_in(self._sources[-1].text, self._language)
        name = kernels[-1].name[:64] if kernels else "NAME"
        sizes = ", grid = ..., block = ..." if self._language == "cuda" else ""
        return f'kernel = "{name}"{sizes}, args = [...]'

    def _unknown(self, kernels: set[str]) -> ProgramError:
        """For a plan whose kernels no source has."""
        if not self._sources:
            return ProgramError(
                f"the reply has no ```{self._language} block with a source; it has a plan",
                "answer with the whole source and the plan",
                code="reply",
            )
        last = self._sources[-1]
        lacking = ", ".join(sorted(kernels - self._words[last]))[:200]
        has = ", ".join(sorted(self._defined(last.text)))[:200]
        return ProgramError(
            f"the plan launches {lacking}, but the source has no such function; "
            f"it has {has or 'none that a plan could launch'}",
            "name in each [[launch]] a function of the source, and put all of them in one block",
            code="plan",
        )

    def _check_language(self, source: str, kernels: set[str]) -> None:
        if self._language == "cpp" and _is_cuda(source):
            raise ProgramError(
                "the source is CUDA, but this target runs on the CPU",
                'write C++ with OpenMP: extern "C" functions in a ```cpp block',
                code="reply",
            )
        if self._language == "cuda" and kernels and "__global__" not in source:
            raise ProgramError(
                "the source has no __global__ function, but the plan launches "
                + ", ".join(sorted(kernels))[:200],
                'write each kernel as extern "C" __global__ void in a ```cuda block',
                code="reply",
            )


def _is_cuda(source: str) -> bool:
    return re.search(r"__global__|\bblockIdx\b|\bthreadIdx\b", source) is not None


def _cut(where: str) -> ProgramError:
    return ProgramError(
        f"the reply ends inside the {where}",
        "answer again, shorter: no long thinking or comments, so that the whole source and the "
        "plan fit",
        code="reply-cut",
    )
