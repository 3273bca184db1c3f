"""Refuses code that is more than a pure kernel, read from the PTX that the compiler wrote.

A kernel keeps nothing between two calls. A variable of the module may be read (look-up tables,
constants of the headers), so its address may be computed with; but it may never reach a store, an
atomic, a branch or memory, from where it could be written through. Whether it does is followed
through the registers, without regard to order, so that more is refused than must be, never less.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agent.errors import BuildError

if TYPE_CHECKING:
    from agent.devices.cuda.ptx import Function, Instruction, Module

_TIMERS = re.compile(r"%(clock(?:_hi|64)?|globaltimer(?:_lo|_hi)?|pm\d+(?:_64)?|gridid)\b")
_POLLS = re.compile(r"^\s*#\s*include\s*[<\"]cuda/(barrier|pipeline|semaphore|latch|atomic)", re.M)
_NAMES_TIME = re.compile(r"\b_*asm|##|globaltimer|clock|chrono|sreg")
_ASSERT = "__assertfail"
_OUTSIDE = {
    "vprintf": ("printf", "printf is not allowed", "remove printf"),
    "malloc": ("heap", "device malloc is not allowed", ""),
    "free": ("heap", "device free is not allowed", ""),
}
_SCRATCH = "use [[scratch]] memory of the plan, or shared memory"
_PARALLEL = re.compile(r"cuda|__cudaCDP|cnp")
# What only computes in registers, or reads through an address.
_READS = re.compile(
    r"(ld|ldu|prefetch|prefetchu|ldmatrix|applypriority|isspacep)\b"
    r"|cp\.async\.(ca|cg)|cp\.async\.bulk\.(tensor\.\w+\.)?(prefetch|shared)|wmma\.load"
)
_WRITES = re.compile(
    r"st|atom|red|cp|multimem|wmma\.store|stmatrix|tensormap|discard|sust|suld|mbarrier|tcgen05"
    r"|wgmma|clusterlaunchcontrol|bra|brx|ret|exit|call|fence"
)


def check_module(module: Module, source: str) -> None:
    """Refuse what a pure kernel does not need.

    Args:
        module: The PTX, parsed.
        source: The program's text; only to tell whose clock is read.

    Raises:
        BuildError: ``static-storage``, ``printf``, ``heap``, ``dynamic-parallelism``, ``symbol``,
            ``clock``, ``assembly``; rung ``build``.
    """
    if not module.whole:
        raise refuse("assembly", "the assembly cannot be read", "write plain inline assembly")
    for name in sorted(module.outside - {_ASSERT}):
        known = _OUTSIDE.get(name)
        if known:
            code, message, cure = known
            raise refuse(code, message, cure or _SCRATCH)
        if _PARALLEL.match(name):
            raise refuse("dynamic-parallelism", "a kernel may not launch or manage others")
        raise refuse("symbol", f"the function {name[:80]} is declared but not defined")
    timer = next((t for f in module.functions for t in _timers(f)), "")
    # Before Hopper, waiting on a cuda::barrier backs off by the clock.
    if timer and not (
        timer.startswith("globaltimer") and _POLLS.search(source) and not _NAMES_TIME.search(source)
    ):
        raise refuse("clock", f"a kernel may not read %{timer}", "compute from the inputs alone")
    _check_variables(module)


def refuse(code: str, message: str, cure: str = "") -> BuildError:
    return BuildError(
        message,
        cure or "write plain kernels over pointers and sizes",
        code=code,
        evidence={"rung": "build", "log": f"error: {message}"},
    )


def _timers(function: Function) -> list[str]:
    return [
        found
        for line in function.body
        if "%" in line.operands
        for found in _TIMERS.findall(line.operands)
    ]


def _check_variables(module: Module) -> None:
    names = {variable.name for variable in module.variables}
    code = {function.name for function in module.functions} | module.outside
    for variable in module.variables:
        if variable.kind or variable.space not in ("global", "const"):
            kind = variable.kind or variable.space
            raise refuse("static-storage", f"{variable.name[:80]} ({kind}) is not allowed")
        # Tables of functions (virtual ones) hold addresses of code alone.
        if variable.holds - code:
            raise refuse("static-storage", f"{variable.name[:80]} holds another's address")
    used_in = [f for f in module.functions if any(names & {*line.names} for line in f.body)]
    if not used_in:
        return
    # An address that is handed to a function may be any function's parameter; one that is
    # returned may be any call's result.
    handed: set[str] = set()
    while True:
        before = set(handed)
        for function in module.functions:
            handed |= _follow(function, names, handed)
        if handed == before:
            return


def _follow(function: Function, variables: set[str], handed: set[str]) -> set[str]:
    """Follow addresses of ``variables`` through one function.

    Args:
        handed: ``parameter``, ``result``: how other functions hand addresses on.

    Returns:
        How this one does.

    Raises:
        BuildError: ``static-storage``.
    """
    taken = {name: name for name in variables}
    lines = function.body
    given: set[str] = set()
    called = {name for line in lines if line.opcode.startswith("call") for name in line.names}
    changed = True
    while changed:
        changed = False
        for index, line in enumerate(lines):
            names = line.names
            source = next((taken[name] for name in _sources(line, names) if name in taken), "")
            reads = _READS.match(line.opcode)
            if line.opcode.startswith("ld.param"):
                own = any(name in function.parameters for name in names)
                kind = "" if own and function.entry else "parameter" if own else "result"
                source = "a module variable" if kind in handed else ""
            elif not source:
                continue
            elif line.opcode.startswith("st.param"):
                if names[0] in function.results:
                    given.add("result")
                # A result's name may also be a local one, in assembly.
                if names[0] not in function.results or names[0] in called:
                    given |= {"parameter"} if _callee(lines, index) != _ASSERT else set()
                continue
            elif reads:
                source = taken.get(line.guard, "")
            elif _WRITES.match(line.opcode):
                raise _written(source)
            for name in _targets(line, names) if source else ():
                if name not in taken:
                    taken[name] = source
                    changed = True
    return given


def _sources(line: Instruction, names: list[str]) -> list[str]:
    guard = [line.guard] if line.guard else []
    writes = _WRITES.match(line.opcode) and not _READS.match(line.opcode)
    return [*guard, *(names if writes else names[len(_targets(line, names)) :])]


def _targets(line: Instruction, names: list[str]) -> list[str]:
    """The registers that an instruction sets: the first operand, or all of a braced first one."""
    first = line.operands.strip()
    if first.startswith("{"):
        return re.findall(r"[A-Za-z_$%][\w$]*", first.partition("}")[0])
    if "|" in first.partition(",")[0]:
        return names[:2]
    return names[:1]


def _callee(lines: tuple[Instruction, ...], start: int) -> str:
    for line in lines[start:]:
        if line.opcode.startswith("call"):
            return _ASSERT if _ASSERT in line.names else ""
    return ""


def _written(source: str) -> BuildError:
    if source.startswith("_ZTV"):
        cure = "use templates or a switch"
        return refuse("static-storage", "virtual functions need a table in memory", cure)
    return refuse(
        "static-storage",
        f"{source[:80]} is memory that outlives a call, and the code may write to it",
        "use [[scratch]] memory of the plan, or make it __constant__ or constexpr and only read it",
    )
