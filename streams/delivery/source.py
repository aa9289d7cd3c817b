"""One table's changes in one partition, page after page, from where a subscription stands.

    items at a number ──► changes from the log ──► changes that the feed keeps ──► as they are made
    (snapshot)            (what it keeps no more)

A page that is not there yet is waited for, so nobody asks twice for nothing, and what is read is not read ahead of
what is handled by more than a bound.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeAlias

from ...materializer.feed_requests import (
    LONGEST_WAIT_MS,
    Changes,
    FeedAnswer,
    FeedRequest,
    FindNumber,
    Number,
    OnFed,
    ReadChanges,
    Reader,
)
from ...materializer.fold.outcomes import Change
from ...materializer.partition import Place
from ...model.errors import RequestError
from ...model.subscriptions import Subscription

AGAIN_S: Final = 0.25
_PAST_AGAIN_S: Final = 1.0
LATE_MS: Final = 1000
"""So much later by the clock no change is made any more that has a log time of before."""


class History(Protocol):
    """A stretch of a table's past that is read like a feed, to its end."""

    def read(self, request: ReadChanges, done: OnFed) -> None:
        """As a partition's `feed`; it waits until there is something."""
        ...

    def close(self) -> None:
        """No more is read."""
        ...


class Histories(Protocol):
    """What the log tells that the feed does not keep. What cannot be told now is an answer when it is read."""

    def changes(self, partition: int, table: int, after: int, until: int) -> History:
        """Changes with after < number <= until."""
        ...

    def items(self, partition: int, table: int, number: int) -> History:
        """The items as they were after all changes up to `number`: they count from 1, and `next` of the last is it."""
        ...


@dataclass(frozen=True, slots=True)
class ReadRange:
    """What is read.

    Attributes:
        after: Changes with a higher number.
        since_ms: And of this log time or later; where the feed keeps it, that is found and `after` goes by it.
        kept: Begin with what the feed keeps, if that begins later.
        items: Begin with the items as they were at this number; `after` then counts items.
        until: No higher number.
        until_ms: No later log time.
    """

    after: int = 0
    since_ms: int | None = None
    kept: bool = False
    items: int | None = None
    until: int | None = None
    until_ms: int | None = None


def stretch_of(subscription: Subscription, partition: int) -> ReadRange:
    """What a subscription has still to read of a partition."""
    start, end = subscription.settings["Start"], subscription.settings["End"] or {}
    number = int(start.get("Numbers", {}).get(str(partition), 0))
    mark = subscription.checkpoints.get(partition)
    until = end.get("Numbers", {}).get(str(partition))
    bounds = (int(until) if until is not None else 0 if "Numbers" in end else None, end.get("Time"))
    if start["At"] == "SNAPSHOT" and (mark is None or mark < number):
        return ReadRange(mark or 0, None, False, number, *bounds)
    since = start.get("Time")
    if mark is not None:
        return ReadRange(mark, since, False, None, *bounds)
    return ReadRange(number, since, start["At"] in ("NOW", "HORIZON"), None, *bounds)


Take: TypeAlias = Callable[["Source", Sequence[Change]], None]


class Source:
    """Reads one table in one partition.

    Attributes:
        partition: Which.
        table: Which.
        after: Up to this number all is read.
        time: Log time of the partition when that was found.
        is_at_end: Whether there was nothing more then.
        is_over: Whether the end that was asked for is reached, or that of a table which is gone.
        snapshot: The number at which items are read first; 0 where none are.
    """

    def __init__(
        self,
        partition: int,
        table: int,
        stretch: ReadRange,
        *,
        read: Reader,
        histories: Histories,
        exists: Callable[[], bool],
        take: Take,
        room: Callable[[], Awaitable[None]],
        waits_ms: Callable[[], int],
        clock: Callable[[], int],
        troubled: Callable[[str], None],
    ) -> None:
        """`take` gets what is read, `room` returns when more may be, `waits_ms` says how long to wait for more.

        `exists` says whether there is the table still: one that is gone is read to its end.
        """
        self.partition = partition
        self.table = table
        self.after = stretch.after
        self.snapshot = stretch.items or 0
        self.time = 0
        self.is_at_end = self.is_over = False
        self._is_reading = False  # the feed, not yet what comes before it
        self._stretch = stretch
        self._read = read
        self._histories = histories
        self._exists = exists
        self._take = take
        self._room = room
        self._waits_ms = waits_ms
        self._clock = clock
        self._troubled = troubled

    async def run(self) -> None:
        """Read until it is over, or cancelled."""
        stretch = self._stretch
        if stretch.items is not None:
            await self._read_past(self._items)
        elif stretch.since_ms is not None and not self.after:
            await self._find(stretch.since_ms)
        may_skip = stretch.kept
        self._is_reading = True
        self._take(self, ())  # who waits for this to get somewhere may look now
        while not self.is_over:
            await self._room()
            is_gone = not self._exists()  # before it is asked: then the answer is of all that will ever be
            wait_ms = 0 if is_gone else min(LONGEST_WAIT_MS, self._waits_ms())
            request = ReadChanges(self.table, self.after, until=stretch.until, wait_ms=wait_ms)
            answer = await self._ask(request)
            assert isinstance(answer, Changes), "changes were asked for"
            if answer.trim_horizon > self.after:
                if not may_skip:
                    await self._read_past(partial(self._changes_until, answer.trim_horizon))
                self.after = max(self.after, answer.trim_horizon)
            else:
                self._took(answer)
                await asyncio.sleep(0)  # a page is work enough for one turn
            may_skip = False
            end = stretch.until
            if (is_gone and answer.is_end and self.after >= answer.next) or (
                end is not None and self.after >= end
            ):
                self.is_over = True

    async def look(self) -> bool:
        """Find out whether what was not read yet is nothing: then `after` is where the partition stands now.

        False if there is no answer now.
        """
        if self.is_over or not self._is_reading:
            return True
        answer = await self._ask_once(ReadChanges(self.table, self.after, limit=1))
        if isinstance(answer, Changes) and not answer.changes and answer.trim_horizon <= self.after:
            self.after = max(self.after, answer.next)
            self.time = max(self.time, answer.time)
        return answer is not None

    def _took(self, answer: Changes) -> None:
        assert not answer.changes or answer.changes[0].sequence_number > self.after, "read once already"
        self._give(answer.changes)
        self.after = max(self.after, answer.next)
        self.time, self.is_at_end = max(self.time, answer.time), answer.is_end
        end_ms = self._stretch.until_ms
        if end_ms is not None and answer.is_end and max(answer.time, self._clock() - LATE_MS) > end_ms:
            self.is_over = True
        self._take(self, ())

    async def _find(self, time_ms: int) -> None:
        answer = await self._ask(FindNumber(self.table, time_ms))
        assert isinstance(answer, Number), "a number was asked for"
        first = await self._ask(ReadChanges(self.table, answer.trim_horizon, limit=1))
        assert isinstance(first, Changes), "changes were asked for"
        if first.changes and first.changes[0].time < time_ms:  # else it may lie before what is kept
            self.after = max(self.after, answer.after)

    def _items(self) -> History:
        assert self._stretch.items is not None, "a snapshot was asked for"
        return self._histories.items(self.partition, self.table, self._stretch.items)

    def _changes_until(self, number: int) -> History:
        return self._histories.changes(self.partition, self.table, self.after, number)

    async def _read_past(self, begin: Callable[[], History]) -> None:
        """Read a past to its end; one that breaks off is begun again, and read on from where it was."""
        while True:
            history = begin()
            try:
                if await self._read_history(history):
                    return
            finally:
                history.close()
            self._troubled(f"the past of partition {self.partition} cannot be read now")
            await asyncio.sleep(_PAST_AGAIN_S)

    async def _read_history(self, history: History) -> bool:
        is_end = False
        while not (is_end or self.is_over):
            await self._room()
            answer = await _answered(partial(history.read, ReadChanges(self.table, self.after)))
            if isinstance(answer, RequestError):
                return False
            assert isinstance(answer, Changes), "changes were asked for"
            self._give(answer.changes)
            self.after = max(self.after, answer.next)
            is_end = answer.is_end
            self._take(self, ())
            await asyncio.sleep(0)
        return True

    def _give(self, page: Sequence[Change]) -> None:
        stretch = self._stretch
        if stretch.since_ms is not None:
            page = [each for each in page if each.time >= stretch.since_ms or each.is_read]
        if stretch.until is not None or stretch.until_ms is not None:
            page = self._before_end(page)
        if page:
            self._take(self, page)

    def _before_end(self, page: Sequence[Change]) -> Sequence[Change]:
        end, end_ms = self._stretch.until, self._stretch.until_ms
        for place, each in enumerate(page):
            if (end is not None and each.sequence_number > end) or (
                end_ms is not None and each.time > end_ms
            ):
                self.is_over = True
                return page[:place]
        return page

    async def _ask(self, request: FeedRequest) -> FeedAnswer:
        """Ask until there is an answer: a partition may be on its way to another node."""
        while (answer := await self._ask_once(request)) is None:
            await asyncio.sleep(AGAIN_S)
        return answer

    async def _ask_once(self, request: FeedRequest) -> FeedAnswer | None:
        answer = await _answered(partial(self._read, request))
        if isinstance(answer, RequestError):
            self._troubled(f"partition {self.partition} cannot be read now: {answer}")
            return None
        return answer


async def _answered(ask: Callable[[OnFed], None]) -> FeedAnswer | RequestError:
    future: asyncio.Future[FeedAnswer | RequestError] = asyncio.get_running_loop().create_future()

    def done(answer: FeedAnswer | RequestError, _: Place) -> None:
        if not future.done():
            future.set_result(answer)

    ask(done)
    return await future
