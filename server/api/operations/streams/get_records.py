"""GetRecords: the changes of a shard after an iterator, as records, and the next iterator.

The partition reads the changes of one shard and knows where it ends, so an iterator has no end.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .....materializer.feed_requests import Changes, ReadChanges
from .....model.errors import TrimmedDataAccessError, ValidationError
from .....streams.formats.table_view import view_in
from ....async_calls import RefusedAtError, call, read_feed
from ....auth.rights import Demand, Right
from ....database import Database
from ...long_answers import Piece, bytes_of
from ...operation import LongAnswer, operation
from ...record_cache import ShardKey
from ...reply import Caller
from .iterators import read, write
from .stream_arns import stream

_PAGE = 1000
_PAGE_BYTES = 1024 * 1024


def _demands(body: dict[str, Any]) -> Iterator[Demand]:
    """Yield the right on the stream whose ARN begins the shard iterator. GetRecords reads no other stream."""
    yield "dynamodb:GetRecords", Right.READ, body["ShardIterator"].partition("|")[0]


@operation("GetRecords", _demands, eager=True)
async def get_records(database: Database, body: dict[str, Any], _: Caller) -> LongAnswer:
    """Read a page of changes."""
    genesis = database.log.genesis(0)
    iterator = read(body["ShardIterator"], genesis.log_id, database.clock())
    period = stream(database, iterator.arn)
    partition = database.partitions_of_feed().get(iterator.partition)
    if partition is None:
        raise ValidationError("Invalid ShardIterator")
    request = ReadChanges(
        period.table,
        iterator.after,
        stream=period.label,
        limit=body.get("Limit", _PAGE),
        size=_PAGE_BYTES,
        shard=(iterator.nth, iterator.range),
    )
    page, position = await read_feed(partition, request, Changes)
    if iterator.after < page.trim_horizon and not iterator.horizon:
        raise RefusedAtError(TrimmedDataAccessError(), position)
    view = view_in(period, genesis.log_id, genesis.partitions)
    shard = ShardKey(iterator.partition, period.table, period.label, iterator.nth, iterator.range)
    records: list[Piece] = await call(
        lambda callback: database.records.page(page.changes, shard, view, database.loop, callback)
    )
    if records:
        records[0] = memoryview(bytes_of(records[0]))[1:]  # without the comma before the first record
    end = b"]}"
    if not page.is_over:
        following = replace(iterator, after=page.next, horizon=False)
        text = write(following, genesis.log_id, database.clock())
        end = b'],"NextShardIterator":"%b"}' % text.encode()
    return LongAnswer([b'{"Records":[', *records, end], position)
