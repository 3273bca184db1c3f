"""The session that comes with the package: sound, of use, and without anybody's folders."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from forge_tui.launch import LaunchError, launch
from store import sessions
from store.reading import SessionReader
from store.rebuild import rebuild

if TYPE_CHECKING:
    from pathlib import Path

NAME = "sample:four-operators-cpu"


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A copy: what is installed stays as it is."""
    return shutil.copy(sessions.find(NAME), tmp_path / "sample.forge.db")  # type: ignore[return-value]


def test_every_row_follows_from_the_events(sample: Path) -> None:
    with SessionReader(sample) as reader:
        again = SessionReader(sample, rebuild(reader.events()))
        assert again.nodes() == reader.nodes()
        assert again.targets() == reader.targets()
        assert again.calls() == reader.calls()
        assert again.session() == reader.session()


def test_it_is_a_search_with_replies_and_confirmed_wins(sample: Path) -> None:
    with SessionReader(sample) as reader:
        nodes, calls = reader.nodes(), reader.calls()
        assert {target.confirmed for target in reader.targets()} == {1}
        replies = [reader.reply(call.id) for call in calls]
        prompts = [reader.prompt(call.prompt or "") for call in calls]
        assert all(reader.program(node.program or "") for node in nodes)
    assert len(calls) >= 20
    assert all(reply is not None and "```cpp" in reply.text for reply in replies)
    assert all(prompt is not None and "Time to beat" in prompt.user for prompt in prompts)
    assert {node.action for node in nodes} == {"draft", "improve", "combine"}


def test_no_engine_is_started_on_it_and_nothing_is_written_beside_it() -> None:
    path = sessions.find(NAME)
    before = sorted(path.parent.iterdir())
    with pytest.raises(LaunchError, match="sample"):
        launch(path)
    assert sorted(path.parent.iterdir()) == before


def test_it_names_no_machine_and_no_folder() -> None:
    path = sessions.find(NAME)
    text = path.read_bytes().decode("latin-1")
    assert not re.findall(r"/(?:home|root|tmp|work|opt|Users)/[\w/.-]+", text)
    assert path.stat().st_size < 1_500_000
