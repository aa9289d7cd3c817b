"""GetShardIterator: a position in a shard, as text for GetRecords."""

from functools import partial
from typing import Any

import orjson

from .....materializer.feed_requests import FindSequenceNumber, FoundSequenceNumber, ListShards, Shard, Shards
from .....materializer.fold.feed.capture import CapturePeriod
from .....materializer.partition import Partition, ResultPosition
from .....model.errors import ResourceNotFoundError, TrimmedDataAccessError, ValidationError
from .....model.sequence_numbers import SequenceNumber, parse_number
from .....streams.feed.shards import ShardName, read_shard_id, shard_id
from ....async_calls import RefusedAtError, answer_of, read_feed
from ....auth.rights import Right
from ....database import Database
from ...operation import Answer, operation
from ...reply import Caller
from .iterators import ShardIterator, write
from .stream_arns import arn_of, log_time, stream

_NUMBERED = frozenset(("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"))
_FROM_THE_END = frozenset(("LATEST", "AT_TIMESTAMP"))
_END_OF_TIME_MS = 1 << 62


@operation("GetShardIterator", Right.READ, member="StreamArn", eager=True)
async def get_shard_iterator(database: Database, body: dict[str, Any], _caller: Caller) -> Answer:
    """Find the shard and the position in it."""
    # The clock may be behind the times of records: log time never goes back, and other nodes have their own clocks.
    _check(body, max(database.clock(), log_time(database)))
    period = stream(database, body["StreamArn"])
    named = read_shard_id(body["ShardId"])
    if named is None:
        raise _no_shard()
    partition = database.partitions_of_feed().get(named.partition)
    if partition is None or shard_id(period.label, period.shard_ms, *named[1:]) != body["ShardId"]:
        raise _no_shard()
    if body["ShardIteratorType"] in _FROM_THE_END:
        await _reach_end(partition)  # no record that is written already may come after the iterator
    try:
        iterator, position = await _find(database, body, period, named)
    except RefusedAtError as refused:
        if not isinstance(refused.error, (ResourceNotFoundError, ValidationError)):
            raise
        # The client may have the shard or the number from a node that had folded more of the log, and has failed since.
        await _reach_end(partition)
        iterator, position = await _find(database, body, period, named)
    text = write(iterator, database.log.genesis(0).log_id, database.clock())
    return Answer(orjson.dumps({"ShardIterator": text}), position)


async def _reach_end(partition: Partition) -> None:
    """Fold the log up to its end, where a node that has just taken the partition over may not be yet."""
    await answer_of(partial(partition.get_all, (), True))


async def _find(
    database: Database, body: dict[str, Any], period: CapturePeriod, named: ShardName
) -> tuple[ShardIterator, ResultPosition]:
    """Return the iterator, and the position of the partition that it was found at.

    Raises:
        RefusedAtError: The shard, or the sequence number in it, does not exist at the position.
    """
    _, partition_id, nth, range_id = named
    partition = database.partitions_of_feed()[partition_id]
    listed, position = await read_feed(partition, ListShards(period.table, period.label), Shards)
    shard = next((shard for shard in listed.shards if shard.key == (nth, range_id)), None)
    if shard is None:
        raise RefusedAtError(_no_shard(), position)
    horizon = body["ShardIteratorType"] == "TRIM_HORIZON"
    after = shard.first - 1
    if not horizon:
        is_timed = body["ShardIteratorType"] == "AT_TIMESTAMP"
        time_ms = round(max(body["Timestamp"], 0) * 1000) if is_timed else _END_OF_TIME_MS
        find = FindSequenceNumber(period.table, time_ms, period.label)
        partition = database.partitions_of_feed()[partition_id]
        found, position = await read_feed(partition, find, FoundSequenceNumber)
        after = _after(body, shard, found, position)
    return ShardIterator(arn_of(period), partition_id, nth, after, horizon, range_id), position


def _check(body: dict[str, Any], now_ms: int) -> None:
    kind = body["ShardIteratorType"]
    for member, is_needed in (
        ("SequenceNumber", kind in _NUMBERED),
        ("Timestamp", kind == "AT_TIMESTAMP"),
    ):
        if is_needed and member not in body:
            raise ValidationError(f"{member} must be specified for ShardIteratorType {kind}")
        if not is_needed and member in body:
            raise ValidationError(f"{member} must not be specified for ShardIteratorType {kind}")
    if kind in _NUMBERED:
        _number(body)
    if kind == "AT_TIMESTAMP" and body["Timestamp"] > now_ms / 1000:
        raise ValidationError("Timestamp must not be in the future")


def _after(body: dict[str, Any], shard: Shard, found: FoundSequenceNumber, position: ResultPosition) -> int:
    """Return the sequence number that the iterator starts after.

    Raises:
        RefusedAtError: The sequence number of the request is trimmed, or not in the shard.
    """
    end = found.after if shard.last is None else min(found.after, shard.last)
    if body["ShardIteratorType"] not in _NUMBERED:
        return max(end, shard.first - 1)
    sequence_number = _number(body)
    is_at = body["ShardIteratorType"] == "AT_SEQUENCE_NUMBER"
    after = sequence_number - 1 if is_at else sequence_number
    # The first sequence number of a stream's first shards enabled the stream and is no change's: no change is lost.
    is_beginning = shard.nth == 0 and sequence_number == shard.first == found.trim_horizon
    if after < found.trim_horizon and not is_beginning:
        raise RefusedAtError(TrimmedDataAccessError(), position)
    if not shard.first <= sequence_number <= end:
        raise RefusedAtError(ValidationError("SequenceNumber is not in the range of the shard"), position)
    return max(after, found.trim_horizon)


def _number(body: dict[str, Any]) -> SequenceNumber:
    try:
        return parse_number(body["SequenceNumber"])
    except ValueError:
        raise ValidationError("Invalid SequenceNumber") from None


def _no_shard() -> ResourceNotFoundError:
    return ResourceNotFoundError("Requested resource not found: Shard does not exist")
