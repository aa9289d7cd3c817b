"""Changes: a page of the changes of some tables, of all partitions together, in the order of log time.

{"TableNames"?, "Start"?, "Events"?, "Filter"?, "FilterCriteria"?, "Limit"?}    the first page
{..., "After": {partition id: sequence number}, "WaitMs"?}                      the next page; waits for changes

──► {"Changes": [as formats/plain.py has them], "Next": the After of the next page, "IsEnd", "BehindMs"}

Without TableNames the page covers every table whose changes are kept now. With several partitions, changes that are
written during the read may be slightly out of order; the changes of one key never are. Changes that the feed of a named
table no longer keeps are read from the history, unless the start is HORIZON, which skips them.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import orjson

from ....log.commands import Position
from ....materializer.feed_requests import Changes, FeedAnswer, ReadChanges
from ....materializer.history.requests import PartitionWithHistory, PastAnswer
from ....materializer.partition import ResultPosition
from ....model.errors import RequestError, TrimmedDataAccessError, ValidationError
from ....model.sequence_numbers import SequenceNumbers, number_texts, position_of
from ....model.subscriptions.settings import check
from ....model.tables import TableDefinition
from ....streams.delivery.filter import ChangeFilter
from ....streams.formats.plain import plain
from ....streams.formats.table_view import Delivery, TableView, view_of
from ...async_calls import RefusedAtError, answer_of, read_feeds
from ...auth.rights import EVERYTHING, Demand, Right
from ...database import Database
from ...routing import joined
from ..operation import Answer, admin_operation
from ..reply import Caller
from .start_positions import NOT_KEPT, Start, read_after, read_integer, read_start, resolve

_LIMIT: Final = 1000
_HIGHEST_LIMIT: Final = 10_000
_HIGHEST_WAIT_MS: Final = 20_000
# The first of several feeds that has a change ends the wait, and the long polls of the others end by themselves.
_WAIT_FOR_SEVERAL_MS: Final = 1000
# Without a feed no change ends the wait. A table may have a stream by the time that the client asks again.
_WAIT_FOR_NONE_MS: Final = 1000
_END_OF_TIME: Final = 2**63


class TableFeed(NamedTuple):
    """The changes of one table in one partition."""

    partition_id: int
    partition: PartitionWithHistory
    table: TableView


class MergedPage(NamedTuple):
    """The pages of several feeds as one.

    Attributes:
        deliveries: The changes, in the order of log time.
        next: Where the next page begins.
        is_end: Whether the feeds had no more changes.
        behind_ms: The log time from the last change of the page to the end of the feeds.
    """

    deliveries: list[Delivery]
    next: SequenceNumbers
    is_end: bool
    behind_ms: int


def _demands(body: dict[str, Any]) -> Iterator[Demand]:
    """Yield the right to read each table of the request; without names, all tables."""
    names = body.get("TableNames")
    for table in names if isinstance(names, list) and names else [EVERYTHING]:
        yield "foldb:Changes", Right.READ, str(table)


@admin_operation("Changes", _demands)
async def changes(database: Database, body: dict[str, Any], _: Caller) -> Answer:
    """Find the start, and read a page."""
    reader = _Reader(database, body)
    if "After" in body:
        return await reader.read(read_after(body["After"]), reader.wait_ms)
    tables = [table.id for table in reader.tables]
    return await reader.read(await resolve(database, tables, reader.start), 0)


class _Reader:
    """Reads the page of one request."""

    def __init__(self, database: Database, body: dict[str, Any]) -> None:
        self.start = read_start(database, body.get("Start", {"At": "HORIZON"}))
        self.wait_ms = read_integer(body, "WaitMs", 0, 0, _HIGHEST_WAIT_MS)
        self.tables = _tables(database, body.get("TableNames"))
        self._limit = read_integer(body, "Limit", _LIMIT, 1, _HIGHEST_LIMIT)
        self._matches = _matcher(body, self.start)
        self._partitions = database.partitions_of_feed()
        self._loop = database.loop

    async def read(self, after: SequenceNumbers, wait_ms: int) -> Answer:
        """Read a page from all feeds. If they have no change, wait for the first one for at most `wait_ms`."""
        feeds = [
            TableFeed(partition_id, partition, table)
            for partition_id, partition in self._partitions.items()
            for table in self.tables
            if partition_id in after
        ]
        if not feeds:
            wait_s = min(wait_ms, _WAIT_FOR_NONE_MS) / 1000
            await asyncio.sleep(wait_s)
            return _answer(MergedPage([], after, True, 0), [])
        page, positions = await self._page(feeds, after)
        if not page.deliveries and page.is_end and wait_ms:
            await self._wait(
                feeds, page.next, wait_ms if len(feeds) == 1 else min(wait_ms, _WAIT_FOR_SEVERAL_MS)
            )
            page, positions = await self._page(feeds, page.next)
        return _answer(page, positions)

    async def _page(
        self, feeds: list[TableFeed], after: SequenceNumbers
    ) -> tuple[MergedPage, list[ResultPosition]]:
        requests = [ReadChanges(feed.table.id, after[feed.partition_id], limit=self._limit) for feed in feeds]
        try:
            pages, positions = await read_feeds(
                [(feed.partition, request) for feed, request in zip(feeds, requests, strict=True)]
            )
        except RefusedAtError as refused:
            raise refused.error from None
        if self.start["At"] != "HORIZON":
            pages = await asyncio.gather(
                *(
                    self._untrimmed(feed, request, page)
                    for feed, request, page in zip(feeds, requests, pages, strict=True)
                )
            )
        page = merged(feeds, pages, self._limit)
        return page._replace(deliveries=list(filter(self._matches, page.deliveries))), positions

    async def _untrimmed(self, feed: TableFeed, request: ReadChanges, page: Changes) -> Changes:
        """Return the page of a feed, or one of the past if the feed no longer keeps all of its changes."""
        if page.trim_horizon <= request.after_sequence_number:
            return page
        until = page.trim_horizon
        cut, past = Position(feed.partition_id, *position_of(until)), replace(request, until=until)
        answer: PastAnswer = await answer_of(partial(feed.partition.as_of, cut, past))
        assert isinstance(answer, Changes), "the answer to ReadChanges is Changes"
        return replace(answer, is_end=False)

    async def _wait(self, feeds: list[TableFeed], after: SequenceNumbers, wait_ms: int) -> None:
        """Wait until a feed has a change, or its long poll ends."""
        first: asyncio.Future[None] = self._loop.create_future()

        def wake(_: FeedAnswer | RequestError, __: ResultPosition) -> None:
            if not first.done():
                first.set_result(None)

        for feed in feeds:
            request = ReadChanges(feed.table.id, after[feed.partition_id], limit=1, wait_ms=wait_ms)
            feed.partition.feed(request, wake)
        await first


def _answer(page: MergedPage, positions: list[ResultPosition]) -> Answer:
    tail = {
        "Next": number_texts(page.next),
        "IsEnd": page.is_end,
        "BehindMs": page.behind_ms,
    }
    lines = b",".join(plain(delivery) for delivery in page.deliveries)
    body = b'{"Changes":[%b],%b' % (lines, orjson.dumps(tail)[1:])
    return Answer(body, joined(positions) if positions else None)


def merged(feeds: Sequence[TableFeed], answers: Sequence[Changes], limit: int) -> MergedPage:
    """Merge the pages of feeds in the order of log time, up to where the first page ends that is not the last."""
    following: SequenceNumbers = {}
    until, behind = _END_OF_TIME, 0
    for feed, answer in zip(feeds, answers, strict=True):
        following[feed.partition_id] = min(answer.next, following.get(feed.partition_id, answer.next))
        if not answer.is_end:
            last = answer.changes[-1].time if answer.changes else 0
            until, behind = min(until, last), max(behind, answer.time - last)
    found = sorted(
        (
            Delivery(change, feed.partition_id, feed.table)
            for feed, answer in zip(feeds, answers, strict=True)
            for change in answer.changes
            if change.sequence_number <= following[feed.partition_id]
        ),
        key=lambda each: (each.change.time, each.partition, each.change.sequence_number),
    )
    count = min(limit, bisect_right(found, until, key=lambda each: each.change.time))
    for each in found[count:]:
        following[each.partition] = min(following[each.partition], each.change.sequence_number - 1)
    return MergedPage(found[:count], following, until == _END_OF_TIME and count == len(found), behind)


def _matcher(body: dict[str, Any], start: Start) -> Callable[[Delivery], bool]:
    """Return whether a change passes the request's events and filters, and is not before its start time."""
    filters = {name: body[name] for name in ("Events", "Filter", "FilterCriteria") if name in body}
    test = ChangeFilter(check("Changes", {"TableNames": ["any"], "Sink": {"Kind": "none"}} | filters)).test
    since_ms: int = start.get("Time", 0)
    return lambda delivery: delivery.change.time >= since_ms and (test is None or test(delivery))


def _tables(database: Database, names: Any) -> list[TableView]:
    """Return the named tables; without names, the tables whose changes are kept now."""
    if names is None:
        definitions = [each.definition for each in database.state.tables.values() if is_kept(each.definition)]
    elif isinstance(names, list) and names and all(isinstance(name, str) for name in names):
        definitions = [database.table_in_any_status(name).definition for name in dict.fromkeys(names)]
        if not all(map(is_kept, definitions)):
            raise TrimmedDataAccessError(NOT_KEPT)
    else:
        raise ValidationError("TableNames must be a list of names of tables")
    log_id = database.log.genesis(0).log_id
    return [view_of(each, log_id, database.partitions.count) for each in definitions]


def is_kept(table: TableDefinition) -> bool:
    """Return whether the feed keeps the changes of a table."""
    return table.watched or (table.stream is not None and table.stream.enabled)
