"""Historical feeds of a trimmed log: ranges before the horizon are refused with it."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from foldb.log.local import LocalLog
from foldb.materializer.feed_requests import ReadChanges
from foldb.model.errors import HorizonError, TrimmedDataAccessError
from foldb.model.sequence_numbers import sequence_number
from foldb.streams.feed.historical_feed import HistoricalFeeds
from foldb.streams.feed.replay_worker import ReplayTask, check_horizon, replay
from tests.unit.log.fake_disk import FakeDisk
from tests.unit.materializer.trim.trims import filled, trim

TABLE = 1


@pytest.fixture
def log() -> LocalLog:
    disk = FakeDisk()
    log = filled(disk)
    trim(log, disk, 90)
    assert log.begin(0) > 10
    return log


def test_a_range_before_the_horizon_is_refused_with_it(log: LocalLog, tmp_path: Path) -> None:
    before = ReplayTask(0, TABLE, sequence_number(5, 0, 0), sequence_number(100, 0, 0))

    with pytest.raises(HorizonError, match=f"history horizon @{log.begin(0)}"):
        check_horizon(log, before)
    with pytest.raises(HorizonError):
        replay(log, before, tmp_path, lambda _: None)
    with pytest.raises(HorizonError):
        check_horizon(log, ReplayTask(0, TABLE, 0, sequence_number(5, 0, 0), items=True))


def test_a_range_from_the_horizon_on_is_replayed(log: LocalLog, tmp_path: Path) -> None:
    reports: list[Any] = []
    after = sequence_number(log.begin(0), 0, 0) - 1

    replay(log, ReplayTask(0, TABLE, after, sequence_number(100, 0, 0)), tmp_path, reports.append)

    assert reports[-1].is_over
    assert reports[-1].extent is not None


def test_a_range_from_the_first_change_begins_at_the_horizon(log: LocalLog) -> None:
    check_horizon(log, ReplayTask(0, TABLE, 0, sequence_number(100, 0, 0)))


def test_a_reader_of_a_removed_range_gets_trimmed_data_access(log: LocalLog) -> None:
    answers: list[Any] = []
    feeds = HistoricalFeeds(
        lambda *_: pytest.fail("nothing is replayed"),
        lambda: None,
        b"l" * 16,
        None,  # type: ignore[arg-type]  # no file is read
        partial(check_horizon, log),
    )

    feed = feeds.changes(0, TABLE, sequence_number(5, 0, 0), sequence_number(100, 0, 0))
    feed.read(ReadChanges(TABLE, sequence_number(5, 0, 0)), lambda answer, _: answers.append(answer))

    [answer] = answers
    assert isinstance(answer, TrimmedDataAccessError)
    assert "history horizon" in str(answer)
