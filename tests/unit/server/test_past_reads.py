"""When a read of the past waits, and for how long."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from foldb.log.commands import Barrier, Position
from foldb.materializer.feed_requests import ReadChanges
from foldb.materializer.fold.outcomes import Completed, Failed
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.history.history import PartitionCut, TimeCut
from foldb.materializer.history.requests import (
    AtInstant,
    DescribeTables,
    GetItems,
    PastRead,
    PastTable,
    PastTables,
    ReadDifferences,
)
from foldb.model.errors import HorizonError, ServiceUnavailableError, TrimmedDataAccessError, ValidationError
from foldb.model.sequence_numbers import number_before, sequence_number
from foldb.model.tables import TableDefinition
from foldb.server.partitions.past_reads import DEADLINE_S, HistoricalPartition, PastReads
from tests.unit.materializer.fake_loop import FakeLoop

READ = DescribeTables(())


class FakeWorker:
    """A worker at offset 9 and log time 1,000. A Barrier takes log time to `time_after`."""

    def __init__(self) -> None:
        self.state = PartitionState(next_offset=10, log_time=1000)
        self.position = Position(0, 9)
        self.times_after = [1001]
        self.outcome: Any = Completed(progressed=False)
        self.submitted: list[Any] = []

    def advance_time(self, time_ms: int, done: Any) -> None:
        self.submitted.append(time_ms)
        self.state.log_time = time_ms
        done(self.outcome, self.position)

    get = get_all = get_isolated = query = scan = reach = status = feed = None

    def submit(self, command: Any, size: int, done: Any) -> None:
        self.submitted.append(command)
        if self.times_after:
            self.state.log_time = self.times_after.pop(0)
        done(self.outcome, self.position)


class FakeReader:
    """A reader that is not folded `late` times."""

    def __init__(self, late: int = 0) -> None:
        self.late = late
        self.reads = 0
        self.asked: list[PastRead] = []
        self.answer = PastTables([])

    def read(self, partition_id: int, cut: PartitionCut, read: Any, done: Any, void: Any = ()) -> None:
        self.reads += 1
        self.asked.append(read)
        done(None if self.reads <= self.late else self.answer, Position(partition_id, 5))


class FakeLog:
    """A log of one partition, which begins with record 5."""

    def genesis(self, _: int) -> Any:
        return SimpleNamespace(partitions=1)

    def begin(self, _: int) -> int:
        return 5

    def read(self, _: int, start: int) -> Any:
        raise HorizonError(f"@{start} is before the history horizon @5")


class Stage:
    """A partition whose past is read."""

    def __init__(self, late: int = 0, *, is_shared: bool = False) -> None:
        self.loop, self.worker, self.reader = FakeLoop(), FakeWorker(), FakeReader(late)
        reads = PastReads(self.reader, self.loop, FakeLog(), is_shared)  # type: ignore[arg-type]
        self.partition = HistoricalPartition(self.worker, self.worker, reads)  # type: ignore[arg-type]
        self.answers: list[Any] = []

    def read(self, cut: PartitionCut, read: PastRead = READ) -> list[Any]:
        self.partition.as_of(cut, read, lambda answer, position: self.answers.append((answer, position)))
        return self.answers


def test_a_shared_log_has_no_instant() -> None:
    """A live page there has one position in each partition."""
    own, positions = Position(0, 9), [Position(0, 9), Position(1, 7)]
    differences = ReadDifferences(1, Position(0, 5), since_positions=positions)
    items = GetItems([(1, b"a", b"")])
    reads: list[PastRead] = [AtInstant(items, positions), AtInstant(differences, positions)]

    shared, alone = Stage(is_shared=True), Stage()
    for read in reads:
        shared.read(own, read)
        alone.read(own, read)

    assert [items, ReadDifferences(1, Position(0, 5))] == shared.reader.asked
    assert reads == alone.reader.asked


def test_a_closed_time_and_a_folded_position_are_read_at_once() -> None:
    stage = Stage()
    stage.read(TimeCut(999))

    assert [(PastTables([]), Position(0, 5))] * 2 == stage.read(Position(0, 9, 3))
    assert [] == stage.worker.submitted


def test_definitions_are_read_once() -> None:
    """With counts they are read each time, because each cut has others."""
    stage, bare = Stage(), DescribeTables(["T"], is_counted=False)
    found = stage.reader.answer = PastTables([PastTable(cast(TableDefinition, None), {})], 0, 500)

    stage.read(TimeCut(499), bare)
    assert 2 == len(stage.read(TimeCut(0), bare))
    assert [found, found] == [answer for answer, _ in stage.answers]
    assert 1 == stage.reader.reads

    stage.read(TimeCut(500), bare)
    stage.read(TimeCut(499), DescribeTables(["T"]))
    assert 3 == stage.reader.reads


def test_a_barrier_closes_the_time_of_an_idle_log() -> None:
    stage = Stage()

    assert [(PastTables([]), Position(0, 5))] == stage.read(TimeCut(1000))
    assert [Barrier()] == stage.worker.submitted


def test_the_present_millisecond_is_waited_for() -> None:
    stage = Stage()
    stage.worker.times_after = [1000, 1000, 1001]

    assert [] == stage.read(TimeCut(1000))
    stage.loop.advance(1)
    assert [(PastTables([]), Position(0, 5))] == stage.answers
    assert 3 == len(stage.worker.submitted)


def test_a_clock_that_was_set_back_does_not_keep_a_time_open() -> None:
    stage = Stage()
    stage.worker.times_after = [1000] * 100

    stage.read(TimeCut(1000))
    stage.loop.advance(1)
    assert [(PastTables([]), Position(0, 5))] == stage.answers
    assert 1001 == stage.worker.submitted[-1]


@pytest.mark.parametrize(("log_time", "is_advanced"), [(1000, True), (999, False)])
def test_only_a_broker_or_log_time_itself_advances_log_time(log_time: int, is_advanced: bool) -> None:
    """The clock of a node may be ahead of the brokers' clocks."""
    stage = Stage(is_shared=True)
    stage.worker.times_after = [log_time] * 1000

    stage.read(TimeCut(1000))
    stage.loop.advance(DEADLINE_S + 1)
    [(answer, _)] = stage.answers
    assert is_advanced == isinstance(answer, PastTables)


def test_a_barrier_that_fails_is_answered() -> None:
    stage, error = Stage(), ServiceUnavailableError()
    stage.worker.outcome = Failed(error)

    assert [(error, Position(0, 9))] == stage.read(TimeCut(1000))


def test_a_history_that_is_behind_is_asked_again() -> None:
    stage = Stage(late=3)

    assert [] == stage.read(Position(0, 9))
    stage.loop.advance(1)
    assert [(PastTables([]), Position(0, 5))] == stage.answers


@pytest.mark.parametrize("waited", [0.14, 0.33, 0.6])
def test_a_read_is_late_by_an_eighth_of_the_time_that_it_waits(waited: float) -> None:
    stage = Stage(late=1 << 30)
    stage.read(Position(0, 9))
    stage.loop.advance(waited)
    stage.reader.late = 0

    stage.loop.advance(waited / 8)
    assert [(PastTables([]), Position(0, 5))] == stage.answers


def test_a_read_ends_at_its_deadline() -> None:
    stage = Stage(late=1 << 30)
    stage.read(Position(0, 9))
    stage.loop.advance(DEADLINE_S - 1)
    assert [] == stage.answers

    stage.loop.advance(2)
    [(error, position)] = stage.answers
    assert (ServiceUnavailableError, Position(0, 9)) == (type(error), position)
    assert stage.reader.reads < 200


def test_a_position_beyond_the_log_is_refused_at_once() -> None:
    [(error, _)] = Stage().read(Position(0, 10))

    assert isinstance(error, ValidationError)
    assert "The log ends before position 10" == error.message


def test_a_position_of_another_process_is_waited_for() -> None:
    stage = Stage(is_shared=True)
    assert [] == stage.read(Position(0, 10))

    stage.worker.state.next_offset = 11
    stage.loop.advance(1)
    assert [(PastTables([]), Position(0, 5))] == stage.answers


def test_changes_before_the_horizon_are_refused_with_it() -> None:
    stage = Stage()

    for after in (number_before(4), sequence_number(4, 0, 0)):
        error, _ = stage.read(Position(0, 9), ReadChanges(1, after))[-1]
        assert isinstance(error, TrimmedDataAccessError)
        assert "@4 is before the history horizon @5" == error.message
    assert 0 == stage.reader.reads


def test_changes_from_the_horizon_on_are_read() -> None:
    """A range from the very first change begins at the horizon."""
    stage = Stage()

    stage.read(Position(0, 9), ReadChanges(1, number_before(5)))
    stage.read(Position(0, 9), ReadChanges(1, 0))
    assert 2 == stage.reader.reads
