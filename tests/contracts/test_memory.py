"""The log in memory lets a test say when an append becomes durable, and whether."""

from foldb.log.log import Appended
from foldb.log.memory import MemoryLog
from foldb.model.errors import AppendUnknownError, LogError, LogFullError
from tests.log.local_logs import numbers
from tests.log.samples import put_entry


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


def test_nobody_knows_whether_an_unknown_append_was_written() -> None:
    for written in (False, True):
        log, results = manual_log()

        log.fail(AppendUnknownError("the connection is gone"), written=written)

        assert isinstance(results[0], AppendUnknownError)
        assert [0][: int(written)] == numbers(log)
