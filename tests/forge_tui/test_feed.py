"""The feed: incremental, coalescing, and never an exception on the screen."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from forge_tui.feed import Feed, tidy
from forge_tui.model import Model
from store.lock import engine_alive
from store.reading import SessionReader
from tests.store import story

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.forge_tui.saga import Saga


class Watcher:
    """A feed with its callbacks recorded."""

    def __init__(self, path: Path) -> None:
        self.news = threading.Event()
        self.details: list[tuple[Any, Any]] = []
        self.sent: list[tuple[str, int, str]] = []
        self.model = Model()
        self.feed = Feed(
            path,
            self.news.set,
            lambda detail, code: self.details.append((detail, code)),
            lambda *sent: self.sent.append(sent),
            interval_s=0.02,
        )
        self.feed.start()

    def until(self, true: Callable[[], Any], seconds: float = 5.0) -> None:
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, "not in time"
            if self.news.wait(0.01):
                self.news.clear()
                self.model.apply(self.feed.take())


@pytest.fixture
def watch() -> Iterator[Callable[[Path], Watcher]]:
    made: list[Watcher] = []

    def start(path: Path) -> Watcher:
        made.append(Watcher(path))
        return made[-1]

    yield start
    for one in made:
        one.feed.stop()


def test_everything_arrives_once_and_then_only_what_changed(
    saga: Saga, watch: Callable[[Path], Watcher]
) -> None:
    one = watch(saga.path)
    one.until(lambda: one.model.total == 40)
    assert one.model.state == "running"
    assert len(one.model.targets) == 3
    assert one.model.events[-1].kind == "NodeStage"
    saga.fail(3, 40)
    one.until(lambda: one.model.nodes[40].state == "failed")
    one.feed.take()
    assert one.feed.take().nodes == ()


def test_updates_that_nobody_took_are_handed_over_together(
    saga: Saga, watch: Callable[[Path], Watcher]
) -> None:
    one = watch(saga.path)
    one.until(lambda: one.model.total == 40)
    for _ in range(3):
        saga.start_node(1, None, "x")
        time.sleep(0.06)
    update = one.feed.take()
    assert [node.id for node in update.nodes] == [41, 42, 43]
    assert [event.seq for event in update.events] == sorted(e.seq for e in update.events)


def test_a_crash_is_noticed_without_a_change_in_the_file(
    home: Path, watch: Callable[[Path], Watcher]
) -> None:
    path, writer = story.begin()
    one = watch(path)
    one.until(lambda: one.model.state == "running")
    writer._lock.release()  # as the kernel does for a killed engine
    one.until(lambda: one.model.state == "crashed")
    writer.close()


def test_a_file_that_goes_away_is_a_state(home: Path, watch: Callable[[Path], Watcher]) -> None:
    path, writer = story.begin()
    one = watch(path)
    one.until(lambda: one.model.state == "running")
    writer.close()
    path.unlink()
    one.until(lambda: "gone" in one.model.problem or "no file" in one.model.problem)


def test_a_file_that_is_no_session_is_a_state(
    tmp_path: Path, watch: Callable[[Path], Watcher]
) -> None:
    path = tmp_path / "x.forge.db"
    path.write_bytes(b"not a database at all" * 100)
    one = watch(path)
    one.until(lambda: one.model.problem)
    assert "cannot be read" in one.model.problem


def test_details_are_read_for_the_watched_node_and_again_when_it_changes(
    saga: Saga, watch: Callable[[Path], Watcher]
) -> None:
    one = watch(saga.path)
    one.feed.watch(40, "code")
    one.until(lambda: one.details)
    detail, lines = one.details[-1]
    assert detail.node.id == 40
    assert "Row softmax" in "".join(text for text, _ in lines[0])
    saga.writer.stream(40, "compiler", "a warning")
    one.until(lambda: one.details[-1][0].stream)
    assert one.details[-1][0].stream[-1].text == "a warning"
    count = len(one.details)
    time.sleep(0.1)
    assert len(one.details) == count


def test_commands_are_written_and_named(saga: Saga, watch: Callable[[Path], Watcher]) -> None:
    one = watch(saga.path)
    one.feed.command("prune", node=3)
    one.until(lambda: one.sent)
    assert one.sent == [("prune", 1, "")]
    assert saga.writer.new_commands() == [(1, "prune", {"node": 3})]


def test_tidy_folds_back_what_a_crashed_engine_left(home: Path) -> None:
    path, writer = story.begin()
    reader = SessionReader(path)
    reader.session()
    writer.close()
    wal = path.with_name(path.name + "-wal")
    reader.close()
    assert wal.exists()
    tidy(path)
    assert not wal.exists()
    assert not engine_alive(path)


def test_tidy_leaves_a_working_engine_alone(saga: Saga) -> None:
    tidy(saga.path)
    assert saga.path.with_name(saga.path.name + "-wal").exists()
