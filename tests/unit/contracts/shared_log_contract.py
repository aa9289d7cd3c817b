"""The contract of a log to which other processes append too.

class TestMyLog(SharedLogContract):
    @pytest.fixture
    def logs(self, loop): return lambda partitions, clock: MyLog(..., deliver=loop.deliver)

    @pytest.fixture
    def another(self, loop): return lambda log: log of the same records, as another node has it
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pytest

from foldb.log.commands import Entry
from foldb.log.log import Appended, RawRecord, SharedLog
from foldb.model.errors import LogError
from tests.unit.contracts.log_contract import LogContract, Logs, Loop, Ticking, entry

Another: TypeAlias = Callable[[SharedLog], SharedLog]
OTHER = b"another's origin"


class Ear:
    """A follower that records the records of a partition."""

    def __init__(self, log: SharedLog, start: int = 0, partition: int = 0) -> None:
        self.portions: list[Sequence[RawRecord]] = []
        self.failures: list[Exception] = []
        self.stop = log.follow(partition, start, self.portions.append, self.failures.append)

    @property
    def received(self) -> list[RawRecord]:
        return [each for portion in self.portions for each in portion]

    @property
    def offsets(self) -> list[int]:
        return [each.offset for each in self.received]

    def entries(self) -> list[Entry]:
        return [each.record().entry for each in self.received]


class SharedLogContract(LogContract):
    @pytest.fixture
    def another(self, loop: Loop) -> Another:
        raise NotImplementedError("a subclass says how another node has the same log")

    @pytest.fixture
    def shared(self, logs: Logs) -> Iterator[SharedLog]:
        log = logs(1, Ticking(1000))
        assert isinstance(log, SharedLog)
        yield log
        log.close()

    @pytest.mark.parametrize("start", [0, 1, 4, 6])
    def test_following_begins_at_its_start_offset(self, loop: Loop, shared: SharedLog, start: int) -> None:
        self.append(loop, shared, *(entry(n) for n in range(5)))

        ear = Ear(shared, start)
        self.append(loop, shared, entry(5))
        loop.turn(until=lambda: 6 in ear.offsets)

        assert list(range(start, 7)) == ear.offsets
        assert [entry(n) for n in range(max(0, start - 1), 6)] == ear.entries()[int(start == 0) :]

    def test_a_follower_receives_later_appends_in_order(self, loop: Loop, shared: SharedLog) -> None:
        ear = Ear(shared, start=1)

        for n in range(0, 100, 10):
            self.append(loop, shared, *(entry(n + each) for each in range(10)))
        loop.turn(until=lambda: len(ear.received) == 100)

        assert [entry(n) for n in range(100)] == ear.entries()
        assert list(range(1, 101)) == ear.offsets

    def test_a_follower_receives_the_acknowledged_bytes(self, loop: Loop, shared: SharedLog) -> None:
        """A worker that folds on the acknowledgement compares it with the record that arrives later."""
        ear = Ear(shared, start=1)
        results: list[Appended | LogError] = []
        shared.append(0, entry(0), results.append)
        loop.turn(until=lambda: bool(results) and bool(ear.received))

        [appended], [received] = results, ear.received
        assert isinstance(appended, Appended)
        assert (received.partition, received.offset, received.time, received.body) == (
            appended.partition,
            appended.offset,
            appended.time_ms,
            appended.body,
        )

    def test_a_follower_receives_the_records_that_a_read_returns(self, loop: Loop, shared: SharedLog) -> None:
        self.append(loop, shared, *(entry(n) for n in range(5)))
        ear = Ear(shared)
        loop.turn(until=lambda: len(ear.received) == 6)

        assert list(shared.read(0)) == [each.record() for each in ear.received]

    def test_records_arrive_through_deliver_only(self, loop: Loop, shared: SharedLog) -> None:
        ear = Ear(shared)

        assert [] == ear.received
        loop.turn(until=lambda: bool(ear.received))

    def test_no_record_arrives_after_a_stop(self, loop: Loop, shared: SharedLog, another: Another) -> None:
        ear = Ear(shared)
        loop.turn(until=lambda: bool(ear.received))
        self.append(loop, shared, entry(0))
        received = len(ear.received)

        ear.stop()
        witness = Ear(another(shared))
        self.append(loop, shared, entry(1))
        loop.turn(until=lambda: len(witness.received) == 3)

        assert received == len(ear.received)
        assert [] == ear.failures

    def test_following_can_begin_again(self, loop: Loop, shared: SharedLog) -> None:
        self.append(loop, shared, entry(0), entry(1))
        first = Ear(shared)
        loop.turn(until=lambda: bool(first.received))
        first.stop()

        second = Ear(shared, start=2)
        loop.turn(until=lambda: bool(second.received))

        assert [2] == second.offsets

    def test_partitions_are_followed_apart(self, loop: Loop, logs: Logs) -> None:
        log = logs(2, Ticking(1000))
        assert isinstance(log, SharedLog)
        ears = [Ear(log, start=1, partition=partition) for partition in (0, 1)]

        for n in range(20):
            self.append(loop, log, entry(n), partition=n % 2)
        loop.turn(until=lambda: all(len(ear.received) == 10 for ear in ears))

        assert [entry(n) for n in range(0, 20, 2)] == ears[0].entries()
        assert [entry(n) for n in range(1, 20, 2)] == ears[1].entries()
        log.close()

    def test_a_follower_receives_records_in_portions(self, loop: Loop, shared: SharedLog) -> None:
        """Folding a portion blocks the loop."""
        self.append(loop, shared, *(entry(n, size=300_000) for n in range(40)), entry(40, size=3 << 20))

        ear = Ear(shared, start=1)
        loop.turn(until=lambda: len(ear.received) == 41)

        assert all(
            len(portion) == 1 or sum(len(each.body) for each in portion) <= 2 << 20
            for portion in ear.portions
        )

    def test_two_nodes_receive_the_same_records(
        self, loop: Loop, shared: SharedLog, another: Another
    ) -> None:
        other = another(shared)
        ears = [Ear(shared, start=1), Ear(other, start=1)]
        results: list[Appended | LogError] = []

        for n in range(50):
            shared.append(0, entry(n), results.append)
            other.append(0, Entry(OTHER, n, entry(n).commands), results.append)
        loop.turn(until=lambda: len(results) == 100 and all(len(ear.received) == 100 for ear in ears))

        assert ears[0].received == ears[1].received
        for origin in (entry(0).origin, OTHER):
            numbers = [each.entry_number for each in ears[0].entries() if each.origin == origin]
            assert list(range(50)) == numbers
        places = [result.offset for result in results if isinstance(result, Appended)]
        assert list(range(1, 101)) == sorted(places)

    def test_an_entry_appended_twice_is_in_the_log_twice(
        self, loop: Loop, shared: SharedLog, another: Another
    ) -> None:
        """It is the fold that drops the second copy: nothing else knows which one that is."""
        ear = Ear(shared, start=1)
        self.append(loop, shared, entry(0))
        self.append(loop, another(shared), entry(0))
        self.append(loop, shared, entry(1))
        loop.turn(until=lambda: len(ear.received) == 3)

        assert [entry(0), entry(0), entry(1)] == ear.entries()

    def test_the_end_is_after_every_acknowledged_entry(
        self, loop: Loop, shared: SharedLog, another: Another
    ) -> None:
        other = another(shared)
        for n in range(20):
            [result] = self.append(loop, other if n % 2 else shared, Entry(OTHER, n, entry(n).commands))
            assert isinstance(result, Appended)
            ends: list[int | LogError] = []
            shared.ask_end(0, ends.append)
            assert [] == ends, "nothing is told but through deliver"
            loop.turn(until=lambda: bool(ends))  # noqa: B023  the loop is done with it before the next one
            assert [result.offset + 1] == ends

    def test_every_question_for_the_end_is_answered(self, loop: Loop, shared: SharedLog) -> None:
        ends: list[int | LogError] = []
        for _ in range(50):
            shared.ask_end(0, ends.append)
        loop.turn(until=lambda: len(ends) == 50)

        assert [1] * 50 == ends
