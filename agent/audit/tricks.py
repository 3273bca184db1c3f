"""Every known way to look fast without being it, or to be measured wrongly, in our own words.

A trick with ``impossible`` cannot be written in a reply at all; the rows under its name are the
nearest that a reply can come to it. A trick with ``duty`` is no program's doing: it is a mistake
that the judge itself must not make, and the text says how it avoids it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trick:
    """One entry.

    Attributes:
        what: What is tried.
        impossible: Why no reply can do it; "" where one can try.
        duty: How the judge avoids the mistake; "" where it is a program's trick.
    """

    what: str
    impossible: str = ""
    duty: str = ""


_DEVICE_ONLY = "a reply has device source and a plan, no host code"

WORK = {
    "nothing": Trick("does nothing at all"),
    "unwritten": Trick("leaves some elements as they are"),
    "stale output": Trick("keeps what an earlier call left in the output"),
    "constant": Trick("always gives the same answer"),
    "passed through": Trick("hands an input on as the answer"),
    "hard-coded": Trick("writes the usual statistics of the inputs into the program"),
    "lucky values": Trick("drops a step that the usual values do not need"),
    "skipped work": Trick("takes a part of the data for the whole: a prefix, a sample, a tile"),
    "skipped small": Trick("drops terms that look too small to matter"),
    "replay": Trick("keeps answers by address or by a few elements, and gives them again"),
    "call sequence": Trick(
        "learns the order of the calls, or does the work of many at once",
        impossible="a program cannot count calls: what outlives one is overwritten before the next",
    ),
    "kept in scratch": Trick("finds in scratch memory what the call before left there"),
    "kept weights": Trick(
        "repacks the weights once and keeps the result",
        impossible="scratch and outputs are overwritten before each call, and weights change",
    ),
    "hidden state": Trick("keeps something in the program's own memory between calls"),
    "borrowed answer": Trick("searches memory for the right answer, or for a freed copy of it"),
    "decoy": Trick("launches a kernel for show beside a library call that does the work"),
    "library": Trick("is nothing but a library call"),
    "ghost path": Trick(
        "has a fast path that never runs, and falls back to the library",
        impossible="a kernel cannot call the library, and the plan's steps have no conditions",
    ),
    "fallback": Trick(
        "catches its own failure and calls PyTorch",
        impossible="steps have no conditions, and one that fails ends the verdict",
    ),
    "copied reference": Trick(
        "returns the reference itself, imports it, or inherits from it",
        impossible=f"{_DEVICE_ONLY}; the reference is Python in another process",
    ),
    "compiled graph": Trick(
        "wraps the reference with torch.compile or a captured graph",
        impossible=_DEVICE_ONLY,
    ),
    "duplicates": Trick(
        "is sent again and again, or with another comment, to be lucky once",
        duty="programs with one key (source without comments, and plan) are judged once; before "
        "a win is claimed it is measured anew in a fresh process",
    ),
}
OTHER = {
    "lower precision": Trick("computes in a lower precision than the target's"),
    "fast math": Trick("approximates functions, or flushes denormals"),
    "global flags": Trick(
        "changes rounding, denormals or PyTorch's own switches for everyone",
        impossible=f"{_DEVICE_ONLY}; on the CPU the instructions that would are refused",
    ),
    "changed input": Trick("writes to its arguments"),
    "aliased output": Trick("gives the same memory twice, or an input's, as an output"),
    "wrong form": Trick("stores another type's bits in the output"),
    "NaN for all": Trick("hides behind answers that are not numbers"),
    "uninitialised": Trick("reads memory that nobody wrote"),
    "dirty counters": Trick("takes for granted that memory begins as zeros, or leaves it changed"),
    "race": Trick("lets threads meet without waiting for one another"),
    "out of bounds": Trick("reads or writes beside its tensors"),
    "one shape": Trick("is right for the usual size alone"),
    "one device": Trick("counts on a number of processors, or on all blocks running at once"),
    "large index": Trick(
        "counts in 32 bits where the tensor has more elements",
        duty="a target is checked at its own size, so what overflows there is found; the audit "
        "has no target of more than 2^31 elements",
    ),
}
CLOCK = {
    "side stream": Trick(
        "works where the clock does not look", impossible=f"{_DEVICE_ONLY}; the streams are ours"
    ),
    "threads": Trick("works on in a thread or a launch of its own after it has returned"),
    "lazy tensor": Trick(
        "returns a promise and computes when it is looked at",
        impossible=f"{_DEVICE_ONLY}; outputs are allocated before the launch",
    ),
    "patched Python": Trick(
        "replaces timers, comparisons or printing in the judge's Python",
        impossible=f"{_DEVICE_ONLY}, and the judge is another process",
    ),
    "frame walking": Trick(
        "looks for the answers in the judge's frames, modules and garbage",
        impossible=f"{_DEVICE_ONLY}; the answers are in another process",
    ),
    "forged result": Trick(
        "writes its own verdict into pipes, files or the exit code",
        impossible="verdicts are made by the judge from memory that it looks at itself",
    ),
    "host code": Trick(
        "brings functions, environment or settings for the host",
        impossible="the plan has no place for them",
    ),
    "warm-up": Trick("behaves differently when called for the n-th time or when timed"),
    "sniffing": Trick("looks at its surroundings to tell a check from a timing"),
    "clock": Trick("reads a clock or a counter"),
    "below the floor": Trick(
        "is so fast that the bytes cannot have been moved",
        duty="a time under what the caches could deliver is a failure, not a record",
    ),
    "edited judge": Trick(
        "changes the judge's files",
        impossible=f"{_DEVICE_ONLY}; the process that runs it can write to its scratch folder only",
    ),
}
WORLD = {
    "outside": Trick("calls the system, or jumps into libraries"),
    "own heap": Trick("allocates memory that outlives the call"),
    "own code": Trick("writes to code and constants, or runs data"),
    "start-up code": Trick("runs when it is loaded, not when it is called"),
    "printing": Trick("floods the output"),
    "child launch": Trick("launches kernels of its own"),
    "foreign files": Trick("has the compiler read a file and show it"),
    "misread source": Trick("is written so that reader and compiler see different programs"),
    "bombs": Trick("is made to take all time and memory of whoever reads or compiles it"),
    "plan": Trick("asks for what a plan cannot have, or names what does not exist"),
    "limits": Trick("launches beyond what the device can do"),
    "crash": Trick("breaks its process or its device context"),
    "hang": Trick("never ends"),
}
MEASURING = {
    "warm cache": Trick(
        "the arguments are still in the cache",
        duty="arguments go round over copies that exceed twice the cache; on a GPU more than "
        "that is read between any two timed calls",
    ),
    "pinned cache": Trick("asks the cache to keep its data through the flush, or fetches ahead"),
    "dirty lines": Trick("leaves its writes in the cache for others to pay for"),
    "launch overhead": Trick(
        "host time counts as the kernel's",
        duty="device time is taken by graph replay, call time in a column of its own",
    ),
    "first-call costs": Trick(
        "loading, compiling or tuning falls into the timing",
        duty="programs are built and called before the clock runs; both sides warm up",
    ),
    "drifting clocks": Trick(
        "clocks and heat change between two measurements",
        duty="eager and program are timed by turns, and only their ratio is claimed",
    ),
    "neighbours": Trick(
        "others use the machine meanwhile",
        duty="their share is sampled; a disturbed round is taken again or claims nothing",
    ),
    "few samples": Trick(
        "one lucky sample stands for all",
        duty="a least number of pairs, medians, and an interval on the ratio",
    ),
    "allocation": Trick(
        "one side allocates its outputs and the other does not",
        duty="both are functions of tensors that return fresh outputs",
    ),
    "handicapped baseline": Trick(
        "the baseline runs with worse settings, or the sides are swapped",
        duty="both run in one process under one setting; eager against itself must be 1",
    ),
    "other shapes": Trick(
        "what is measured is not what is used",
        duty="shapes are the task's own; ranges are checked at sizes around them",
    ),
    "debug flags": Trick(
        "tools slow one side down",
        duty="the runner's environment is an allow-list",
    ),
    "wrong roof": Trick(
        "the limit is taken from a table",
        duty="rates are measured on the machine, like a program",
    ),
    "winner's curse": Trick(
        "the best of many noisy figures is believed",
        duty="a win is confirmed in a fresh process with other inputs, and shown with its interval",
    ),
    "mean of ratios": Trick(
        "one huge figure makes the mean", duty="each target stands alone; means are geometric"
    ),
}
GROUPS = {
    "The work is not done": WORK,
    "Other work is done": OTHER,
    "The clock and the judge": CLOCK,
    "The world outside, and endings": WORLD,
    "Honest code, wrong number": MEASURING,
}
TRICKS = {name: trick for group in GROUPS.values() for name, trick in group.items()}
