"""Briefs from a saved session: what is told of a node and its kin, and what is read for that."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agent.briefing import MOST_LINEAGE, MOST_TRIED, brief
from agent.context import Context
from agent.knowledge import Knowledge
from agent.restore import restore
from agent.task import TaskSource
from agent.writers.brief import Rule
from store.machine import MachineStore
from store.writing import SessionWriter
from tests.agent.landscape import PLACES, SPEC, Landscape, new_session

SECONDS = {"building": 0.5}
PLAN = '[[launch]]\nkernel = "f"\nargs = ["x", "out"]\n'
TASK = TaskSource("plain", "toy", "", "def reference(x): return x\n", "cpu")


class Story:
    """A session that is written event by event, and the target that a search makes of it."""

    def __init__(self):
        self.writer = SessionWriter(new_session())
        self.say("EngineStarted", 0, pid=1, host="box", version="0", machine={})
        self.say("TargetAdded", 0, name="toy", spec=SPEC, task=TASK.to_json())
        self.say("TargetMeasured", 0, eager_ns=4_000_000, sol_ns=1_000_000, floor_ns=100,
                 baselines={"eager": {"ns": 4_000_000, "call_ns": 4_100_000}},
                 detail={})  # fmt: skip
        for name, value in (
            ("compile", {"ratio": 1.2, "low": 1.1, "high": 1.3, "ns": 3_300_000, "call_ns": 1}),
            ("compile-max", {"error": "it does not compile"}),
        ):
            self.say("BaselineMeasured", 0, name=name, value=value)

    def say(self, kind, node, **payload):
        self.writer.emit(kind, target=1, node=node, **payload)

    def node(self, parent=None, *, action="improve", title="", ratio=None, failure=None,
             detail=None, evidence=None, advice=None, second=None):  # fmt: skip
        """A node; scored with a ratio, failed with (rung, code, reason, evidence), else in work."""
        node, variant = self.writer.next_id("nodes"), self.writer.next_id("variants")
        action = "draft" if parent is None else action
        self.say("NodeCreated", node, parent=parent, second_parent=second, action=action,
                 writer="model", model="m")  # fmt: skip
        title = title or f"idea {node}"
        self.writer.store_program(f"hash{node}", "cpp", f"void f{node}() {{}}\n", PLAN, title)
        self.say("ProgramWritten", node, program=f"hash{node}", language="cpp", title=title,
                 schedule=None)  # fmt: skip
        if failure is not None:
            rung, code, reason, told = failure
            self.say("VariantFailed", node, variant=variant, values={"N": 2}, rung=rung, code=code,
                     reason=reason, evidence=told)  # fmt: skip
            self.say("NodeFailed", node, rung=rung, code=code, reason=reason, seconds=SECONDS)
        elif ratio is not None:
            self.scored(node, variant, ratio, detail or {}, evidence or {}, advice)
        return node

    def scored(self, node, variant, ratio, detail, evidence, advice):
        self.say("VariantBuilt", node, variant=variant, values={"N": 4}, seconds=0.5, cached=False,
                 detail=detail)  # fmt: skip
        figures = {"variant": variant, "outcome": "FASTER", "time_ns": int(4e6 / ratio),
                   "ratio": ratio, "low": ratio * 0.98, "high": ratio * 1.02}  # fmt: skip
        self.say("VariantJudged", node, **figures, verdict=self.writer.next_id("verdicts"), key="k",
                 eager_ns=4_000_000, timing="device", confirm=False, evidence=evidence,
                 call_ns=int(4.2e6 / ratio), eager_call_ns=4_100_000, advice=advice)  # fmt: skip
        self.say("NodeScored", node, **figures, sol_fraction=ratio / 4, reward=ratio / 4,
                 seconds=SECONDS)  # fmt: skip

    def brief(self, *args, **facts):
        return brief(*self.taken_up(**facts), *args)

    def taken_up(self, records=None, graph=(), place=PLACES["cpu"]):
        targets, _ = restore(self.writer, {"tasks": ["toy"]}, drafter_alone=False)
        known = Knowledge(records, place)
        context = Context(self.writer, Landscape(), place, "a session", None, known)
        targets[1].graph = graph
        return context, targets[1]


@pytest.fixture
def records(tmp_path):
    made = MachineStore(tmp_path / "machine.db")
    yield made
    made.close()


@pytest.fixture
def story(home):
    made = Story()
    yield made
    made.writer.close()


def test_the_target_is_told_with_what_is_to_be_beaten(story, records):
    records.put("rate", "a CPU", "cache-read", {"bytes_per_ns": 40.0})
    told = story.brief("draft", records=records, graph=("mul: float32[8] = mul(x, 2)",))
    target = told.target
    assert (target.name, target.language, target.reference) == ("toy", "cpp", TASK.text)
    assert target.spec.args[0].name == "x"
    assert target.graph == ("mul: float32[8] = mul(x, 2)",)
    assert [(b.name, b.ns, b.ratio) for b in target.baselines] == [
        ("eager", 4_000_000, 1.0), ("compile", 3_300_000, 1.2),
    ]  # fmt: skip
    assert target.sol_ns == 1_000_000
    assert (target.machine, target.facts["cores"]) == ("a CPU", 2)
    assert target.rates == {"cache-read": 4e10}


def test_a_gpu_is_called_by_its_name_and_not_by_its_uuid(story):
    key = "GPU-123 | NVIDIA H200 | driver 580.1 | nvrtc 13.5"
    told = story.brief("draft", place=replace(PLACES["cuda"], key=key))
    assert told.target.machine == "NVIDIA H200"
    assert told.target.language == "cuda"


def test_a_draft_is_told_of_other_drafts_and_of_no_improvements(story):
    slow, fast = story.node(ratio=1.5), story.node(ratio=2.5)
    story.node(fast, ratio=3.0)
    broken = story.node(failure=("build", "compile", "line 3: expected ';'", {}))
    working = story.node()
    told = story.brief("draft")
    assert (told.parent, told.lineage, told.step) == (None, (), "")
    assert [(t.node, t.ratio, t.failed) for t in told.tried] == [
        (fast, 2.5, ""), (slow, 1.5, ""), (working, None, "not judged yet"),
        (broken, None, "build: line 3: expected ';'"),
    ]  # fmt: skip


def test_an_improvement_is_told_the_parent_its_line_and_what_was_tried_on_it(story):
    draft = story.node(ratio=1.5)
    parent = story.node(draft, ratio=2.0, title="vector loads")
    child = story.node(parent, ratio=1.9, title="more unrolling")
    told = story.brief("improve", "small", parent)
    assert told.step == "small"
    assert [(t.node, t.ratio) for t in told.lineage] == [(draft, 1.5), (parent, 2.0)]
    assert [(t.node, t.title, t.action) for t in told.tried] == [
        (child, "more unrolling", "improve")
    ]
    own = told.parent
    assert (own.node, own.title, own.source) == (parent, "vector loads", "void f2() {}\n")
    assert (own.plan, own.tuned, own.outcome) == (PLAN, {"N": 4}, "FASTER")
    assert (own.ratio, own.time_ns, own.call_ns) == (2.0, 2_000_000, 2_100_000)
    assert own.gain == pytest.approx(2.0 / 1.2)
    assert own.sol_share == 0.5
    assert own.failure is None


def test_what_the_build_and_the_judge_saw_of_a_parent_is_told(story):
    advice = [{"name": "spills", "finding": "f", "evidence": "e", "suggestion": "s"}]
    parent = story.node(
        ratio=2.0,
        detail={"kernels": {"f": {"registers": 40, "spill_stores": 8}}},
        evidence={"steps": [["f", 1500.4], ["mm", 200]],
                  "occupancy": {"f": {"share": 0.5, "limiter": "registers"}}},
        advice=advice,
    )  # fmt: skip
    own = story.brief("improve", "large", parent).parent
    assert own.steps == (("f", 1500), ("mm", 200))
    assert own.kernels == {
        "f": {"registers": 40, "spill_stores": 8, "share": 0.5, "limiter": "registers"}
    }
    assert list(own.advice) == advice


def test_what_the_sanitizer_said_of_a_refused_win_comes_before_the_advice(story):
    advice = [{"name": "spills", "finding": "f", "evidence": "e", "suggestion": "s"}]
    parent = story.node(ratio=2.0, advice=advice)
    said = {"memcheck": "clean", "racecheck": "a race at f", "initcheck": "skipped: no time"}
    story.say("NodeConfirmed", parent, variant=1, ok=False, outcome="FAILED", ratio=2.0, low=1.9,
              high=2.1, reason="racecheck: a race at f", against=None, sanitizer=said)  # fmt: skip
    first, second = story.brief("improve", "small", parent).parent.advice
    assert first["finding"] == "it is refused as a win: racecheck complains"
    assert first["evidence"] == "a race at f"
    assert second == advice[0]


def test_a_repair_is_told_the_failure_of_the_variant_that_ended_the_node(story):
    evidence = {"family": "normal", "output": "out", "shape": [8], "sketch": ["7 of 8 are wrong"]}
    parent = story.node(failure=("check", "wrong-answer", "out is wrong", evidence))
    own = story.brief("repair", "", parent).parent
    assert (own.outcome, own.ratio, own.tuned) == ("FAILED", None, {"N": 2})
    failure = own.failure
    assert (failure.rung, failure.code, failure.message) == (
        "check", "wrong-answer", "out is wrong",
    )  # fmt: skip
    assert failure.sketch.endswith("output out of shape [8]\n7 of 8 are wrong")


def test_a_failed_build_is_told_with_the_lines_of_the_stored_source(story):
    evidence = {"rung": "build", "log": "program.cpp:1:6: error: no"}
    parent = story.node(failure=("build", "compile", "line 1: no", evidence))
    assert ">    1 | void f1() {}" in story.brief("repair", "", parent).parent.failure.log


def test_a_combination_has_both_parents_and_what_either_led_to(story):
    one, two = story.node(ratio=1.5), story.node(ratio=1.8)
    below = [story.node(one, ratio=1.4), story.node(two, ratio=1.7)]
    told = story.brief("combine", "", one, two)
    assert (told.parent.node, told.second.node) == (one, two)
    assert [t.node for t in told.tried] == below[::-1]


def test_of_many_ideas_the_fastest_are_told_and_some_failures(story):
    parent = story.node(ratio=1.0)
    for n in range(30):
        story.node(parent, ratio=1 + n / 100)
        story.node(parent, failure=("check", "wrong-answer", f"wrong {n}", {}))
    tried = story.brief("improve", "small", parent).tried
    assert len(tried) == MOST_TRIED
    ratios = [t.ratio for t in tried if t.ratio]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] == pytest.approx(1.29)
    assert [t.failed for t in tried if t.failed] == [f"check: wrong {n}" for n in range(29, 24, -1)]


def test_dropped_nodes_were_never_tried(story):
    node = story.node()
    story.say("NodeDropped", node, reason="a person pruned it")
    assert story.brief("draft").tried == ()


def test_figures_of_another_machine_are_not_told(story):
    draft = story.node(ratio=3.0)
    story.say("VerdictsForeign", 0, machine="elsewhere")
    (tried,) = story.brief("draft").tried
    assert (tried.node, tried.ratio, tried.failed) == (
        draft,
        None,
        "not judged on this machine yet",
    )


def test_a_long_line_keeps_its_draft_and_its_end(story):
    node = first = story.node(ratio=1.0)
    for n in range(40):
        node = story.node(node, ratio=1 + n / 100)
    lineage = story.brief("improve", "small", node).lineage
    assert len(lineage) == MOST_LINEAGE
    assert lineage[0].node == first
    assert lineage[-1].node == node


def test_hints_of_the_branch_and_of_the_target_are_told_the_nearest_first(story):
    draft = story.node(ratio=1.0)
    parent, other = story.node(draft, ratio=1.1), story.node(draft, ratio=1.2)
    for node, text in ((0, "use bf16"), (draft, "try TMA"), (parent, "two rows"), (other, "no")):
        story.say("HintGiven", node, text=text, by="me")
    told = story.brief("improve", "small", parent).hint
    assert told.splitlines() == ["two rows", "try TMA", "use bf16"]
    assert story.brief("draft").hint == "use bf16"


def test_rules_are_those_of_this_machine_and_language(story, records):
    for machine, language, text in (("a CPU", "cpp", "mind tails"), ("a CPU", "cuda", "no"),
                                    ("another", "cpp", "no")):  # fmt: skip
        for _ in range(3):
            records.learn(machine, language, text, text)
    assert story.brief("draft", records=records).rules == (Rule("mind tails", 3),)


def test_titles_and_reasons_are_one_printable_line(story):
    story.node(title="a\x1b[31m\nb" * 200, failure=("build", "x", "c\n\x07d" * 300, {}))
    (tried,) = story.brief("draft").tried
    assert tried.title.isprintable()
    assert tried.failed.isprintable()
    assert len(tried.title) <= 200
    assert len(tried.failed) <= 210


def test_no_brief_reads_a_whole_table(story):
    """Of the tables that grow with a search, rows are found by an index, and few of them."""
    draft = story.node(ratio=1.5)
    parent = story.node(draft, ratio=2.0)
    for _ in range(3):
        story.node(parent, failure=("build", "compile", "no", {"log": "x"}))
    context, target = story.taken_up()
    seen = []
    conn = story.writer.conn
    conn.set_trace_callback(seen.append)
    brief(context, target, "improve", "small", parent)
    brief(context, target, "draft")
    brief(context, target, "combine", "", parent, draft)
    conn.set_trace_callback(None)
    asked = [text for text in seen if text.startswith("SELECT")]
    assert asked
    for text in asked:
        for *_, detail in conn.execute(f"EXPLAIN QUERY PLAN {text}"):
            assert not detail.startswith("SCAN") or "targets" in detail, text


def test_a_search_can_be_briefed_at_any_node(home):
    """Every node that an engine left, as a parent of every action."""
    from tests.agent.landscape import engine_on

    async def searched():
        engine, session = await engine_on(new_session(nodes=25), Landscape())
        try:
            await engine.run()
            target = engine.targets[1]
            for node in [n for n in target.tree.stats if n]:
                for action in ("improve", "repair", "combine"):
                    second = 1 if action == "combine" else None
                    told = brief(engine._context, target, action, "", node, second)
                    assert told.parent.node == node
                    assert told.lineage[-1].node == node
                    failed = target.tree[node].state == "failed"
                    assert (told.parent.failure is not None) == failed
        finally:
            session.close()

    asyncio.run(searched())
