"""Stretches of the past that are being read page by page, by requests that know nothing of each other.

To make one costs a walk through the log; so it stays open for a while after each page, for whoever asks for the next.
"""

from dataclasses import dataclass
from typing import Final

from ...materializer.feed import OnFed, ReadChanges
from ...materializer.worker import Scheduler
from ...streams.feed.history import Histories, History

_IDLE_S: Final = 30.0


@dataclass(slots=True)
class _Stretch:
    """The changes of a table in one partition with after < number <= until."""

    partition: int
    table: int
    after: int
    until: int
    history: History
    is_used: bool = True

    def has(self, partition: int, request: ReadChanges) -> bool:
        """Whether a page is in it."""
        here = self.partition == partition and self.table == request.table
        return here and self.after <= request.after < self.until


class Pasts:
    """Those of a process; `histories` makes them, `scheduler` is the loop."""

    def __init__(self, histories: Histories, scheduler: Scheduler) -> None:
        self._histories = histories
        self._scheduler = scheduler
        self._open: list[_Stretch] = []

    def read(self, partition: int, request: ReadChanges, until: int, done: OnFed) -> None:
        """Read a page of changes that the feed does not keep: none of them has a higher number than `until`."""
        stretch = next((each for each in self._open if each.has(partition, request)), None)
        if stretch is None:
            stretch = self._begin(partition, request, until)
        stretch.is_used = True
        stretch.history.read(request, done)

    def _begin(self, partition: int, request: ReadChanges, until: int) -> _Stretch:
        history = self._histories.changes(partition, request.table, request.after, until)
        stretch = _Stretch(partition, request.table, request.after, until, history)
        if not self._open:
            self._scheduler.call_later(_IDLE_S, self._look)
        self._open.append(stretch)
        return stretch

    def _look(self) -> None:
        """Close what nobody has asked for since the last look."""
        for stretch in self._open:
            if not stretch.is_used:
                stretch.history.close()
        self._open = [stretch for stretch in self._open if stretch.is_used]
        for stretch in self._open:
            stretch.is_used = False
        if self._open:
            self._scheduler.call_later(_IDLE_S, self._look)
