"""A saved session as a recording: which reply stands for each node."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from agent.program import parse_reply
from forge_tui import recording
from forge_tui.options import Refused
from store.reading import SessionReader
from store.rows import Program
from tests.forge_tui import model_saga
from tests.forge_tui.saga import PLAN, SOURCE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.forge_tui.saga import Saga


def test_each_node_has_its_last_reply(home: Path) -> None:
    saga = model_saga.told()
    found = recording.recording(saga.path)
    saga.close()
    assert found["from"] == saga.path.name.removesuffix(".forge.db")
    drafted, good, unknown, failed = found["replies"]  # the ones in flight have none yet
    assert drafted["text"].startswith("two passes, rows over threads\n```cpp\n")
    assert good == {"target": "softmax", "action": "draft", "model": model_saga.MODEL,
                    "text": model_saga.REPLY}  # fmt: skip
    assert (unknown["action"], unknown["model"]) == ("improve", model_saga.LOCAL)
    assert failed["text"] == "No."  # the one that was asked for in the right form


def test_a_reply_that_failed_on_its_way_is_none(home: Path) -> None:
    saga = model_saga.begun()
    node = saga.model_node(None)
    saga.settle(node, saga.ask(node), 10, "failed", text="half a repl")
    with pytest.raises(Refused, match="holds no reply and no program"):
        recording.recording(saga.path)
    saga.close()


def test_sessions_without_models_are_recordings_too(saga: Saga) -> None:
    found = recording.recording(saga.path)["replies"]
    with SessionReader(saga.path) as reader:
        nodes = reader.nodes()
    assert [reply["action"] for reply in found] == [node.action for node in nodes]
    assert {reply["model"] for reply in found} == {None}
    program = parse_reply(found[0]["text"], "cpp")
    assert (program.source.strip(), program.title) == (SOURCE.strip(), nodes[0].title)
    json.dumps(found)


def test_what_a_person_handed_in_is_asked_for_as_a_draft(saga: Saga) -> None:
    number = saga.start_node(1, None, "mine", action="import")
    saga.score(1, number, 1.1)
    assert recording.recording(saga.path)["replies"][-1]["action"] == "draft"


def test_settings_are_those_of_the_saved_session(saga: Saga) -> None:
    found = recording.settings(saga.path)
    assert found["tasks"] == ["suite:softmax", "suite:layer_norm", "suite:silu_mul"]
    assert (found["nodes"], found["device"]) == (24, "cpu")
    assert "models" not in found


def test_a_source_with_fences_is_fenced_longer() -> None:
    text = recording.as_reply(Program("k", "cpp", "// ```\nint a;\n", PLAN, "t\n```", 1))
    assert text.startswith("t ```\n````cpp\n// ```\nint a;\n````\n````toml\n")


def test_too_much_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_BYTES", 100)
    saga = model_saga.told()
    with pytest.raises(Refused, match="larger than"):
        recording.recording(saga.path)
    saga.close()
