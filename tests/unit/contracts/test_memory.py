"""The log in memory is shared as one; and lets a test say when an append becomes durable, and whether."""

from collections.abc import Callable

import pytest

from foldb.log.log import Appended, SharedLog
from foldb.log.memory_log import MemoryLog
from foldb.model.errors import AppendUnknownError, LogError, LogFullError
from tests.unit.contracts.log_contract import Logs, Loop
from tests.unit.contracts.shared_log_contract import Another, SharedLogContract
from tests.unit.log.local_logs import numbers
from tests.unit.log.samples import put_entry


class TestSharedMemoryLog(SharedLogContract):
    @pytest.fixture
    def logs(self, loop: Loop) -> Logs:
        def make(partitions: int, clock: Callable[[], int]) -> MemoryLog:
            return MemoryLog(clock, loop.deliver, partitions=partitions)

        return make

    @pytest.fixture
    def another(self, loop: Loop) -> Another:
        def connect(log: SharedLog) -> SharedLog:
            assert isinstance(log, MemoryLog)
            return log.connect(loop.deliver)

        return connect


def manual_log() -> tuple[MemoryLog, list[Appended | LogError]]:
    """A log with three appends under way, and where their answers will be."""
    log = MemoryLog(lambda: 1000, manual=True)
    results: list[Appended | LogError] = []
    for number in range(3):
        log.append(0, put_entry(number), results.append)
    return log, results


def test_an_append_is_durable_when_the_test_says_so() -> None:
    log, results = manual_log()
    assert (3, [], []) == (log.waiting, results, numbers(log))

    assert 2 == log.commit(2)

    assert (1, [0, 1]) == (log.waiting, numbers(log))
    assert [Appended(0, 1, 1000), Appended(0, 2, 1000)] == results


def test_an_append_that_is_refused_leaves_no_gap() -> None:
    log, results = manual_log()

    log.fail()
    log.commit()

    assert [1, 2] == numbers(log)
    assert isinstance(results[0], LogFullError)
    assert [Appended(0, 1, 1000), Appended(0, 2, 1000)] == results[1:]


def test_an_unknown_append_may_or_may_not_be_written() -> None:
    for written in (False, True):
        log, results = manual_log()

        log.fail(AppendUnknownError("the connection is gone"), written=written)

        assert isinstance(results[0], AppendUnknownError)
        assert [0][: int(written)] == numbers(log)


def test_an_append_whose_acknowledgement_was_lost_is_repeated() -> None:
    log, results = manual_log()

    log.lose()
    assert ([0], 3, []) == (numbers(log), log.waiting, results)
    log.commit()

    assert [0, 0, 1, 2] == numbers(log)
    assert Appended(0, 2, 1000) == results[0]


def test_a_later_append_of_an_origin_ends_the_repetition() -> None:
    log = MemoryLog(lambda: 1000, manual=True)
    node = log.connect(lambda callback: callback())
    results: list[Appended | LogError] = []
    node.append(0, put_entry(0), results.append)
    log.lose()

    node.append(0, put_entry(1), results.append)
    log.commit()

    assert [0, 1] == numbers(log)
    assert [Appended(0, 2, 1000)] == results


def test_appends_of_several_nodes_come_in_any_order() -> None:
    log, _ = manual_log()

    log.commit(1, index=2)
    log.commit()

    assert [2, 0, 1] == numbers(log)


def test_a_follower_receives_records_when_the_test_delivers_them() -> None:
    log, _ = manual_log()
    received: list[int] = []
    log.follow(0, 1, lambda records: received.extend(each.offset for each in records), lambda _: None)
    [follower] = log.followers
    log.commit()
    assert ([], 3) == (received, follower.behind)

    assert 2 == follower.hear(2)

    assert ([1, 2], 1) == (received, follower.behind)
