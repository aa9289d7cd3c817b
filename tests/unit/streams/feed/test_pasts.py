"""Stretches of the past that requests read page by page: few at a time, and none that is of no use."""

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
    """Pasts whose makers tell what the test has them tell."""

    def __init__(self, folder: Path) -> None:
        self.made: list[ReplayTask] = []
        self.tells: list[OnProgress] = []
        self.loop = FakeLoop()
        self.pasts = HistoricalReads(
            HistoricalFeeds(self._make, lambda: folder, b"l" * 16, InlineExecutor()), self.loop
        )

    def _make(self, task: ReplayTask, _: Path, tell: OnProgress) -> Callable[[], None]:
        self.made.append(task)
        self.tells.append(tell)
        return lambda: None

    def read(self, after: int, table: int = 1) -> list[Any]:
        """The list that the answer will be in."""
        answers: list[Any] = []
        self.pasts.read(0, ReadChanges(table, after), END, lambda answer, _: answers.append(answer))
        return answers


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_who_asks_for_the_next_page_gets_it_from_the_same_stretch(bench: Bench) -> None:
    bench.read(10)
    bench.read(20)

    assert 1 == len(bench.made)


def test_so_many_stretches_are_open_and_who_asks_for_more_is_to_come_again(bench: Bench) -> None:
    """Each begins before all that are open."""
    answers = [bench.read(1000 - n) for n in range(MAX_OPEN + 1)]

    assert [[]] * MAX_OPEN == answers[:-1]
    [refused] = answers[-1]
    assert isinstance(refused, ThrottlingError)

    bench.tells[0](OSError("no room"))
    assert [] == bench.read(1000 - MAX_OPEN)


def test_a_stretch_is_open_until_nobody_has_waited_for_it_for_a_while(bench: Bench) -> None:
    """To get to its first page a whole log may have to be folded."""
    answers = bench.read(10)
    bench.loop.advance(10 * historical_reads._IDLE_S)
    bench.tells[0](ReplayProgress(None, 7, True))
    assert answers[0].is_end

    bench.loop.advance(2 * historical_reads._IDLE_S)
    bench.read(10)
    assert 2 == len(bench.made)


def test_a_stretch_that_could_not_be_read_is_begun_anew_by_who_asks_again(bench: Bench) -> None:
    answers = bench.read(10)
    bench.tells[0](OSError("no room"))
    assert isinstance(answers[0], InternalServerError)

    answers = bench.read(10)
    bench.tells[1](ReplayProgress(None, 7, True))

    assert answers[0].is_end


def test_stretches_are_looked_at_by_one_timer_however_many_break_off(bench: Bench) -> None:
    for _ in range(5):
        bench.read(10)
        bench.tells[-1](OSError("no room"))

    assert 1 == len(bench.loop._timers)
