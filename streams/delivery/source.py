"""Reads one table's changes in one partition, page after page, from the subscription's position.

    items of a snapshot ──► changes of the past ──► changes that the feed keeps ──► new changes
                            (below the trim horizon)

A read at the end of the feed waits there (long poll). Reading stops while too many changes are unhandled.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from ...log.commands import Position, new_context
from ...materializer.feed_requests import (
    LONGEST_WAIT_MS,
    Changes,
    FeedAnswer,
    FeedRequest,
    FindSequenceNumber,
    FoundSequenceNumber,
    ReadChanges,
)
from ...materializer.fold.outcomes import Change
from ...materializer.history.requests import PartitionWithHistory, PastRead
from ...materializer.partition import ResultPosition, ScanRequest
from ...model.errors import FoldbError, RequestError, ResourceNotFoundError, TrimmedDataAccessError
from ...model.lazy_dataclass import dataclass
from ...model.sequence_numbers import SequenceNumber, parse_numbers, position_of
from ...model.subscriptions import Subscription

RETRY_S: Final = 0.25
_HISTORY_RETRY_S: Final = 1.0
_NO_REQUEST: Final = new_context(request_id="")
MAX_LATENESS_MS: Final = 1000
"""Maximum delay by the clock after which no change with an earlier log time can appear."""


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
        partition: Returns the partition, as this process reaches it now.
        key_of: Returns the key of an item of the table.
        exists: Returns whether the table still exists. A deleted table is read to its end.
    """

    partition: Callable[[], PartitionWithHistory]
    key_of: Callable[[bytes], tuple[bytes, bytes]]
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


class ChangesTrimmedError(FoldbError):
    """The log no longer has changes that are to be delivered."""


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
        """Read until the source is over, or cancelled.

        Raises:
            ChangesTrimmedError: A trim of the log has removed changes of the range.
        """
        read_range, consumer = self._range, self._consumer
        if read_range.snapshot is not None:
            await self._read_items(read_range.snapshot)
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
                    await self._read_past_changes(answer.trim_horizon)
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

    async def _read_items(self, snapshot: SequenceNumber) -> None:
        """Read the items after all changes up to `snapshot`. They count from 1; the first `after` were read before."""
        count, start = 0, None
        while not self.is_over:
            await self._consumer.wait_for_room()
            page, position = await self._read_past(snapshot, ScanRequest(self.table, None, start=start))
            items = [] if page is None else page.items
            self._pass_on(
                [
                    Change(
                        self.table,
                        *self._feed.key_of(item),
                        None,
                        item,
                        number,
                        position.time_ms or 0,
                        _NO_REQUEST,
                        is_read=True,
                    )
                    for number, item in enumerate(items, count + 1)
                    if number > self.after
                ]
            )
            count += len(items)
            is_end = page is None or page.last is None
            self.after = snapshot if is_end else max(self.after, count)
            self._consumer.take(self, ())
            await asyncio.sleep(0)
            if is_end:
                return
            start = self._feed.key_of(page.last)

    async def _read_past_changes(self, until: SequenceNumber) -> None:
        """Read the changes up to `until` that the feed does not keep."""
        is_end = False
        while not (is_end or self.is_over):
            await self._consumer.wait_for_room()
            page, _ = await self._read_past(until, ReadChanges(self.table, self.after, until=until))
            self._pass_on(page.changes)
            self.after = max(self.after, page.next)
            is_end = page.is_end
            self._consumer.take(self, ())
            await asyncio.sleep(0)

    async def _read_past(self, until: SequenceNumber, read: PastRead) -> tuple[Any, ResultPosition]:
        """Read the past at a sequence number until the partition answers; None if it had no such table.

        Raises:
            ChangesTrimmedError: The changes were removed.
        """
        cut = Position(self.partition, *position_of(until))
        while True:
            answer, position = await _answer_of(partial(self._feed.partition().as_of, cut, read))
            if not isinstance(answer, RequestError):
                return answer, position
            if isinstance(answer, ResourceNotFoundError):
                return None, position
            if isinstance(answer, TrimmedDataAccessError):
                raise ChangesTrimmedError(
                    f"changes of partition {self.partition} were trimmed before they were delivered: {answer} "
                    "Another start, such as HORIZON, leaves them out"
                )
            self._consumer.report(f"failed to read the history of partition {self.partition}: {answer}")
            await asyncio.sleep(_HISTORY_RETRY_S)

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
        answer: FeedAnswer | RequestError
        answer, _ = await _answer_of(partial(self._feed.partition().feed, request))
        if isinstance(answer, RequestError):
            self._consumer.report(f"failed to read partition {self.partition}: {answer}")
            return None
        return answer


async def _answer_of(
    send: Callable[[Callable[[Any, ResultPosition], None]], None],
) -> tuple[Any, ResultPosition]:
    future: asyncio.Future[tuple[Any, ResultPosition]] = asyncio.get_running_loop().create_future()

    def on_answer(answer: Any, position: ResultPosition) -> None:
        if not future.done():
            future.set_result((answer, position))

    send(on_answer)
    return await future
