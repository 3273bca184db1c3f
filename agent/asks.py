"""What a person may ask of a running engine, and how it answers: always with words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.engine import Engine
    from agent.search.target import Target

Answer = tuple[bool, str]
MAX_HINT = 2000


def pause(engine: Engine, args: dict[str, Any]) -> Answer:
    if not engine.going:
        return False, "it is paused already"
    engine.hold_on()
    first = [f"node {engine.working_on}"] if engine.working_on else []
    if calls := engine.desk.calls.in_flight:
        first.append("1 model call" if calls == 1 else f"{calls} model calls")
    if first:
        return True, f"pausing: {' and '.join(first)} must finish first"
    return True, "pausing"


def resume(engine: Engine, args: dict[str, Any]) -> Answer:
    if engine.going:
        return False, "it is running already"
    engine.go_on()
    return True, "running again"


def stop(engine: Engine, args: dict[str, Any]) -> Answer:
    again = engine.stopping
    engine.stop("a person stopped it")
    if again:
        return True, "stopping at once; calls in flight count as spent in full"
    if calls := engine.desk.calls.in_flight:
        many = "1 model call finishes" if calls == 1 else f"{calls} model calls finish"
        return True, f"stopping once {many}; ask again to cut off"
    return True, "stopping; everything is saved"


def hint(engine: Engine, args: dict[str, Any]) -> Answer:
    text = args.get("text")
    if not isinstance(text, str) or not text.strip():
        return False, "a hint is a text"
    text = "".join(char if char.isprintable() else " " for char in text).strip()[:MAX_HINT]
    target_id = args.get("target")
    if isinstance(target_id, int) and target_id in engine.targets:
        engine.say("HintGiven", target=target_id, text=text, by="person")
        return True, f"every prompt for {engine.targets[target_id].name} will say so"
    found = _find(engine, args)
    if isinstance(found, str):
        return False, found
    target, node = found
    engine.say("HintGiven", target=target.id, node=node, text=text, by="person")
    return True, f"prompts in the branch of node {node} will say so"


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
    engine.desk.give_up(target, branch, "its branch was closed")
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
    "hint": hint,
    "prune": prune,
    "unprune": unprune,
}
