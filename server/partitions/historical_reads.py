"""Stretches of the past that are being read page by page, by requests that know nothing of each other.

To make one costs a walk through the log; so it stays open for a while after each page, for whoever asks for the next.
Few are open at a time: who asks for one more is to come again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...log.commands import Position
from ...materializer.feed_requests import OnFed, ReadChanges
from ...materializer.worker import Scheduler
from ...model.errors import ThrottlingError
from ...streams.feed.historical_feed import HistoricalFeed, HistoricalFeeds

MOST_OPEN: Final = 32
_IDLE_S: Final = 30.0
_THROTTLED: Final = "Too many stretches of the past are being read; try again later."


@dataclass(slots=True, eq=False)
class _Stretch:
    """The changes of a table in one partition with after < number <= until."""

    partition: int
    table: int
    after: int
    until: int
    history: HistoricalFeed
    is_used: bool = True

    def has(self, partition: int, request: ReadChanges) -> bool:
        """Whether a page is in it."""
        here = self.partition == partition and self.table == request.table
        return here and self.after <= request.after_sequence_number < self.until


class HistoricalReads:
    """Those of a process; `histories` makes them, `scheduler` is the loop."""

    def __init__(self, histories: HistoricalFeeds, scheduler: Scheduler) -> None:
        self._histories = histories
        self._scheduler = scheduler
        self._open: list[_Stretch] = []
        self._is_looking = False

    def read(self, partition: int, request: ReadChanges, until: int, done: OnFed) -> None:
        """Read a page of changes that the feed does not keep: none of them has a higher number than `until`."""
        self._close(lambda each: each.history.has_failed)
        stretch = next((each for each in self._open if each.has(partition, request)), None)
        if stretch is None:
            if len(self._open) >= MOST_OPEN:
                done(ThrottlingError(_THROTTLED), Position(partition, -1))
                return
            stretch = self._begin(partition, request, until)
        stretch.is_used = True
        stretch.history.read(request, done)

    def _begin(self, partition: int, request: ReadChanges, until: int) -> _Stretch:
        history = self._histories.changes(partition, request.table, request.after_sequence_number, until)
        stretch = _Stretch(partition, request.table, request.after_sequence_number, until, history)
        self._open.append(stretch)
        self._look_later()
        return stretch

    def _look_later(self) -> None:
        if self._open and not self._is_looking:
            self._is_looking = True
            self._scheduler.call_later(_IDLE_S, self._look)

    def _look(self) -> None:
        """Close what nobody waits for, or has asked for since the last look."""
        self._is_looking = False
        self._close(lambda each: not (each.is_used or each.history.is_awaited))
        for stretch in self._open:
            stretch.is_used = False
        self._look_later()

    def _close(self, is_useless: Callable[[_Stretch], bool]) -> None:
        useless = list(filter(is_useless, self._open))
        self._open = [stretch for stretch in self._open if stretch not in useless]
        for stretch in useless:
            stretch.history.close()
