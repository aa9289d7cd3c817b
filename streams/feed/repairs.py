"""Rebuilds damaged change segments of one partition from its history, while readers wait.

    a read meets damage ──► the segment is sealed ──► its changes are read from the past ──► the file is replaced

A reader gets the changes, or an error that it may retry: never a page without the damaged changes. The segments are
rebuilt one after another, page by page.
"""

import logging
from collections.abc import Callable
from dataclasses import field
from itertools import groupby
from typing import Any, Final

from ...log.commands import Position
from ...materializer.feed_requests import LONGEST_WAIT_MS, Changes, ReadChanges
from ...materializer.fold.outcomes import Change
from ...materializer.fold.state import PartitionState
from ...materializer.history.requests import PastAnswer, ReadPast
from ...materializer.partition import ResultPosition
from ...materializer.worker import Scheduler
from ...model.errors import RequestError, ServiceUnavailableError
from ...model.lazy_dataclass import dataclass
from ...model.sequence_numbers import SequenceNumber, position_of
from .segment_files import Segment, SegmentDamagedError
from .segments import Segments, ShardBatch
from .serial_executor import SerialExecutor
from .shards import period_in, window_of

# After a failure an operator has to look at the disk or the log, so the rebuild is not repeated for each request.
RETRY_S: Final = 10.0
# The pause before the next read of a history that is not folded yet. The read itself waits as well.
_PAUSE_S: Final = 1.0

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Repair:
    """The repair of one segment.

    Attributes:
        segments: The segments of the table, with the damaged one.
        rebuilt: The same changes in another file.
        writing: Executor that writes files.
        last: The last sequence number of the segment, known when it is sealed.
        readers: The callbacks of the readers that wait.
    """

    table: int
    segments: Segments
    segment: Segment
    rebuilt: Segments
    writing: SerialExecutor
    last: SequenceNumber = 0
    readers: list[Callable[[bool], None]] = field(default_factory=list)


class Repairs:
    """The repairs of one partition.

    Args:
        read_past: Reads the past of the partition; None without a log to read.
        state: The state of the partition, with its capture periods.
        trimmed: Returns the sequence number up to which the log has no records.

    Attributes:
        repaired: The number of segments that were replaced.
    """

    def __init__(
        self,
        read_past: ReadPast | None,
        state: PartitionState,
        scheduler: Scheduler,
        trimmed: Callable[[], SequenceNumber],
    ) -> None:
        self.repaired = 0
        self._trimmed = trimmed
        self._read_past = read_past
        self._state = state
        self._scheduler = scheduler
        self._repairs: dict[Segment, _Repair] = {}  # the first one runs
        self._failed: set[Segment] = set()
        self._is_closed = False

    @property
    def damaged(self) -> int:
        """The number of damaged segments that are not replaced yet."""
        return len(self._repairs) + len(self._failed)

    def repair(
        self,
        table: int,
        segments: Segments,
        error: SegmentDamagedError,
        writing: SerialExecutor,
        on_done: Callable[[bool], None],
    ) -> None:
        """Replace a damaged segment, and call `on_done` with the success, after at most 20 seconds."""
        segment = error.segment
        if segment in self._failed or self._is_closed:
            on_done(False)
            return
        repair = self._repairs.get(segment)
        if repair is not None:
            self._wait(repair, on_done)
            return
        logger.warning("%s; it is rebuilt from the log, and its readers wait", error)
        repair = _Repair(table, segments, segment, segments.rebuilt(segment), writing)
        self._repairs[segment] = repair
        self._wait(repair, on_done)
        if len(self._repairs) == 1:
            self._start(repair)

    def close(self) -> None:
        """Answer all waiting readers. No repair continues."""
        self._is_closed = True
        for repair in list(self._repairs.values()):
            self._end(repair, is_replaced=False)

    def _wait(self, repair: _Repair, on_done: Callable[[bool], None]) -> None:
        is_answered = False

        def answer(is_replaced: bool) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                timer.cancel()
                on_done(is_replaced)

        timer = self._scheduler.call_later(LONGEST_WAIT_MS / 1000, answer, False)
        repair.readers.append(answer)

    def _start(self, repair: _Repair) -> None:
        def sealed(last: Any) -> None:
            if isinstance(last, Exception):
                self._fail(repair, last)
            elif last is None:  # it was removed, or replaced before this read
                self._end(repair, is_replaced=True)
            else:
                repair.last = last
                # The changes of trimmed records have expired.
                self._read(repair, max(repair.segment.after, self._trimmed()))

        repair.writing.submit(lambda: repair.segments.seal(repair.segment), sealed)

    def _read(self, repair: _Repair, after: SequenceNumber) -> None:
        """Read the next page of changes."""

        def on_page(answer: PastAnswer | RequestError, _: ResultPosition) -> None:
            if isinstance(answer, ServiceUnavailableError):
                self._scheduler.call_later(_PAUSE_S, self._read, repair, after)
            elif isinstance(answer, RequestError):
                self._fail(repair, answer)
            else:
                assert isinstance(answer, Changes), "the answer to ReadChanges is Changes"
                self._write(repair, answer)

        if self._read_past is None:
            self._fail(repair, LookupError("there is no log to read"))
        elif not self._is_closed:
            cut = Position(self._state.partition, *position_of(repair.last))
            self._read_past(cut, ReadChanges(repair.table, after, until=repair.last), on_page)

    def _write(self, repair: _Repair, page: Changes) -> None:
        """Write a page, and read the next one, or replace the segment."""
        rebuilt, batches = repair.rebuilt, self._captured(repair.table, page.changes)

        def write() -> bool | None:
            rebuilt.append(rebuilt.last, batches)
            return repair.segments.replace(repair.segment, rebuilt, repair.last) if page.is_end else None

        def written(outcome: bool | Exception | None) -> None:
            if isinstance(outcome, Exception):
                self._fail(repair, outcome)
            elif outcome is None:
                self._read(repair, page.next)
            else:
                if outcome:
                    self.repaired += 1
                    logger.warning("%s was rebuilt from the log", repair.segment.path)
                self._end(repair, is_replaced=True)

        if not self._is_closed:
            repair.writing.submit(write, written)

    def _captured(self, table: int, changes: list[Change]) -> list[ShardBatch]:
        """Return the changes that are in a capture period, by shard."""
        found = []
        for change in changes:
            window = window_of(self._state.periods.get(table, ()), change.sequence_number)
            if window is not None:
                found.append(((window.label, period_in(window, change.time)), change))
        return [
            ShardBatch(period, [change for _, change in batch])
            for (_, period), batch in groupby(found, lambda each: each[0])
        ]

    def _fail(self, repair: _Repair, error: Exception) -> None:
        logger.error(
            "cannot rebuild %s from the log: %s; its readers get an error, the next attempt is in %d s",
            repair.segment.path,
            error,
            RETRY_S,
        )
        self._failed.add(repair.segment)
        self._scheduler.call_later(RETRY_S, self._failed.discard, repair.segment)
        self._end(repair, is_replaced=False)

    def _end(self, repair: _Repair, *, is_replaced: bool) -> None:
        """Remove an unfinished file, answer the readers, and begin the next repair."""
        if self._repairs.pop(repair.segment, None) is None:
            return
        repair.writing.submit(repair.rebuilt.remove_all, lambda _: None)
        for on_done in repair.readers:
            on_done(is_replaced)
        following = next(iter(self._repairs.values()), None)
        if following is not None and not self._is_closed:
            self._start(following)
