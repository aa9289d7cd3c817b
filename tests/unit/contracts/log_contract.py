"""The contract of a log. To test a log, subclass `LogContract` with a `logs` fixture.

class TestMyLog(LogContract):
    @pytest.fixture
    def logs(self, loop): return lambda partitions, clock: MyLog(..., deliver=loop.deliver)
"""

import queue
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

import pytest

from foldb.log.commands import Entry, Genesis, Put, new_context
from foldb.log.log import Appended, Log
from foldb.model.errors import LogError

ORIGIN = b"origin of a test"
Logs: TypeAlias = Callable[[int, Callable[[], int]], Log]


class Loop:
    """An owner's loop that the test runs."""

    def __init__(self) -> None:
        self._callbacks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def deliver(self, callback: Callable[[], None]) -> None:
        """From any thread."""
        self._callbacks.put(callback)

    def turn(self, until: Callable[[], bool]) -> None:
        """Call the delivered callbacks in order until a condition holds."""
        while not until():
            self._callbacks.get(timeout=10)()


class Ticking:
    """A clock that returns the given times in order, and the last one from then on."""

    def __init__(self, *times: int) -> None:
        self._times = list(times)

    def __call__(self) -> int:
        return self._times.pop(0) if len(self._times) > 1 else self._times[0]


def entry(number: int, size: int = 10) -> Entry:
    return Entry(ORIGIN, number, [Put(1, b"car", b"", b"x" * size, size, new_context(f"request {number}"))])


class LogContract:
    @pytest.fixture
    def loop(self) -> Loop:
        return Loop()

    @pytest.fixture
    def logs(self, loop: Loop) -> Logs:
        raise NotImplementedError("a subclass says how its logs are made")

    @pytest.fixture
    def log(self, logs: Logs) -> Iterator[Log]:
        log = logs(1, Ticking(1000))
        yield log
        log.close()

    def time(self, reported: int) -> int:
        """Return a log time in the form that a test compares: 1000 for a log with its own clock."""
        return reported

    def append(self, loop: Loop, log: Log, *entries: Entry, partition: int = 0) -> list[Appended | LogError]:
        """Append them all, then wait for all the answers."""
        results: list[Appended | LogError] = []
        for each in entries:
            log.append(partition, each, results.append)
        loop.turn(until=lambda: len(results) == len(entries))
        return [self.compared(result) for result in results]

    def compared(self, result: Appended | LogError) -> Appended | LogError:
        """An answer as a test compares it."""
        return result if isinstance(result, LogError) else replace(result, time_ms=self.time(result.time_ms))

    def test_a_partition_begins_with_its_genesis(self, logs: Logs) -> None:
        log = logs(3, Ticking(1000))

        for partition in range(3):
            [first] = log.read(partition)
            assert [log.genesis(partition)] == first.entry.commands
            assert (0, 1000, 0) == (first.offset, self.time(first.time), first.entry.entry_number)
            genesis = log.genesis(partition)
            assert isinstance(genesis, Genesis)
            assert (partition, 3) == (genesis.partition, genesis.partitions)
            assert log.genesis(0).log_id == genesis.log_id
        log.close()

    def test_records_come_back_in_the_order_they_were_appended(self, loop: Loop, log: Log) -> None:
        entries = [entry(n) for n in range(20)]

        assert [Appended(0, n + 1, 1000) for n in range(20)] == self.append(loop, log, *entries)
        records = list(log.read(0, start=1))

        assert entries == [record.entry for record in records]
        assert list(range(1, 21)) == [record.offset for record in records]

    def test_partitions_count_their_own_offsets(self, loop: Loop, logs: Logs) -> None:
        log = logs(2, Ticking(1000))

        assert [Appended(1, 1, 1000)] == self.append(loop, log, entry(0), partition=1)
        assert [Appended(0, 1, 1000)] == self.append(loop, log, entry(1), partition=0)
        assert [Appended(1, 2, 1000)] == self.append(loop, log, entry(2), partition=1)

        assert [entry(0), entry(2)] == [record.entry for record in log.read(1, start=1)]
        assert [entry(1)] == [record.entry for record in log.read(0, start=1)]
        assert (2, 3) == (log.end(0), log.end(1))
        log.close()

    @pytest.mark.parametrize("start", [0, 1, 3, 5, 6, 9])
    def test_a_read_begins_at_its_start_offset(self, loop: Loop, log: Log, start: int) -> None:
        self.append(loop, log, *(entry(n) for n in range(5)))

        assert list(range(start, 6)) == [record.offset for record in log.read(0, start)]

    def test_the_end_of_the_log_reads_as_empty_not_as_an_error(self, log: Log) -> None:
        assert [] == list(log.read(0, start=log.end(0)))

    def test_a_read_ends_where_the_log_did_when_it_was_asked(self, loop: Loop, log: Log) -> None:
        """Otherwise the refold of a log with active writers would never end."""
        self.append(loop, log, entry(0))
        records = log.read(0)
        self.append(loop, log, entry(1))

        assert [0, 1] == [record.offset for record in records]

    def test_callbacks_run_through_deliver_only(self, loop: Loop, log: Log) -> None:
        """The owner has no lock: a callback from another thread could interrupt it."""
        results: list[Appended | LogError] = []

        log.append(0, entry(0), results.append)
        log.close()

        assert [] == results
        loop.turn(until=lambda: bool(results))
        assert [Appended(0, 1, 1000)] == [self.compared(result) for result in results]

    def test_answers_come_once_and_in_the_order_of_their_partition(self, loop: Loop, logs: Logs) -> None:
        log = logs(2, Ticking(1000))
        answers: list[int] = []
        for n in range(50):
            log.append(n % 2, entry(n), lambda _, n=n: answers.append(n))  # type: ignore[misc]
        log.close()
        loop.turn(until=lambda: len(answers) == 50)

        assert [list(range(0, 50, 2)), list(range(1, 50, 2))] == [
            [answer for answer in answers if answer % 2 == partition] for partition in range(2)
        ]

    def test_an_acknowledged_entry_can_be_read(self, loop: Loop, log: Log) -> None:
        ends: list[tuple[int, int]] = []
        for n in range(10):
            log.append(0, entry(n), lambda _, n=n: ends.append((n + 2, log.end(0))))  # type: ignore[misc]
        loop.turn(until=lambda: len(ends) == 10)

        assert all(end >= expected for expected, end in ends)

    def test_log_time_never_goes_back(self, loop: Loop, logs: Logs) -> None:
        """A clock that is set back stops log time and has no other effect."""
        log = logs(1, Ticking(1000, 5000, 3000, 3000, 7000))

        for n in range(4):
            self.append(loop, log, entry(n))

        assert [1000, 5000, 5000, 5000, 7000] == [record.time for record in log.read(0)]
        log.close()

    def test_an_entry_may_be_changed_once_it_was_appended(self, loop: Loop, log: Log) -> None:
        written = entry(0)
        results: list[Appended | LogError] = []

        log.append(0, written, results.append)
        written.commands = []
        written.entry_number = 99
        loop.turn(until=lambda: bool(results))

        assert [entry(0)] == [record.entry for record in log.read(0, start=1)]

    def test_an_entry_of_sixteen_megabytes_goes_through(self, loop: Loop, log: Log) -> None:
        """One request may be as large, and is an entry of its own then."""
        self.append(loop, log, entry(0, size=16 << 20), entry(1))

        assert [entry(0, size=16 << 20), entry(1)] == [record.entry for record in log.read(0, start=1)]

    def test_a_closed_log_refuses_and_says_so_in_the_usual_way(self, loop: Loop, log: Log) -> None:
        log.close()

        [result] = self.append(loop, log, entry(0))

        assert isinstance(result, LogError)

    def test_closing_twice_is_closing(self, log: Log) -> None:
        log.close()
        log.close()

    def test_a_log_that_was_not_trimmed_begins_at_0(self, log: Log) -> None:
        assert log.begin(0) == 0
        assert list(log.bases(0)) == []
