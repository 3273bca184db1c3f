"""A stand-in for ``python -P -m agent``: ``fake_engine.py MODE VERB ...``.

Modes: ``refuse`` answers with an error, ``die`` ends without a word, ``kill`` dies by a signal,
``finish`` searches each task quickly and ends, ``work`` goes on until it is told to stop,
``lonely`` finishes without judging anything; ``sick`` has what the other verbs ask for go wrong,
``deaf`` answers and then never ends, ``mute`` ends too early.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from store.writing import SessionWriter
from tests.forge_tui import gpu_saga
from tests.store import story

NODES = 3


def say(**line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def search(mode: str, path: Path) -> int:
    if mode == "die":
        sys.stderr.write("Traceback (most recent call last):\nImportError: no such thing\n")
        return 3
    if mode == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "refuse":
        say(stage="loading suite:softmax")
        error = {"type": "TaskError", "code": "task-random", "message": "it is random \x1b[31m",
                 "cure": "seed it"}  # fmt: skip
        say(error=error)
        return 1
    writer = SessionWriter(path)
    sys.stdout.write("no json\n")
    say(stage="loading suite:softmax")
    begin(writer)
    say(started=True, pid=os.getpid())
    os.dup2(2, 1)
    if mode == "finish":
        time.sleep(0.3)
        for number in range(NODES):
            story.node(writer, None, ratio=None if number == 1 else 1.5 + number)
            time.sleep(0.05)
        writer.emit("BestImproved", target=1, node=3, variant=3, ratio=3.5, time_ns=1_142_857,
                    of_nodes=3)  # fmt: skip
        writer.emit("NodeConfirmed", target=1, node=3, variant=3, ok=True, outcome="FASTER",
                    ratio=3.4, low=3.3, high=3.5, reason="")  # fmt: skip
    if mode == "work":
        work(writer)
        writer.emit("EngineStopped", state="stopped", reason="a person stopped it")
    else:
        writer.emit("EngineStopped", state="finished", reason="every target is closed")
    writer.close()
    return 0


def begin(writer: SessionWriter) -> None:
    writer.emit("EngineStarted", pid=os.getpid(), host="box", version="0", machine={})
    if writer.next_id("targets") == 1:
        writer.emit("TargetAdded", target=1, name="softmax", spec={"device": "cpu"}, task={})
        writer.emit("TargetMeasured", target=1, eager_ns=4_000_000, sol_ns=1_000_000,
                    floor_ns=400_000, baselines={}, detail={})  # fmt: skip
    writer.beat(os.getpid(), {}, {})


def work(writer: SessionWriter) -> None:
    """Answer commands until told to stop; a safety stop after 60 s."""
    end = time.monotonic() + 60
    beaten = 0.0
    while time.monotonic() < end:
        if time.monotonic() - beaten > 1:
            beaten = time.monotonic()
            writer.beat(os.getpid(), {}, {})
        for command, verb, args in writer.new_commands():
            node = int(args.get("node", 0))
            if verb == "pause":
                writer.answer(command, verb, True, "work in hand finishes first")
                writer.emit("SearchPausing")
                writer.emit("SearchPaused")
            elif verb == "resume":
                writer.answer(command, verb, True, "the search goes on")
                writer.emit("SearchResumed")
            elif verb == "prune" and node == 99:
                writer.answer(command, verb, False, "there is no node 99")
            elif verb in {"prune", "unprune"}:
                kind = "BranchPruned" if verb == "prune" else "BranchUnpruned"
                extra = {"reason": ""} if verb == "prune" else {}
                writer.emit(kind, target=1, node=node, nodes=1, by="person", **extra)
                writer.answer(command, verb, True, f"#{node}: done", node=node)
            elif verb == "stop":
                writer.answer(command, verb, True, "stopping")
                return
        time.sleep(0.02)


def verify(mode: str) -> int:
    """One program up the ladder; it falls at the check rung when sick."""
    say(stage="loading suite:softmax")
    say(rung="read", ok=True, language="cuda", title="t", lines=7, steps=1, calls=[], variants=2)
    say(rung="build", ok=True, seconds=0.21, cached=False, values={"THREADS": 256},
        detail=gpu_saga.BUILT)  # fmt: skip
    if mode == "mute":
        return 0
    if mode == "deaf":
        time.sleep(60)
    if mode == "sick":
        say(rung="check", ok=False, code="wrong-answer", reason="out is wrong in 3 elements",
            evidence={"family": "heavy tails", "expected": [1.0], "got": ["nan"],
                      "families": gpu_saga.families()[:3]})  # fmt: skip
        say(verdict={"ok": False, "outcome": "FAILED"})
        return 1
    say(rung="check", ok=True, families=gpu_saga.families())
    say(stage="timing")
    say(baseline="compile", value={"ratio": 1.62})
    say(rung="measure", ok=True, verdict="FASTER", ratio=2.05, low=2.01, high=2.09, ns=33_200,
        eager_ns=68_000, call_ns=34_100, eager_call_ns=74_000, timing="device", gain=1.27,
        against="compile", sol_fraction=0.87, conditions=gpu_saga.CONDITIONS,
        advice=gpu_saga.ADVICE, baselines={"compile": {"ratio": 1.62, "low": 1.6, "high": 1.64,
                                                       "ns": 42_000, "call_ns": 61_000}},
        device="cuda")  # fmt: skip
    say(rung="confirm", ok=True, verdict="FASTER", ratio=2.03, low=2.01, high=2.05, reason="",
        against={"name": "compile", "ratio": 1.25, "low": 1.2, "high": 1.3, "direct": True},
        sanitizer=gpu_saga.SANITIZER)  # fmt: skip
    say(verdict={"ok": True, "outcome": "FASTER"})
    return 0


def audit(mode: str) -> int:
    """Three programs judged; when sick a cheat is missed and an honest one is turned down."""
    sick = mode == "sick"
    row = {"language": "cuda", "seconds": 0.4, "message": ""}
    say(kind="cheat", name="writes nothing", expected="check", rung="check", code="wrong-answer",
        ok=True, **row)  # fmt: skip
    if mode == "mute":
        return 0
    end = "passed" if sick else "build"
    say(kind="cheat", name="keeps answers in a global", expected="read|build", rung=end,
        code="" if sick else "global", ok=not sick, **row)  # fmt: skip
    end = "check" if sick else "passed"
    say(
        kind="honest",
        name="atomics",
        expected="passed",
        rung=end,
        ok=not sick,
        **{**row, "code": "wrong-answer" if sick else "", "message": "sums differ" * sick},
    )
    say(summary={"cheats": 2, "caught": 2 - sick, "missed": int(sick), "honest": 1,
                 "false_alarms": int(sick), "impossible": 9, "seconds": 3.2})  # fmt: skip
    return int(sick)


def doctor(mode: str) -> int:
    say(check="compiler", ok=True, what="g++ 13.2", cure="")
    say(check="sandbox", ok=None, what="no user namespaces", cure="allow them")
    say(check="memory", ok=mode != "sick", what="1 GB free", cure="free some")
    return 0


if __name__ == "__main__":
    chosen, verb = sys.argv[1:3]
    jobs = {"doctor": doctor, "verify": verify, "audit": audit}
    sys.exit(jobs[verb](chosen) if verb in jobs else search(chosen, Path(sys.argv[3])))
