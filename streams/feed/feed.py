"""The change feed of one partition.

    outcomes ──► does a window hold them? ──► the table's channel ──► whoever waits is told
                                                    ▲
    ReadChanges, FindNumber, ListShards ────────────┘

It is told of outcomes when their senders have been answered, and costs nothing while no table has a window. Where a
change belongs is told by its number alone: what is folded again is taken once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...log.commands import Position
from ...materializer.feed import (
    LONGEST_WAIT_MS,
    Changes,
    Count,
    CountChanges,
    FeedAnswer,
    FeedRequest,
    FindNumber,
    ListShards,
    Number,
    OnFed,
    ReadChanges,
    Shards,
)
from ...materializer.fold.feed.windows import Window
from ...materializer.fold.outcomes import Outcome, sequence_number
from ...materializer.fold.state import PartitionState
from ...materializer.worker import Cancellable, Scheduler
from ..changes import changes
from . import shards
from .channel import Channel

# Whoever waits is told at once, and then not again for so long: a reader of many small pages is a burden to writers.
_PAUSE_S: Final = 0.003


@dataclass(slots=True, eq=False)
class _Wait:
    """A read that waits for something to be there."""

    request: ReadChanges
    done: OnFed
    timer: Cancellable | None = None


class Feed:
    """The feed of the partition that `state` is of.

    Args:
        state: What the partition's worker folds into.
        position: Where that stands.
        scheduler: The loop.
    """

    def __init__(self, state: PartitionState, position: Callable[[], Position], scheduler: Scheduler) -> None:
        self._state = state
        self._position = position
        self._scheduler = scheduler
        self._channels: dict[int, Channel] = {}
        self._next_offset = state.next_offset
        self._waits: dict[int, list[_Wait]] = {}
        self._pausing = False
        self._told_of = -1
        self._is_closed = False

    # Capture

    def folded(self, outcomes: Sequence[Outcome]) -> None:
        """Take the changes of the record that was folded last."""
        self._next_offset = self._state.next_offset
        windows = self._state.streams
        if not windows:
            return
        for change in changes(outcomes, windows):
            window = _window_of(windows[change.table], change.sequence_number)
            if window is not None:
                self._channel(change.table).take(change, window)
        if self._waits and not self._pausing:
            self._pausing = True
            self._scheduler.call_soon(self._tell)

    def _channel(self, table: int) -> Channel:
        channel = self._channels.get(table)
        if channel is None:
            channel = self._channels[table] = Channel(table, 0)
        return channel

    # Reading

    def ask(self, request: FeedRequest, done: OnFed) -> None:
        """Answer a request."""
        match request:
            case ReadChanges():
                self._read(request, done)
            case FindNumber():
                self._answer(done, self._find(request))
            case ListShards():
                self._answer(done, self._shards(request))
            case CountChanges():
                self._answer(done, self._count(request))

    def close(self) -> None:
        """Answer who waits."""
        self._is_closed = True
        waits, self._waits = self._waits, {}
        for wait in (each for of_table in waits.values() for each in of_table):
            if wait.timer is not None:
                wait.timer.cancel()
            self._answer(wait.done, self._page(wait.request))

    def _read(self, request: ReadChanges, done: OnFed) -> None:
        page = self._page(request)
        if request.wait_ms and self._may_wait(request, page):
            wait = _Wait(request, done)
            seconds = min(request.wait_ms, LONGEST_WAIT_MS) / 1000
            wait.timer = self._scheduler.call_later(seconds, self._give_up, wait)
            self._waits.setdefault(request.table, []).append(wait)
        else:
            self._answer(done, page)

    def _may_wait(self, request: ReadChanges, page: Changes) -> bool:
        is_over = request.until is not None and page.next >= request.until
        return not page.changes and page.is_end and not is_over and not self._is_closed

    def _give_up(self, wait: _Wait) -> None:
        waits = self._waits[wait.request.table]
        waits.remove(wait)
        if not waits:
            del self._waits[wait.request.table]
        self._answer(wait.done, self._page(wait.request))

    def _tell(self) -> None:
        """Answer those for whom there is something by now."""
        for table, waits in list(self._waits.items()):
            waiting = []
            for wait in waits:
                page = self._page(wait.request)
                if self._may_wait(wait.request, page):
                    waiting.append(wait)
                    continue
                if wait.timer is not None:
                    wait.timer.cancel()
                self._scheduler.call_soon(self._answer, wait.done, page)
            if waiting:
                self._waits[table] = waiting
            else:
                del self._waits[table]
        self._told_of = self._next_offset
        self._scheduler.call_later(_PAUSE_S, self._look_again)

    def _look_again(self) -> None:
        self._pausing = False
        if self._waits and self._told_of != self._next_offset:
            self._pausing = True
            self._tell()

    def _page(self, request: ReadChanges) -> Changes:
        end, kept_after = self._end, self._kept_after(request.table, request.stream)
        channel = self._channels.get(request.table)
        after = max(request.after, kept_after)
        found = [] if channel is None else channel.newest(request, after)
        last = found[-1].sequence_number if found else after
        is_end = channel is None or last >= channel.last or len(found) == 0
        is_end = is_end or (request.until is not None and last >= request.until)
        return Changes(
            found,
            next=last if found else max(after, end if request.until is None else min(end, request.until)),
            kept_after=kept_after,
            is_end=is_end,
            time=self._state.log_time,
        )

    def _find(self, request: FindNumber) -> Number:
        kept_after = self._kept_after(request.table, request.stream)
        channel = self._channels.get(request.table)
        if request.time_ms > self._state.log_time or channel is None:
            return Number(max(self._end, kept_after), kept_after)
        return Number(max(channel.find(request.time_ms), kept_after), kept_after)

    def _shards(self, request: ListShards) -> Shards:
        channel = self._channels.get(request.table)
        found = []
        for window in self._state.streams.get(request.table, ()):
            if window.label == request.stream:
                found = shards.shards(
                    () if channel is None else channel.beginnings,
                    stream=window.label,
                    shard_ms=window.shard_ms,
                    begun=window.begun,
                    ended=window.ended,
                    kept_after=self._kept_after(request.table, request.stream),
                )
        return Shards(found, self._state.log_time)

    def _count(self, request: CountChanges) -> Count:
        channel = self._channels.get(request.table)
        changes, oldest_ms = (0, None) if channel is None else channel.count(request.after, request.until)
        return Count(changes, oldest_ms, self._end)

    @property
    def _end(self) -> int:
        """The highest number that what has been folded could have given."""
        genesis = self._state.genesis
        base = 0 if genesis is None else genesis.base
        return sequence_number(base + self._next_offset, 0, 0) - 1

    def _kept_after(self, table: int, stream: int | None) -> int:
        """From where on a table's changes are here without a gap."""
        windows = self._state.streams.get(table, ())
        trimmed = self._channels[table].trimmed_after if table in self._channels else 0
        if stream is not None:
            begun = [window.begun for window in windows if window.label == stream]
            return max([trimmed, *begun]) if begun else self._end
        if table in self._state.tables and all(window.ended is not None for window in windows):
            return self._end  # it goes on changing, and nobody takes that
        return max(trimmed, _unbroken(windows))

    def _answer(self, done: OnFed, answer: FeedAnswer) -> None:
        done(answer, self._position())


def _window_of(windows: Sequence[Window], number: int) -> Window | None:
    """The window that a change belongs to: that of a stream before one that only watches."""
    found = None
    for window in windows:
        if window.holds(number):
            if window.label:
                return window
            found = window
    return found


def _unbroken(windows: Sequence[Window]) -> int:
    """Where the newest stretch began in which there was always a window."""
    begun: int | None = None
    for window in sorted(windows, key=lambda each: each.begun, reverse=True):
        if begun is None or window.ended is None or window.ended >= begun:
            begun = window.begun if begun is None else min(begun, window.begun)
    return begun or 0
