"""Reads of the past of the partitions that this process folds.

    as_of ──► the log has passed the cut? ──► the reader of the histories ──► answered
                 └── no: a Barrier, or wait        └── not folded yet: wait, with a deadline

A time T is final in a partition once its log time is above T. An idle log has no later record, so a Barrier is
appended: it changes nothing, and log time passes T. If the clock was set back, the entry names a log time after T.
"""

from typing import Final, cast

from ...log.commands import Barrier, Position
from ...log.log import Log
from ...materializer.feed_requests import FedPartition, ReadChanges
from ...materializer.fold.outcomes import Failed, Outcome
from ...materializer.history.history import PartitionCut, TimeCut
from ...materializer.history.requests import (
    DescribeTables,
    OnPast,
    PastAnswer,
    PastRead,
    PastTables,
    at_own_positions,
)
from ...materializer.partition import ResultPosition
from ...materializer.worker import Scheduler, Worker
from ...model.errors import (
    HorizonError,
    RequestError,
    ServiceUnavailableError,
    TrimmedDataAccessError,
    ValidationError,
)
from ...model.lazy_dataclass import dataclass
from ...model.sequence_numbers import first_offset_after
from ..history.reader import PastReader
from .known_definitions import KnownDefinitions
from .partition_chain import DelegatingPartition

DEADLINE_S: Final = 10.0
_FIRST_PAUSE_S: Final = 0.002
_MAX_PAUSE_S: Final = 0.1
_PAUSES: Final = 8
"""A pause is this part of the time waited so far, so an answer is late by as little."""
_CLOCK_PASSES_S: Final = 0.05
"""The time after which a clock that has not passed the present was set back."""
_NEVER: Final = 1 << 40  # an offset that no log has
_NOT_FOLDED: Final = "The history is not folded up to this point yet: try again."


@dataclass(frozen=True, slots=True)
class PastReads:
    """How the past of the partitions of this process is read.

    Attributes:
        reader: Reads the histories.
        scheduler: The event loop.
        log: The log.
        is_shared: Whether other processes append to the log, so that a position may exist that is not folded here yet.
        deadline: Seconds that a read may wait until the history has folded its cut.
    """

    reader: PastReader
    scheduler: Scheduler
    log: Log
    is_shared: bool
    deadline: float = DEADLINE_S

    def begin(self, partition_id: int) -> None:
        """Begin to follow a partition, so that a later read does not wait for the whole log."""
        # An old position would build an old epoch. This one is folded never, so the newest epoch is built and follows.
        self.reader.read(partition_id, Position(partition_id, _NEVER), DescribeTables(()), lambda *_: None)


class _Read:
    """One read of the past, of a worker's partition."""

    def __init__(
        self, reads: PastReads, worker: Worker, cut: PartitionCut, read: PastRead, done: OnPast
    ) -> None:
        self._reads = reads
        self._worker = worker
        self._cut = cut
        self._read = at_own_positions(read) if reads.is_shared else read
        self._done = done
        self._waited = 0.0

    def attempt(self) -> None:
        """Answer, or try again later."""
        cut, worker = self._cut, self._worker
        if isinstance(self._read, ReadChanges) and self._read.after_sequence_number:
            offset = first_offset_after(self._read.after_sequence_number)
            trimmed = trimmed_error(self._reads.log, worker.position.partition, offset)
            if trimmed is not None:
                self._done(trimmed, worker.position)
                return
        if isinstance(cut, TimeCut):
            if worker.state.log_time <= cut.time_ms:
                worker.submit(Barrier(), 0, self._on_barrier)
                return
        elif cut.offset >= worker.state.next_offset:
            partitions = self._reads.log.genesis(cut.partition).partitions
            error = ValidationError(f"The log ends before position {cut.text(partitions)}")
            if self._reads.is_shared:
                self._wait(error)
            else:
                self._done(error, worker.position)
            return
        partition_id, void = worker.position.partition, worker.state.voided
        self._reads.reader.read(partition_id, cut, self._read, self._on_answer, void)

    def _on_barrier(self, outcome: Outcome, position: ResultPosition) -> None:
        if isinstance(outcome, Failed):
            self._done(outcome.error, position)
        elif self._worker.state.log_time > cast(TimeCut, self._cut).time_ms:
            self.attempt()
        elif self._waited < _CLOCK_PASSES_S or not self._may_advance():
            self._wait(ServiceUnavailableError(_NOT_FOLDED))  # the cut is now, or a broker's clock is behind
        else:
            self._worker.advance_time(cast(TimeCut, self._cut).time_ms + 1, self._on_barrier)

    def _may_advance(self) -> bool:
        """Return whether log time or the clock of the log has reached the cut, and not only the clock of this node."""
        return not self._reads.is_shared or self._worker.state.log_time == cast(TimeCut, self._cut).time_ms

    def _on_answer(self, answer: PastAnswer | RequestError | None, position: Position) -> None:
        if answer is None:
            self._wait(ServiceUnavailableError(_NOT_FOLDED))
        else:
            self._done(answer, position)

    def _wait(self, error: RequestError) -> None:
        """Try again after a pause; after the deadline answer with the error."""
        if self._waited >= self._reads.deadline:
            self._done(error, self._worker.position)
            return
        pause = min(_MAX_PAUSE_S, max(_FIRST_PAUSE_S, self._waited / _PAUSES))
        self._waited += pause
        self._reads.scheduler.call_later(pause, self.attempt)


def trimmed_error(log: Log, partition_id: int, offset: int) -> TrimmedDataAccessError | None:
    """Return the error for a reader of changes from a record on that a trim removed; None if the log has the record."""
    if offset >= log.begin(partition_id):
        return None
    try:
        log.read(partition_id, offset)
    except HorizonError as error:
        return TrimmedDataAccessError(str(error))
    return None


class HistoricalPartition(DelegatingPartition):
    """A partition of this process whose past can be read."""

    def __init__(self, partition: FedPartition, worker: Worker, reads: PastReads) -> None:
        super().__init__(partition)
        self.submit = partition.submit
        self.get_isolated = partition.get_isolated
        self.feed = partition.feed
        self._worker = worker
        self._reads = reads
        self._definitions = KnownDefinitions()

    def as_of(self, cut: PartitionCut, read: PastRead, done: OnPast) -> None:
        """Read the state at a cut. Definitions that an earlier read found are not read again."""
        if isinstance(read, DescribeTables) and not read.is_counted:
            self._find_definitions(cut, read, done)
        else:
            _Read(self._reads, self._worker, cut, read, done).attempt()

    def _find_definitions(self, cut: PartitionCut, read: DescribeTables, done: OnPast) -> None:
        void = list(self._worker.state.voided)
        known = self._definitions.find(cut, read.names, void)
        if known is not None:
            done(known, self._worker.position)
            return

        def answer(found: PastAnswer | RequestError, position: ResultPosition) -> None:
            if isinstance(found, PastTables):
                self._definitions.add(cut, read.names, found, void)
            done(found, position)

        _Read(self._reads, self._worker, cut, read, answer).attempt()
