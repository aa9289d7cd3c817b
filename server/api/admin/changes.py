"""Changes: a page of the change feed of some tables, of all partitions together, in the order of log time.

{"TableNames"?, "Start"?, "Events"?, "Filter"?, "FilterCriteria"?, "Limit"?}   from a place on
{..., "After": {partition: number}, "WaitMs"?}     from where a page ended; it waits for more

It answers {"Changes": [as formats/plain.py tells them], "Next": the After of the next page, "IsEnd", "BehindMs"}.
Without names the tables are all those whose changes are kept now. What is written meanwhile may stand a little out of
order where several partitions are read; the changes of one key never do. What the feed of a named table does not keep
is read from the log, but from HORIZON on: there it is passed over.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from ....materializer.feed_requests import Changes, FedPartition, FeedAnswer, ReadChanges
from ....materializer.partition import Place
from ....model.errors import RequestError, TrimmedDataAccessError, ValidationError
from ....model.subscriptions import check
from ....model.tables import TableDefinition
from ....streams.delivery.filter import ChangeFilter
from ....streams.formats.plain import plain
from ....streams.formats.table_view import Delivery, TableView, view_of
from ...routing import joined
from ...routing.fan_in import FanIn, first_error
from ..reply import Reply
from .start_positions import NOT_KEPT, After, Start, read_after, read_start, resolve, whole

if TYPE_CHECKING:
    from ...node import Node

_LIMIT: Final = 1000
_LIMIT_MOST: Final = 10_000
_WAIT_MOST_MS: Final = 20_000
# The first of several feeds that has something is answered with, and the others go on waiting for nobody: not long.
_WAIT_FOR_SEVERAL_MS: Final = 1000
# Where nothing is kept nothing wakes who waits. A table may be watched by then.
_WAIT_FOR_NONE_MS: Final = 1000
_NEVER: Final = 2**63


class Feed(NamedTuple):
    """The changes of one table in one partition."""

    partition_id: int
    partition: FedPartition
    table: TableView


class Page(NamedTuple):
    """What several feeds gave, as one: `ahead` is where the next page begins."""

    deliveries: list[Delivery]
    ahead: After
    is_end: bool
    behind_ms: int


def changes(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Find where to begin, and read."""
    reading = _Reading(node, body, reply)
    if "After" in body:
        reading.read(read_after(body["After"]), reading.wait_ms)
    else:
        resolve(node, [table.id for table in reading.tables], reading.start, reading.begin)


class _Reading:
    """One request under way."""

    def __init__(self, node: "Node", body: dict[str, Any], reply: Reply) -> None:
        self.start = read_start(node, body.get("Start", {"At": "HORIZON"}))
        self.wait_ms = whole(body, "WaitMs", 0, 0, _WAIT_MOST_MS)
        self.tables = _tables(node, body.get("TableNames"))
        self._limit = whole(body, "Limit", _LIMIT, 1, _LIMIT_MOST)
        self._chooses = _choosing(body, self.start)
        self._partitions = node.partitions_of_feed()
        self._pasts = node.partitions.pasts
        self._loop = node.loop
        self._reply = reply
        self._woken = False

    def begin(self, after: After | RequestError) -> None:
        """Read from where the request's start was found to be."""
        if isinstance(after, RequestError):
            self._reply.error(after)
        else:
            self.read(after, 0)

    def read(self, after: After, wait_ms: int) -> None:
        """Read all feeds; where none has anything, wait for the first that will."""
        feeds = [
            Feed(number, partition, table)
            for number, partition in self._partitions.items()
            for table in self.tables
            if number in after
        ]
        if not feeds:
            self._loop.call_later(
                min(wait_ms, _WAIT_FOR_NONE_MS) / 1000, self._answer, Page([], after, True, 0), []
            )
            return
        join = FanIn(len(feeds), partial(self._read, feeds, after, wait_ms))
        for nth, feed in enumerate(feeds):
            request = ReadChanges(feed.table.id, after[feed.partition_id], limit=self._limit)
            feed.partition.feed(request, partial(join.answered, nth))

    def _read(
        self, feeds: list[Feed], after: After, wait_ms: int, answers: list[Any], places: list[Place]
    ) -> None:
        if self._fails(answers):
            return
        lacking = [
            nth for nth, feed in enumerate(feeds) if answers[nth].trim_horizon > after[feed.partition_id]
        ]
        if lacking and self.start["At"] != "HORIZON":
            self._read_past(feeds, after, answers, places, lacking)
        else:
            self._take(feeds, wait_ms, answers, places)

    def _read_past(
        self, feeds: list[Feed], after: After, answers: list[Any], places: list[Place], lacking: list[int]
    ) -> None:
        """Read what feeds do not keep from the log instead."""

        def found(pages: list[Any], _: list[Place]) -> None:
            if self._fails(pages):
                return
            for nth, page in zip(lacking, pages, strict=True):
                answers[nth] = replace(page, is_end=False)
            self._take(feeds, 0, answers, places)

        join = FanIn(len(lacking), found)
        for mth, nth in enumerate(lacking):
            number, table = feeds[nth].partition_id, feeds[nth].table.id
            request = ReadChanges(table, after[number], limit=self._limit)
            self._pasts.read(number, request, answers[nth].trim_horizon, partial(join.answered, mth))

    def _fails(self, answers: list[Any]) -> bool:
        """Answer with an error if there is one among these."""
        error = first_error(answers)
        if error is not None:
            self._reply.error(error)
        return error is not None

    def _take(self, feeds: list[Feed], wait_ms: int, answers: list[Any], places: list[Place]) -> None:
        page = merged(feeds, answers, self._limit)
        chosen = [delivery for delivery in page.deliveries if self._chooses(delivery)]
        if chosen or not page.is_end or not wait_ms:
            self._answer(page._replace(deliveries=chosen), places)
            return
        wait_ms = wait_ms if len(feeds) == 1 else min(wait_ms, _WAIT_FOR_SEVERAL_MS)
        for feed in feeds:
            request = ReadChanges(feed.table.id, page.ahead[feed.partition_id], limit=1, wait_ms=wait_ms)
            feed.partition.feed(request, partial(self._wake, page.ahead))

    def _wake(self, after: After, _: FeedAnswer | RequestError, __: Place) -> None:
        """Read again: there is something, or nothing came. Whoever wakes later wakes nobody."""
        if not self._woken:
            self._woken = True
            self.read(after, 0)

    def _answer(self, page: Page, places: list[Place]) -> None:
        tail = {
            "Next": {str(number): str(after) for number, after in page.ahead.items()},
            "IsEnd": page.is_end,
            "BehindMs": page.behind_ms,
        }
        lines = b",".join(plain(delivery) for delivery in page.deliveries)
        position = joined(places) if places else None
        self._reply.ok(b'{"Changes":[%b],%b' % (lines, orjson.dumps(tail)[1:]), position)


def merged(feeds: Sequence[Feed], answers: Sequence[Changes], limit: int) -> Page:
    """The feeds' pages as one, in the order of log time: cut where a page ends that has more behind it."""
    ahead: After = {}
    until, behind = _NEVER, 0
    for feed, answer in zip(feeds, answers, strict=True):
        ahead[feed.partition_id] = min(answer.next, ahead.get(feed.partition_id, answer.next))
        if not answer.is_end:
            last = answer.changes[-1].time if answer.changes else 0
            until, behind = min(until, last), max(behind, answer.time - last)
    found = sorted(
        (
            Delivery(change, feed.partition_id, feed.table)
            for feed, answer in zip(feeds, answers, strict=True)
            for change in answer.changes
            if change.sequence_number <= ahead[feed.partition_id]
        ),
        key=lambda each: (each.change.time, each.partition, each.change.sequence_number),
    )
    count = min(limit, bisect_right(found, until, key=lambda each: each.change.time))
    for each in found[count:]:
        ahead[each.partition] = min(ahead[each.partition], each.change.sequence_number - 1)
    return Page(found[:count], ahead, until == _NEVER and count == len(found), behind)


def _choosing(body: dict[str, Any], start: Start) -> Callable[[Delivery], bool]:
    """Which changes are meant: those that events and filters choose, and that are not before the request's time."""
    chosen = {name: body[name] for name in ("Events", "Filter", "FilterCriteria") if name in body}
    test = ChangeFilter(check("Changes", {"TableNames": ["any"], "Sink": {"Kind": "none"}} | chosen)).test
    since_ms: int = start.get("Time", 0)
    return lambda delivery: delivery.change.time >= since_ms and (test is None or test(delivery))


def _tables(node: "Node", names: Any) -> list[TableView]:
    """The tables that are named; without names, those whose changes are kept now."""
    if names is None:
        definitions = [each.definition for each in node.state.tables.values() if is_kept(each.definition)]
    elif isinstance(names, list) and names and all(isinstance(name, str) for name in names):
        definitions = [node.table_in_any_status(name).definition for name in dict.fromkeys(names)]
        if not all(map(is_kept, definitions)):
            raise TrimmedDataAccessError(NOT_KEPT)
    else:
        raise ValidationError("TableNames must be a list of names of tables")
    log_id = node.log.genesis(0).log_id
    return [view_of(each, log_id, node.partitions.count) for each in definitions]


def is_kept(table: TableDefinition) -> bool:
    """Whether the feed keeps what is changed in a table."""
    return table.watched or (table.stream is not None and table.stream.enabled)
