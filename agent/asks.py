"""What a person may ask of a running engine, and how it answers: always with words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.engine import Engine
    from agent.search.target import Target

Answer = tuple[bool, str]


def pause(engine: Engine, args: dict[str, Any]) -> Answer:
    if not engine.going:
        return False, "it is paused already"
    engine.going = False
    engine.say("SearchPausing")
    if engine.working_on:
        return True, f"pausing: node {engine.working_on} is finished first"
    return True, "pausing"


def resume(engine: Engine, args: dict[str, Any]) -> Answer:
    if engine.going:
        return False, "it is running already"
    engine.go_on()
    return True, "running again"


def stop(engine: Engine, args: dict[str, Any]) -> Answer:
    engine.stop("a person stopped it")
    return True, "stopping; everything is saved"


def prune(engine: Engine, args: dict[str, Any]) -> Answer:
    found = _find(engine, args)
    if isinstance(found, str):
        return False, found
    target, node = found
    if target.tree.closed(node):
        return False, f"node {node} is in a closed branch already"
    branch = target.tree.branch(node)
    target.tree.prune(node, True)
    engine.say("BranchPruned", target=target.id, node=node, nodes=len(branch), by="person",
               reason=str(args.get("reason", ""))[:200])  # fmt: skip
    if engine.working_on in branch:
        engine.drop_work("its branch was closed")
    engine.nodes.settle_best(target)
    return True, f"closed the branch of node {node}: {_nodes(len(branch))}"


def unprune(engine: Engine, args: dict[str, Any]) -> Answer:
    found = _find(engine, args)
    if isinstance(found, str):
        return False, found
    target, node = found
    if not target.tree[node].pruned:
        above = [n for n in target.tree.path(node) if target.tree[n].pruned]
        hint = f"; it is closed at node {above[0]}" if above else ""
        return False, f"node {node} is not where a branch was closed{hint}"
    target.tree.prune(node, False)
    count = len(target.tree.branch(node))
    engine.say("BranchUnpruned", target=target.id, node=node, nodes=count, by="person")
    engine.nodes.settle_best(target)
    return True, f"opened the branch of node {node}: {_nodes(count)}"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _find(engine: Engine, args: dict[str, Any]) -> tuple[Target, int] | str:
    node = args.get("node")
    if isinstance(node, int) and node > 0:
        for target in engine.targets.values():
            if node in target.tree:
                return target, node
    return f"there is no node {str(node)[:20]}"


ASKS: dict[str, Callable[[Engine, dict[str, Any]], Answer]] = {
    "pause": pause,
    "resume": resume,
    "stop": stop,
    "prune": prune,
    "unprune": unprune,
}
