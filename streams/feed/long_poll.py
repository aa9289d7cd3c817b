"""Reads that wait for something to be there.

They are told at once, and then not again for a moment: who came back for every change would take the time that writers
need. So a feed in which little happens is quick, and one in which much happens is read in larger pages.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from ...materializer.feed_requests import LONGEST_WAIT_MS, OnFed, ReadChanges
from ...materializer.worker import Cancellable, Scheduler

PAUSE_S: Final = 0.003


@dataclass(slots=True, eq=False)
class LongPoll:
    """Somebody who waits, until `timer` goes off."""

    request: ReadChanges
    done: OnFed
    timer: Cancellable | None = None
    is_waiting: bool = True


class LongPolls:
    """Those who wait at one feed.

    Args:
        scheduler: The loop.
        read: Answers a read, or has it wait on.
    """

    def __init__(
        self, scheduler: Scheduler, read: Callable[[ReadChanges, OnFed, LongPoll | None], None]
    ) -> None:
        self._scheduler = scheduler
        self._read = read
        self._waits: list[LongPoll] = []
        self._pausing = False
        self._late = False  # something was there during the pause
        self._is_closed = False

    def add(self, request: ReadChanges, done: OnFed, wait: LongPoll | None) -> bool:
        """Have a read wait, or wait on; False if it may not."""
        if self._is_closed:
            return False
        if wait is None:
            wait = LongPoll(request, done)
            seconds = min(request.wait_ms, LONGEST_WAIT_MS) / 1000
            wait.timer = self._scheduler.call_later(seconds, self._give_up, wait)
        wait.is_waiting = True
        self._waits.append(wait)
        return True

    def look(self) -> None:
        """Something may be there."""
        if not self._waits:
            return
        if self._pausing:
            self._late = True
        else:
            self._pausing = True
            self._scheduler.call_soon(self._tell)

    def close(self) -> None:
        """Answer all with what there is, and let nobody wait any more."""
        self._is_closed = True
        for wait in list(self._waits):
            self._give_up(wait)

    def _tell(self) -> None:
        waits, self._waits, self._late = self._waits, [], False
        for wait in waits:
            wait.is_waiting = False
            self._scheduler.call_soon(self._read_again, wait)  # one's trouble is not the others'
        self._scheduler.call_later(PAUSE_S, self._go_on)

    def _read_again(self, wait: LongPoll) -> None:
        try:
            self._read(wait.request, wait.done, wait)
        finally:
            if not wait.is_waiting and wait.timer is not None:
                wait.timer.cancel()

    def _go_on(self) -> None:
        self._pausing = False
        if self._late:
            self.look()

    def _give_up(self, wait: LongPoll) -> None:
        if wait.is_waiting:
            self._waits.remove(wait)
            wait.is_waiting = False
            if wait.timer is not None:
                wait.timer.cancel()
            self._read(replace(wait.request, wait_ms=0), wait.done, None)
        else:  # he is about to read again, and does not wait on
            wait.request = replace(wait.request, wait_ms=0)
