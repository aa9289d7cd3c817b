"""The change feed of one partition.

    outcomes ──► does a window hold them? ──► the table's channel ──► whoever waits is told
                                                    ▲
    ReadChanges, FindNumber, ListShards ────────────┘

It is told of outcomes when their senders have been answered, and costs nothing while no table has a window. Where a
change belongs is told by its number alone: what is folded again is taken once.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from ...log.commands import Position
from ...materializer.feed_requests import (
    Changes,
    Count,
    CountChanges,
    FeedAnswer,
    FeedRequest,
    FindSequenceNumber,
    FoundSequenceNumber,
    ListShards,
    OnFed,
    ReadChanges,
    Shards,
)
from ...materializer.fold.feed.capture import CapturePeriod
from ...materializer.fold.outcomes import Change, Outcome, sequence_number
from ...materializer.fold.state import PartitionState
from ...materializer.worker import Scheduler
from ...model.errors import InternalServerError
from ..changes import changes
from . import shards
from .change_store import ChangeStore
from .change_writer import REPAIRS, ChangeWriter
from .long_poll import LongPoll, LongPolls
from .repairs import Remake
from .segments import Segments
from .serial_executor import Work
from .table_changes import TableChanges, fill

T = TypeVar("T")

_NONE: Final = None, None


class Feed:
    """The feed of the partition that `state` is of.

    Args:
        state: What the partition's worker folds into, as it is before anything is folded.
        position: Where that stands.
        scheduler: The loop.
        keeping: Where changes are kept.
        retention_ms: For how much log time they are; 0 for ever.
        recent_bytes: About how much memory the newest may take.
        remake: Makes a damaged segment again from the log.

    Attributes:
        repairs: Damaged segments on their way to be replaced.
    """

    def __init__(
        self,
        state: PartitionState,
        position: Callable[[], Position],
        scheduler: Scheduler,
        keeping: ChangeStore | None = None,
        *,
        retention_ms: int = 0,
        recent_bytes: int = 64 << 20,
        remake: Remake | None = None,
    ) -> None:
        self._state = state
        self._position = position
        self._retention_ms = retention_ms
        self._storing = ChangeWriter(
            keeping or ChangeStore(None, b"", 0),
            scheduler,
            state,
            retention_ms=retention_ms,
            recent_bytes=recent_bytes,
            remake=remake,
        )
        self.repairs = self._storing.repairs
        self._channels = self._storing.channels
        self._next_offset = state.next_offset
        # By table: its windows, as they were when all that began or ended with them was past, and the one of today.
        self._last_windows: dict[int, tuple[list[CapturePeriod], CapturePeriod | None]] = {}
        self._waits = LongPolls(scheduler, self._read)

    def serve(self, writing: Work, reading: Work) -> None:
        """Go on beside those who are served: whatever has to do with files is done there."""
        self._storing.serve(writing, reading)

    def let_go(self) -> None:
        """Answer who waits: the partition is about to be closed."""
        self._waits.close()
        self.repairs.close()

    def mark(self) -> None:
        """Write the mark again, though nothing has changed."""
        self._storing.come_again(self._next_offset)

    def check(self, table: int, after: int) -> None:
        """Read the segment of a table that goes on from `after`, and have it made again if it is damaged."""
        channel = self._channels.get(table)
        if channel is not None:
            self._storing.read(channel, lambda segments: segments.check(after), lambda _: None)

    def close(self) -> None:
        """Leave on the disk what is to be found by the next start."""
        self._waits.close()
        self._storing.close(self._next_offset)

    # Capture

    def folded(self, outcomes: list[Outcome]) -> None:
        """Take the changes of the record that was folded last."""
        state = self._state
        self._next_offset = state.next_offset
        windows = state.periods
        if not windows or self._next_offset <= self._storing.through:
            return
        table = -1
        channel: TableChanges | None = None
        window: CapturePeriod | None = None
        is_last = False  # whether the changes that follow are in the same window
        for change in changes(outcomes, windows, state.partition, state.partitions):
            if change.table != table:
                table = change.table
                known, window = self._last_windows.get(table, _NONE)
                is_last = known is windows[table]
            if not is_last:
                window, is_last = self._find_window(windows[table], change)
            if window is None:
                continue
            if channel is None or channel.table != table:
                if channel is not None:
                    self._storing.look(channel)
                channel = self._channels.get(table) or self._storing.channel(table)
            channel.take(change, window)
        if channel is not None:
            self._storing.look(channel)
        self._storing.come_again(self._next_offset)
        self._waits.look()

    def _find_window(self, windows: list[CapturePeriod], change: Change) -> tuple[CapturePeriod | None, bool]:
        """The window that a change is in, and whether those that follow are in the same one, until there are others."""
        number = change.sequence_number
        window = _window_of(windows, number)
        is_last = all(each.begun < number and (each.ended is None or each.ended < number) for each in windows)
        if is_last:
            if len(self._last_windows) > len(self._state.periods):
                self._last_windows.clear()  # of tables that are gone
            self._last_windows[change.table] = windows, window
        return window, is_last

    def begin_again(self) -> None:
        """Forget all: the log is folded anew, and not as before."""
        self._storing.begin_again()
        self._next_offset = 0

    # Reading

    def ask(self, request: FeedRequest, done: OnFed) -> None:
        """Answer a request."""
        channel = self._channels.get(request.table)
        if channel is None:
            self._answer(request, None, done)
        else:
            self._storing.trim(channel, lambda: self._answer(request, channel, done))

    def _answer(self, request: FeedRequest, channel: TableChanges | None, done: OnFed) -> None:
        match request:
            case ReadChanges():
                self._read(self._within(request), done)
            case FindSequenceNumber():
                self._find(request, channel, done)
            case CountChanges():
                self._count(request, channel, done)
            case ListShards():
                self._tell(done, self._shards(request))

    def _within(self, request: ReadChanges) -> ReadChanges:
        """What is asked for of a stream that was disabled ends where it did: a later one is not looked through."""
        windows = self._state.periods.get(request.table, ()) if request.stream is not None else ()
        ended = [each.ended for each in windows if each.label == request.stream and each.ended is not None]
        if not ended:
            return request
        until = ended[0] if request.until is None else min(request.until, ended[0])
        return replace(request, until=until)

    def _read(self, request: ReadChanges, done: OnFed, wait: LongPoll | None = None) -> None:
        """Answer with a page, or have it wait."""
        channel = self._channels.get(request.table)
        trim_horizon = self._kept_after(request.table, request.stream)
        after = max(request.after_sequence_number, trim_horizon)
        if channel is not None and after < channel.recent_after:
            self._read_stored(replace(request, after_sequence_number=after), channel, done)
            return
        found, is_full = ([], False) if channel is None else channel.newest(request, after)
        if is_full:
            self._tell(
                done, Changes(found, found[-1].sequence_number, trim_horizon, False, self._state.log_time)
            )
            return
        end = self._end if request.until is None else min(self._end, request.until)
        page = Changes(found, max(after, end), trim_horizon, True, self._state.log_time)
        is_over = request.until is not None and page.next >= request.until
        # What is to be known at once, or not waited for in vain.
        is_final = is_over or request.after_sequence_number < trim_horizon or self._is_gone(request.table)
        if found or is_final or not request.wait_ms or not self._waits.add(request, done, wait):
            self._tell(done, page)

    def _read_stored(self, request: ReadChanges, channel: TableChanges, done: OnFed) -> None:
        """Answer with what is in segments, and go on with what is in memory if there is nothing."""
        through = channel.recent_after
        until = through if request.until is None else min(through, request.until)

        def read(segments: Segments) -> tuple[list[Change], bool]:
            page: list[Change] = []
            return page, any(
                fill(page, each, request) for each in segments.read(request.after_sequence_number, until)
            )

        def answer(found: tuple[list[Change], bool]) -> None:
            page, is_full = found
            after = page[-1].sequence_number if is_full else until
            if not page and until == through:
                self._read(replace(request, after_sequence_number=after), done)
            else:
                trim_horizon = self._kept_after(request.table, request.stream)
                is_end = not is_full and until < through
                self._tell(done, Changes(page, after, trim_horizon, is_end, self._state.log_time))

        self._stored(channel, read, answer, done)

    def _find(self, request: FindSequenceNumber, channel: TableChanges | None, done: OnFed) -> None:
        def answer(number: int) -> None:
            trim_horizon = self._kept_after(request.table, request.stream)
            self._tell(done, FoundSequenceNumber(max(number, trim_horizon), trim_horizon))

        if channel is None or request.time_ms > self._state.log_time:
            answer(self._end)
            return
        number = channel.find(request.time_ms)
        if number is not None:
            answer(number)
        else:
            self._stored(channel, lambda segments: segments.find(request.time_ms), answer, done)

    def _count(self, request: CountChanges, channel: TableChanges | None, done: OnFed) -> None:
        if channel is None:
            self._tell(done, Count(0, None, self._end))
            return
        after = max(request.after_sequence_number, channel.gone_after)
        until = channel.last if request.until is None else request.until
        through = channel.recent_after
        recent, recent_ms = channel.count(max(after, through), until)
        if after >= through:
            self._tell(done, Count(recent, recent_ms, self._end))
            return

        def answer(stored: tuple[int, int | None]) -> None:
            count, oldest_ms = stored
            self._tell(done, Count(count + recent, recent_ms if oldest_ms is None else oldest_ms, self._end))

        # A count is for figures, which do not wait until a segment is made again.
        until = min(until, through)
        self._stored(channel, lambda segments: segments.count(after, until), answer, done, repairs=0)

    def _shards(self, request: ListShards) -> Shards:
        channel = self._channels.get(request.table)
        found = []
        for window in self._state.periods.get(request.table, ()):
            if window.label == request.stream:
                found = shards.shards(
                    () if channel is None else channel.beginnings,
                    stream=window.label,
                    shard_ms=window.shard_ms,
                    begun=window.begun,
                    ended=window.ended,
                    trim_horizon=self._kept_after(request.table, request.stream),
                )
        return Shards(found, self._state.log_time)

    def _stored(
        self,
        channel: TableChanges,
        read: Callable[[Segments], T],
        answer: Callable[[T], None],
        done: OnFed,
        *,
        repairs: int = REPAIRS,
    ) -> None:
        """Do what has to do with files, and answer."""

        def answered(found: T | None) -> None:
            if found is None:
                done(InternalServerError(), self._position())
            else:
                answer(found)

        self._storing.read(channel, read, answered, repairs=repairs)

    def _tell(self, done: OnFed, answer: FeedAnswer) -> None:
        done(answer, self._position())

    @property
    def _end(self) -> int:
        """The highest number that what has been folded could have given."""
        return number_before(self._state, self._next_offset)

    def _is_gone(self, table: int) -> bool:
        """Whether the table was deleted: one that never was here may be on its way."""
        return table not in self._state.tables and table in self._state.periods

    def _kept_after(self, table: int, stream: int | None) -> int:
        """From where on a table's changes are here without a gap."""
        windows = self._state.periods.get(table, ())
        channel = self._channels.get(table)
        trimmed = self._storing.floor if channel is None else channel.gone_after
        horizon = self._storing.horizon
        kept = [window for window in windows if not window.is_over(horizon)]
        if stream is not None:
            begun = [window.begun for window in kept if window.label == stream]
            return max([trimmed, *begun]) if begun else self._end
        if not kept or (table in self._state.tables and not any(window.is_open for window in kept)):
            return self._end  # whatever changes, nobody takes it
        return max(trimmed, _unbroken(kept))


def number_before(state: PartitionState, offset: int) -> int:
    """The highest number that a record before `offset` could have given."""
    base = 0 if state.genesis is None else state.genesis.base
    return sequence_number(base + offset, 0, 0) - 1


def _window_of(windows: Sequence[CapturePeriod], number: int) -> CapturePeriod | None:
    """The window that a change belongs to: that of a stream before one that only watches."""
    found = None
    for window in windows:
        if window.holds(number):
            if window.label:
                return window
            found = window
    return found


def _unbroken(windows: Sequence[CapturePeriod]) -> int:
    """Where the newest stretch began in which there was always a window."""
    newest_first = sorted(windows, key=lambda each: each.begun, reverse=True)
    begun = newest_first[0].begun
    for window in newest_first[1:]:
        if window.ended is None or window.ended >= begun:
            begun = window.begun
    return begun
