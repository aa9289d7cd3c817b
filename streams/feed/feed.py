"""The change feed of one partition.

    outcomes ──► in a capture period? ──► the table's changes ──► waiting reads are answered
                                                 ▲
    ReadChanges, FindNumber, ListShards ─────────┘

The feed receives outcomes after the senders of their commands are answered, and costs nothing while no table has a
capture period. Changes are ordered by sequence number alone: a change that is folded again is captured once.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from ...log.commands import Position
from ...materializer.feed_requests import (
    ChangeCount,
    Changes,
    CountChanges,
    FeedAnswer,
    FeedRequest,
    FindSequenceNumber,
    FoundSequenceNumber,
    ListShards,
    OnFed,
    ReadChanges,
    Shards,
    fill,
)
from ...materializer.fold.feed.capture import WATCHED, CapturePeriod
from ...materializer.fold.outcomes import Change, Outcome
from ...materializer.fold.state import PartitionState
from ...materializer.history.requests import LogPast
from ...materializer.worker import Scheduler
from ...model.errors import InternalServerError
from ...model.limits import MODERN
from ...model.sequence_numbers import SequenceNumber, number_before
from ..changes import changes
from . import shards, table_changes
from .change_store import ChangeStore
from .change_writer import MAX_REPAIRS, ChangeWriter
from .long_poll import LongPoll, LongPolls
from .segments import Segments
from .serial_executor import SerialExecutor
from .table_changes import TableChanges

T = TypeVar("T")
KeyFilter: TypeAlias = Callable[[Change], bool]
"""Returns whether the key of a change is in a shard."""

_NONE: Final = None, None


class Feed:
    """The change feed of one partition.

    Args:
        state: The state that the partition's worker folds into, before anything is folded.
        position: Returns the position of the state.
        store: The store of changes.
        retention_ms: How much log time changes are kept; 0 for no limit.
        recent_bytes: Approximate memory that the newest changes may take.
        past: The past of the partition, to rebuild damaged segments.

    Attributes:
        repairs: The repairs of damaged segments.
    """

    def __init__(
        self,
        state: PartitionState,
        position: Callable[[], Position],
        scheduler: Scheduler,
        store: ChangeStore | None = None,
        *,
        retention_ms: int = 0,
        recent_bytes: int = 64 << 20,
        past: LogPast | None = None,
    ) -> None:
        self._state = state
        self._position = position
        self._retention_ms = retention_ms
        self._writer = ChangeWriter(
            store or ChangeStore(None, b"", 0),
            scheduler,
            state,
            retention_ms=retention_ms,
            recent_bytes=recent_bytes,
            past=past,
        )
        self.repairs = self._writer.repairs
        self._tables = self._writer.tables
        self._next_offset = state.next_offset
        # By table: its capture periods at a time when all their starts and ends were past, and the one that was open.
        self._last_windows: dict[int, tuple[list[CapturePeriod], CapturePeriod | None]] = {}
        self._polls = LongPolls(scheduler, self._read)

    def serve(self, writing: SerialExecutor, reading: SerialExecutor) -> None:
        """Write and read files in executors from now on."""
        self._writer.serve(writing, reading)

    def begin_close(self) -> None:
        """Answer all waiting reads: the partition is about to close."""
        self._polls.close()
        self.repairs.close()

    def schedule_sync(self) -> None:
        """Write the durable offset and remove expired changes soon: its file is damaged, or the log was trimmed."""
        self._writer.schedule_sync(self._next_offset)

    def verify(self, table_id: int, after: int) -> None:
        """Read the segment of a table that begins after a sequence number, and rebuild it if it is damaged."""
        table = self._tables.get(table_id)
        if table is not None:
            self._writer.read(table, lambda segments: segments.verify(after), lambda _: None)

    @property
    def drops(self) -> int:
        """The number of times that a table's oldest changes were dropped, because the disk did not take them."""
        return self._writer.drops

    def close(self) -> None:
        """Write and sync all changes, and close the files."""
        self._polls.close()
        self._writer.close(self._next_offset)

    # Capture

    def folded(self, outcomes: list[Outcome]) -> None:
        """Capture the changes of the record that was folded last."""
        state = self._state
        self._next_offset = state.next_offset
        windows = state.periods
        if not windows or self._next_offset <= self._writer.captured_offset:
            return
        # The sizes of records are those of DynamoDB today.
        is_counted_otherwise = state.limits.element_bytes != MODERN.element_bytes
        table_id = -1
        table: TableChanges | None = None
        window: CapturePeriod | None = None
        is_last = False  # whether the changes that follow are in the same window
        for change in changes(outcomes, windows, state.partition, state.partitions):
            if change.table != table_id:
                table_id = change.table
                known, window = self._last_windows.get(table_id, _NONE)
                is_last = known is windows[table_id]
            if not is_last:
                window, is_last = self._find_window(windows[table_id], change)
            if window is None:
                continue
            if table is None or table.table_id != table_id:
                if table is not None:
                    self._writer.flush_if_full(table)
                table = self._tables.get(table_id) or self._writer.add_table(table_id)
            if is_counted_otherwise:
                change.old_size = change.new_size = 0
            table.append(change, window)
        if table is not None:
            self._writer.flush_if_full(table)
        self._writer.schedule_sync(self._next_offset)
        self._polls.notify()

    def _find_window(self, windows: list[CapturePeriod], change: Change) -> tuple[CapturePeriod | None, bool]:
        """Return a change's capture period, and whether all later changes have the same one until periods change."""
        sequence_number = change.sequence_number
        window = shards.window_of(windows, sequence_number)
        is_last = all(
            each.begun < sequence_number and (each.ended is None or each.ended < sequence_number)
            for each in windows
        )
        if is_last:
            if len(self._last_windows) > len(self._state.periods):
                self._last_windows.clear()  # some tables are deleted
            self._last_windows[change.table] = windows, window
        return window, is_last

    def begin_again(self) -> None:
        """Discard all changes: the log is folded again, with another result."""
        self._writer.reset()
        self._next_offset = 0

    # Reading

    def ask(self, request: FeedRequest, done: OnFed) -> None:
        """Answer a request, after a trim of the table."""
        table = self._tables.get(request.table)
        if table is None:
            self._answer(request, None, done)
        else:
            self._writer.trim(table, lambda: self._answer(request, table, done))

    def _answer(self, request: FeedRequest, table: TableChanges | None, done: OnFed) -> None:
        match request:
            case ReadChanges():
                self._read(request, done)
            case FindSequenceNumber():
                self._find(request, table, done)
            case CountChanges():
                self._count(request, table, done)
            case ListShards():
                self._send(done, self._shards(request))

    def _limited(self, request: ReadChanges) -> tuple[ReadChanges, KeyFilter | None]:
        """Limit a read to the end of its shard or its disabled stream, and return the filter of the shard's keys."""
        stream = None if request.stream is None else self._stream(request.table, request.stream)
        if stream is None:
            return request, None
        end, holds = stream.ended, None
        if request.shard is not None:
            table = self._tables.get(request.table)
            starts = () if table is None else table.shard_starts
            end, holds = shards.shard_end(starts, stream, request.shard)
        if end is None or (request.until is not None and request.until <= end):
            return request, holds
        return replace(request, until=end), holds

    def _stream(self, table_id: int, label: int) -> CapturePeriod | None:
        periods = self._state.periods.get(table_id, ())
        return next((period for period in periods if period.label == label), None)

    def _read(self, asked: ReadChanges, done: OnFed, poll: LongPoll | None = None) -> None:
        """Answer with a page, or wait for changes. A shard may end during the wait."""
        request, holds = self._limited(asked)
        table = self._tables.get(request.table)
        trim_horizon = self._trim_horizon(request.table, request.stream)
        after = max(request.after_sequence_number, trim_horizon)
        if table is not None and after < table.recent_after:
            self._read_segments(replace(asked, after_sequence_number=after), table, done)
            return
        found, following = ([], None) if table is None else table.newest(request, after, holds)
        if following is not None:
            self._send(done, Changes(found, following, trim_horizon, False, self._state.log_time))
            return
        end = self._end if request.until is None else min(self._end, request.until)
        page = Changes(found, max(after, end), trim_horizon, True, self._state.log_time)
        page.is_over = request.until is not None and page.next >= request.until
        # A long poll would hide a new trim horizon, or wait for changes that cannot come.
        is_final = (
            page.is_over or request.after_sequence_number < trim_horizon or self._is_deleted(request.table)
        )
        if found or is_final or not request.wait_ms or not self._polls.add(asked, done, poll):
            self._send(done, page)

    def _read_segments(self, asked: ReadChanges, table: TableChanges, done: OnFed) -> None:
        """Answer with changes in segments. Without any, continue with the changes in memory."""
        request, holds = self._limited(asked)
        stored = table.recent_after
        until = stored if request.until is None else min(stored, request.until)

        def read(segments: Segments) -> tuple[list[Change], SequenceNumber | None]:
            page: list[Change] = []
            filtered = 0
            for block in segments.read(request.after_sequence_number, until):
                if fill(page, block, request, holds):
                    return page, page[-1].sequence_number
                filtered += 0 if holds is None else len(block)
                if filtered >= table_changes.MAX_FILTERED:
                    return page, block[-1].sequence_number
            return page, None

        def answer(found: tuple[list[Change], SequenceNumber | None]) -> None:
            page, following = found
            if not page and following is None and until == stored:
                self._read(replace(asked, after_sequence_number=until), done)
                return
            trim_horizon = self._trim_horizon(request.table, request.stream)
            is_over = following is None and until < stored
            after = until if following is None else following
            self._send(done, Changes(page, after, trim_horizon, is_over, self._state.log_time, is_over))

        self._with_segments(table, read, answer, done)

    def _find(self, request: FindSequenceNumber, table: TableChanges | None, done: OnFed) -> None:
        def answer(after: int) -> None:
            trim_horizon = self._trim_horizon(request.table, request.stream)
            self._send(done, FoundSequenceNumber(max(after, trim_horizon), trim_horizon))

        if table is None or request.time_ms > self._state.log_time:
            answer(self._end)
            return
        after = table.find(request.time_ms)
        if after is not None:
            answer(after)
        else:
            self._with_segments(table, lambda segments: segments.find(request.time_ms), answer, done)

    def _count(self, request: CountChanges, table: TableChanges | None, done: OnFed) -> None:
        if table is None:
            self._send(done, ChangeCount(0, None, self._end))
            return
        after = max(request.after_sequence_number, table.trim_horizon)
        until = table.last if request.until is None else request.until
        stored = table.recent_after
        recent, recent_ms = table.count(max(after, stored), until)
        if after >= stored:
            self._send(done, ChangeCount(recent, recent_ms, self._end))
            return

        def answer(in_segments: tuple[int, int | None]) -> None:
            count, oldest_ms = in_segments
            self._send(
                done, ChangeCount(count + recent, recent_ms if oldest_ms is None else oldest_ms, self._end)
            )

        # Counts are for metrics, which do not wait for the rebuild of a segment.
        until = min(until, stored)
        self._with_segments(table, lambda segments: segments.count(after, until), answer, done, repairs=0)

    def _shards(self, request: ListShards) -> Shards:
        table = self._tables.get(request.table)
        stream = self._stream(request.table, request.stream)
        found = []
        if stream is not None and stream.label != WATCHED:
            starts = () if table is None else table.shard_starts
            trim_horizon = self._trim_horizon(request.table, request.stream)
            found = shards.shards(starts, stream, trim_horizon=trim_horizon)
        return Shards(found, self._state.log_time)

    def _with_segments(
        self,
        table: TableChanges,
        read: Callable[[Segments], T],
        answer: Callable[[T], None],
        done: OnFed,
        *,
        repairs: int = MAX_REPAIRS,
    ) -> None:
        """Call `answer` with the result of `read`, or `done` with an error if the segments cannot be read."""

        def on_read(found: T | None) -> None:
            if found is None:
                done(InternalServerError(), self._position())
            else:
                answer(found)

        self._writer.read(table, read, on_read, repairs=repairs)

    def _send(self, done: OnFed, answer: FeedAnswer) -> None:
        done(answer, self._position())

    @property
    def _end(self) -> int:
        """An upper bound of the sequence numbers of all folded records."""
        return number_before(self._next_offset)

    def _is_deleted(self, table_id: int) -> bool:
        """Return whether a table was deleted. A table that was never in this partition may yet be created."""
        return table_id not in self._state.tables and table_id in self._state.periods

    def _trim_horizon(self, table_id: int, stream: int | None) -> int:
        """Return the sequence number after which the feed has all changes of a table, or of one of its streams."""
        windows = self._state.periods.get(table_id, ())
        table = self._tables.get(table_id)
        trimmed = self._writer.trim_horizon if table is None else table.trim_horizon
        horizon_ms = self._writer.horizon_ms
        kept = [window for window in windows if not window.is_over(horizon_ms)]
        if stream is not None:
            begun = [window.begun for window in kept if window.label == stream]
            return max([trimmed, *begun]) if begun else self._end
        if not kept or (table_id in self._state.tables and not any(window.is_open for window in kept)):
            return self._end  # the table's changes are not captured
        return max(trimmed, _unbroken_since(kept))


def _unbroken_since(windows: Sequence[CapturePeriod]) -> int:
    """Return the sequence number since which there was always a capture period."""
    newest_first = sorted(windows, key=lambda each: each.begun, reverse=True)
    begun = newest_first[0].begun
    for window in newest_first[1:]:
        if window.ended is None or window.ended >= begun:
            begun = window.begun
    return begun
