"""Long polls: reads that wait for changes.

Waiting reads are answered as soon as a change is folded, and then not for a few milliseconds: readers that came back
for every single change would take the time that writers need. Rare changes are therefore delivered at once, and
frequent changes in larger pages. Under load the pause is longer, because each answer costs the server about a third of
a millisecond: the reader's next request, and the call of a trigger. Load is many changes in a record: many clients
write at the same time. A client that writes one item after another has its changes delivered as fast as without load.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ...materializer.feed_requests import LONGEST_WAIT_MS, Changes, FeedAnswer, OnFed, ReadChanges
from ...materializer.partition import ResultPosition
from ...materializer.worker import Cancellable, Scheduler
from ...model.errors import RequestError
from ...model.lazy_dataclass import dataclass

PAUSE_S: Final = 0.003
LOADED_PAUSE_S: Final = 0.015
"""The pause under load. A change then waits 7 ms on average, about as long as a write among those of 32 clients."""
LOADED_CHANGES: Final = 4
"""Changes per record that are a load, if there are LOADED_RATE of them in a second as well."""
LOADED_RATE: Final = 1000.0


@dataclass(slots=True, eq=False)
class LongPoll:
    """One waiting read, and the timer of its timeout."""

    request: ReadChanges
    on_answer: OnFed
    timer: Cancellable | None = None
    is_waiting: bool = True


class LongPolls:
    """The waiting reads of one feed.

    Args:
        read: Answers a read, or adds it again.
    """

    def __init__(
        self, scheduler: Scheduler, read: Callable[[ReadChanges, OnFed, LongPoll | None], None]
    ) -> None:
        self._scheduler = scheduler
        self._read = read
        self._polls: list[LongPoll] = []
        self._is_pausing = False
        self._pause_s = PAUSE_S
        self._largest = 0  # changes in the largest page of the last reads
        self._records = 0  # since the last reads
        self._is_notified = False  # during the pause
        self._is_closed = False

    def add(self, request: ReadChanges, on_answer: OnFed, poll: LongPoll | None) -> bool:
        """Add a read, or `poll` again after a read without changes. Return False if the feed is closing."""
        if self._is_closed:
            return False
        if poll is None:
            poll = LongPoll(request, on_answer)
            seconds = min(request.wait_ms, LONGEST_WAIT_MS) / 1000
            poll.timer = self._scheduler.call_later(seconds, self._expire, poll)
        poll.is_waiting = True
        self._polls.append(poll)
        return True

    def notify(self) -> None:
        """Read again for all polls: there may be changes in a record that was folded."""
        self._records += 1
        if not self._polls:
            return
        if self._is_pausing:
            self._is_notified = True
        else:
            self._begin_pause()

    def close(self) -> None:
        """Answer all reads now, and accept no further ones."""
        self._is_closed = True
        for poll in list(self._polls):
            self._expire(poll)

    def _read_all(self) -> None:
        polls, self._polls, self._is_notified = self._polls, [], False
        records, self._records, self._largest = self._records, 0, 0
        for poll in polls:
            poll.is_waiting = False
            self._scheduler.call_soon(self._read_again, poll)  # an exception of one does not stop the others
        self._scheduler.call_soon(self._pause, records)

    def _read_again(self, poll: LongPoll) -> None:
        def on_answer(answer: FeedAnswer | RequestError, position: ResultPosition) -> None:
            if isinstance(answer, Changes):
                self._largest = max(self._largest, len(answer.changes))
            poll.on_answer(answer, position)

        try:
            self._read(poll.request, on_answer, poll)
        finally:
            if not poll.is_waiting and poll.timer is not None:
                poll.timer.cancel()

    def _pause(self, records: int) -> None:
        """Pause after the reads. Their largest page has the changes of `records` since the pause before."""
        is_loaded = self._largest >= max(LOADED_CHANGES * records, LOADED_RATE * self._pause_s)
        self._pause_s = LOADED_PAUSE_S if is_loaded else PAUSE_S
        self._scheduler.call_later(self._pause_s, self._end_pause)

    def _end_pause(self) -> None:
        self._is_pausing = False
        if self._is_notified and self._polls:
            self._begin_pause()

    def _begin_pause(self) -> None:
        self._is_pausing = True
        self._scheduler.call_soon(self._read_all)

    def _expire(self, poll: LongPoll) -> None:
        if poll.is_waiting:
            self._polls.remove(poll)
            poll.is_waiting = False
            if poll.timer is not None:
                poll.timer.cancel()
            self._read(replace(poll.request, wait_ms=0), poll.on_answer, None)
        else:  # _read_again is scheduled, and must not wait again
            poll.request = replace(poll.request, wait_ms=0)
