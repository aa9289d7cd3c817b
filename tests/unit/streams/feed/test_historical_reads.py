"""Historical reads: requests read the history page by page, with few replays at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldb.materializer.feed_requests import ReadChanges
from foldb.model.errors import InternalServerError, ThrottlingError
from foldb.server.partitions import historical_reads
from foldb.server.partitions.historical_reads import MAX_OPEN, HistoricalReads
from foldb.streams.feed.historical_feed import HistoricalFeeds, OnProgress
from foldb.streams.feed.replay_worker import ReplayProgress, ReplayTask
from foldb.streams.feed.serial_executor import InlineExecutor
from tests.unit.materializer.fake_loop import FakeLoop

END = 10**26


class Bench:
    """Historical reads whose replays report the progress that the test sets."""

    def __init__(self, folder: Path) -> None:
        self.made: list[ReplayTask] = []
        self.tells: list[OnProgress] = []
        self.loop = FakeLoop()
        self.pasts = HistoricalReads(
            HistoricalFeeds(self._make, lambda: folder, b"l" * 16, InlineExecutor()), self.loop
        )

    def _make(self, task: ReplayTask, _: Path, on_progress: OnProgress) -> Callable[[], None]:
        self.made.append(task)
        self.tells.append(on_progress)
        return lambda: None

    def read(self, after: int, table: int = 1) -> list[Any]:
        """Read. Return the list that will receive the answer."""
        answers: list[Any] = []
        self.pasts.read(0, ReadChanges(table, after), END, lambda answer, _: answers.append(answer))
        return answers


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_the_next_page_comes_from_the_same_history(bench: Bench) -> None:
    bench.read(10)
    bench.read(20)

    assert 1 == len(bench.made)


def test_too_many_histories_are_an_error_to_retry(bench: Bench) -> None:
    """Each read begins before all open histories."""
    answers = [bench.read(1000 - n) for n in range(MAX_OPEN + 1)]

    assert [[]] * MAX_OPEN == answers[:-1]
    [refused] = answers[-1]
    assert isinstance(refused, ThrottlingError)

    bench.tells[0](OSError("no room"))
    assert [] == bench.read(1000 - MAX_OPEN)


def test_an_unused_history_is_closed_after_a_while(bench: Bench) -> None:
    """A replay may have to fold a whole log before its first page."""
    answers = bench.read(10)
    bench.loop.advance(10 * historical_reads._IDLE_S)
    bench.tells[0](ReplayProgress(None, 7, True))
    assert answers[0].is_end

    bench.loop.advance(2 * historical_reads._IDLE_S)
    bench.read(10)
    assert 2 == len(bench.made)


def test_a_retry_after_a_failed_history_starts_another(bench: Bench) -> None:
    answers = bench.read(10)
    bench.tells[0](OSError("no room"))
    assert isinstance(answers[0], InternalServerError)

    answers = bench.read(10)
    bench.tells[1](ReplayProgress(None, 7, True))

    assert answers[0].is_end


def test_one_timer_serves_all_histories(bench: Bench) -> None:
    for _ in range(5):
        bench.read(10)
        bench.tells[-1](OSError("no room"))

    assert 1 == len(bench.loop._timers)
