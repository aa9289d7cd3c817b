"""Reads one table's changes in one partition, page after page, from the subscription's position.

    items of a snapshot ──► changes from the log ──► changes that the feed keeps ──► new changes
                            (below the trim horizon)

A read at the end of the feed waits there (long poll). Reading stops while too many changes are unhandled.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from ...materializer.feed_requests import (
    LONGEST_WAIT_MS,
    Changes,
    FeedAnswer,
    FeedReader,
    FeedRequest,
    FindSequenceNumber,
    FoundSequenceNumber,
    OnFed,
    ReadChanges,
)
from ...materializer.fold.outcomes import Change
from ...materializer.partition import ResultPosition
from ...model.errors import RequestError
from ...model.sequence_numbers import SequenceNumber, parse_numbers
from ...model.subscriptions import Subscription

RETRY_S: Final = 0.25
_HISTORY_RETRY_S: Final = 1.0
MAX_LATENESS_MS: Final = 1000
"""Maximum delay by the clock after which no change with an earlier log time can appear."""


class FeedHistory(Protocol):
    """A range of a table's history that is read like a feed, to its end."""

    def read(self, request: ReadChanges, done: OnFed) -> None:
        """Answer like a partition's `feed`; wait until there are changes."""
        ...

    def close(self) -> None:
        """Release the history; no read follows."""
        ...


class FeedHistories(Protocol):
    """Reads history that the feed does not keep. A history that is unavailable returns an error when it is read."""

    def changes(self, partition: int, table: int, after: int, until: int) -> FeedHistory:
        """Return the changes with after < sequence number <= until."""
        ...

    def items(self, partition: int, table: int, sequence_number: SequenceNumber) -> FeedHistory:
        """Return the items after all changes up to `sequence_number`.

        The items count from 1, and `next` of the last page is `sequence_number`.
        """
        ...


@dataclass(frozen=True, slots=True)
class ReadRange:
    """The range of changes that a source reads.

    Attributes:
        after: Exclusive lower bound of sequence numbers.
        since_ms: Inclusive lower bound of log times. If the feed keeps that time, `after` is set from it.
        skips_trimmed: Whether to start at the trim horizon if it is above `after`.
        snapshot: Sequence number at which items are read first; `after` then counts items.
        until: Inclusive upper bound of sequence numbers.
        until_ms: Inclusive upper bound of log times.
    """

    after: int = 0
    since_ms: int | None = None
    skips_trimmed: bool = False
    snapshot: int | None = None
    until: int | None = None
    until_ms: int | None = None


def remaining_range(subscription: Subscription, partition: int) -> ReadRange:
    """Return the range of a partition that a subscription has yet to read."""
    start, end = subscription.settings["Start"], subscription.settings["End"] or {}
    first = parse_numbers(start.get("Numbers", {})).get(partition, 0)
    checkpoint = subscription.checkpoints.get(partition)
    until = parse_numbers(end["Numbers"]).get(partition, 0) if "Numbers" in end else None
    bounds = (until, end.get("Time"))
    if start["At"] == "SNAPSHOT" and (checkpoint is None or checkpoint < first):
        return ReadRange(checkpoint or 0, None, False, first, *bounds)
    since = start.get("Time")
    if checkpoint is not None:
        return ReadRange(checkpoint, since, False, None, *bounds)
    return ReadRange(first, since, start["At"] in ("NOW", "HORIZON"), None, *bounds)


@dataclass(frozen=True, slots=True)
class TableReader:
    """Access to one table's changes in one partition.

    Attributes:
        read: Reads the partition's feed.
        histories: Reads changes below the trim horizon, and items of a snapshot.
        exists: Returns whether the table still exists. A deleted table is read to its end.
    """

    read: FeedReader
    histories: FeedHistories
    exists: Callable[[], bool]
    clock: Callable[[], int]


@dataclass(frozen=True, slots=True)
class ChangeConsumer:
    """The receiver of a source's changes.

    Attributes:
        take: Receives changes; no changes at the end of a page.
        wait_for_room: Returns when the consumer accepts more changes.
        poll_timeout_ms: Returns how long a read waits for new changes.
        report: Receives the texts of errors that are retried.
    """

    take: Callable[["ChangeSource", Sequence[Change]], None]
    wait_for_room: Callable[[], Awaitable[None]]
    poll_timeout_ms: Callable[[], int]
    report: Callable[[str], None]


class ChangeSource:
    """The reader of one table in one partition.

    Attributes:
        partition: Partition id.
        table: Table id.
        after: Sequence number up to which all changes are read.
        time: Log time of the partition at the last read.
        is_at_end: Whether the last read reached the end of the feed.
        is_over: Whether the configured end, or the end of a deleted table, is reached.
        snapshot: Sequence number at which items are read first; 0 for a source without snapshot.
    """

    def __init__(
        self, partition: int, table: int, read_range: ReadRange, feed: TableReader, consumer: ChangeConsumer
    ) -> None:
        """Prepare to read `read_range`; `run` reads it."""
        self.partition = partition
        self.table = table
        self.after = read_range.after
        self.snapshot = read_range.snapshot or 0
        self.time = 0
        self.is_at_end = self.is_over = False
        self._reads_feed = False  # after the history
        self._range = read_range
        self._feed = feed
        self._consumer = consumer

    async def run(self) -> None:
        """Read until the source is over, or cancelled."""
        read_range, consumer = self._range, self._consumer
        if read_range.snapshot is not None:
            await self._read_history(self._items)
        elif read_range.since_ms is not None and not self.after:
            await self._find(read_range.since_ms)
        may_skip = read_range.skips_trimmed
        self._reads_feed = True
        consumer.take(self, ())  # wakes callers that wait for progress
        while not self.is_over:
            await consumer.wait_for_room()
            is_deleted = not self._feed.exists()  # before the read, which then returns the last changes
            wait_ms = 0 if is_deleted else min(LONGEST_WAIT_MS, consumer.poll_timeout_ms())
            request = ReadChanges(self.table, self.after, until=read_range.until, wait_ms=wait_ms)
            answer = await self._request(request)
            assert isinstance(answer, Changes), "ReadChanges returns Changes"
            if answer.trim_horizon > self.after:
                if not may_skip:
                    await self._read_history(partial(self._changes_until, answer.trim_horizon))
                self.after = max(self.after, answer.trim_horizon)
            else:
                self._process(answer)
                await asyncio.sleep(0)  # other tasks run after each page
            may_skip = False
            end = read_range.until
            if (is_deleted and answer.is_end and self.after >= answer.next) or (
                end is not None and self.after >= end
            ):
                self.is_over = True

    async def poll(self) -> bool:
        """Read once; if there is no unread change, advance `after` to the end of the partition.

        Return False if the partition is unavailable.
        """
        if self.is_over or not self._reads_feed:
            return True
        answer = await self._request_once(ReadChanges(self.table, self.after, limit=1))
        if isinstance(answer, Changes) and not answer.changes and answer.trim_horizon <= self.after:
            self.after = max(self.after, answer.next)
            self.time = max(self.time, answer.time)
        return answer is not None

    def _process(self, answer: Changes) -> None:
        assert not answer.changes or answer.changes[0].sequence_number > self.after, "no change is read twice"
        self._pass_on(answer.changes)
        self.after = max(self.after, answer.next)
        self.time, self.is_at_end = max(self.time, answer.time), answer.is_end
        end_ms = self._range.until_ms
        is_late = end_ms is not None and max(answer.time, self._feed.clock() - MAX_LATENESS_MS) > end_ms
        if is_late and answer.is_end:
            self.is_over = True
        self._consumer.take(self, ())

    async def _find(self, time_ms: int) -> None:
        answer = await self._request(FindSequenceNumber(self.table, time_ms))
        assert isinstance(answer, FoundSequenceNumber), "FindNumber returns Number"
        first = await self._request(ReadChanges(self.table, answer.trim_horizon, limit=1))
        assert isinstance(first, Changes), "ReadChanges returns Changes"
        if first.changes and first.changes[0].time < time_ms:  # else it may lie below the trim horizon
            self.after = max(self.after, answer.after)

    def _items(self) -> FeedHistory:
        assert self._range.snapshot is not None, "the range begins with a snapshot"
        return self._feed.histories.items(self.partition, self.table, self._range.snapshot)

    def _changes_until(self, sequence_number: SequenceNumber) -> FeedHistory:
        return self._feed.histories.changes(self.partition, self.table, self.after, sequence_number)

    async def _read_history(self, begin: Callable[[], FeedHistory]) -> None:
        """Read a history to its end. After an error, begin again at the position reached."""
        while True:
            history = begin()
            try:
                if await self._read_pages(history):
                    return
            finally:
                history.close()
            self._consumer.report(f"failed to read the history of partition {self.partition}")
            await asyncio.sleep(_HISTORY_RETRY_S)

    async def _read_pages(self, history: FeedHistory) -> bool:
        is_end = False
        while not (is_end or self.is_over):
            await self._consumer.wait_for_room()
            answer = await _answer_of(partial(history.read, ReadChanges(self.table, self.after)))
            if isinstance(answer, RequestError):
                return False
            assert isinstance(answer, Changes), "ReadChanges returns Changes"
            self._pass_on(answer.changes)
            self.after = max(self.after, answer.next)
            is_end = answer.is_end
            self._consumer.take(self, ())
            await asyncio.sleep(0)
        return True

    def _pass_on(self, page: Sequence[Change]) -> None:
        """Pass the changes of a page that are in the range to the consumer."""
        read_range = self._range
        if read_range.since_ms is not None:
            page = [each for each in page if each.time >= read_range.since_ms or each.is_read]
        if read_range.until is not None or read_range.until_ms is not None:
            page = self._before_end(page)
        if page:
            self._consumer.take(self, page)

    def _before_end(self, page: Sequence[Change]) -> Sequence[Change]:
        end, end_ms = self._range.until, self._range.until_ms
        for index, each in enumerate(page):
            is_beyond = end is not None and each.sequence_number > end
            if is_beyond or (end_ms is not None and each.time > end_ms):
                self.is_over = True
                return page[:index]
        return page

    async def _request(self, request: FeedRequest) -> FeedAnswer:
        """Send a request until the partition answers: it may be moving to another node."""
        while (answer := await self._request_once(request)) is None:
            await asyncio.sleep(RETRY_S)
        return answer

    async def _request_once(self, request: FeedRequest) -> FeedAnswer | None:
        answer = await _answer_of(partial(self._feed.read, request))
        if isinstance(answer, RequestError):
            self._consumer.report(f"failed to read partition {self.partition}: {answer}")
            return None
        return answer


async def _answer_of(send: Callable[[OnFed], None]) -> FeedAnswer | RequestError:
    future: asyncio.Future[FeedAnswer | RequestError] = asyncio.get_running_loop().create_future()

    def on_answer(answer: FeedAnswer | RequestError, _: ResultPosition) -> None:
        if not future.done():
            future.set_result(answer)

    send(on_answer)
    return await future
