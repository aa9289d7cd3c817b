"""Ranges of old changes that are read page by page, by requests that are independent of each other.

Opening a range replays the log, so a range stays open for a while after each page. The number of open ranges is
limited: a request for one more is throttled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...log.commands import Position
from ...materializer.feed_requests import OnFed, ReadChanges
from ...materializer.worker import Scheduler
from ...model.errors import ThrottlingError
from ...streams.feed.historical_feed import HistoricalFeed, HistoricalFeeds

MAX_OPEN: Final = 32
_IDLE_S: Final = 30.0
_THROTTLED: Final = "Too many ranges of old changes are being read; try again later."


@dataclass(slots=True, eq=False)
class _Range:
    """The changes of a table in one partition with after < sequence number <= until."""

    partition: int
    table: int
    after: int
    until: int
    history: HistoricalFeed
    is_used: bool = True

    def has(self, partition: int, request: ReadChanges) -> bool:
        here = self.partition == partition and self.table == request.table
        return here and self.after <= request.after_sequence_number < self.until


class HistoricalReads:
    """The open ranges of a process; `histories` opens them, `scheduler` is the event loop."""

    def __init__(self, histories: HistoricalFeeds, scheduler: Scheduler) -> None:
        self._histories = histories
        self._scheduler = scheduler
        self._open: list[_Range] = []
        self._is_scheduled = False

    def read(self, partition: int, request: ReadChanges, until: int, done: OnFed) -> None:
        """Read a page of changes that the feed does not keep. Their sequence numbers are `until` at most."""
        self._close(lambda each: each.history.has_failed)
        open_range = next((each for each in self._open if each.has(partition, request)), None)
        if open_range is None:
            if len(self._open) >= MAX_OPEN:
                done(ThrottlingError(_THROTTLED), Position(partition, -1))
                return
            open_range = self._begin(partition, request, until)
        open_range.is_used = True
        open_range.history.read(request, done)

    def _begin(self, partition: int, request: ReadChanges, until: int) -> _Range:
        history = self._histories.changes(partition, request.table, request.after_sequence_number, until)
        open_range = _Range(partition, request.table, request.after_sequence_number, until, history)
        self._open.append(open_range)
        self._close_later()
        return open_range

    def _close_later(self) -> None:
        if self._open and not self._is_scheduled:
            self._is_scheduled = True
            self._scheduler.call_later(_IDLE_S, self._close_idle)

    def _close_idle(self) -> None:
        """Close the ranges that no request waits for or has read since the last call."""
        self._is_scheduled = False
        self._close(lambda each: not (each.is_used or each.history.is_awaited))
        for open_range in self._open:
            open_range.is_used = False
        self._close_later()

    def _close(self, is_unused: Callable[[_Range], bool]) -> None:
        unused = list(filter(is_unused, self._open))
        self._open = [open_range for open_range in self._open if open_range not in unused]
        for open_range in unused:
            open_range.history.close()
