"""A stand-in for ``python -P -m agent``: ``fake_engine.py MODE search SESSION``.

Modes: ``refuse`` answers with an error, ``die`` ends without a word, ``kill`` dies by a signal,
``finish`` searches each task quickly and ends, ``work`` goes on until it is told to stop,
``lonely`` finishes without judging anything, ``doctor`` and ``sick`` answer the doctor.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from store.writing import SessionWriter
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


def doctor(mode: str) -> int:
    say(check="compiler", ok=True, what="g++ 13.2", cure="")
    say(check="sandbox", ok=None, what="no user namespaces", cure="allow them")
    say(check="memory", ok=mode != "sick", what="1 GB free", cure="free some")
    return 0


if __name__ == "__main__":
    chosen, verb = sys.argv[1:3]
    sys.exit(doctor(chosen) if verb == "doctor" else search(chosen, Path(sys.argv[3])))
